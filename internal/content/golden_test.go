// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// written is one thing that is written, and how the official schema sees it.
type written struct {
	name string
	// text is the message in Protobuf's text format.
	text string
	rev  Revision
	// write appends the message.
	write func(t *testing.T, dst []byte, text string, rev Revision) ([]byte, error)
	// around makes a whole document of what was written, where %s represents it;
	// empty means that it is one.
	around string
	// definition is what the document is in the official schema; empty where the
	// schema has none.
	definition string
}

// writes makes a written.write of an Append function.
func writes[T proto.Message](empty func() T, write func(dst []byte, m T, rev Revision) ([]byte, error)) func(*testing.T, []byte, string, Revision) ([]byte, error) {
	return func(t *testing.T, dst []byte, text string, rev Revision) ([]byte, error) {
		t.Helper()
		return write(dst, parse(t, empty(), text), rev)
	}
}

// anew returns an empty message.
func anew[T any]() *T { return new(T) }

// goldens are the outputs that are kept, by file.
func goldens() map[string][]written {
	return map[string][]written{
		"content":       contentGoldens(),
		"result":        resultGoldens(),
		"resource":      resourceGoldens(),
		"prompt":        promptGoldens(),
		"completion":    completionGoldens(),
		"tool":          toolGoldens(),
		"question":      questionGoldens(),
		"task":          taskGoldens(),
		"event":         eventGoldens(),
		"client":        clientGoldens(),
		"change_filter": filterGoldens(),
	}
}

func TestGoldens(t *testing.T) {
	t.Parallel()
	var official validators
	for file, cases := range goldens() {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, c := range cases {
				out := c.output(t)
				fmt.Fprintf(&got, "# %s (%s)\n%s\n", c.name, c.rev, out)
			}
			compareGolden(t, filepath.Join("testdata", "golden", file+".txt"), got.String())
			for _, c := range cases {
				if c.definition == "" {
					continue
				}
				t.Run(c.name+" "+c.rev.String(), func(t *testing.T) {
					t.Parallel()
					doc := c.output(t)
					if c.around != "" {
						doc = fmt.Appendf(nil, c.around, doc)
					}
					official.check(t, c.rev, c.definition, doc)
				})
			}
		})
	}
}

// output writes the case behind other bytes, twice, and checks what holds for
// everything that is written.
func (c written) output(t *testing.T) []byte {
	t.Helper()
	const before = `{"before":[`
	out, err := c.write(t, []byte(before), c.text, c.rev)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	again, err := c.write(t, nil, c.text, c.rev)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	if string(out) != before+string(again) {
		t.Fatalf("%s: behind other bytes it is\n%s\nalone\n%s", c.name, out, again)
	}
	checkCompact(t, again)
	return again
}

// checkCompact checks that what was written, a value or the members of an object,
// is strict and compact JSON.
func checkCompact(t testing.TB, out []byte) {
	t.Helper()
	doc := out
	if jsonrpc.Check(doc, jsonrpc.Limits{MaxBytes: maxFreeFormBytes, MaxDepth: 200}) != nil {
		doc = append(append([]byte{'{'}, out...), '}')
	}
	if f := jsonrpc.Check(doc, jsonrpc.Limits{MaxBytes: maxFreeFormBytes, MaxDepth: 200}); f != nil {
		t.Fatalf("no JSON: %v\n%s", f, out)
	}
	if !jsontext.IsCompact(out) {
		t.Fatalf("not compact: %s", out)
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s changed (-want +got):\n%s", path, diff)
	}
}

// every makes a case for each of the revisions.
func every(c written, revisions ...Revision) []written {
	out := make([]written, 0, len(revisions))
	for _, rev := range revisions {
		c.rev = rev
		out = append(out, c)
	}
	return out
}

// allBlocks is a result with one block of every kind and everything in it.
const allBlocks = `
	status: "success"
	content { text { text: "a \"quoted\" <b>&</b> line\nbreak \\ tab\t \x01 \u2028 \U0001F600" } }
	content { text {} meta_json: '{"com.example/n": 9007199254740993 , "f":1.50}' }
	content {
		image { data: "\x89PNG\x00" mime_type: "image/png" }
		annotations { audience: ROLE_USER audience: ROLE_ASSISTANT priority: 0.25 last_modified { seconds: 1793491200 nanos: 120000000 } }
	}
	content { audio { data: "RIFF" mime_type: "audio/wav" } annotations { priority: 0 } }
	content { audio { data: "R" mime_type: "audio/wav" } annotations {} meta { fields { key: "k" value { list_value { values { number_value: -0.5 } values { null_value: NULL_VALUE } } } } } }
	content { resource_link {
		uri: "shop://orders/42" name: "order" title: "Order 42" description: "An order." mime_type: "application/json" size: 0
		icons { src: "data:image/png;base64,AA==" mime_type: "image/png" sizes: "48x48" sizes: "any" theme: "dark" }
	} }
	content { resource_link { uri: "shop://orders/43" name: "order" } }
	content { resource { contents { uri: "file:///a.txt" mime_type: "text/plain" text: "" meta_json: "{}" } } }
	content { resource { contents { uri: "file:///a.bin" blob: "\x00\xff" } } }
	content { resource { contents { uri: "file:///empty" blob: "" } } }`

func contentGoldens() []written {
	c := written{
		name: "every kind of block", text: allBlocks, around: `{"resultType":"complete","content":%s}`, definition: "CallToolResult",
		write: writes(anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult, rev Revision) ([]byte, error) {
			return AppendContent(dst, r.GetContent(), rev)
		}),
	}
	none := c
	none.name, none.text = "no block", ``
	return append(every(c, Rev20260728, Rev20251125, rev20250618, Rev20250326), every(none, Rev20260728)...)
}

func resultGoldens() []written {
	base := written{
		around: `{"resultType":"complete",%s}`, definition: "CallToolResult",
		write: writes(anew[outriggerv1.ToolResult], AppendToolResult),
	}
	meta := written{
		around: `{"resultType":"complete","content":[],"_meta":{%s}}`, definition: "CallToolResult",
		write: writes(anew[outriggerv1.ToolResult], func(dst []byte, r *outriggerv1.ToolResult, _ Revision) ([]byte, error) {
			return AppendResultMeta(dst, r)
		}),
	}
	var out []written
	for _, c := range []struct{ name, text string }{
		{"object", `status: "success" data_json: ' { "id" : "4\\"2" , "n":9007199254740993.10 } '`},
		{"struct", `status: "success" data { struct_value { fields { key: "b" value { number_value: 1e21 } } fields { key: "a" value { bool_value: false } } } }`},
		{"array", `status: "success" data_json: "[1,2]"`},
		{"string", `status: "success" data_json: '"a"'`},
		{"null", `status: "success" data_json: " null"`},
		{"null value", `status: "success" data { null_value: NULL_VALUE }`},
		{"nothing", `status: "success"`},
		{"explained", `status: "success" data_json: "{}" explanation: "Because."`},
		{"no change", `status: "no_change_needed"`},
		{"no change, data", `status: "no_change_needed" data_json: '{"a":1}'`},
		{"no change, explained", `status: "no_change_needed" explanation: "It was there already."`},
		{"partial", `status: "partial_success" data_json: '{"done":2}'`},
		{"partial, error", `status: "partial_success" data_json: '{"done":2}' explanation: "Ask for the rest." error { error_type: "TimeoutError" error_message: "Two of three." }`},
		{"failure", `status: "failure" error { error_type: "ToolExecutionError" error_message: "No such order." error_details_json: '{"id": "42"}' }`},
		{"failure, explained", `status: "failure" explanation: "Look it up first." data_json: "null" error { error_type: "X" error_message: "No such order." error_details { string_value: "d" } }`},
		{"given content", `status: "success" data_json: '{"a": [1]}' explanation: "Because." content { text { text: "shown" } }`},
		{"given content with the data", `status: "success" data_json: '{"a": [1]}' content { text { text: '{"a":[1]}' } }`},
		{"failure with given content", `status: "failure" error { error_message: "Why." } content { text { text: "shown" } }`},
	} {
		base.name, base.text = c.name, c.text
		out = append(out, every(base, Rev20260728, Rev20251125, Rev20250326)...)
		meta.name, meta.text = c.name+", _meta", c.text
		out = append(out, meta)
	}
	base.name, base.text = "array", `status: "success" data_json: "[1,2]"`
	return append(out, every(base, rev20250618)...)
}

func resourceGoldens() []written {
	list := func(member, definition string) (string, string) {
		return `{"resultType":"complete","ttlMs":0,"cacheScope":"private","` + member + `":%s}`, definition
	}
	resources := written{
		name: "resources",
		text: `
			resources { uri: "file:///a" name: "a" }
			resources {
				uri: "file:///b" name: "b" title: "B" description: "The b." mime_type: "text/plain" size: 9223372036854775807
				icons { src: "https://example.com/b.png" } annotations { audience: ROLE_USER } meta_json: '{"x":{}}'
			}`,
		write: writes(anew[outriggerv1.ListResourcesResponse], func(dst []byte, r *outriggerv1.ListResourcesResponse, _ Revision) ([]byte, error) {
			return AppendResources(dst, r.GetResources())
		}),
	}
	resources.around, resources.definition = list("resources", "ListResourcesResult")
	noResources := resources
	noResources.name, noResources.text = "no resources", ``
	templates := written{
		name: "templates",
		text: `
			resource_templates { uri_template: "shop://orders/{id}" name: "order" }
			resource_templates {
				uri_template: "shop://orders/{+path}" name: "b" title: "B" description: "The b." mime_type: "text/plain"
				icons { src: "https://example.com/b.png" } annotations { priority: 1 } meta { fields { key: "x" value { struct_value {} } } }
			}`,
		write: writes(anew[outriggerv1.ListResourceTemplatesResponse], func(dst []byte, r *outriggerv1.ListResourceTemplatesResponse, _ Revision) ([]byte, error) {
			return AppendTemplates(dst, r.GetResourceTemplates())
		}),
	}
	templates.around, templates.definition = list("resourceTemplates", "ListResourceTemplatesResult")
	contents := written{
		name: "contents",
		text: `
			contents { uri: "file:///a" text: "" }
			contents { uri: "file:///b" mime_type: "image/png" blob: "\x89PNG" meta_json: '{"x": 1}' }`,
		write: writes(anew[outriggerv1.ResourceResult], func(dst []byte, r *outriggerv1.ResourceResult, _ Revision) ([]byte, error) {
			return AppendContents(dst, r.GetContents())
		}),
	}
	contents.around, contents.definition = list("contents", "ReadResourceResult")
	out := every(resources, Rev20260728, Rev20251125)
	out = append(out, noResources)
	out = append(out, every(templates, Rev20260728, Rev20251125)...)
	return append(out, every(contents, Rev20260728, Rev20251125)...)
}

func promptGoldens() []written {
	prompts := written{
		name: "prompts",
		text: `
			prompts { name: "a" }
			prompts {
				name: "b" title: "B" description: "The b." icons { src: "https://example.com/b.png" theme: "light" } meta_json: '{"x":1}'
				arguments { name: "one" title: "One" description: "The first." required: true } arguments { name: "two" }
			}`,
		around: `{"resultType":"complete","ttlMs":0,"cacheScope":"public","prompts":%s}`, definition: "ListPromptsResult",
		write: writes(anew[outriggerv1.ListPromptsResponse], func(dst []byte, r *outriggerv1.ListPromptsResponse, _ Revision) ([]byte, error) {
			return AppendPrompts(dst, r.GetPrompts())
		}),
	}
	messages := written{
		name: "messages",
		text: `
			messages { role: ROLE_USER content { text { text: "Hello" } } }
			messages { role: ROLE_ASSISTANT content { resource_link { uri: "file:///a" name: "a" } annotations { audience: ROLE_USER } } }`,
		around: `{"resultType":"complete","messages":%s}`, definition: "GetPromptResult",
		write: writes(anew[outriggerv1.PromptResult], func(dst []byte, r *outriggerv1.PromptResult, rev Revision) ([]byte, error) {
			return AppendPromptMessages(dst, r.GetMessages(), rev)
		}),
	}
	none := messages
	none.name, none.text = "no messages", ``
	out := append(every(prompts, Rev20260728, Rev20251125), every(messages, Rev20260728, Rev20251125, Rev20250326)...)
	return append(out, none)
}

func completionGoldens() []written {
	c := written{
		around: `{"resultType":"complete","completion":%s}`, definition: "CompleteResult",
		write: writes(anew[outriggerv1.CompleteResponse], func(dst []byte, r *outriggerv1.CompleteResponse, _ Revision) ([]byte, error) {
			return AppendCompletion(dst, r)
		}),
	}
	var out []written
	for _, one := range []struct{ name, text string }{
		{"none", ``}, {"all said", `values: "a" values: "" total: 0 has_more: false`}, {"more", `values: "a" total: 7 has_more: true`},
	} {
		c.name, c.text = one.name, one.text
		out = append(out, every(c, Rev20260728, Rev20251125)...)
	}
	return out
}

func toolGoldens() []written {
	c := written{
		around: `{"resultType":"complete","ttlMs":0,"cacheScope":"public","tools":[%s]}`, definition: "ListToolsResult",
		write: writes(anew[outriggerv1.Tool], appendTool),
	}
	var out []written
	for _, one := range []struct{ name, text string }{
		{"least", `name: "a" input_schema_json: '{"type":"object","additionalProperties":false}'`},
		{"most", `
			name: "shop.find" mcp_name: "shop_find" title: "Find" description: "Finds." icons { src: "https://example.com/i.png" }
			input_schema_json: '{"$schema":"https://json-schema.org/draft/2020-12/schema", "type": "object", "properties":{"any":true,"none":false,"id":{"type":"string","x-mcp-header":"Id"}}, "$defs":{"t":true}}'
			output_schema { fields { key: "type" value { string_value: "object" } } fields { key: "minProperties" value { number_value: 1 } } }
			annotations { title: "Finder" read_only_hint: true destructive_hint: false idempotent_hint: true open_world_hint: false }`},
		{"output of any kind", `name: "a" input_schema_json: '{"type":"object"}' output_schema_json: '{"type":"array","items":{"$ref":"#/$defs/n"},"$defs":{"n":{"type":"integer"}}}' annotations {}`},
	} {
		c.name, c.text = one.name, one.text
		out = append(out, every(c, Rev20260728, Rev20251125, Rev20250326)...)
	}
	return out
}

// appendTool appends a tool, as a question for sampling shows it.
func appendTool(dst []byte, t *outriggerv1.Tool, rev Revision) ([]byte, error) {
	w := newWriter(dst, rev)
	w.object(t)
	return w.done()
}
