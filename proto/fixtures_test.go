// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"testing"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Types of the messages of a conversation, to keep the tables short.
var (
	call       = (*outriggerv1.ToolCall)(nil)
	event      = (*outriggerv1.ToolEvent)(nil)
	outcome    = (*outriggerv1.ToolOutcome)(nil)
	tool       = (*outriggerv1.Tool)(nil)
	missing    = (*outriggerv1.MissingCapabilities)(nil)
	subscribe  = (*outriggerv1.SubscribeRequest)(nil)
	notice     = (*outriggerv1.Notification)(nil)
	getTask    = (*outriggerv1.GetTaskRequest)(nil)
	updateTask = (*outriggerv1.UpdateTaskRequest)(nil)
	cancelTask = (*outriggerv1.CancelTaskRequest)(nil)
	taskState  = (*outriggerv1.Task)(nil)
)

// said is one message of a conversation between the sidecar and a backend, in text format.
type said struct {
	like proto.Message
	text string
}

// fixture is what the official MCP conformance suite wants of one tool, resource or prompt, as the conversation by
// which a backend serves it. The era does not matter: what a client hears is the edge's business.
type fixture struct {
	name         string
	conversation []said
}

// validate checks that every message of every fixture can be said and keeps the rules.
func validate(t *testing.T, fixtures []fixture) {
	t.Helper()
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if len(f.conversation) == 0 {
				t.Fatal("nothing said")
			}
			for i, s := range f.conversation {
				m := parse(t, s.like, s.text)
				if v := violations(t, m); v != nil {
					t.Errorf("message %d: %q", i, v)
				}
				wire, err := proto.Marshal(m)
				if err != nil {
					t.Fatalf("message %d: %v", i, err)
				}
				again := s.like.ProtoReflect().New().Interface()
				if err := proto.Unmarshal(wire, again); err != nil || !proto.Equal(m, again) {
					t.Errorf("message %d does not survive the wire: %v", i, err)
				}
			}
		})
	}
}

func TestFixturesOfPlainTools(t *testing.T) {
	t.Parallel()
	const noParameters = `input_schema_json: "{\"type\":\"object\",\"additionalProperties\":false}"`
	validate(t, []fixture{
		{"test_simple_text", []said{
			{tool, `name: "test_simple_text" description: "Tests simple text." ` + noParameters},
			{call, `tool_name: "test_simple_text"`},
			{outcome, `result {status: "success" content {text {text: "This is a simple text response for testing."}}}`},
		}},
		{"test_image_content", []said{
			{outcome, `result {status: "success" content {image {data: "\211PNG" mime_type: "image/png"}}}`},
		}},
		{"test_audio_content", []said{
			{outcome, `result {status: "success" content {audio {data: "RIFF" mime_type: "audio/wav"}}}`},
		}},
		{"test_embedded_resource", []said{
			{outcome, `result {status: "success" content {resource {contents {uri: "test://embedded-resource" mime_type: "text/plain" text: "Embedded."}}}}`},
		}},
		{"test_multiple_content_types", []said{
			{outcome, `result {status: "success"
				content {text {text: "Mixed:"}}
				content {image {data: "\211PNG" mime_type: "image/png"} annotations {audience: ROLE_USER priority: 0.5 last_modified {seconds: 1700000000}}}
				content {resource {contents {uri: "test://mixed" mime_type: "application/json" text: "{}" meta_json: "{\"example.com/a\":1}"}} meta_json: "{\"example.com/b\":2}"}
				content {resource_link {uri: "test://static-text" name: "static-text" title: "T" mime_type: "text/plain" size: 48 icons {src: "data:image/png;base64,iVBORw0KGgo="}}}}`},
		}},
		{"test_error_handling", []said{
			{outcome, `result {status: "failure"
				error {error_type: "ToolExecutionError" error_message: "This tool intentionally returns an error for testing"}
				content {text {text: "This tool intentionally returns an error for testing"}}}`},
		}},
		{"test_tool_with_progress", []said{
			{call, `tool_name: "test_tool_with_progress" context {progress_token {text: "progress-test-1"}}`},
			{event, `progress {progress: 0 total: 100 message: "Started"}`},
			{event, `progress {progress: 50 total: 100}`},
			{event, `progress {progress: 100 total: 100}`},
			{event, `outcome {result {status: "success" content {text {text: "Done"}}}}`},
		}},
		{"test_tool_with_logging", []said{
			{call, `tool_name: "test_tool_with_logging" context {protocol_version: "2025-11-25" log_level: LOG_LEVEL_DEBUG}`},
			{event, `log {level: LOG_LEVEL_INFO data {string_value: "Tool execution started"}}`},
			{event, `log {level: LOG_LEVEL_INFO logger: "worker" data_json: "{\"step\":2}"}`},
			{event, `outcome {result {status: "success"}}`},
		}},
		{"test_logging_tool", []said{
			{call, `tool_name: "test_logging_tool" context {protocol_version: "2026-07-28" log_level: LOG_LEVEL_UNSPECIFIED}`},
			{event, `log {level: LOG_LEVEL_INFO data {string_value: "The edge drops this."}}`},
			{event, `outcome {result {status: "success"}}`},
		}},
		{"json_schema_2020_12_tool", []said{
			{tool, `name: "json_schema_2020_12_tool" description: "Has a rich schema." input_schema_json: '` + richSchema + `'`},
		}},
		{"test_x_mcp_header", []said{
			{tool, `name: "test_x_mcp_header" description: "Mirrors a header." input_schema_json: '{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}'`},
		}},
		{"test_reconnection", []said{
			{event, `quiet {duration {nanos: 500000000}}`},
			{event, `outcome {result {status: "success"}}`},
		}},
		{"test_missing_capability", []said{
			{call, `tool_name: "test_missing_capability" context {capabilities {elicitation {form: true}}}`},
			{missing, `required_capabilities {sampling {}}`},
		}},
		{"test_trigger_tool_change", []said{
			{subscribe, `changes {tools_list_changed: true prompts_list_changed: true resource_uris: "test://watched-resource" task_ids: "t1"}`},
			{notice, `method: "notifications/subscriptions/acknowledged" acknowledged {tools_list_changed: true prompts_list_changed: true}`},
			{notice, `method: "notifications/tools/list_changed"`},
			{(*outriggerv1.ToolsChange)(nil), `added {name: "new_tool" description: "Is new." ` + noParameters + `} removed: "old_tool"`},
		}},
		{"test_trigger_prompt_change", []said{
			{notice, `method: "notifications/prompts/list_changed"`},
		}},
	})
}

// TestRichSchemaKeepsEveryByte: the suite compares the schema of json_schema_2020_12_tool member by member.
func TestRichSchemaKeepsEveryByte(t *testing.T) {
	t.Parallel()
	got := parse(t, tool, `name: "t" input_schema_json: '`+richSchema+`'`)
	if string(got.GetInputSchemaJson()) != richSchema {
		t.Errorf("schema = %s", got.GetInputSchemaJson())
	}
}

const richSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","$defs":{"address":{"$anchor":"addressDef","type":"object"}},` +
	`"properties":{"address":{"$ref":"#/$defs/address"}},"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],"additionalProperties":false}`

func TestFixturesOfToolsThatAsk(t *testing.T) {
	t.Parallel()
	const userName = `input_required {input_requests {key: "user_name" value {elicitation {message: "What is your name?"
		form {requested_schema_json: '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'}}}}}`
	const sampling = `sampling {messages {role: ROLE_USER content {text {text: "What is the capital of France?"}}} max_tokens: 100}`
	validate(t, []fixture{
		{"test_sampling", []said{
			{outcome, `input_required {input_requests {key: "s" value {` + sampling + `}}}`},
			{call, `tool_name: "test_sampling" arguments_json: '{"prompt":"p"}' input_responses {key: "s" value {sampling {role: ROLE_ASSISTANT content {text {text: "Paris"}} model: "m" stop_reason: "endTurn"}}}`},
			{outcome, `result {status: "success" content {text {text: "LLM response: Paris"}}}`},
		}},
		{"test_elicitation", []said{
			{outcome, `input_required {input_requests {key: "e" value {elicitation {message: "m"
				form {requested_schema {fields {key: "type" value {string_value: "object"}} fields {key: "properties" value {struct_value {}}}}}}}}}`},
			{call, `tool_name: "test_elicitation" input_responses {key: "e" value {elicitation {action: ELICITATION_ACTION_DECLINE}}}`},
		}},
		{"test_elicitation_sep1034_defaults", []said{
			{outcome, `input_required {input_requests {key: "e" value {elicitation {message: "m" form {requested_schema_json:
				'{"type":"object","properties":{"score":{"type":"number","default":95.5},"verified":{"type":"boolean","default":true}}}'}}}}}`},
		}},
		{"test_elicitation_sep1330_enums", []said{
			{outcome, `input_required {input_requests {key: "e" value {elicitation {message: "m" form {requested_schema_json:
				'{"type":"object","properties":{"titledMulti":{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}},"legacyEnum":{"type":"string","enum":["a"],"enumNames":["A"]}}}'}}}}}`},
		}},
		{"elicitation by URL", []said{
			{call, `tool_name: "t" context {capabilities {elicitation {form: true url: true}}}`},
			{outcome, `input_required {input_requests {key: "login" value {elicitation {message: "Sign in" url {url: "https://example.com/login" elicitation_id: "e1"}}}}}`},
			{call, `tool_name: "t" input_responses {key: "login" value {elicitation {action: ELICITATION_ACTION_ACCEPT}}}`},
		}},
		{"test_streaming_elicitation", []said{
			{call, `tool_name: "test_streaming_elicitation" context {capabilities {elicitation {form: true}} progress_token {integer: 7}}`},
			{event, `progress {progress: 1}`},
			{event, `outcome {` + userName + `}`},
		}},
		{"test_input_required_result_elicitation", []said{
			{outcome, userName},
			{call, `tool_name: "test_input_required_result_elicitation" input_responses {key: "wrong_key" value {other_json: "12345"}}`},
			{call, `tool_name: "test_input_required_result_elicitation" input_responses {key: "user_name" value {other_json: "12345"}}`},
			{outcome, userName},
			{call, `tool_name: "test_input_required_result_elicitation" input_responses {key: "user_name" value {elicitation {action: ELICITATION_ACTION_ACCEPT content_json: '{"name":"Ada"}'}}}`},
			{outcome, `result {status: "success" content {text {text: "Hello, Ada!"}}}`},
		}},
		{"test_input_required_result_sampling", []said{
			{outcome, `input_required {input_requests {key: "capital_question" value {` + sampling + `}}}`},
		}},
		{"sampling with tools", []said{
			{call, `tool_name: "t" context {capabilities {sampling {tools: true context: true}}}`},
			{outcome, `input_required {input_requests {key: "s" value {sampling {max_tokens: 100 system_prompt: "Be brief." temperature: 0 include_context: "none"
				stop_sequences: "." metadata_json: "{}" model_preferences {hints {name: "small"} cost_priority: 1 speed_priority: 0.5 intelligence_priority: 0}
				tools {name: "weather" input_schema_json: '{"type":"object"}'} tool_choice {mode: "required"}
				messages {role: ROLE_USER content {text {text: "Rain?"}}}
				messages {role: ROLE_ASSISTANT content {tool_use {id: "u1" name: "weather" input_json: "{}"}}}
				messages {role: ROLE_USER content {tool_result {tool_use_id: "u1" content {text {text: "yes"}} structured_content_json: "true"}}}}}}}`},
		}},
		{"test_input_required_result_list_roots", []said{
			{call, `tool_name: "test_input_required_result_list_roots" context {capabilities {roots {list_changed: true}}}`},
			{outcome, `input_required {input_requests {key: "client_roots" value {list_roots {}}}}`},
			{call, `tool_name: "test_input_required_result_list_roots" input_responses {key: "client_roots" value {roots {roots {uri: "file:///home/ada" name: "home"}}}}`},
		}},
		{"test_input_required_result_request_state", []said{
			{outcome, `input_required {request_state: "\001\377 any bytes" input_requests {key: "confirm" value {elicitation {message: "ok?" form {requested_schema_json: "{}"}}}}}`},
			{call, `tool_name: "test_input_required_result_request_state" request_state: "\001\377 any bytes" input_responses {key: "confirm" value {elicitation {action: ELICITATION_ACTION_ACCEPT content {fields {key: "ok" value {bool_value: true}}}}}}`},
			{outcome, `result {status: "success" content {text {text: "state-ok"}}}`},
		}},
		{"test_input_required_result_multiple_inputs", []said{
			{outcome, `input_required {request_state: "s" input_requests {key: "a" value {elicitation {message: "m" form {requested_schema_json: "{}"}}}}
				input_requests {key: "b" value {` + sampling + `}} input_requests {key: "c" value {list_roots {}}}}`},
		}},
		{"test_input_required_result_multi_round", []said{
			{outcome, `input_required {request_state: "1" input_requests {key: "step1" value {list_roots {}}}}`},
			{call, `tool_name: "test_input_required_result_multi_round" request_state: "1" input_responses {key: "step1" value {roots {}}}`},
			{outcome, `input_required {request_state: "2" input_requests {key: "step2" value {list_roots {}}}}`},
			{call, `tool_name: "test_input_required_result_multi_round" request_state: "2" input_responses {key: "step2" value {roots {}}}`},
			{outcome, `result {status: "success"}`},
		}},
		{"test_input_required_result_capabilities", []said{
			{call, `tool_name: "test_input_required_result_capabilities" context {capabilities {sampling {}}}`},
			{outcome, `input_required {input_requests {key: "s" value {` + sampling + `}}}`},
		}},
	})
}

func TestFixturesOfResourcesPromptsAndCompletion(t *testing.T) {
	t.Parallel()
	var (
		resources  = (*outriggerv1.ListResourcesResponse)(nil)
		templates  = (*outriggerv1.ListResourceTemplatesResponse)(nil)
		read       = (*outriggerv1.ReadResourceRequest)(nil)
		contents   = (*outriggerv1.ResourceOutcome)(nil)
		prompts    = (*outriggerv1.ListPromptsResponse)(nil)
		getPrompt  = (*outriggerv1.GetPromptRequest)(nil)
		prompt     = (*outriggerv1.PromptOutcome)(nil)
		complete   = (*outriggerv1.CompleteRequest)(nil)
		completion = (*outriggerv1.CompleteResponse)(nil)
		describe   = (*outriggerv1.ServerDescription)(nil)
	)
	const cache = ` cache {ttl {seconds: 60} scope: CACHE_SCOPE_PUBLIC}`
	validate(t, []fixture{
		{"capabilities", []said{
			{describe, `name: "fixtures" version: "1" contract_version: "1.0.0" capabilities {tools {list_changed: true} prompts {list_changed: true}
				resources {subscribe: true list_changed: true} completions: true logging: true tasks: true extensions_json: '{"io.modelcontextprotocol/ui":{}}'}` + cache},
		}},
		{"lists", []said{
			{resources, `resources {uri: "test://static-text" name: "static-text" mime_type: "text/plain"} resources {uri: "test://watched-resource" name: "watched" size: 0} next_cursor: ""` + cache},
			{templates, `resource_templates {uri_template: "test://template/{id}/data" name: "template"}` + cache},
			{prompts, `prompts {name: "test_simple_prompt" description: "d"}
				prompts {name: "test_prompt_with_arguments" description: "d" arguments {name: "arg1" required: true} arguments {name: "arg2" title: "T"}}` + cache},
		}},
		{"reading text", []said{
			{read, `uri: "test://static-text"`},
			{contents, `result {contents {uri: "test://static-text" mime_type: "text/plain" text: "This is the content of the static text resource."} cache {ttl {} scope: CACHE_SCOPE_PRIVATE}}`},
		}},
		{"reading bytes", []said{
			{contents, `result {contents {uri: "test://static-binary" mime_type: "image/png" blob: "\211PNG"}}`},
		}},
		{"reading through a template", []said{
			{read, `uri: "test://template/123/data"`},
			{contents, `result {contents {uri: "test://template/123/data" mime_type: "application/json" text: '{"id":"123"}'}}`},
		}},
		{"reading that asks first", []said{
			{contents, `input_required {request_state: "s"}`},
			{read, `uri: "test://static-text" request_state: "s"`},
		}},
		{"watching", []said{
			{subscribe, `changes {resource_uris: "test://watched-resource"}`},
			{notice, `method: "notifications/resources/updated" params_json: '{"uri":"test://watched-resource"}'`},
			{notice, `method: "notifications/resources/list_changed"`},
		}},
		{"test_prompt_with_arguments", []said{
			{getPrompt, `name: "test_prompt_with_arguments" arguments {key: "arg1" value: "a"} arguments {key: "arg2" value: ""}`},
			{prompt, `result {description: "d" messages {role: ROLE_USER content {text {text: "Prompt with arguments: arg1='a', arg2=''"}}}}`},
		}},
		{"test_prompt_with_embedded_resource", []said{
			{prompt, `result {messages {role: ROLE_USER content {resource {contents {uri: "test://example-resource" text: "t"}}}}}`},
		}},
		{"test_prompt_with_image", []said{
			{prompt, `result {messages {role: ROLE_ASSISTANT content {image {data: "\211PNG" mime_type: "image/png"}}}}`},
		}},
		{"test_input_required_result_prompt", []said{
			{prompt, `input_required {input_requests {key: "user_context" value {elicitation {message: "m" form {requested_schema_json: "{}"}}}}}`},
			{getPrompt, `name: "test_input_required_result_prompt" input_responses {key: "user_context" value {elicitation {action: ELICITATION_ACTION_ACCEPT content_json: '{"context":"c"}'}}}`},
		}},
		{"completion", []said{
			{complete, `prompt: "test_prompt_with_arguments" argument {name: "arg1" value: "test"} filled_arguments {key: "arg2" value: "x"}`},
			{completion, ``},
			{complete, `resource: "test://template/{id}/data" argument {name: "id"}`},
			{completion, `values: "1" values: "2" total: 12 has_more: true`},
		}},
	})
}

func TestFixturesOfTasks(t *testing.T) {
	t.Parallel()
	const times = ` created_at {seconds: 1700000000} last_updated_at {seconds: 1700000001} `
	const capable = ` context {capabilities {tasks: true extensions_json: '{"io.modelcontextprotocol/tasks":{}}'}}`
	const question = ` value {elicitation {message: "Delete?" form {requested_schema_json: '{"type":"object","properties":{"confirm":{"type":"boolean"}}}'}}}`
	validate(t, []fixture{
		{"greet", []said{
			{outcome, `result {status: "success" content {text {text: "Hello, Ada!"}}}`},
		}},
		{"slow_compute", []said{
			{tool, `name: "slow_compute" input_schema_json: '{"type":"object"}' execution {task_support: "optional"}`},
			{call, `tool_name: "slow_compute" arguments_json: '{"seconds":2,"label":"l"}'` + capable},
			{outcome, `task {task_id: "t_1" status: TASK_STATUS_WORKING` + times + `ttl {seconds: 3600} poll_interval {seconds: 1}}`},
			{getTask, `task_id: "t_1"` + capable},
			{taskState, `task_id: "t_1" status: TASK_STATUS_COMPLETED` + times + `result {status: "success" content {text {text: "done"}}}`},
			{cancelTask, `task_id: "t_1"` + capable},
			{(*outriggerv1.CancelTaskResponse)(nil), ``},
			{taskState, `task_id: "t_1" status: TASK_STATUS_CANCELLED` + times},
		}},
		{"slow_compute without the extension", []said{
			{call, `tool_name: "slow_compute" context {capabilities {}}`},
			{outcome, `result {status: "success" content {text {text: "done"}}}`},
		}},
		{"failing_job", []said{
			{tool, `name: "failing_job" input_schema_json: '{"type":"object"}' execution {task_support: "required"}`},
			{missing, `required_capabilities {tasks: true extensions_json: '{"io.modelcontextprotocol/tasks":{}}'}`},
			{taskState, `task_id: "t_2" status: TASK_STATUS_COMPLETED` + times + `result {status: "failure" error {error_type: "ToolExecutionError" error_message: "It failed."} content {text {text: "It failed."}}}`},
		}},
		{"protocol_error_job", []said{
			{taskState, `task_id: "t_3" status: TASK_STATUS_FAILED status_message: "Broken" ` + times + `error {code: -32603 message: "Internal error" data_json: "{}"}`},
		}},
		{"confirm_delete", []said{
			{taskState, `task_id: "t_4" status: TASK_STATUS_INPUT_REQUIRED` + times + `input_requests {key: "confirm"` + question + `}`},
			{updateTask, `task_id: "t_4" input_responses {key: "confirm" value {elicitation {action: ELICITATION_ACTION_ACCEPT content_json: '{"confirm":true}'}}}` + capable},
			{(*outriggerv1.UpdateTaskResponse)(nil), ``},
			{notice, `method: "notifications/tasks" task {task_id: "t_4" status: TASK_STATUS_COMPLETED` + times + `result {status: "success"}}`},
		}},
		{"multi_input", []said{
			{taskState, `task_id: "t_5" status: TASK_STATUS_INPUT_REQUIRED` + times + `input_requests {key: "a"` + question + `} input_requests {key: "b"` + question + `}`},
			{updateTask, `task_id: "t_5" input_responses {key: "a" value {elicitation {action: ELICITATION_ACTION_CANCEL}}}`},
			{taskState, `task_id: "t_5" status: TASK_STATUS_INPUT_REQUIRED` + times + `input_requests {key: "b"` + question + `}`},
		}},
		{"test_tool_with_task", []said{
			{outcome, `input_required {input_requests {key: "user_name"` + question + `}}`},
			{call, `tool_name: "test_tool_with_task" input_responses {key: "user_name" value {elicitation {action: ELICITATION_ACTION_ACCEPT content_json: '{"name":"Ada"}'}}}` + capable},
			{outcome, `task {task_id: "t_6" status: TASK_STATUS_WORKING` + times + `}`},
		}},
	})
}
