// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// seedConversations adds everything that the modern conversations send.
func seedConversations(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("../../internal/dialect/testdata/modern*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no conversations: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range archive.Files {
			if strings.HasSuffix(part.Name, ".send") {
				body := part.Data
				if _, after, ok := bytes.Cut(body, []byte("\n\n")); ok {
					body = after // the lines before it are headers
				}
				body = bytes.TrimSpace(body)
				f.Add(body, true)
				f.Add(body, false)
			}
		}
	}
}

// repeatedIn are the headers that a client sends with a message.
func repeatedIn(msg mcptest.Envelope) http.Header {
	header := http.Header{}
	header.Set("Mcp-Method", msg.Method)
	meta, _ := lookup(msg.Params, "_meta")
	if raw, ok := lookup(meta, "io.modelcontextprotocol/protocolVersion"); ok {
		version, _ := jsonText(raw)
		header.Set("Mcp-Protocol-Version", version)
	}
	for _, member := range []string{"name", "uri", "taskId"} {
		if raw, ok := lookup(msg.Params, member); ok {
			text, _ := jsonText(raw)
			header.Set("Mcp-Name", encodedHeader(text))
		}
	}
	return header
}

// anything takes whatever a client may send and checks what comes back for it.
type anything struct {
	rig    *mcptest.Rig
	schema *mcpschema.Schema
	logged *observer.ObservedLogs
}

// smallPagesAndAsks has lists of several pages, and questions.
func smallPagesAndAsks(c *configv1.Config) {
	c.Limits.MaxPageEntries, c.Destructive = proto.Int32(5), proto.String("confirm")
}

func newAnything(f *testing.F) *anything {
	f.Helper()
	core, logged := observer.New(zapcore.ErrorLevel)
	return &anything{
		schema: mcpschema.Load(f, mcpschema.Revision20260728), logged: logged,
		// The bridge recovers from panics, and says so in its log.
		rig: mcptest.Start(f, mcptest.Options{Native: mcptest.Desk(), Log: zap.New(core), Configure: smallPagesAndAsks}),
	}
}

// exchange sends a message to the modern era, with the headers that a client
// would send or without any. Whatever it is: a request has one reply, a
// notification none, notifications go before the reply, each message is on one
// line and one that the revision knows, and nothing is left behind.
func (a *anything) exchange(t *testing.T, body []byte, isHTTP bool) {
	t.Helper()
	msg := mcptest.Read(mcptest.Modern, body)
	b := a.rig
	if msg.Method == "subscriptions/listen" {
		b = a.rig.Again(t, smallPagesAndAsks) // its streams end here
	}
	in := &mcptest.Message{
		Dialect: mcptest.Modern, Origin: b.NewOrigin(), Text: string(body), Transport: "test", Route: "test", Caller: "ann",
	}
	if isHTTP {
		in.Header = repeatedIn(msg)
	}
	var back [][]byte
	replied := false
	in.Send = func(message []byte) error {
		if replied {
			t.Errorf("behind the reply: %s", message)
		}
		back = append(back, bytes.Clone(message))
		if bytes.Contains(message, []byte("notifications/subscriptions/acknowledged")) {
			b.EndStreams() // or it would never end
		}
		return nil
	}
	reply := b.Begin(context.Background(), in)()
	replied = true
	if entries := a.logged.TakeAll(); len(entries) > 0 {
		t.Fatalf("%s: %v", entries[0].Message, entries[0].ContextMap())
	}
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d requests are left", n)
	}
	isNotification := msg.IsNotification && msg.Fault == nil
	switch {
	case (reply.Bytes() == nil) != isNotification:
		t.Fatalf("%q is answered with %q", body, reply.Bytes())
	case !isNotification:
		a.check(t, body, append(back, reply.Bytes()), reply.Then)
	case reply.Status != http.StatusAccepted || len(back) > 0:
		t.Errorf("a notification: %d %q", reply.Status, back)
	}
}

// check checks what came back, and what follows it.
func (a *anything) check(t *testing.T, body []byte, back [][]byte, then []byte) {
	t.Helper()
	for _, message := range append(slices.Clip(back), then) {
		if bytes.ContainsAny(message, "\r\n") {
			t.Errorf("more than a line: %q", message)
		}
		if message == nil {
			continue
		}
		if err := a.schema.CheckMessage(mcpschema.FromServer, message); err != nil {
			t.Errorf("%s: %v", message, err)
		}
	}
	reply := back[len(back)-1]
	if err := a.schema.CheckReply(body, reply); err != nil {
		t.Errorf("to %s: %s: %v", body, reply, err)
	}
	if err := a.schema.CheckMessage(mcpschema.FromClient, body); err == nil {
		if err := a.schema.CheckStream(body, back...); err != nil {
			t.Errorf("to %s: %q: %v", body, back, err)
		}
	}
}

func FuzzModernMessage(f *testing.F) {
	seedConversations(f)
	for _, seed := range []string{
		``, `{`, `[]`, `null`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}`,
	} {
		f.Add([]byte(seed), true)
	}
	a := newAnything(f)
	f.Fuzz(a.exchange)
}

// FuzzModernParams is FuzzModernMessage for envelopes that are good, so that
// what is within them is reached.
func FuzzModernParams(f *testing.F) {
	methods := []string{
		"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get",
		"completion/complete", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel",
	}
	for i, seeds := range [][]string{
		{``}, {`"cursor":"x"`, `"cursor":null`},
		{`"name":"sign","inputResponses":{"name":{"action":"accept"}},"requestState":""`, `"name":"route","arguments":{"stop":1e2}`, `"name":"sort"`, `"name":"do","arguments":{"job":"folding"}`, `"name":"wipe"`, `"name":"lab_echo","arguments":{"nonce":"\u0000"}`},
		{`"cursor":""`}, {``}, {`"uri":"desk://notes/1"`, `"uri":"lagoon://vehicles/101"`, `"uri":"a:"`, `"uri":"desk://safe","inputResponses":{}`},
		{``}, {`"name":"greet","arguments":{"name":"x"}`, `"name":"apologise"`},
		{`"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"},"context":{"arguments":{"a":"b"}}`, `"ref":{"type":"ref/resource","uri":"x"}`},
		{`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:b"],"taskIds":["v1.x","t_1"]}`},
		{`"taskId":"v1.AAAA"`}, {`"taskId":"t_","inputResponses":{"a":{"roots":[]}}`}, {`"taskId":""`},
	} {
		for _, params := range seeds {
			f.Add(uint8(i), params, `{"elicitation":{},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `,"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"`, `1`)
			f.Add(uint8(i), params, `{}`, `,"a/b":1,"progressToken":0`, `"\u00e9"`)
		}
	}
	a := newAnything(f)
	f.Fuzz(func(t *testing.T, which uint8, params, capabilities, more, id string) {
		if params != "" {
			params += ","
		}
		body := `{"jsonrpc":"2.0","id":` + id + `,"method":"` + methods[int(which)%len(methods)] + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities + more + `}}}`
		a.exchange(t, []byte(body), which >= 128)
	})
}

// saying is a native backend that answers everything with one message, and tells of an event.
func saying(answer proto.Message, event *outriggerv1.ToolEvent) mcptest.Speaking {
	return mcptest.Speaking{
		Run: func(events func(*outriggerv1.ToolEvent)) *outriggerv1.ToolOutcome {
			if event != nil && events != nil {
				events(event)
			}
			out, _ := answer.(*outriggerv1.ToolOutcome)
			return out
		},
		Answer: func(context.Context, proto.Message, http.Header) (proto.Message, *errmap.Error) { return answer, nil },
	}
}

// answerKind is a request and the message that a backend answers it with.
type answerKind struct {
	method, params string
	message        func() proto.Message
	seeds          []proto.Message
}

// answerKinds are all of them, with what the desk would answer.
func answerKinds(desk *mcptest.Native) []answerKind {
	kinds := []answerKind{
		{"tools/call", `"name":"tidy"`, func() proto.Message { return new(outriggerv1.ToolOutcome) }, nil},
		{"tools/call", `"name":"weigh","arguments":{"parcel":"p"}`, func() proto.Message { return new(outriggerv1.ToolOutcome) }, nil},
		{"tools/call", `"name":"tidy"`, func() proto.Message { return new(outriggerv1.ToolEvent) }, nil},
		{"resources/list", ``, func() proto.Message { return new(outriggerv1.ListResourcesResponse) }, nil},
		{"resources/templates/list", ``, func() proto.Message { return new(outriggerv1.ListResourceTemplatesResponse) }, nil},
		{"resources/read", `"uri":"desk://notes/1"`, func() proto.Message { return new(outriggerv1.ResourceOutcome) }, nil},
		{"prompts/list", ``, func() proto.Message { return new(outriggerv1.ListPromptsResponse) }, nil},
		{"prompts/get", `"name":"greet"`, func() proto.Message { return new(outriggerv1.PromptOutcome) }, nil},
		{"completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":""}`, func() proto.Message { return new(outriggerv1.CompleteResponse) }, nil},
		{"tasks/get", `"taskId":"%"`, func() proto.Message { return new(outriggerv1.Task) }, nil},
	}
	for _, row := range desk.Tools {
		if row.Outcome != nil {
			kinds[0].seeds = append(kinds[0].seeds, row.Outcome)
			kinds[1].seeds = append(kinds[1].seeds, row.Outcome)
		}
		for _, event := range row.Events {
			kinds[2].seeds = append(kinds[2].seeds, event)
		}
		for _, round := range row.Dialogue {
			asks := &outriggerv1.InputRequired{InputRequests: round, RequestState: []byte("s")}
			kinds[0].seeds = append(kinds[0].seeds, &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: asks}})
			kinds[5].seeds = append(kinds[5].seeds, &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_InputRequired{InputRequired: asks}})
			kinds[7].seeds = append(kinds[7].seeds, &outriggerv1.PromptOutcome{Outcome: &outriggerv1.PromptOutcome_InputRequired{InputRequired: asks}})
		}
	}
	resources := &outriggerv1.ListResourcesResponse{}
	for _, row := range desk.Resources {
		if row.Listed != nil {
			resources.Resources = append(resources.Resources, row.Listed)
		}
		kinds[5].seeds = append(kinds[5].seeds, &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{
			Result: &outriggerv1.ResourceResult{Contents: row.Contents, Cache: row.Cache},
		}})
	}
	kinds[3].seeds = append(kinds[3].seeds, resources)
	kinds[4].seeds = append(kinds[4].seeds, &outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: desk.Templates})
	prompts := &outriggerv1.ListPromptsResponse{}
	for _, row := range desk.Prompts {
		prompts.Prompts = append(prompts.Prompts, row.Declared)
		kinds[7].seeds = append(kinds[7].seeds, &outriggerv1.PromptOutcome{Outcome: &outriggerv1.PromptOutcome_Result{Result: row.Result(map[string]string{"name": "x"})}})
	}
	kinds[6].seeds = append(kinds[6].seeds, prompts)
	for _, proposals := range desk.Completions {
		kinds[8].seeds = append(kinds[8].seeds, proposals)
	}
	for _, states := range desk.Tasks {
		for _, state := range states {
			kinds[9].seeds = append(kinds[9].seeds, state)
			kinds[0].seeds = append(kinds[0].seeds, &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: state}})
		}
	}
	return kinds
}

// FuzzBackendAnswers has a backend answer with anything that keeps the contract.
// What callers get for it keeps the official schema, or is an error: a backend's
// mistake must not make the sidecar's messages wrong.
func FuzzBackendAnswers(f *testing.F) {
	desk := mcptest.Desk()
	kinds := answerKinds(desk)
	for i, kind := range kinds {
		for _, seed := range kind.seeds {
			wire, err := proto.Marshal(seed)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(uint8(i), wire)
		}
	}
	schema := mcpschema.Load(f, mcpschema.Revision20260728)
	validate, err := protovalidate.New()
	if err != nil {
		f.Fatal(err)
	}
	rig := mcptest.Start(f, mcptest.Options{Native: desk, NoDemo: true})
	live := rig.Live
	const able = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	f.Fuzz(func(t *testing.T, which uint8, wire []byte) {
		kind := kinds[int(which)%len(kinds)]
		message := kind.message()
		if proto.Unmarshal(wire, message) != nil || validate.Validate(message) != nil {
			return // it never gets here
		}
		says := saying(message, nil)
		if event, ok := message.(*outriggerv1.ToolEvent); ok {
			says = saying(mcptest.Success("", mcptest.TextBlock("x")), event)
		}
		c := modernClient{t: t, caller: "ann", capabilities: able}
		c.bridge = mcptest.Pipe(t, mcptest.Parts{Tools: live, Native: says})
		params := kind.params
		if kind.method == "tasks/get" {
			begun := saying(&outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: proto.CloneOf(desk.Tasks["drying"][0])}}, nil)
			first := c
			first.bridge = mcptest.Pipe(t, mcptest.Parts{Tools: live, Native: begun, Adjust: mcptest.Fixed(t)})
			params = `"taskId":` + string(first.send("tools/call", `"name":"do","arguments":{"job":"drying"}`).Result["taskId"])
			c.bridge = mcptest.Pipe(t, mcptest.Parts{Tools: live, Native: says, Adjust: mcptest.Fixed(t)})
		}
		var back [][]byte
		c.heard = func(m string) { back = append(back, []byte(m)) }
		if params != "" {
			params += ","
		}
		sent := `{"jsonrpc":"2.0","id":1,"method":"` + kind.method + `","params":{` + params +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + able +
			`,"progressToken":"p","io.modelcontextprotocol/logLevel":"debug"}}}`
		got := c.sendRaw(sent)
		err := schema.CheckStream([]byte(sent), append(back, []byte(got.raw))...)
		// The contract passes the schema of a form on unchanged, and the check has
		// no patience with numbers of a million digits.
		if err != nil && !strings.Contains(err.Error(), "/requestedSchema/properties/") && !strings.Contains(err.Error(), "beyond what can be checked") {
			t.Errorf("%v is shown as %s: %v", message, got.raw, err)
		}
		if fault := mcptest.Read(mcptest.Modern, []byte(got.raw)).Fault; fault != nil {
			t.Errorf("%s: %v", got.raw, fault)
		}
	})
}
