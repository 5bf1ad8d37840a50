// SPDX-License-Identifier: Apache-2.0

package mcpjson

import "strings"

// exception is where MCP, or what this package says of it, differs from what the
// descriptor and the rules say about a field.
type exception struct {
	kind kind
	// always holds for a member that MCP requires and the contract may leave empty.
	always bool
	// late holds for lists whose elements are judged when the whole was read.
	late bool
	// turn is when a member is read; the members of each turn in their order.
	turn int8
	// name is MCP's, where it is not the field's in camel case.
	name string
	// lacks is the reason where a message is written without it.
	lacks string
	// reason is why a value that was read does not fit.
	reason string
}

// noValue is the usual reason where a message is written without a member.
const noValue = "MCP requires it; give it a value."

// notShown are the fields that MCP does not have, and those that code beside the plan
// writes or reads.
const notShown = `Tool.mcp_name Tool.canonical_input_schema_json Tool.canonical_output_schema_json Tool.version Tool.fingerprint
	Tool.digest Tool.metadata Tool.execution Tool.binding Tool.examples Tool.tags Tool.meta_form
	Task.ttl Task.poll_interval Task.completion Task.input_requests Task.meta_form
	CompleteRequest.context CompleteRequest.meta_form CompleteResponse.meta_form ClientCapabilities.tasks
	Skill.resources Skill.dynamic
	ElicitationUrl.elicitation_id ElicitationForm.requested_schema_form`

// exceptions returns all of them, by message and field or oneof.
func exceptions() map[string]exception {
	const (
		mediaType = "Make it a media type, such as image/png."
		noBytes   = "MCP requires it; give the file's bytes."
		noBlock   = "Set what the block is."
		noWords   = "MCP requires it; give one of the five."
	)
	out := map[string]exception{
		"ContentBlock.block":         {kind: kindTagged, lacks: noBlock},
		"ContentBlock.resource_link": {kind: kindLink},
		"TextContent.text":           {always: true},
		"ImageContent.data":          {lacks: noBytes},
		"ImageContent.mime_type":     {reason: mediaType},
		"AudioContent.data":          {lacks: noBytes},
		"AudioContent.mime_type":     {reason: mediaType},
		"EmbeddedResource.contents":  {name: "resource"},
		"ResourceContents.data":      {lacks: "Set text or blob; either may be empty.", reason: "Give either text or blob."},
		"Icon.sizes":                 {turn: 1, reason: `Make it "any", or width and height like "48x48".`},
		"Icon.theme":                 {reason: "Use light or dark."},

		"Tool.name":                          {kind: kindToolName},
		"Tool.input_schema_form":             {kind: kindInputSchema},
		"Tool.output_schema_form":            {kind: kindOutputSchema},
		"ResourceTemplate.uri_template":      {kind: kindTemplate},
		"Implementation.version":             {always: true, lacks: noValue},
		"CompleteResponse.values":            {always: true},
		"CompletionArgument.value":           {always: true},
		"CompleteRequest.prompt":             {name: "name"},
		"CompleteRequest.resource":           {name: "uri"},
		"CompleteRequest.filled_arguments":   {name: "arguments"},
		"ChangeFilter.resource_uris":         {name: "resourceSubscriptions", late: true},
		"ChangeFilter.task_ids":              {late: true, reason: "Make it a task's id: visible ASCII."},
		"ClientCapabilities.elicitation":     {kind: kindElicitationCap},
		"ClientCapabilities.extensions_form": {kind: kindExtensions},
		"ElicitationCapability.form":         {kind: kindYes},
		"ElicitationCapability.url":          {kind: kindYes},
		"SamplingCapability.tools":           {kind: kindYes},
		"SamplingCapability.context":         {kind: kindYes},

		"Sampling.messages":                         {kind: kindConversation},
		"Sampling.max_tokens":                       {lacks: "MCP requires it; make it positive."},
		"SamplingMessage.content":                   {kind: kindBlocks},
		"SamplingContent.block":                     {kind: kindTagged, lacks: noBlock},
		"ToolUseContent.input_form":                 {always: true},
		"ToolResultContent.content":                 {always: true},
		"ToolResultContent.structured_content_form": {kind: kindStructured},
		"SamplingResult.content":                    {kind: kindBlocks, always: true},
		"SamplingResult.model":                      {always: true},
		"ElicitationResult.content_form":            {kind: kindForm},

		"SkillFile.size": {lacks: noValue},

		"Progress.progress":    {always: true},
		"LogMessage.data_form": {lacks: "MCP requires it; give any JSON value."},
		"Task.status":          {lacks: noWords},
		"ErrorObject.code":     {lacks: "A failed task has an error with a code other than 0."},
		"ErrorObject.message":  {always: true},
	}
	for _, name := range []string{"Annotations.audience", "PromptMessage.role", "SamplingMessage.role"} {
		out[name] = exception{lacks: "Use one of the two roles, user or assistant."}
	}
	for name := range strings.FieldsSeq(notShown) {
		out[name] = exception{kind: kindHidden}
	}
	return out
}
