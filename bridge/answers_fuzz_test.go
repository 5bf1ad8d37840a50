// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// saying is a native backend that answers everything with one message.
type saying struct {
	answer proto.Message
	event  *outriggerv1.ToolEvent
}

// CallTool implements bridge.Native.
func (s *saying) CallTool(_ context.Context, _ *outriggerv1.ToolCall, _ http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *bridge.Answer, *errmap.Error) {
	if s.event != nil && events != nil {
		events(s.event)
	}
	out, ok := s.answer.(*outriggerv1.ToolOutcome)
	if !ok {
		return nil, nil, errmap.New(errmap.ToolExecutionFailed)
	}
	return out, &bridge.Answer{}, nil
}

// Ask implements bridge.Native.
func (s *saying) Ask(context.Context, proto.Message, http.Header) (proto.Message, *bridge.Answer, *errmap.Error) {
	return s.answer, &bridge.Answer{}, nil
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
		says := &saying{answer: message}
		if event, ok := message.(*outriggerv1.ToolEvent); ok {
			says.event, says.answer = event, mcptest.Success("", mcptest.TextBlock("x"))
		}
		c := modernClient{t: t, caller: "ann", capabilities: able}
		c.bridge = dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Native: says}), dialect.Options{})
		params := kind.params
		if kind.method == "tasks/get" {
			begun := &saying{answer: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: proto.CloneOf(desk.Tasks["drying"][0])}}}
			sealer := mcptest.FixedSealer(t)
			first := c
			first.bridge = dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Native: begun, Sealer: sealer}), dialect.Options{})
			params = `"taskId":` + string(first.send("tools/call", `"name":"do","arguments":{"job":"drying"}`).Result["taskId"])
			c.bridge = dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Native: says, Sealer: sealer}), dialect.Options{})
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
		if msg := jsonrpc.Parse([]byte(got.raw), jsonrpc.ProfileMCP, jsonrpc.Limits{}); msg.Fault != nil {
			t.Errorf("%s: %v", got.raw, msg.Fault)
		}
	})
}
