// SPDX-License-Identifier: Apache-2.0

package content

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// unfit is a message that cannot be written, and where it says why.
type unfit struct {
	name, text, path string
}

// refuses checks that each of the messages is refused with its path, and that the
// buffer comes back as it was.
func refuses[T proto.Message](t *testing.T, empty func() T, write func(dst []byte, m T) ([]byte, error), cases []unfit) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, err := write([]byte("before"), parse(t, empty(), c.text))
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("the error is %v, the output %s", err, out)
			}
			if string(out) != "before" {
				t.Errorf("the buffer is %q", out)
			}
			if invalid.Path != c.path {
				t.Errorf("the path is %q, want %q (%s)", invalid.Path, c.path, invalid.Reason)
			}
			if !strings.HasSuffix(invalid.Reason, ".") || !strings.HasPrefix(invalid.Error(), invalid.Path) || !strings.HasSuffix(invalid.Error(), invalid.Reason) {
				t.Errorf("the error reads %q", invalid.Error())
			}
		})
	}
}

func TestContentRefuses(t *testing.T) {
	t.Parallel()
	const before = `content { text {} } `
	refuses(t, anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult) ([]byte, error) {
		return AppendContent(dst, r.GetContent(), Rev20260728)
	}, []unfit{
		{"no kind", before + `content {}`, "/content/1"},
		{"image without data", before + `content { image { mime_type: "image/png" } }`, "/content/1/image/data"},
		{"image without type", before + `content { image { data: "a" } }`, "/content/1/image/mime_type"},
		{"audio without type", before + `content { audio { data: "a" } }`, "/content/1/audio/mime_type"},
		{"link without uri", before + `content { resource_link { name: "a" } }`, "/content/1/resource_link/uri"},
		{"link without name", before + `content { resource_link { uri: "a:b" } }`, "/content/1/resource_link/name"},
		{"icon without source", before + `content { resource_link { uri: "a:b" name: "a" icons { src: "a:b" } icons {} } }`, "/content/1/resource_link/icons/1/src"},
		{"icon with another theme", before + `content { resource_link { uri: "a:b" name: "a" icons { src: "a:b" theme: "pink" } } }`, "/content/1/resource_link/icons/0/theme"},
		{"resource without contents", before + `content { resource {} }`, "/content/1/resource/contents/uri"},
		{"contents without data", before + `content { resource { contents { uri: "a:b" } } }`, "/content/1/resource/contents"},
		{"contents with a list as _meta", before + `content { resource { contents { uri: "a:b" text: "" meta_json: "[]" } } }`, "/content/1/resource/contents/meta_json"},
		{"_meta that is no JSON", before + `content { text {} meta_json: '{"a":{"b":[1,}}' }`, "/content/1/meta_json/a/b/1"},
		{"empty _meta", before + `content { text {} meta_json: "" }`, "/content/1/meta_json"},
		{"_meta with a number that is none", before + `content { text {} meta { fields { key: "a/b" value { number_value: nan } } } }`, "/content/1/meta/a~1b"},
		{"_meta with nothing", before + `content { text {} meta { fields { key: "" value {} } } }`, "/content/1/meta/"},
		{"priority above 1", before + `content { text {} annotations { priority: 1.5 } }`, "/content/1/annotations/priority"},
		{"priority that is none", before + `content { text {} annotations { priority: nan } }`, "/content/1/annotations/priority"},
		{"role that is none", before + `content { text {} annotations { audience: ROLE_USER audience: ROLE_UNSPECIFIED } }`, "/content/1/annotations/audience/1"},
		{"time beyond the calendar", before + `content { text {} annotations { last_modified { seconds: 253402300800 } } }`, "/content/1/annotations/last_modified"},
	})
	t.Run("2025-03-26", func(t *testing.T) {
		t.Parallel()
		refuses(t, anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult) ([]byte, error) {
			return AppendContent(dst, r.GetContent(), Rev20250326)
		}, []unfit{
			{"link without uri", `content { resource_link { name: "a" } }`, "/content/0/resource_link/uri"},
			{"link without name", `content { resource_link { uri: "a:b" } }`, "/content/0/resource_link/name"},
		})
	})
}

func TestResultRefuses(t *testing.T) {
	t.Parallel()
	refuses(t, anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult) ([]byte, error) {
		return AppendToolResult(dst, r, Rev20260728)
	}, []unfit{
		{"no status", ``, "/status"},
		{"another status", `status: "done"`, "/status"},
		{"failure without error", `status: "failure"`, "/error/error_message"},
		{"failure without message", `status: "failure" error { error_type: "X" }`, "/error/error_message"},
		{"failure with data", `status: "failure" error { error_message: "a" } data_json: "1"`, "/data_json"},
		{"failure with a value", `status: "failure" error { error_message: "a" } data { bool_value: false }`, "/data"},
		{"data that are no JSON", `status: "success" data_json: '{"a":1,"\u0061":2}'`, "/data_json/a"},
		{"data that are empty", `status: "success" data_json: ""`, "/data_json"},
		{"two values", `status: "success" data_json: "1 2"`, "/data_json"},
		{"data of no kind", `status: "success" data {}`, "/data"},
		{"infinite data", `status: "success" data { list_value { values { number_value: 1 } values { number_value: -inf } } }`, "/data/1"},
		{"bad content", `status: "success" content {}`, "/content/0"},
	})
	t.Run("meta", func(t *testing.T) {
		t.Parallel()
		refuses(t, anew[outriggerv1.ToolResult], AppendResultMeta, []unfit{
			{"details that are no JSON", `error { error_details_json: "{" }`, "/error/error_details_json"},
		})
	})
}

func TestListsRefuse(t *testing.T) {
	t.Parallel()
	refuses(t, anew[outriggerv1.ListResourcesResponse], func(dst []byte, r *outriggerv1.ListResourcesResponse) ([]byte, error) {
		return AppendResources(dst, r.GetResources())
	}, []unfit{
		{"resource without uri", `resources { uri: "a:b" name: "a" } resources { name: "a" }`, "/resources/1/uri"},
		{"resource without name", `resources { uri: "a:b" }`, "/resources/0/name"},
		{"resource with a text as _meta", `resources { uri: "a:b" name: "a" meta_json: '""' }`, "/resources/0/meta_json"},
	})
	refuses(t, anew[outriggerv1.ListResourceTemplatesResponse], func(dst []byte, r *outriggerv1.ListResourceTemplatesResponse) ([]byte, error) {
		return AppendTemplates(dst, r.GetResourceTemplates())
	}, []unfit{
		{"template without template", `resource_templates { name: "a" }`, "/resource_templates/0/uri_template"},
		{"template without name", `resource_templates { uri_template: "a:b" }`, "/resource_templates/0/name"},
	})
	refuses(t, anew[outriggerv1.ResourceResult], func(dst []byte, r *outriggerv1.ResourceResult) ([]byte, error) {
		return AppendContents(dst, r.GetContents())
	}, []unfit{
		{"no contents", ``, "/contents"},
		{"contents without uri", `contents { text: "a" }`, "/contents/0/uri"},
	})
	refuses(t, anew[outriggerv1.ListPromptsResponse], func(dst []byte, r *outriggerv1.ListPromptsResponse) ([]byte, error) {
		return AppendPrompts(dst, r.GetPrompts())
	}, []unfit{
		{"prompt without name", `prompts {}`, "/prompts/0/name"},
		{"argument without name", `prompts { name: "a" arguments {} }`, "/prompts/0/arguments/0/name"},
	})
	refuses(t, anew[outriggerv1.PromptResult], func(dst []byte, r *outriggerv1.PromptResult) ([]byte, error) {
		return AppendPromptMessages(dst, r.GetMessages(), Rev20260728)
	}, []unfit{
		{"message without role", `messages { content { text {} } }`, "/messages/0/role"},
		{"message without content", `messages { role: ROLE_USER }`, "/messages/0/content"},
	})
	refuses(t, anew[outriggerv1.CompleteResponse], AppendCompletion, []unfit{
		{"too many values", strings.Repeat(`values: "a" `, 100+1), "/values"},
	})
	refuses(t, anew[outriggerv1.Tool], func(dst []byte, tool *outriggerv1.Tool) ([]byte, error) {
		return appendTool(dst, tool, Rev20251125)
	}, []unfit{
		{"tool without name", `input_schema_json: '{"type":"object"}'`, "/name"},
		{"tool without schema", `name: "a"`, "/input_schema"},
		{"tool for other arguments", `name: "a" input_schema_json: '{"type":"array"}'`, "/input_schema_json"},
		{"tool for any arguments", `name: "a" input_schema_json: "true"`, "/input_schema_json"},
		{"tool with a schema that is no JSON", `name: "a" input_schema_json: '{"type":"object","a":01}'`, "/input_schema_json/a"},
		{"tool with any output", `name: "a" input_schema_json: '{"type":"object"}' output_schema_json: "true"`, "/output_schema_json"},
	})
}

func TestQuestionsRefuse(t *testing.T) {
	t.Parallel()
	const sampling = `sampling { max_tokens: 1 messages { role: ROLE_USER content { text {} } } `
	cases := []unfit{
		{"nothing asked", ``, ""},
		{"elicitation without mode", `elicitation { message: "a" }`, "/elicitation"},
		{"elicitation without message", `elicitation { form { requested_schema_json: '{"type":"object","properties":{}}' } }`, "/elicitation/message"},
		{"form without schema", `elicitation { message: "a" form {} }`, "/elicitation/form/requested_schema"},
		{"form without properties", `elicitation { message: "a" form { requested_schema_json: '{"type":"object"}' } }`, "/elicitation/form/requested_schema_json"},
		{"form without type", `elicitation { message: "a" form { requested_schema { fields { key: "properties" value { struct_value {} } } } } }`, "/elicitation/form/requested_schema"},
		{"elicitation without url", `elicitation { message: "a" url { elicitation_id: "e" } }`, "/elicitation/url/url"},
		{"elicitation without id", `elicitation { message: "a" url { url: "a:b" } }`, "/elicitation/url/elicitation_id"},
		{"elicitation with bad _meta", `elicitation { message: "a" url { url: "a:b" elicitation_id: "e" } meta_json: "1" }`, "/elicitation/meta_json"},
		{"roots with bad _meta", `list_roots { meta_json: "1" }`, "/list_roots/meta_json"},
		{"sampling without messages", `sampling { max_tokens: 1 }`, "/sampling/messages"},
		{"sampling without tokens", `sampling { messages { role: ROLE_USER content { text {} } } }`, "/sampling/max_tokens"},
		{"message without role", sampling + `messages { content { text {} } } }`, "/sampling/messages/1/role"},
		{"message without content", sampling + `messages { role: ROLE_USER } }`, "/sampling/messages/1/content"},
		{"block without kind", sampling + `messages { role: ROLE_USER content {} } }`, "/sampling/messages/1/content/0"},
		{"second block without kind", sampling + `messages { role: ROLE_USER content { text {} } content {} } }`, "/sampling/messages/1/content/1"},
		{"another context", sampling + `include_context: "all" }`, "/sampling/include_context"},
		{"infinite temperature", sampling + `temperature: inf }`, "/sampling/temperature"},
		{"metadata of another kind", sampling + `metadata_json: "1" }`, "/sampling/metadata_json"},
		{"priority below 0", sampling + `model_preferences { speed_priority: -1 } }`, "/sampling/model_preferences/speed_priority"},
		{"bad tool", sampling + `tools {} }`, "/sampling/tools/0/name"},
		{"another choice", sampling + `tool_choice { mode: "must" } }`, "/sampling/tool_choice/mode"},
		{"tool use without id", `sampling { max_tokens: 1 messages { role: ROLE_ASSISTANT content { tool_use { name: "a" } } } messages { role: ROLE_USER content { tool_result {} } } }`, "/sampling/messages/0/content/0/tool_use/id"},
		{"tool use without name", `sampling { max_tokens: 1 messages { role: ROLE_ASSISTANT content { tool_use { id: "a" } } } messages { role: ROLE_USER content { tool_result { tool_use_id: "a" } } } }`, "/sampling/messages/0/content/0/tool_use/name"},
		{"tool use with other arguments", `sampling { max_tokens: 1 messages { role: ROLE_ASSISTANT content { tool_use { id: "a" name: "a" input_json: "[]" } } } messages { role: ROLE_USER content { tool_result { tool_use_id: "a" } } } }`, "/sampling/messages/0/content/0/tool_use/input_json"},
		{"tool result that is no JSON", `sampling { max_tokens: 1 messages { role: ROLE_ASSISTANT content { tool_use { id: "a" name: "a" } } } messages { role: ROLE_USER content { tool_result { tool_use_id: "a" structured_content_json: "x" } } } }`, "/sampling/messages/1/content/0/tool_result/structured_content_json"},
		{"tool result among others", sampling + `messages { role: ROLE_USER content { text {} } content { tool_result { tool_use_id: "a" } } } }`, "/sampling/messages/1/content"},
		{"tool result without use", sampling + `messages { role: ROLE_USER content { tool_result { tool_use_id: "a" } } } }`, "/sampling/messages/1/content"},
		{"tool use without result", sampling + `messages { role: ROLE_ASSISTANT content { tool_use { id: "a" name: "a" } } } messages { role: ROLE_USER content { text {} } } }`, "/sampling/messages/2/content"},
		{"tool use at the end", sampling + `messages { role: ROLE_ASSISTANT content { tool_use { id: "a" name: "a" } } } }`, "/sampling/messages"},
	}
	refuses(t, anew[outriggerv1.InputRequest], func(dst []byte, q *outriggerv1.InputRequest) ([]byte, error) {
		_, params, err := AppendInputRequest(dst, q, Rev20251125)
		return params, err
	}, cases)
	t.Run("among others", func(t *testing.T) {
		t.Parallel()
		refuses(t, anew[outriggerv1.InputRequired], func(dst []byte, q *outriggerv1.InputRequired) ([]byte, error) {
			return AppendInputRequests(dst, q.GetInputRequests())
		}, []unfit{{"second", `input_requests { key: "a" value { list_roots {} } } input_requests { key: "b/c" value {} }`, "/input_requests/b~1c"}})
	})
}

func TestOthersRefuse(t *testing.T) {
	t.Parallel()
	refuses(t, anew[outriggerv1.Task], func(dst []byte, task *outriggerv1.Task) ([]byte, error) { return AppendTask(dst, task, nil) }, []unfit{
		{"task without id", `status: TASK_STATUS_WORKING created_at {} last_updated_at {}`, "/task_id"},
		{"task without status", taskStart, "/status"},
		{"task without start", `task_id: "a" status: TASK_STATUS_WORKING last_updated_at {}`, "/created_at"},
		{"task without change", `task_id: "a" status: TASK_STATUS_WORKING created_at {}`, "/last_updated_at"},
		{"negative ttl", taskStart + `status: TASK_STATUS_WORKING ttl { nanos: -1 }`, "/ttl"},
		{"negative interval", taskStart + `status: TASK_STATUS_WORKING poll_interval { seconds: -1 }`, "/poll_interval"},
		{"ttl that is none", taskStart + `status: TASK_STATUS_WORKING ttl { seconds: 9223372036854775807 }`, "/ttl"},
		{"completed without result", taskStart + `status: TASK_STATUS_COMPLETED`, "/result"},
		{"failed without error", taskStart + `status: TASK_STATUS_FAILED`, "/error/code"},
		{"failed with bad data", taskStart + `status: TASK_STATUS_FAILED error { code: 1 data_json: "nul" }`, "/error/data_json"},
		{"input required without questions", taskStart + `status: TASK_STATUS_INPUT_REQUIRED`, "/input_requests"},
		{"input required with a bad question", taskStart + `status: TASK_STATUS_INPUT_REQUIRED input_requests { key: "a" value {} }`, "/input_requests/a"},
	})
	refuses(t, anew[outriggerv1.Progress], func(dst []byte, p *outriggerv1.Progress) ([]byte, error) { return AppendProgress(dst, []byte("1"), p) }, []unfit{
		{"progress that is no number", `progress: nan`, "/progress"},
		{"infinite total", `progress: 1 total: inf`, "/total"},
	})
	refuses(t, anew[outriggerv1.LogMessage], AppendLog, []unfit{
		{"log without level", `data_json: "1"`, "/level"},
		{"log of another level", `level: 9 data_json: "1"`, "/level"},
		{"log without data", `level: LOG_LEVEL_INFO`, "/data"},
		{"log with bad data", `level: LOG_LEVEL_INFO data_json: "x"`, "/data_json"},
	})
	refuses(t, anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult) ([]byte, error) { return AppendMeta(dst, r, nil) }, []unfit{
		{"_meta of another kind", `meta_json: "[]"`, "/meta_json"}, {"_meta that is no JSON", `meta_json: "{"`, "/meta_json"},
	})
}

// TestPathsAreBounded: names of a sender do not make a path long.
func TestPathsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", maxPathBytes)
	bad := &outriggerv1.ToolResult{DataForm: &outriggerv1.ToolResult_Data{Data: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"a": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{long: {}}}),
	}})}, Status: StatusSuccess}
	_, err := AppendToolResult(nil, bad, Rev20260728)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Path != "/data/a" {
		t.Errorf("the error is %v", err)
	}
	text := &outriggerv1.ToolResult{Status: StatusSuccess, DataForm: &outriggerv1.ToolResult_DataJson{
		DataJson: []byte(`{"` + strings.Repeat("n", 200) + `":{"` + strings.Repeat("m", 2000) + `":x}}`),
	}}
	if _, err = AppendToolResult(nil, text, Rev20260728); !errors.As(err, &invalid) || invalid.Path != "/data_json" {
		t.Errorf("the error is %v", err)
	}
	deep := structpb.NewNullValue()
	for range maxTrail + 5 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep, {}}})
	}
	bad.DataForm = &outriggerv1.ToolResult_Data{Data: deep}
	if _, err = AppendToolResult(nil, bad, Rev20260728); !errors.As(err, &invalid) || invalid.Path != "/data"+strings.Repeat("/0", maxTrail-1) {
		t.Errorf("the error is %v", err)
	}
}

// TestTheFirstFaultStays: what follows from a fault does not hide it.
func TestTheFirstFaultStays(t *testing.T) {
	t.Parallel()
	_, err := AppendResources(nil, []*outriggerv1.Resource{{Name: "a"}, nil, {Annotations: &outriggerv1.Annotations{LastModified: &timestamppb.Timestamp{Nanos: -1}}}})
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.Path != "/resources/0/uri" {
		t.Errorf("the error is %v", err)
	}
}

// TestNilIsRefused: a message that is not there is refused like an empty one.
func TestNilIsRefused(t *testing.T) {
	t.Parallel()
	block := func(b *outriggerv1.ContentBlock) func() ([]byte, error) {
		return func() ([]byte, error) { return AppendContent(nil, []*outriggerv1.ContentBlock{b}, Rev20260728) }
	}
	question := func(q *outriggerv1.InputRequest) func() ([]byte, error) {
		return func() ([]byte, error) {
			_, params, err := AppendInputRequest(nil, q, Rev20260728)
			return params, err
		}
	}
	for name, write := range map[string]func() ([]byte, error){
		"block":    block(nil),
		"image":    block(&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{}}),
		"audio":    block(&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Audio{}}),
		"link":     block(&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_ResourceLink{}}),
		"resource": block(&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{}}),
		"question": question(nil),
		"elicit":   question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{}}),
		"sample":   question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Sampling{}}),
		"message":  question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Sampling{Sampling: &outriggerv1.Sampling{MaxTokens: 1, Messages: []*outriggerv1.SamplingMessage{nil}}}}),
		"form":     question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{Message: "a", Mode: &outriggerv1.Elicitation_Form{}}}}),
		"url":      question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_Elicitation{Elicitation: &outriggerv1.Elicitation{Message: "a", Mode: &outriggerv1.Elicitation_Url{}}}}),
		"questions": func() ([]byte, error) {
			return AppendInputRequests(nil, map[string]*outriggerv1.InputRequest{"a": nil})
		},
		"resources": func() ([]byte, error) { return AppendResources(nil, []*outriggerv1.Resource{nil}) },
		"templates": func() ([]byte, error) { return AppendTemplates(nil, []*outriggerv1.ResourceTemplate{nil}) },
		"contents":  func() ([]byte, error) { return AppendContents(nil, []*outriggerv1.ResourceContents{nil}) },
		"prompts":   func() ([]byte, error) { return AppendPrompts(nil, []*outriggerv1.Prompt{nil}) },
		"messages": func() ([]byte, error) {
			return AppendPromptMessages(nil, []*outriggerv1.PromptMessage{nil}, Rev20260728)
		},
		"tool":     func() ([]byte, error) { return appendTool(nil, nil, Rev20260728) },
		"task":     func() ([]byte, error) { return AppendTask(nil, nil, nil) },
		"new task": func() ([]byte, error) { return AppendNewTask(nil, nil) },
		"log":      func() ([]byte, error) { return AppendLog(nil, nil) },
		"result":   func() ([]byte, error) { return AppendToolResult(nil, nil, Rev20260728) },
	} {
		out, err := write()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || len(out) > 0 {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
	for name, c := range map[string]struct {
		write func() ([]byte, error)
		want  string
	}{
		"text":       {block(&outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Text{}}), `[{"type":"text","text":""}]`},
		"roots":      {question(&outriggerv1.InputRequest{Request: &outriggerv1.InputRequest_ListRoots{}}), `{}`},
		"filter":     {func() ([]byte, error) { return AppendChangeFilter(nil, nil) }, `{}`},
		"completion": {func() ([]byte, error) { return AppendCompletion(nil, nil) }, `{"values":[]}`},
		"progress":   {func() ([]byte, error) { return AppendProgress(nil, []byte(`1`), nil) }, `{"progressToken":1,"progress":0}`},
	} {
		if out, err := c.write(); err != nil || string(out) != c.want {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}

// TestUnsupported: a good question that a revision cannot ask is no fault of the
// backend.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		rev        Revision
		feature    string
	}{
		{"form", askForm, Rev20250326, "elicitation"},
		{"url", askURL, Rev20250326, "elicitation"},
		{"url", askURL, rev20250618, "elicitation by URL"},
		{"tools", askTools, rev20250618, "tools in sampling"},
		{"tools", askTools, Rev20250326, "tools in sampling"},
		{"tool choice", `sampling { messages { role: ROLE_USER content { text {} } } max_tokens: 1 tool_choice {} }`, rev20250618, "tools in sampling"},
	} {
		_, out, err := AppendInputRequest([]byte("before"), parse(t, new(outriggerv1.InputRequest), c.text), c.rev)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Feature != c.feature || unsupported.Revision != c.rev || string(out) != "before" {
			t.Errorf("%s in %s: %v, %q", c.name, c.rev, err, out)
			continue
		}
		if want := "MCP " + c.rev.String() + " has no " + c.feature; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}
