// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func imageBlock(data []byte) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: data, MimeType: "image/png"}}}
}

func audioBlock(data []byte) *outriggerv1.ContentBlock {
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Audio{Audio: &outriggerv1.AudioContent{Data: data, MimeType: "audio/wav"}}}
}

func embedded(c *outriggerv1.ResourceContents) *outriggerv1.ContentBlock {
	c.Uri = "file:///report"
	return &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{Contents: c}}}
}

// contentPlace is an entry of what _meta says about content.
type contentPlace struct {
	Path       string
	Bytes      int
	Kept, Of   *int
	URI, Until string
}

func contentPlaces(t *testing.T, got modernAnswer) []contentPlace {
	t.Helper()
	raw, _ := jsontext.Lookup(got.Result["_meta"], fit.ReducedKey)
	list, _ := jsontext.Lookup(raw, "content")
	var out []contentPlace
	if err := json.Unmarshal(list, &out); err != nil {
		t.Fatalf("%v: %s", err, got.raw)
	}
	return out
}

// What a native tool returns beside its data, or in place of data, fits its budget too: texts are cut at ends of lines, and what else
// is too large is left out. The whole of each can be read.
func TestContentFits(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	small, large := bytes.Repeat([]byte{0x89}, 60), bytes.Repeat([]byte{0x89, 'P'}, 1000)
	lines := strings.Repeat("a line of the log\n", 100)
	data := `{"total":7}`
	tool := func(name, data string, content ...*outriggerv1.ContentBlock) mcptest.NativeTool {
		return mcptest.NativeTool{Declared: mcptest.JSONTool(name, "Reads.", mcptest.NoArguments, ""), Outcome: mcptest.Success(data, content...)}
	}
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Configure: budgetOf(500), Native: &mcptest.Native{Tools: []mcptest.NativeTool{
		tool("fits", data, mcptest.TextBlock(data), imageBlock(small), audioBlock(small), embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Text{Text: "short"}})),
		tool("beside", data, mcptest.TextBlock(lines), mcptest.TextBlock(data), imageBlock(small)),
		tool("said", `{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+`]}`,
			mcptest.TextBlock(`{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+"]}\nWARNING: rows 3 and 4 are stale")),
		tool("images", data, imageBlock(large), imageBlock(small), audioBlock(large)),
		tool("resources", "", embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Text{Text: lines}, MimeType: "text/markdown"}), embedded(&outriggerv1.ResourceContents{Data: &outriggerv1.ResourceContents_Blob{Blob: large}})),
		tool("logs", "", mcptest.TextBlock(lines), mcptest.TextBlock(lines)),
		tool("both", `{"rows":[`+strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",")+`]}`, imageBlock(large)),
	}}})
	ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann"}
	call := func(name, meta string) ([]contentBlock, modernAnswer) {
		t.Helper()
		got := wanting(ann, `"name":"`+name+`"`, meta)
		if err := schema.Check("CallToolResult", resultOf(got)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return contentOf(t, got), got
	}
	types := func(blocks []contentBlock) string {
		var out []string
		for _, b := range blocks {
			out = append(out, b.Type)
		}
		return strings.Join(out, ",")
	}

	if blocks, got := call("fits", ""); types(blocks) != "text,image,audio,resource" || strings.Contains(got.raw, fit.ReducedKey) {
		t.Errorf("fits: got %s", got.raw)
	}

	// A text that goes on behind the same JSON is not that JSON.
	for _, meta := range []string{"", `"dev.outrigger/fields":"rows.id","dev.outrigger/result-budget":100000`} {
		if _, got := call("said", meta); !strings.Contains(got.raw, "WARNING") && !strings.Contains(got.raw, "lines in /content/0/text") {
			t.Errorf("said: got %s", got.raw)
		}
	}

	blocks, got := call("beside", "")
	if types(blocks) != "text,text,resource_link,text,image" || blocks[0].Text != strings.Repeat("a line of the log\n", 23) || blocks[3].Text != data ||
		!strings.Contains(blocks[1].Text, "all but the first 23 of 100 lines in /content/0/text") || string(got.Result["structuredContent"]) != data {
		t.Errorf("beside: got %s", got.raw)
	}
	if at := contentPlaces(t, got); len(at) != 1 || at[0].Path != "/content/0" || *at[0].Kept != 23 || *at[0].Of != 100 || at[0].Bytes != len(lines) || at[0].URI != blocks[2].URI || at[0].Until == "" {
		t.Errorf("beside: got %+v", at)
	}
	if about := reducedOf(t, got); len(about.Cut) != 0 || about.Bytes != len(lines) || about.Budget != 500 {
		t.Errorf("beside: got %+v", about)
	}
	if whole := read(t, ann, blocks[2].URI); *whole.Text != lines {
		t.Errorf("beside: got %+v", whole)
	}

	blocks, got = call("images", "")
	if types(blocks) != "text,resource_link,image,text,resource_link" || string(got.Result["structuredContent"]) != data {
		t.Fatalf("images: got %s", got.raw)
	}
	for i, want := range map[int]string{0: "An image was left out here: image/png, 2000 bytes", 3: "Audio was left out here: audio/wav, 2000 bytes"} {
		if text := blocks[i].Text; !strings.HasPrefix(text, want) || !strings.Contains(text, "resources/read from "+blocks[i+1].URI) || !strings.Contains(text, "--result-budget") {
			t.Errorf("images: got %s", text)
		}
		if whole := read(t, ann, blocks[i+1].URI); !bytes.Equal(whole.data(), large) || blocks[i+1].Size != len(large) {
			t.Errorf("images: got %+v", whole)
		}
	}
	if at := contentPlaces(t, got); len(at) != 2 || at[0].Path != "/content/0" || at[1].Path != "/content/3" || at[1].Kept != nil {
		t.Errorf("images: got %+v", at)
	}

	blocks, got = call("resources", "")
	if types(blocks) != "text,resource_link,text,resource_link" || !strings.Contains(blocks[0].Text, "An embedded resource was left out here: text/markdown, 1800 bytes") || !strings.Contains(blocks[2].Text, "application/octet-stream") {
		t.Errorf("resources: got %s", got.raw)
	}
	if whole := read(t, ann, blocks[1].URI); *whole.Text != lines {
		t.Errorf("resources: got %+v", whole)
	}

	blocks, got = call("logs", "")
	if at := contentPlaces(t, got); types(blocks) != "text,text,resource_link,text,text,resource_link" || len(at) != 2 || at[1].Path != "/content/3" || !strings.Contains(blocks[4].Text, "/content/3/text") {
		t.Errorf("logs: got %s", got.raw)
	}

	blocks, got = call("both", "")
	if about := reducedOf(t, got); len(about.Cut) != 1 || about.Cut[0].Path != "/rows" || len(contentPlaces(t, got)) != 1 || about.URI != blocks[len(blocks)-1].URI {
		t.Errorf("both: got %s", got.raw)
	}

	// A budget of the call's own may be raised by the call.
	if blocks, got = call("images", `"dev.outrigger/result-budget":300`); !strings.Contains(blocks[0].Text, "budget of 300 bytes") || !strings.Contains(blocks[0].Text, "it may set a larger one") {
		t.Errorf("its own: got %s", got.raw)
	}
	// Programs get all.
	if got := string(replyTo(t.Context(), t, rig.Bridge, dialect.Canonical, "tools/call", `"name":"images"`)); strings.Contains(got, "left out") {
		t.Errorf("a program: got %s", got)
	}
}

// Where nobody can read the whole, a text says what is missing all the same.
func TestContentThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Native: &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: mcptest.JSONTool("images", "Paints.", mcptest.NoArguments, ""), Outcome: mcptest.Success("", imageBlock(make([]byte, 1000))),
	}}}})
	ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann"}
	got := wanting(ann, `"name":"images"`, `"dev.outrigger/result-budget":300`)
	if blocks := contentOf(t, got); len(blocks) != 1 || !strings.Contains(blocks[0].Text, "An image was left out here") || strings.Contains(got.raw, "resources/read") {
		t.Errorf("got %s", got.raw)
	}
}

// wantedTask is a native tool whose call becomes a task with a large result, or with one that has ended.
func wantedTask() *mcptest.Native {
	backend := measuring()
	rows := `{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"id":"1","note":"a note"},`, 50), ",") + `],"total":50}`
	for id, states := range backend.Tasks {
		if id != "kept" && id != "at once kept" {
			continue
		}
		last := states[len(states)-1]
		last.Completion = &outriggerv1.Task_Result{Result: mcptest.Success(rows, imageBlock(make([]byte, 1000))).GetResult()}
	}
	for i, tool := range backend.Tools {
		if tool.Declared.GetName() == "measure" {
			declared, _ := proto.Clone(tool.Declared).(*outriggerv1.Tool)
			declared.OutputSchemaForm = nil
			backend.Tools[i].Declared = declared
		}
	}
	return backend
}

// The result of a task that a native backend runs is as the call wanted it: where somebody asks for it, and where it is told.
func TestTheResultOfABackendsTaskIsAsItsCallWantedIt(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for name, tc := range map[string]struct {
		meta   string
		budget int64
		want   []string
		not    string
	}{
		"all of it": {"", 0, []string{`"total":50`, `"note":"a note"`, `"type":"image"`}, fit.ReducedKey},
		"a mask":    {`"dev.outrigger/fields":"rows.id"`, 0, []string{`"structuredContent":{"rows":[{"id":"1"},{"id":"1"}`, `"type":"image"`}, "note"},
		"a budget": {
			`"dev.outrigger/result-budget":300`, 500,
			[]string{`"budget":300`, `"path":"/rows"`, `"total":50`, "An image was left out here", `"type":"resource_link"`, "resources/read"}, "A call may name",
		},
		"the model's": {"", 500, []string{`"budget":500`, `"path":"/rows"`}, `"type":"image"`},
		"a long mask": {
			`"dev.outrigger/fields":"` + strings.TrimSuffix(strings.Repeat("rows.id,", 250), ",") + `"`, 0, []string{`"note":"a note"`, fit.MaskLost}, fit.ReducedKey,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Native: wantedTask(), NoDemo: true, Configure: budgetOf(tc.budget)})
			heard := make(chan string, 4)
			ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
			begun := wanting(ann, `"name":"measure","arguments":{"job":"kept"}`, tc.meta)
			id := string(begun.Result["taskId"])
			if id == "" || len(id) > 2050 {
				t.Fatalf("no task: %s", begun.raw)
			}
			ended := make(chan modernAnswer, 1)
			go func() { ended <- ann.send("subscriptions/listen", `"notifications":{"taskIds":[`+id+`]}`) }()
			<-heard
			if err := rig.Native.Announce(t.Context(), &outriggerv1.Notification{
				Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: rig.Native.Advance("kept")},
			}); err != nil {
				t.Fatal(err)
			}
			told := <-heard
			rig.Bridge.Feed().Close()
			<-ended
			asked := ann.send("tasks/get", `"taskId":`+id)
			if err := schema.Check("GetTaskResult", resultOf(asked)); err != nil {
				t.Error(err)
			}
			for how, raw := range map[string]string{"asked": asked.raw, "told": told} {
				for _, want := range tc.want {
					if !strings.Contains(raw, want) {
						t.Errorf("%s: it lacks %s: %s", how, want, raw)
					}
				}
				if strings.Contains(raw, tc.not) {
					t.Errorf("%s: it has %s: %s", how, tc.not, raw)
				}
			}
		})
	}
}

// So is that of a task that has ended when the call returns.
func TestTheResultOfATaskThatEndsAtOnceFits(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: wantedTask(), NoDemo: true})
	call := toolCall(rig.Bridge, "desk.measure", `{"job":"at once kept"}`)
	call.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
	call.Wanted = fit.Wanted{Budget: 300, Fields: "rows"}
	resp := rig.Bridge.Handle(t.Context(), call)
	result := resp.ToolOutcome().GetTask().GetResult()
	if data := string(result.GetDataJson()); len(data) > 300 || !strings.HasPrefix(data, `{"rows":[{"id":"1",`) || strings.Contains(data, "total") || !strings.Contains(string(result.GetMetaJson()), fit.ReducedKey) {
		t.Errorf("got %v, %v", resp.Err, result)
	}
}
