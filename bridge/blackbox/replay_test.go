// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	spb "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// plainRecords records everything below a directory.
func plainRecords(dir string) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Record.Dir, c.Record.Payloads = proto.String(dir), true }
}

// TestOperationsAreReplayed: an operation is replayed as one that has ended, with what it ended with, for callers of tools and typed ones.
func TestOperationsAreReplayed(t *testing.T) {
	t.Parallel()
	address := wireText(wireText(nil, 1, "1 Street"), 2, "Town")
	customer := wirePart(wireText(wireText(nil, 1, "Ann"), 2, "ann@example.com"), 3, address)
	ends := map[string]*longrunningpb.Operation{
		"1": {Name: "operations/1", Done: true, Result: &longrunningpb.Operation_Response{Response: &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Customer", Value: customer}}},
		"2": {Name: "operations/2", Done: true, Result: &longrunningpb.Operation_Error{Error: &spb.Status{Code: 9, Message: "no such file"}}},
	}
	parts := func(configure func(*configv1.Config)) mcptest.Parts {
		return mcptest.Parts{From: mcptest.Files(taintDescriptors(byPolicy), "shop.v1.Shop", "google.longrunning.Operations"), Configure: both(trusted, configure)}
	}
	ask := func(rig *mcptest.Rig, id string) []string {
		tool := all(rig.Handle(t.Context(), &mcptest.Call{Tool: "shop.import", Arguments: `{"id":"` + id + `"}`}))
		typed := rig.Handle(t.Context(), &mcptest.Call{Procedure: "/shop.v1.Shop/Import", Wire: wireText(nil, 1, id), IsWire: true})
		return []string{tool, all(typed)}
	}
	dir := t.TempDir()
	live := parts(plainRecords(filepath.Join(dir, "records")))
	live.Backend = mcptest.Upstream(func(_ context.Context, _ *mcptest.Method, in []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
		wire, err := proto.Marshal(ends[strings.TrimLeft(string(in), "\n\x01")])
		if err != nil {
			t.Error(err)
		}
		return &mcptest.Answer{Body: wire}, nil
	})
	rig := mcptest.Pipe(t, live)
	recorded := map[string][]string{"1": ask(rig, "1"), "2": ask(rig, "2")}
	rig.End()
	again := mcptest.Recorded(t, filepath.Join(dir, "records"), "exact", parts(nil))
	for id, want := range recorded {
		if got := ask(again, id); got[0] != want[0] && (id == "1" || !strings.HasPrefix(got[0], before(want[0], "result:"))) {
			t.Errorf("%s: replayed as %s, want %s", id, got[0], want[0])
		} else if !strings.Contains(got[1], "operations/") && id == "1" {
			t.Errorf("a typed caller gets %s", got[1])
		}
	}
	if got := ask(again, "3"); !strings.Contains(got[0], "was recorded") {
		t.Errorf("what was not recorded: %s", got[0])
	}
	mock := mcptest.Recorded(t, "", "exact", parts(nil))
	first, second := ask(mock, "1"), ask(mock, "1")
	if first[0] != second[0] || first[1] != second[1] || !strings.Contains(first[0], `"name":`) || strings.Contains(first[0], "outrigger_operation") {
		t.Errorf("invented: %s, then %s", first, second)
	}
}

// before is what a text has before another one.
func before(text, end string) string {
	head, _, _ := strings.Cut(text, end)
	return head
}

// TestDocumentsAreReplayed: a document in the result is replayed, of one that was too large the record has no bytes.
func TestDocumentsAreReplayed(t *testing.T) {
	t.Parallel()
	for mediaType, data := range map[string]string{
		"text/markdown": "# hi", "image/png": "\x89PNG", "audio/wav": "RIFF", "application/pdf": "%PDF", "application/zip": strings.Repeat("PK", 40_000),
	} {
		wire, err := proto.Marshal(&httpbody.HttpBody{ContentType: mediaType, Data: []byte(data)})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "records")
		ann := fetching(t, wire, plainRecords(dir))
		want := string(ann.send("tools/call", `"name":"archive_fetch"`).Result["content"])
		ann.bridge.End()
		parts := mcptest.Parts{From: mcptest.Files(documents(), "archive.Archive")}
		ann = modernClient{t: t, bridge: mcptest.Recorded(t, dir, "exact", parts)}
		got := ann.send("tools/call", `"name":"archive_fetch"`)
		if isWhole := len(data) < 1000; isWhole != (got.toolError() == "") || isWhole && string(got.Result["content"]) != want {
			t.Errorf("%s: replayed as %.500s, want %.500s", mediaType, got.raw, want)
		}
	}
}

// TestNativeToolsAreReplayed: a run records the tools of a native backend and what they answered: data, text, resources and failures.
// Without the backend, the record answers, and data can be invented.
func TestNativeToolsAreReplayed(t *testing.T) {
	t.Parallel()
	const output = `{"type":"object","properties":{"id":{"type":"string"},"left":{"type":"integer","minimum":3,"maximum":5},"on":{"type":"string","format":"date"}},"required":["id","left"]}`
	link := &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{
		Contents: &outriggerv1.ResourceContents{Uri: "desk://notes/1", MimeType: "text/plain", Data: &outriggerv1.ResourceContents_Text{Text: "a note"}},
	}}}
	failure := &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "OutOfInk", ErrorMessage: "There is no ink left."},
	}}}
	tools := []mcptest.NativeTool{
		{Declared: mcptest.JSONTool("stock", "Counts.", `{"type":"object","properties":{"id":{"type":"string"},"deep":{"type":"boolean"}},"required":["id"]}`, output), Outcome: mcptest.Success(`{"id":"7","left":4}`)},
		{Declared: mcptest.JSONTool("say", "Says.", mcptest.NoArguments, ""), Outcome: mcptest.Success("", mcptest.TextBlock("hi"), link)},
		{Declared: mcptest.JSONTool("fail", "Fails.", mcptest.NoArguments, ""), Outcome: failure},
		{Declared: mcptest.JSONTool("refuse", "Refuses.", mcptest.NoArguments, ""), Err: connect.NewError(connect.CodeNotFound, errors.New("no such shelf"))},
		{Declared: mcptest.JSONTool("doubt", "Asks.", mcptest.NoArguments, ""), Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{
			InputRequests: map[string]*outriggerv1.InputRequest{"sure": mcptest.AskForm("Sure?", `{"type":"object","properties":{"sure":{"type":"boolean"}}}`)},
		}}}},
	}
	dir := t.TempDir()
	rig := mcptest.Start(t, mcptest.Options{NoDemo: true, Native: &mcptest.Native{Tools: tools}, Configure: plainRecords(dir)})
	calls := []string{`"name":"stock","arguments":{"id":"7"}`, `"name":"say"`, `"name":"fail"`, `"name":"refuse"`}
	ask := func(rig *mcptest.Rig, call string) string {
		got := modernClient{t: t, bridge: rig, caller: "ann", capabilities: canAsk}.send("tools/call", call).Result
		return string(got["content"]) + string(got["structuredContent"]) + string(got["isError"])
	}
	want := map[string]string{}
	for _, call := range calls {
		want[call] = ask(rig, call)
	}
	ask(rig, `"name":"doubt"`)
	rig.End()
	run := filepath.Join(dir, "mcp_server", "envelope_validation", ".latest")
	without := func(change func(*configv1.Config)) func(*configv1.Config) {
		return func(c *configv1.Config) {
			c.Backend.Url, c.Catalog.Native, c.Catalog.Descriptors = "", nil, []string{filepath.Join(run, "tools.json")}
			change(c)
		}
	}
	replayed := rig.Again(t, without(func(c *configv1.Config) { c.Replay = &configv1.Replay{Dir: run, Match: proto.String("fuzzy")} }))
	for _, call := range calls {
		if got := ask(replayed, call); got != want[call] {
			t.Errorf("%s: replayed as\n%s, want\n%s", call, got, want[call])
		}
	}
	if got := ask(replayed, `"name":"stock","arguments":{"deep":true,"id":"7"}`); got != want[calls[0]] {
		t.Errorf("the same thing otherwise: %s", got)
	}
	for _, call := range []string{`"name":"stock","arguments":{"id":"8"}`, `"name":"doubt"`} {
		if got := ask(replayed, call); !strings.Contains(got, "was recorded") || !strings.Contains(got, "]true") {
			t.Errorf("%s, which was not recorded: %s", call, got)
		}
	}
	mock := rig.Again(t, without(func(c *configv1.Config) { c.Mock = true }))
	first, second := ask(mock, calls[0]), ask(mock, calls[0])
	if first != second || !strings.Contains(first, `"left":`) || !strings.Contains(first, "false") || strings.Contains(first, "INVALID_TOOL_OUTPUT") {
		t.Errorf("invented: %s, then %s", first, second)
	}
	if got := ask(mock, calls[1]); !strings.Contains(got, "no call of desk.say was recorded") {
		t.Errorf("a tool without an output schema: %s", got)
	}
}
