// SPDX-License-Identifier: Apache-2.0

package content

import (
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const (
	askForm  = `elicitation { message: "Name?" form { requested_schema_json: '{"type":"object", "properties":{"name":{"type":"string","minLength":1}}, "required":["name"]}' } meta_json: '{"x":1}' }`
	askURL   = `elicitation { message: "Sign in" url { url: "https://example.com/in?a=b" elicitation_id: "e-1" } }`
	askLeast = `sampling { messages { role: ROLE_USER content { text { text: "Hi" } } } max_tokens: 9007199254740993 }`
	askMost  = `sampling {
		messages { role: ROLE_USER content { text { text: "Look" } } content { image { data: "P" mime_type: "image/png" } annotations { priority: 1 } } meta_json: '{"m":1}' }
		messages { role: ROLE_ASSISTANT content { audio { data: "A" mime_type: "audio/wav" } meta_json: "{}" } }
		max_tokens: 100 system_prompt: "Be kind." include_context: "thisServer" temperature: 0.1 stop_sequences: "END" metadata_json: '{"k":{"n":1}}'
		model_preferences { hints { name: "small" } hints {} cost_priority: 0 speed_priority: 0.5 intelligence_priority: 1 } meta_json: '{"x":1}'
	}`
	askTools = `sampling {
		messages { role: ROLE_USER content { text { text: "Weather?" } } }
		messages { role: ROLE_ASSISTANT
			content { tool_use { id: "c1" name: "weather" input_json: '{"city": "Paris"}' } }
			content { tool_use { id: "c2" name: "weather" } } content { text { text: "Let me see" } } }
		messages { role: ROLE_USER
			content { tool_result { tool_use_id: "c2" content { text { text: "18" } } structured_content_json: "18" is_error: true } meta_json: '{"x":1}' }
			content { tool_result { tool_use_id: "c1" structured_content { struct_value {} } } } }
		max_tokens: 1000
		tools { name: "weather" input_schema_json: '{"type":"object"}' }
		tool_choice { mode: "auto" }
	}`
	askRoots = `list_roots { meta_json: '{"x":1}' }`
)

func questionGoldens() []written {
	all := written{
		name: "all questions", definition: "InputRequests",
		text: `input_requests { key: "z" value { ` + askForm + ` } } input_requests { key: "a\"b" value { ` + askURL + ` } }
			input_requests { key: "c" value { ` + askMost + ` } } input_requests { key: "d" value { ` + askTools + ` } }
			input_requests { key: "e" value { list_roots {} } }`,
		write: writes(anew[outriggerv1.InputRequired], func(dst []byte, r *outriggerv1.InputRequired, _ Revision) ([]byte, error) {
			return AppendInputRequests(dst, r.GetInputRequests())
		}),
	}
	none := all
	none.name, none.text = "no questions", ``
	out := []written{all, none}
	for _, q := range []struct {
		name, text, method, definition string
		revisions                      []Revision
	}{
		{"form", askForm, "elicitation/create", "ElicitRequest", []Revision{Rev20260728, Rev20251125, rev20250618}},
		{"url", askURL, "elicitation/create", "ElicitRequest", []Revision{Rev20260728, Rev20251125}},
		{"least sampling", askLeast, "sampling/createMessage", "CreateMessageRequest", []Revision{Rev20260728, Rev20251125, rev20250618, Rev20250326}},
		{"most sampling", askMost, "sampling/createMessage", "CreateMessageRequest", []Revision{Rev20251125, rev20250618, Rev20250326}},
		{"sampling with tools", askTools, "sampling/createMessage", "CreateMessageRequest", []Revision{Rev20251125}},
		{"roots", askRoots, "roots/list", "ListRootsRequest", []Revision{Rev20260728, Rev20251125, rev20250618, Rev20250326}},
	} {
		out = append(out, every(written{
			name: q.name, text: q.text, definition: q.definition,
			around: `{"jsonrpc":"2.0","id":1,"method":"` + q.method + `","params":%s}`,
			write: func(t *testing.T, dst []byte, text string, rev Revision) ([]byte, error) {
				method, params, err := AppendInputRequest(dst, parse(t, new(outriggerv1.InputRequest), text), rev)
				if method != q.method {
					t.Errorf("%s has the method %q", q.name, method)
				}
				return params, err
			},
		}, q.revisions...)...)
	}
	return out
}

// taskStart is what every task has.
const taskStart = `task_id: "t_1" created_at { seconds: 1793491200 } last_updated_at { seconds: 1793491201 nanos: 5 } `

func taskGoldens() []written {
	full := func(dst []byte, task *outriggerv1.Task, _ Revision) ([]byte, error) {
		return AppendTask(dst, task, []byte(`{"content":[],"isError":false}`))
	}
	created := func(dst []byte, task *outriggerv1.Task, _ Revision) ([]byte, error) { return AppendNewTask(dst, task) }
	var out []written
	for _, c := range []struct{ name, text string }{
		{"working", `status: TASK_STATUS_WORKING`},
		{"working, all said", `status: TASK_STATUS_WORKING status_message: "Half." ttl { seconds: 315576000000 nanos: 1999999 } poll_interval { nanos: 1 }`},
		{"input required", `status: TASK_STATUS_INPUT_REQUIRED ttl {} input_requests { key: "q" value { ` + askForm + ` } }`},
		{"completed", `status: TASK_STATUS_COMPLETED result { status: "success" }`},
		{"failed", `status: TASK_STATUS_FAILED error { code: -32603 message: "Internal error" data_json: '{"a": 1}' }`},
		{"failed, no words", `status: TASK_STATUS_FAILED error { code: 7 }`},
		{"cancelled", `status: TASK_STATUS_CANCELLED`},
	} {
		out = append(out, written{name: c.name, text: taskStart + c.text, write: writes(anew[outriggerv1.Task], full)},
			written{name: c.name + ", new", text: taskStart + c.text, write: writes(anew[outriggerv1.Task], created)})
	}
	return out
}

func eventGoldens() []written {
	progress := func(name, text, token string) []written {
		return every(written{
			name: name, text: text, around: `{"jsonrpc":"2.0","method":"notifications/progress","params":%s}`, definition: "ProgressNotification",
			write: writes(anew[outriggerv1.Progress], func(dst []byte, p *outriggerv1.Progress, _ Revision) ([]byte, error) {
				return AppendProgress(dst, []byte(token), p)
			}),
		}, Rev20260728, Rev20251125)
	}
	log := func(name, text string) []written {
		return every(written{
			name: name, text: text, around: `{"jsonrpc":"2.0","method":"notifications/message","params":%s}`, definition: "LoggingMessageNotification",
			write: writes(anew[outriggerv1.LogMessage], func(dst []byte, m *outriggerv1.LogMessage, _ Revision) ([]byte, error) {
				return AppendLog(dst, m)
			}),
		}, Rev20260728, Rev20251125)
	}
	out := progress("progress", `progress: 1`, `"p\u0035"`)
	out = append(out, progress("progress, all said", `progress: 0.30000000000000004 total: 1e300 message: "Half"`, `9007199254740993`)...)
	out = append(out, log("log", `level: LOG_LEVEL_INFO data_json: '"text"'`)...)
	return append(out, log("log, all said", `level: LOG_LEVEL_EMERGENCY logger: "db" data { struct_value { fields { key: "a" value { null_value: NULL_VALUE } } } }`)...)
}

func clientGoldens() []written {
	var out []written
	icons := written{
		definition: "Icons",
		write: writes(anew[outriggerv1.Implementation], func(dst []byte, i *outriggerv1.Implementation, _ Revision) ([]byte, error) {
			return AppendIcons(dst, i.GetIcons())
		}),
	}
	for _, c := range []struct{ name, text string }{{"no icons", ``}, {"icons", `icons { src: "a:b" mime_type: "image/png" } icons { src: "c:d" theme: "light" }`}} {
		icons.name, icons.text = c.name, c.text
		out = append(out, every(icons, Rev20260728, Rev20251125)...)
	}
	return out
}

func filterGoldens() []written {
	c := written{
		around: `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s}}`, definition: "SubscriptionsAcknowledgedNotification",
		write: writes(anew[outriggerv1.ChangeFilter], func(dst []byte, f *outriggerv1.ChangeFilter, _ Revision) ([]byte, error) {
			return AppendChangeFilter(dst, f)
		}),
	}
	none, all := c, c
	none.name = "nothing"
	all.name, all.text = "everything", `tools_list_changed: true prompts_list_changed: true resources_list_changed: true resource_uris: "file:///a" resource_uris: "file:///b" task_ids: "t_1"`
	return []written{none, all}
}
