// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	optionsv1 "github.com/outrigger-mcp/outrigger/proto/options"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// recording is the configuration of run records with payloads.
func recording(dir string) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.Record.Dir, c.Record.Payloads = proto.String(dir), true
		c.Record.Redact = []string{"nonce"}
	}
}

// runLines are the lines of a file of the run in a directory, each checked against its schema.
func runLines(t *testing.T, dir, file, name string) [][]byte {
	t.Helper()
	raw, err := schemas.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	check := mcptest.Schema(t, raw)
	text, err := os.ReadFile(filepath.Join(dir, "mcp_server", "envelope_validation", ".latest", file))
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	for line := range bytes.Lines(text) {
		if err := check(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		out = append(out, line)
	}
	return out
}

// document is one line of calls.jsonl.
type document struct {
	Timestamp, RequestID, Tool any
	Input, Output              map[string]any
	raw                        []byte
}

func callDocuments(t *testing.T, dir string) []document {
	t.Helper()
	var out []document
	for _, line := range runLines(t, dir, "calls.jsonl", schemas.RecordCall) {
		doc := document{raw: line}
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, doc)
	}
	return out
}

// Every way to call a tool leaves one document on every edge, and the same one. That of a
// call that succeeds holds against the tool's schemas; one that fails has no output.
func TestEveryWayToCallLeavesADocument(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := newGatedBy(t, mcptest.Options{Configure: recording(dir)})
	tools := contracttest.Of(g.bridge.Live.Current())
	var names []string
	for _, to := range []string{"untrusted", "trusted"} {
		g.trust(t, to)
		for _, w := range waysIn() {
			names = append(names, w.name)
			w.ask(t, g, g.order(t))
		}
	}
	http.DefaultClient.CloseIdleConnections()
	g.one.CloseIdleConnections()
	g.two.CloseIdleConnections()
	g.end()
	var got []document
	for _, d := range callDocuments(t, dir) {
		if d.Tool == "fleet.cancel_order" || d.Tool == "desk.tidy" {
			got = append(got, d)
		}
	}
	if len(got) != len(names) {
		t.Fatalf("%d documents for %d calls", len(got), len(names))
	}
	for i, d := range got {
		id, _ := d.Input["orderId"].(string)
		if other, ok := d.Input["order_id"].(string); ok { // as it came
			id = other
		}
		if id == "" {
			t.Errorf("%s: the input is %v", names[i], d.Input)
		}
		if i < len(names)/2 {
			if d.Tool == "fleet.cancel_order" && d.Output != nil {
				t.Errorf("%s: blocked, and has the output %v", names[i], d.Output)
			}
			continue
		}
		if d.Tool != "fleet.cancel_order" {
			continue
		}
		io, err := tools.LoadToolIO("fleet.cancel_order")
		if err != nil {
			t.Fatal(err)
		}
		if err := io.ValidateIO(d.raw); err != nil || len(d.Output) == 0 {
			t.Errorf("%s: %v\n%s", names[i], err, d.raw)
		}
	}
}

// Documents are of calls of tools that exist; a failed one has no output, and a large input
// is left out with a note of its size.
func TestDocumentsOfOtherOutcomes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		recording(dir)(c)
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
			TaskSupport: "optional", TaskAfter: durationpb.New(10 * time.Millisecond),
		}})
	}})
	call := func(tool, arguments string) {
		rig.Handle(t.Context(), toolCall(rig, tool, arguments))
	}
	call("no.such", `{}`)
	call("lab.echo", `{}`)
	call("lab.echo", `{"nonce":"hunter2","signed":"5"}`)
	call("lab.echo", `{"signed":"x"}`)
	call("lab.echo", `[1]`)
	call("lab.echo", `{"payload":"`+strings.Repeat("QUJD", (16<<10)/4)+`"}`)
	answer(t, rig, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`)
	slow := toolCall(rig, "lab.sleep", `{"duration":"0.3s"}`)
	slow.Tasks = true
	if resp := rig.Handle(t.Context(), slow); resp.Outcome.GetTask() == nil {
		t.Fatalf("%v %v", resp.Err, resp.Outcome)
	}
	call("lab.echo", `{"signed":"7"}`)
	rig.End()
	want := []string{
		`"input":{},"output":{"nonce":"[redacted]","signed":"0","unsigned":"0","payload":""}`,
		`"input":{"nonce":"[redacted]","signed":"5"},"output":{"nonce":"[redacted]","signed":"5",`,
		`"input":{"signed":"x"},"output":null`,
		`"input":[1],"output":null`,
		`"input":{"dev.outrigger/omitted":{"bytes":16398,"reason":"too large"}},"output":{"dev.outrigger/omitted":`,
		`"input":{"signed":"7"},"output":{`,
		`"tool":"lab.sleep","input":{"duration":"0.3s"},"output":{`, // where its task has ended
	}
	lines := runLines(t, dir, "calls.jsonl", schemas.RecordCall)
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), bytes.Join(lines, nil))
	}
	for i, line := range lines {
		if !bytes.Contains(line, []byte(want[i])) || !bytes.Contains(line, []byte(`"requestId":"1"`)) {
			t.Errorf("got %.300s\nwant %s", line, want[i])
		}
	}
}

// marked is the demo service's catalog, with fields that are marked as secret at some depth.
func marked(t *testing.T) *descriptorpb.FileDescriptorSet {
	t.Helper()
	set := mcptest.Descriptors(demov1.File_outrigger_demo_v1_fleet_proto, demov1.File_outrigger_demo_v1_lab_proto)
	secret := func(message, name string, mark func(*descriptorpb.FieldOptions)) {
		for _, file := range set.GetFile() {
			for _, m := range file.GetMessageType() {
				for _, f := range m.GetField() {
					if m.GetName() == message && f.GetName() == name {
						if f.Options == nil {
							f.Options = &descriptorpb.FieldOptions{}
						}
						mark(f.GetOptions())
						return
					}
				}
			}
		}
		t.Fatalf("no field %s.%s", message, name)
	}
	secret("PlaceOrderRequest", "customer", func(o *descriptorpb.FieldOptions) { o.DebugRedact = proto.Bool(true) })
	secret("Parcel", "contents", func(o *descriptorpb.FieldOptions) {
		proto.SetExtension(o, optionsv1.E_Field, &optionsv1.FieldOptions{Secret: true})
	})
	return set
}

// Secrets at any depth are in no record, whether they came as JSON or as Protobuf, and binary
// calls are recorded like others.
func TestBinaryCallsAreRecordedAndRedacted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rig := mcptest.Pipe(t, mcptest.Parts{
		From: mcptest.Files(marked(t), "outrigger.demo.v1.Fleet", "outrigger.demo.v1.Lab"), Backend: mcptest.Upstream(mcptest.Echo),
		Configure: func(c *configv1.Config) {
			recording(dir)(c)
			c.Record.Redact = []string{"room"}
			trusted(c)
		},
	})
	url := rig.Serve(t)
	order := &demov1.PlaceOrderRequest{ // breaks the rules of its message, which the record does not mind
		Customer: "hunter2 customer", Destination: &demov1.Destination{}, Parcels: []*demov1.Parcel{{Contents: "hunter2 parcel", WeightKg: 5}},
		Labels: map[string]string{"room": "hunter2 room", "floor": "3"},
	}
	for _, options := range [][]connect.ClientOption{nil, {connect.WithProtoJSON()}, {connect.WithGRPC()}, {connect.WithGRPCWeb()}} {
		_, _ = demov1connect.NewFleetClient(mcptest.Client(t, 2), url, options...).PlaceOrder(t.Context(), connect.NewRequest(order))
		for _, echo := range []*demov1.EchoRequest{{Nonce: "n", Signed: 7}, {}} {
			if _, err := demov1connect.NewLabClient(mcptest.Client(t, 2), url, options...).Echo(t.Context(), connect.NewRequest(echo)); err != nil {
				t.Error(err)
			}
		}
	}
	rig.End()
	for file, name := range map[string]string{"calls.jsonl": schemas.RecordCall, "events.jsonl": schemas.RecordEvent} {
		lines := runLines(t, dir, file, name)
		text := bytes.Join(lines, nil)
		if len(lines) != 12 || bytes.Contains(text, []byte("omitted")) || bytes.Contains(text, []byte("hunter2")) || bytes.Count(text, []byte(`"floor":"3"`)) < 4 || bytes.Count(text, []byte(`"signed":"7"`)) != 8 {
			t.Errorf("%s:\n%s", file, text)
		}
	}
}
