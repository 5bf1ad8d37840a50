// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// ruleTest is a message in text format and the violations it has, each "path rule" in order of the alphabet.
type ruleTest struct {
	name string
	in   proto.Message
	text string
	want []string
}

// run parses and validates each message.
func run(t *testing.T, tests []ruleTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := parse(t, tt.in, tt.text)
			if diff := cmp.Diff(tt.want, violations(t, m)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// parse reads a message of the same type as like from text format.
func parse[M proto.Message](t *testing.T, like M, text string) M {
	t.Helper()
	m := like.ProtoReflect().New().Interface()
	if err := prototext.Unmarshal([]byte(text), m); err != nil {
		t.Fatal(err)
	}
	return m.(M)
}

// violations validates a message and lists what is wrong with it.
func violations(t *testing.T, m proto.Message) []string {
	t.Helper()
	err := protovalidate.Validate(m)
	if err == nil {
		return nil
	}
	var invalid *protovalidate.ValidationError
	if !errors.As(err, &invalid) {
		t.Fatalf("the rules of %s do not run: %v", m.ProtoReflect().Descriptor().FullName(), err)
	}
	var all []string
	for _, v := range invalid.Violations {
		all = append(all, protovalidate.FieldPathString(v.Proto.GetField())+" "+v.Proto.GetRuleId())
	}
	slices.Sort(all)
	return all
}

// TestEveryRuleCompiles validates one empty message of each type, because a rule that does not compile fails at run time only.
func TestEveryRuleCompiles(t *testing.T) {
	t.Parallel()
	all := messages()
	if len(all) == 0 {
		t.Fatal("no messages")
	}
	for _, d := range all {
		violations(t, newMessage(t, d))
	}
}

func TestToolCallRules(t *testing.T) {
	t.Parallel()
	call := &outriggerv1.ToolCall{}
	run(t, []ruleTest{
		{"canonical name", call, `tool_name: "route_guide.get_feature"`, nil},
		{"MCP name", call, `tool_name: "route_guide_get_feature"`, nil},
		{"native name", call, `tool_name: "Test-Tool"`, nil},
		{"no name", call, ``, []string{"tool_name string.pattern"}},
		{"slash in name", call, `tool_name: "a/b"`, []string{"tool_name string.pattern"}},
		{"longest name", call, `tool_name: "` + strings.Repeat("a", 256) + `"`, nil},
		{"name too long", call, `tool_name: "` + strings.Repeat("a", 257) + `"`, []string{"tool_name string.pattern"}},
		{"empty arguments text", call, `tool_name: "a.b" arguments_json: ""`, []string{"arguments_json bytes.min_len"}},
		{"version constraint", call, `tool_name: "a.b" version: ">=1.2.0 <2.0.0 || ^3"`, nil},
		{"version with a newline", call, `tool_name: "a.b" version: "1\n2"`, []string{"version string.pattern"}},
		{"state too long", call, `tool_name: "a.b" request_state: "` + strings.Repeat("s", 65537) + `"`, []string{"request_state bytes.max_len"}},
		{"answer without a key", call, `tool_name: "a.b" input_responses {key: "" value {other_json: "1"}}`, []string{`input_responses[""] string.min_len`}},
		{"answer without an answer", call, `tool_name: "a.b" input_responses {key: "k" value {}}`, []string{`input_responses["k"].response required`}},
		{"unknown log level", call, `tool_name: "a.b" context {log_level: 99}`, []string{"context.log_level enum.defined_only"}},
	})
}

func TestToolResultRules(t *testing.T) {
	t.Parallel()
	result := &outriggerv1.ToolResult{}
	const detail = ` error {error_type: "TimeoutError" error_message: "too slow"}`
	run(t, []ruleTest{
		{"success", result, `status: "success" data_json: "{}"`, nil},
		{"no change needed", result, `status: "no_change_needed" explanation: "it was so already"`, nil},
		{"partial success with an error", result, `status: "partial_success" data_json: "[1]"` + detail, nil},
		{"success without data", result, `status: "success"`, nil},
		{"success with null", result, `status: "success" data {null_value: NULL_VALUE}`, nil},
		{"failure", result, `status: "failure"` + detail, nil},
		{"failure with null data", result, `status: "failure" data {null_value: NULL_VALUE}` + detail, nil},
		{"failure with null data as JSON", result, `status: "failure" data_json: "null"` + detail, nil},
		{"failure without an error", result, `status: "failure"`, []string{" tool_result.failure.error"}},
		{"failure with data", result, `status: "failure" data {number_value: 1}` + detail, []string{" tool_result.failure.data"}},
		{"failure with false as data", result, `status: "failure" data {bool_value: false}` + detail, []string{" tool_result.failure.data"}},
		{"failure with data as JSON", result, `status: "failure" data_json: "{}"` + detail, []string{" tool_result.failure.data"}},
		{"no status", result, ``, []string{"status string.in"}},
		{"another status", result, `status: "partial_failure"` + detail, []string{"status string.in"}},
		{"empty block", result, `status: "success" content {}`, []string{"content[0].block required"}},
		{"priority out of range", result, `status: "success" content {text {text: "a"} annotations {priority: 1.5}}`, []string{"content[0].annotations.priority double.gte_lte"}},
		{"audience twice", result, `status: "success" content {text {} annotations {audience: [ROLE_USER, ROLE_USER]}}`, []string{"content[0].annotations.audience repeated.unique"}},
		{"image without a type", result, `status: "success" content {image {data: "x"}}`, []string{"content[0].image.mime_type string.pattern"}},
		{"link without a URI", result, `status: "success" content {resource_link {name: "n" uri: "nowhere"}}`, []string{"content[0].resource_link.uri string.uri"}},
		{"resource with neither text nor blob", result, `status: "success" content {resource {contents {uri: "a://b"}}}`, []string{"content[0].resource.contents.data required"}},
		{"resource with an empty text", result, `status: "success" content {resource {contents {uri: "a://b" text: ""}}}`, nil},
	})
}

func TestErrorRules(t *testing.T) {
	t.Parallel()
	const base = `error_type: "ValidationError" error_message: "no" `
	detail, object := &outriggerv1.ErrorDetail{}, &outriggerv1.ErrorObject{}
	run(t, []ruleTest{
		{"details: object", detail, base + `error_details {struct_value {}}`, nil},
		{"details: string", detail, base + `error_details {string_value: "why"}`, nil},
		{"details: null", detail, base + `error_details {null_value: NULL_VALUE}`, nil},
		{"details: number", detail, base + `error_details {number_value: 1}`, []string{"error_details error_detail.error_details.kind"}},
		{"details: array", detail, base + `error_details {list_value {}}`, []string{"error_details error_detail.error_details.kind"}},
		{"details as JSON: object", detail, base + `error_details_json: "{}"`, nil},
		{"details as JSON: string", detail, base + `error_details_json: "\"why\""`, nil},
		{"details as JSON: null", detail, base + `error_details_json: "null"`, nil},
		{"details as JSON: number", detail, base + `error_details_json: "1"`, []string{"error_details_json error_detail.error_details_json.kind"}},
		{"no type, no message", detail, ``, []string{"error_message string.min_len", "error_type string.pattern"}},
		{"code", object, `code: -32602 message: "Invalid params"`, nil},
		{"code 0 never leaves", object, `message: "?"`, []string{"code sint32.not_in"}},
		{"missing capabilities", &outriggerv1.MissingCapabilities{}, `required_capabilities {sampling {}}`, nil},
		{"missing what?", &outriggerv1.MissingCapabilities{}, ``, []string{"required_capabilities required"}},
	})
}

func TestEnvelopeRules(t *testing.T) {
	t.Parallel()
	envelope := &outriggerv1.Envelope{}
	id := func(text string) string { return `request {id {` + text + `} method: "ping"}` }
	const path = "request.id.big_integer "
	run(t, []ruleTest{
		{"string id", envelope, id(`text: "a"`), nil},
		{"empty string id", envelope, id(`text: ""`), nil},
		{"longest id", envelope, id(`text: "` + strings.Repeat("x", 1024) + `"`), nil},
		{"id too long", envelope, id(`text: "` + strings.Repeat("x", 1025) + `"`), []string{"request.id.text string.max_bytes"}},
		{"id 0", envelope, id(`integer: 0`), nil},
		{"largest int64", envelope, id(`integer: 9223372036854775807`), nil},
		{"above int64", envelope, id(`big_integer: "9223372036854775808"`), nil},
		{"below int64", envelope, id(`big_integer: "-9223372036854775809"`), nil},
		{"far above int64", envelope, id(`big_integer: "123456789012345678901234567890"`), nil},
		{"int64 has one form", envelope, id(`big_integer: "9223372036854775807"`), []string{path + "id.big_integer.fits_int64"}},
		{"negative int64 has one form", envelope, id(`big_integer: "-9223372036854775808"`), []string{path + "id.big_integer.fits_int64"}},
		{"fraction", envelope, id(`big_integer: "9223372036854775808.5"`), []string{path + "string.pattern"}},
		{"exponent", envelope, id(`big_integer: "1e30"`), []string{path + "id.big_integer.fits_int64", path + "string.pattern"}},
		{"leading zero", envelope, id(`big_integer: "09223372036854775808"`), []string{path + "string.pattern"}},
		{"id without a value", envelope, id(``), []string{"request.id.kind required"}},
		{"request without an id", envelope, `request {method: "ping"}`, []string{"request.id required"}},
		{"request without a method", envelope, `request {id {integer: 1}}`, []string{"request.method string.min_len"}},
		{"nothing", envelope, ``, []string{"message required"}},
		{"response", envelope, `success_response {id {integer: 1} result_json: "{}"}`, nil},
		{"response without a result", envelope, `success_response {id {integer: 1}}`, []string{"success_response.result_form required"}},
		{"error whose id could not be read", envelope, `error_response {error {code: -32700 message: "Parse error"}}`, nil},
		{"error without an error", envelope, `error_response {id {integer: 1}}`, []string{"error_response.error required"}},
		{"notification", envelope, `notification {method: "orders/changed" params_json: "{}"}`, nil},
	})
}

func TestTaskRules(t *testing.T) {
	t.Parallel()
	task := &outriggerv1.Task{}
	const base = `task_id: "t1" created_at {seconds: 1} last_updated_at {seconds: 1} `
	const ask = ` input_requests {key: "k" value {list_roots {}}}`
	run(t, []ruleTest{
		{"working", task, base + `status: TASK_STATUS_WORKING ttl {seconds: 60} poll_interval {nanos: 500000000}`, nil},
		{"completed", task, base + `status: TASK_STATUS_COMPLETED result {status: "success"}`, nil},
		{"completed with the tool's failure", task, base + `status: TASK_STATUS_COMPLETED result {status: "failure" error {error_type: "E" error_message: "m"}}`, nil},
		{"completed without a result", task, base + `status: TASK_STATUS_COMPLETED`, []string{" task.result"}},
		{"working with a result", task, base + `status: TASK_STATUS_WORKING result {status: "success"}`, []string{" task.result"}},
		{"failed", task, base + `status: TASK_STATUS_FAILED error {code: -32603 message: "m"}`, nil},
		{"failed without an error", task, base + `status: TASK_STATUS_FAILED`, []string{" task.error"}},
		{"cancelled with an error", task, base + `status: TASK_STATUS_CANCELLED error {code: 1 message: "m"}`, []string{" task.error"}},
		{"input required", task, base + `status: TASK_STATUS_INPUT_REQUIRED` + ask, nil},
		{"input required without a question", task, base + `status: TASK_STATUS_INPUT_REQUIRED`, []string{" task.input_requests"}},
		{"working with a question", task, base + `status: TASK_STATUS_WORKING` + ask, []string{" task.input_requests"}},
		{"negative ttl", task, base + `status: TASK_STATUS_WORKING ttl {seconds: -1}`, []string{"ttl duration.gte"}},
		{"id with a blank", task, `task_id: "t 1" created_at {} last_updated_at {} status: TASK_STATUS_WORKING`, []string{"task_id string.pattern"}},
		{"no status, no times", task, `task_id: "t"`, []string{"created_at required", "last_updated_at required", "status enum.not_in"}},
	})
}

func TestInputRules(t *testing.T) {
	t.Parallel()
	required, response, request := &outriggerv1.InputRequired{}, &outriggerv1.InputResponse{}, &outriggerv1.InputRequest{}
	run(t, []ruleTest{
		{"state alone", required, `request_state: "s"`, nil},
		{"question alone", required, `input_requests {key: "k" value {list_roots {}}}`, nil},
		{"neither", required, ``, []string{" input_required.not_empty"}},
		{"elicitation without a mode", request, `elicitation {message: "Sure?"}`, []string{"elicitation.mode required"}},
		{"form without a schema", request, `elicitation {message: "Sure?" form {}}`, []string{"elicitation.form.requested_schema_form required"}},
		{"relative address", request, `elicitation {message: "Sure?" url {url: "/login"}}`, []string{"elicitation.url.url string.uri"}},
		{"sampling without messages", request, `sampling {max_tokens: 1}`, []string{"sampling.messages repeated.min_items"}},
		{"sampling without tokens", request, `sampling {messages {role: ROLE_USER content {text {text: "a"}}}}`, []string{"sampling.max_tokens int64.gt"}},
		{"tool results stand alone", request, `sampling {max_tokens: 1 messages {role: ROLE_USER content {text {text: "a"}} content {tool_result {tool_use_id: "1"}}}}`, []string{"sampling.messages[0] sampling_message.tool_results"}},
		{"two tool results", request, `sampling {max_tokens: 1 messages {role: ROLE_USER content {tool_result {tool_use_id: "1"}} content {tool_result {tool_use_id: "2"}}}}`, nil},
		{"accepted", response, `elicitation {action: ELICITATION_ACTION_ACCEPT content_json: "{}"}`, nil},
		{"declined, with a content that a client sent all the same", response, `elicitation {action: ELICITATION_ACTION_DECLINE content_json: "{}"}`, nil},
		{"no action", response, `elicitation {}`, []string{"elicitation.action enum.not_in"}},
		{"no shape", response, `other_json: "12345"`, nil},
		{"no answer", response, ``, []string{"response required"}},
	})
}

func TestToolRules(t *testing.T) {
	t.Parallel()
	tool, options := &outriggerv1.Tool{}, &configv1.ToolOptions{}
	const base = `name: "a.b" input_schema_json: "{\"type\":\"object\"}" `
	run(t, []ruleTest{
		{"tool", tool, base, nil},
		{"tool without a schema", tool, `name: "a.b"`, []string{"input_schema_form required"}},
		{"version", tool, base + `version: "1.0.0-rc.1+build.5"`, nil},
		{"version with two parts", tool, base + `version: "1.0"`, []string{"version string.pattern"}},
		{"version with a leading zero", tool, base + `version: "01.0.0"`, []string{"version string.pattern"}},
		{"fingerprint", tool, base + `fingerprint: "` + strings.Repeat("0a", 32) + `"`, nil},
		{"fingerprint in capitals", tool, base + `fingerprint: "` + strings.Repeat("0A", 32) + `"`, []string{"fingerprint string.pattern"}},
		{"MCP name too long", tool, base + `mcp_name: "` + strings.Repeat("a", 129) + `"`, []string{"mcp_name string.pattern"}},
		{"task support", tool, base + `execution {task_support: "required"}`, nil},
		{"unknown task support", tool, base + `execution {task_support: "maybe"}`, []string{"execution.task_support string.in"}},
		{"binding", tool, base + `binding {service: "shop.v1.Orders" method: "Get"}`, nil},
		{"binding to a path", tool, base + `binding {service: "/shop.v1.Orders" method: "Get"}`, []string{"binding.service string.pattern"}},
		{"icon size", tool, base + `icons {src: "https://example.com/i.png" sizes: "48x48" sizes: "any" theme: "dark"}`, nil},
		{"icon size in words", tool, base + `icons {src: "https://example.com/i.png" sizes: "large"}`, []string{"icons[0].sizes[0] string.pattern"}},
		{"empty options", options, ``, nil},
		{"options", options, `name: "shop.get" read_only: true timeout {seconds: 5} version: "1.2.0" cache_ttl {} task_support: "optional"`, nil},
		{"name without a dot", options, `name: "get"`, []string{"name string.pattern"}},
		{"read-only and destructive", options, `read_only: true destructive: true`, []string{" tool_options.read_only_destructive"}},
		{"read-only, expressly not destructive", options, `read_only: true destructive: false`, nil},
		{"no time at all", options, `timeout {}`, []string{"timeout duration.gt_lte"}},
		{"more than a day", options, `timeout {seconds: 86401}`, []string{"timeout duration.gt_lte"}},
		{"example without arguments", options, `examples {name: "e"}`, []string{"examples[0].arguments_json string.min_len"}},
		{"resource", &configv1.ResourceOptions{}, `uri_template: "shop://orders/{id}"`, nil},
		{"resource without a scheme", &configv1.ResourceOptions{}, `uri_template: "orders/{id}"`, []string{"uri_template string.pattern"}},
		{"registration", &outriggerv1.RegisterToolRequest{}, `name: "shop.get" description: "Gets." input_schema_json: "{}" binding {service: "S" method: "M"}`, nil},
		{"registration without a schema is left to REGISTRATION_INVALID", &outriggerv1.RegisterToolRequest{}, `name: "shop.get" description: "Gets." binding {service: "S" method: "M"}`, nil},
		{"registration without a binding", &outriggerv1.RegisterToolRequest{}, `name: "shop.get" description: "Gets." input_schema_json: "{}"`, []string{"binding required"}},
		{"taking a tool back", &outriggerv1.UnregisterToolRequest{}, `name: "shop.get"`, nil},
		{"taking no tool back", &outriggerv1.UnregisterToolRequest{}, ``, []string{"name string.min_len"}},
	})
}

func TestFeedAndListRules(t *testing.T) {
	t.Parallel()
	notification, subscribe := &outriggerv1.Notification{}, &outriggerv1.SubscribeRequest{}
	const task = ` task {task_id: "t" created_at {} last_updated_at {} status: TASK_STATUS_WORKING}`
	run(t, []ruleTest{
		{"task", notification, `method: "notifications/tasks"` + task, nil},
		{"task with another method", notification, `method: "orders/changed"` + task, []string{" notification.task.method"}},
		{"acknowledgement", notification, `method: "notifications/subscriptions/acknowledged" acknowledged {}`, nil},
		{"acknowledgement with another method", notification, `method: "x" acknowledged {}`, []string{" notification.acknowledged.method"}},
		{"no method", notification, ``, []string{"method string.min_len"}},
		{"all events", subscribe, `events {}`, nil},
		{"changes", subscribe, `changes {tools_list_changed: true resource_uris: "test://watched-resource"}`, nil},
		{"no filter", subscribe, ``, []string{"filter required"}},
		{"bad URI", subscribe, `changes {resource_uris: "nowhere"}`, []string{"changes.resource_uris[0] string.uri"}},
		{"empty cursor", &outriggerv1.ListToolsRequest{}, `cursor: ""`, nil},
		{"negative page", &outriggerv1.ListToolsRequest{}, `page_size: -1`, []string{"page_size int32.gte_lte"}},
		{"no contents", &outriggerv1.ResourceResult{}, ``, []string{"contents repeated.min_items"}},
		{"101 proposals", &outriggerv1.CompleteResponse{}, strings.Repeat(`values: "v" `, 101), []string{"values repeated.max_items"}},
		{"description", &outriggerv1.ServerDescription{}, `name: "n" version: "1" contract_version: "1.0.0" capabilities {} protocol_versions: "2026-07-28"`, nil},
		{"description without capabilities", &outriggerv1.ServerDescription{}, `name: "n" version: "1" contract_version: "1.0.0"`, []string{"capabilities required"}},
	})
}
