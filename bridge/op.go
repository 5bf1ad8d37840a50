// SPDX-License-Identifier: Apache-2.0

package bridge

// Operations are the names of the operations, each at the place of its number,
// for logs and metrics. The first is for what never became a request.
func Operations() []string {
	return []string{
		OpInvalid: "", OpCall: "call_tool", OpList: "list_tools", OpGet: "get_tool", OpServer: "describe", OpPing: "ping",
		OpListResources: "list_resources", OpListTemplates: "list_resource_templates", OpReadResource: "read_resource",
		OpListPrompts: "list_prompts", OpGetPrompt: "get_prompt", OpComplete: "complete",
		OpGetTask: "get_task", OpUpdateTask: "update_task", OpCancelTask: "cancel_task",
		OpOpen: "initialize", OpListen: "listen",
	}
}

// String is the operation's name.
func (o Op) String() string {
	if names := Operations(); int(o) < len(names) {
		return names[o]
	}
	return ""
}
