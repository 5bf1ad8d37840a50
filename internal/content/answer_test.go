// SPDX-License-Identifier: Apache-2.0

package content

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

func TestReadInputResponses(t *testing.T) {
	t.Parallel()
	got, err := ReadInputResponses([]byte(`{"a":{"action":"decline"}, "\u0062": null, "c":{"roots":[]}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]*outriggerv1.InputResponse{
		"a": parse(t, new(outriggerv1.InputResponse), `elicitation { action: ELICITATION_ACTION_DECLINE }`),
		"b": parse(t, new(outriggerv1.InputResponse), `other_json: "null"`),
		"c": parse(t, new(outriggerv1.InputResponse), `roots {}`),
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got, err = ReadInputResponses([]byte(`{}`)); err != nil || len(got) != 0 || got == nil {
		t.Errorf("no answers: %v, %v", got, err)
	}
	if got, err = ReadInputResponses([]byte(pairs(maxAnswers, `1`))); err != nil || len(got) != maxAnswers {
		t.Errorf("%d answers, %v", len(got), err)
	}
	for _, raw := range []string{
		`null`, `[]`, `"a"`, `7`, ``, pairs(maxAnswers+1, `{}`), `{"":{}}`, `{"` + strings.Repeat("k", maxWordBytes+1) + `":{}}`,
	} {
		_, err := ReadInputResponses([]byte(raw))
		checkFault(t, err, "")
	}
}

// longText is a JSON string of n bytes.
func longText(n int) string { return `"` + strings.Repeat("a", n) + `"` }

func TestReadInputResponse(t *testing.T) {
	t.Parallel()
	const message = `{"role":"assistant","model":"m",`
	const base = `sampling { role: ROLE_ASSISTANT model: "m" `
	block := func(raw string) string { return message + `"content":[` + raw + `]}` }
	for _, c := range []struct{ name, raw, want string }{
		{"accept", `{"action":"accept","content":{"n": 9007199254740993.0, "l":["a"], "b":true,"s":""},"x":1,"_meta":{"y": 1}}`,
			`elicitation { action: ELICITATION_ACTION_ACCEPT content_json: '{"n": 9007199254740993.0, "l":["a"], "b":true,"s":""}' meta_json: '{"y": 1}' }`},
		{"accept without content", `{"action":"accept"}`, `elicitation { action: ELICITATION_ACTION_ACCEPT }`},
		{"cancel with null", `{"action":"cancel","content":null}`, `elicitation { action: ELICITATION_ACTION_CANCEL }`},
		{"empty content", `{"action":"accept","content":{"l":[]}}`, `elicitation { action: ELICITATION_ACTION_ACCEPT content_json: '{"l":[]}' }`},
		{"no roots", `{"roots":[]}`, `roots {}`},
		{"roots", `{"roots":[{"uri":"file:///home/a%20b","name":"A","_meta":{}},{"uri":"file:///"}],"_meta":{"a":1}}`,
			`roots { roots { uri: "file:///home/a%20b" name: "A" meta_json: "{}" } roots { uri: "file:///" } meta_json: '{"a":1}' }`},
		{"one block", message + `"content":{"type":"text","text":"a"},"stopReason":"endTurn","_meta":{}}`, base + `content { text { text: "a" } } stop_reason: "endTurn" meta_json: "{}" }`},
		{"no blocks", block(``), base + `}`},
		{"blocks", block(`{"type":"text","text":"","_meta":{}},{"type":"image","data":"AAE=","mimeType":"image/png","annotations":{"audience":["user"],"priority":0.5,"lastModified":"2026-11-01T01:00:00.5+01:00"}},
			{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"tool_use","id":"i","name":"n","input":{"a": 1.0}}`),
			base + `content { text {} meta_json: "{}" }
			content { image { data: "\x00\x01" mime_type: "image/png" } annotations { audience: ROLE_USER priority: 0.5 last_modified { seconds: 1793491200 nanos: 500000000 } } }
			content { audio { data: "\x00" mime_type: "audio/wav" } } content { tool_use { id: "i" name: "n" input_json: '{"a": 1.0}' } } }`},
		{"a tool's result", block(`{"type":"tool_result","toolUseId":"i","isError":true,"structuredContent":null,"content":[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"a/b"},{"type":"audio","data":"AA==","mimeType":"a/b","_meta":{}},
			{"type":"resource_link","uri":"a:b","name":"n","title":"T","description":"D","mimeType":"a/b","size":7,"icons":[{"src":"a:b"}]},{"type":"resource","resource":{"uri":"a:b","text":"","mimeType":"a/b","_meta":{}}},{"type":"resource","resource":{"uri":"a:b","blob":""}}]}`),
			base + `content { tool_result { tool_use_id: "i" is_error: true structured_content_json: "null" content { text { text: "a" } } content { image { data: "\x00" mime_type: "a/b" } } content { audio { data: "\x00" mime_type: "a/b" } meta_json: "{}" }
			content { resource_link { uri: "a:b" name: "n" title: "T" description: "D" mime_type: "a/b" size: 7 icons { src: "a:b" } } } content { resource { contents { uri: "a:b" text: "" mime_type: "a/b" meta_json: "{}" } } } content { resource { contents { uri: "a:b" blob: "" } } } } } }`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ReadInputResponse([]byte(" " + c.raw + "\n"))
			if diff := cmp.Diff(parse(t, new(outriggerv1.InputResponse), c.want), got, protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestOtherAnswers: what has not exactly a shape is kept byte for byte.
func TestOtherAnswers(t *testing.T) {
	t.Parallel()
	const message = `{"role":"assistant","model":"m",`
	block := func(raw string) string { return message + `"content":` + raw + `}` }
	link := func(raw string) string {
		return block(`{"type":"tool_result","toolUseId":"i","content":[{"type":"resource_link",` + raw + `}]}`)
	}
	contents := func(raw string) string {
		return block(`{"type":"tool_result","toolUseId":"i","content":[{"type":"resource","resource":` + raw + `}]}`)
	}
	text := func(raw string) string { return block(`{"type":"text","text":"a",` + raw + `}`) }
	image := func(raw string) string { return block(`{"type":"image",` + raw + `}`) }
	for i, raw := range []string{
		`null`, `7`, `1.50`, `"accept"`, `true`, `[]`, `{}`, `{"x": 1}`, `[{"action":"accept"}]`, `{"Action":"accept"}`,
		`{"action":"Accept"}`, `{"action":""}`, `{"action":null}`, `{"action":["accept"]}`, `{"action":"accept","roots":[]}`, `{"action":"accept","role":"user"}`,
		`{"action":"accept","content":[]}`, `{"action":"accept","content":"{}"}`, `{"action":"accept","content":{"a":null}}`, `{"action":"accept","content":{"a":{}}}`,
		`{"action":"accept","content":{"a":[1]}}`, `{"action":"accept","content":{"a":["b",null]}}`, `{"action":"accept","_meta":1}`, `{"action":"accept","_meta":null}`,
		`{"action":"accept","content":{"a":` + longText(maxValueBytes) + `}}`, `{"action":"accept","_meta":{"a":` + longText(maxValueBytes) + `}}`,
		`{"roots":null}`, `{"roots":{}}`, `{"roots":[7]}`, `{"roots":[{}]}`, `{"roots":[{"uri":""}]}`, `{"roots":[{"uri":"/home"}]}`, `{"roots":[{"uri":"file:///a b"}]}`,
		`{"roots":[{"uri":"file:///a","name":null}]}`, `{"roots":[{"uri":"file:///a","_meta":[]}]}`, `{"roots":` + times(maxItems+1, `{"uri":"file:///a"}`) + `}`,
		`{"role":"assistant"}`, message + `"content":null}`, message + `"x":1}`, message + `"content":"a"}`, message + `"content":[[]]}`, message + `"content":` + times(maxItems+1, `{"type":"text","text":""}`) + `}`,
		`{"role":"system","model":"m","content":[]}`, `{"role":"assistant","content":[]}`, `{"role":"assistant","model":7,"content":[]}`, `{"role":"assistant","model":` + longText(maxNameBytes+1) + `,"content":[]}`,
		message + `"content":[],"stopReason":null}`, message + `"content":[],"_meta":""}`,
		block(`{}`), block(`{"type":"text"}`), block(`{"type":"text","text":7}`), block(`{"type":"video","data":"AA=="}`), block(`{"type":"resource_link","uri":"a:b","name":"n"}`),
		text(`"_meta":[]`), text(`"annotations":[]`), text(`"annotations":{"audience":"user"}`), text(`"annotations":{"audience":["system"]}`), text(`"annotations":{"audience":[7]}`),
		text(`"annotations":{"audience":["user","user"]}`), text(`"annotations":{"priority":1.1}`), text(`"annotations":{"priority":"1"}`), text(`"annotations":{"priority":1e999}`),
		text(`"annotations":{"lastModified":"yesterday"}`), text(`"annotations":{"lastModified":"0000-01-01T00:00:00Z"}`), text(`"annotations":{"lastModified":7}`),
		image(`"data":"AA==","x":1`), image(`"mimeType":"image/png"`), image(`"data":"","mimeType":"image/png"`), image(`"data":"AA","mimeType":"image/png"`), image(`"data":"A A=","mimeType":"image/png"`),
		image(`"data":"AB==","mimeType":"image/png"`), image(`"data":"AA==","mimeType":"png"`), image(`"data":"AA==","mimeType":"image/ png"`), image(`"data":"AA==","mimeType":"a b/c"`), image(`"data":"AA==","mimeType":""`),
		block(`{"type":"tool_use","id":"","name":"n","input":{}}`), block(`{"type":"tool_use","id":"i","name":"","input":{}}`), block(`{"type":"tool_use","id":"i","name":"n"}`), block(`{"type":"tool_use","id":"i","name":"n","input":[]}`),
		block(`{"type":"tool_result","toolUseId":"","content":[]}`), block(`{"type":"tool_result","toolUseId":"i"}`), block(`{"type":"tool_result","toolUseId":"i","content":{}}`), block(`{"type":"tool_result","toolUseId":"i","content":[],"isError":"no"}`),
		block(`{"type":"tool_result","toolUseId":"i","content":[{"type":"tool_use","id":"i","name":"n","input":{}}]}`), block(`{"type":"tool_result","toolUseId":"i","content":[7]}`),
		link(`"name":"n"`), link(`"uri":"a:b"`), link(`"uri":"a","name":"n"`), link(`"uri":"a:b","name":"n","size":-1`), link(`"uri":"a:b","name":"n","size":1.0`), link(`"uri":"a:b","name":"n","icons":{}`), link(`"uri":"a:b","name":"n","title":null`),
		contents(`null`), contents(`{"uri":"a:b"}`), contents(`{"uri":"a:b","text":"","blob":""}`), contents(`{"text":""}`), contents(`{"uri":"a:b","text":null}`), contents(`{"uri":"a:b","blob":"A"}`), contents(`{"uri":"a:b","text":"","_meta":7}`),
	} {
		got := ReadInputResponse([]byte(raw))
		other, ok := got.GetResponse().(*outriggerv1.InputResponse_OtherJson)
		if !ok || string(other.OtherJson) != raw {
			t.Errorf("%s: %.200s became %.200v", strconv.Itoa(i), raw, got)
		}
	}
}

// TestSamples reads the official samples of everything that is read.
func TestSamples(t *testing.T) {
	t.Parallel()
	for name, raw := range samples(t, "ClientCapabilities") {
		if _, err := ReadCapabilities(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for definition, want := range map[string]any{
		"ElicitResult": new(outriggerv1.InputResponse_Elicitation), "CreateMessageResult": new(outriggerv1.InputResponse_Sampling), "ListRootsResult": new(outriggerv1.InputResponse_Roots),
	} {
		for name, raw := range samples(t, definition) {
			if got := ReadInputResponse(raw).GetResponse(); cmp.Diff(typeName(want), typeName(got)) != "" {
				t.Errorf("%s/%s is read as %T", definition, name, got)
			}
		}
	}
	for name, raw := range samples(t, "InputResponses") {
		got, err := ReadInputResponses(raw)
		if err != nil || got["github_login"].GetElicitation() == nil || got["capital_of_france"].GetSampling() == nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, raw := range samples(t, "SubscriptionsListenRequest") {
		f, err := ReadChangeFilter(memberAt(raw, "params", "notifications"))
		out, _ := AppendChangeFilter(nil, f)
		if err != nil || !sameJSON(t, out, memberAt(raw, "params", "notifications")) {
			t.Errorf("%s became %s, %v", name, out, err)
		}
	}
	for name, raw := range samples(t, "CompleteRequestParams") {
		if r, err := ReadCompleteRequest(raw); err != nil || r.GetPrompt() != "code_review" {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	for name, raw := range samples(t, "GetPromptRequestParams") {
		if a, err := ReadPromptArguments(memberAt(raw, "arguments")); err != nil || a["code"] != "def hello():\n    print('world')" {
			t.Errorf("%s: %v, %v", name, a, err)
		}
		if i, err := ReadImplementation(memberAt(raw, "_meta", "io.modelcontextprotocol/clientInfo")); err != nil || i.GetName() != "ExampleClient" {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

// TestSampleBlocks: the official samples of content, read and written, mean what
// they meant.
func TestSampleBlocks(t *testing.T) {
	t.Parallel()
	for _, definition := range []string{"TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource", "ToolUseContent", "ToolResultContent"} {
		for name, raw := range samples(t, definition) {
			var r reader
			w := newWriter(nil, Rev20260728)
			var block proto.Message = new(outriggerv1.ContentBlock)
			if strings.HasPrefix(definition, "Tool") {
				block = new(outriggerv1.SamplingContent)
			}
			r.message(jsontext.Trim(raw), block)
			w.object(block)
			out, err := w.done()
			if r.err != nil || err != nil || !sameJSON(t, raw, out) {
				t.Errorf("%s/%s became %s: %v, %v", definition, name, out, r.err, err)
			}
		}
	}
}
