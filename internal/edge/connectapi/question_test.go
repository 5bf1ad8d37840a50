// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// run makes a unary call that has to work.
func run(t *testing.T, client apiClient, call *outriggerv1.ToolCall) *outriggerv1.ToolOutcome {
	t.Helper()
	resp, err := client.CallTool(t.Context(), connect.NewRequest(call))
	if err != nil {
		t.Fatalf("call %s: %v", call.GetToolName(), err)
	}
	return resp.Msg
}

// again is a call with the answers to what it was asked.
func again(call *outriggerv1.ToolCall, asked *outriggerv1.InputRequired, answers map[string]*outriggerv1.InputResponse) *outriggerv1.ToolCall {
	next := proto.CloneOf(call)
	next.RequestState, next.InputResponses = asked.GetRequestState(), answers
	return next
}

func keysOf(asked *outriggerv1.InputRequired) []string {
	var keys []string
	for key := range asked.GetInputRequests() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// TestATool asks everything that can be asked, in two rounds, on both kinds of
// call.
func aToolAsks(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	call := with(toolCall("interview", `{}`), canAll())
	first := run(t, client, call).GetInputRequired()
	if diff := cmp.Diff([]string{"folders", "name", "slogan"}, keysOf(first)); diff != "" {
		t.Fatalf("asked (-want +got):\n%s", diff)
	}
	if q := first.GetInputRequests()["slogan"].GetSampling(); q.GetMessages()[0].GetContent()[0].GetText().GetText() == "" || q.GetMaxTokens() != 100 {
		t.Errorf("the question to the model is %v", q)
	}
	if bytes.Contains(first.GetRequestState(), []byte("round")) {
		t.Error("the backend's state is not sealed")
	}
	_, outcome, err := stream(t, client, again(call, first, map[string]*outriggerv1.InputResponse{
		"name": accepted(`{"name":"Moana"}`),
		"folders": {Response: &outriggerv1.InputResponse_Roots{Roots: &outriggerv1.ListRootsResult{
			Roots: []*outriggerv1.Root{{Uri: "file:///motu"}},
		}}},
		"slogan": {Response: &outriggerv1.InputResponse_Sampling{Sampling: &outriggerv1.SamplingResult{
			Role: outriggerv1.Role_ROLE_ASSISTANT, Model: "m",
			Content: []*outriggerv1.SamplingContent{{Block: &outriggerv1.SamplingContent_Text{Text: &outriggerv1.TextContent{Text: "Desk!"}}}},
		}}},
	}))
	second := outcome.GetInputRequired()
	if err != nil || !slices.Equal(keysOf(second), []string{"sure"}) {
		t.Fatalf("the second round: %v, %v", outcome, err)
	}
	if bytes.Equal(first.GetRequestState(), second.GetRequestState()) {
		t.Error("both rounds have one state")
	}
	last := run(t, client, again(call, second, map[string]*outriggerv1.InputResponse{"sure": accepted(`{"yes":true}`)}))
	if got := blockText(last.GetResult()); got != "Thank you." {
		t.Errorf("got %q", got)
	}
}

// A state is for its caller and its request, and callers cannot make one.
func aStateIsForOneRequest(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	call := with(toolCall("sign", `{"letter":1}`), canAll())
	asked := run(t, client, call).GetInputRequired()
	answers := map[string]*outriggerv1.InputResponse{"name": accepted(`{"name":"Moana"}`)}
	good := again(call, asked, answers)
	other := again(call, asked, answers)
	other.ArgumentsForm = &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"letter":2}`)}
	forged := again(call, asked, answers)
	forged.RequestState = []byte("round-1")
	for name, try := range map[string]struct {
		client apiClient
		call   *outriggerv1.ToolCall
	}{
		"other arguments": {client, other},
		"a forged state":  {client, forged},
		"another caller":  {stranger(t, tw.url), good},
	} {
		_, err := try.client.CallTool(t.Context(), connect.NewRequest(try.call))
		if code, paths := refusal(t, err); code != errmap.InvalidParams || !slices.Equal(paths, []string{"request_state"}) {
			t.Errorf("%s: got %v at %q", name, err, paths)
		}
	}
	// The same arguments in other words.
	good.ArgumentsForm = &outriggerv1.ToolCall_Arguments{Arguments: &structpb.Struct{Fields: map[string]*structpb.Value{"letter": structpb.NewNumberValue(1)}}}
	if got := blockText(run(t, client, good).GetResult()); got != "Signed by Moana." {
		t.Errorf("got %q", got)
	}
}

// Clients without the capability are not asked.
func whoCannotBeAskedIsTold(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	form := &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}}
	read := func(uri string, can *outriggerv1.ClientCapabilities) error {
		_, err := client.ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{
			Uri: uri, Context: &outriggerv1.RequestContext{Capabilities: can},
		}))
		return err
	}
	call := func(name, arguments string, can *outriggerv1.ClientCapabilities) error {
		c := toolCall(name, arguments)
		if can != nil {
			c.Context = &outriggerv1.RequestContext{Capabilities: can}
		}
		_, err := client.CallTool(t.Context(), connect.NewRequest(c))
		return err
	}
	streamed := func(name string) error {
		_, _, err := stream(t, client, toolCall(name, `{}`))
		return err
	}
	for name, tc := range map[string]struct {
		err  error
		want *outriggerv1.ClientCapabilities
	}{
		"no context":          {call("sign", `{}`, nil), form},
		"no context, as task": {call("begin", `{"job":"printing"}`, nil), &outriggerv1.ClientCapabilities{Tasks: true}},
		"a page, but forms":   {call("pay", `{}`, form), &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Url: true}}},
		"much, but forms": {call("interview", `{}`, form), &outriggerv1.ClientCapabilities{
			Sampling: &outriggerv1.SamplingCapability{}, Roots: &outriggerv1.RootsCapability{},
		}},
		"a stream":   {streamed("sign"), form},
		"a resource": {read("desk://safe", nil), form},
	} {
		got := detail[*outriggerv1.MissingCapabilities](t, tc.err)
		if connect.CodeOf(tc.err) != connect.CodeFailedPrecondition || reason(t, tc.err) != errmap.MissingClientCapability {
			t.Errorf("%s: got %v (%s)", name, tc.err, reason(t, tc.err))
			continue
		}
		if diff := cmp.Diff(tc.want, got.GetRequiredCapabilities(), protocmp.Transform(),
			protocmp.IgnoreFields(&outriggerv1.ClientCapabilities{}, "extensions_json")); diff != "" {
			t.Errorf("%s: missing (-want +got):\n%s", name, diff)
		}
	}
}

func aResourceAndAPromptAsk(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	read := &outriggerv1.ReadResourceRequest{Uri: "desk://safe", Context: canAll()}
	first, err := client.ReadResource(t.Context(), connect.NewRequest(read))
	if err != nil || !slices.Equal(keysOf(first.Msg.GetInputRequired()), []string{"why"}) {
		t.Fatalf("got %v, %v", first, err)
	}
	next := proto.CloneOf(read)
	next.RequestState = first.Msg.GetInputRequired().GetRequestState()
	next.InputResponses = map[string]*outriggerv1.InputResponse{"why": accepted(`{"why":"hunger"}`)}
	second, err := client.ReadResource(t.Context(), connect.NewRequest(next))
	if err != nil || second.Msg.GetResult().GetContents()[0].GetText() != "a coconut" {
		t.Errorf("got %v, %v", second, err)
	}
	next.Uri = "desk://notes/1"
	if _, err = client.ReadResource(t.Context(), connect.NewRequest(next)); reason(t, err) != errmap.InvalidParams {
		t.Errorf("the state of another resource: %v", err)
	}

	get := &outriggerv1.GetPromptRequest{Name: "apologise", Context: canAll()}
	asked, err := client.GetPrompt(t.Context(), connect.NewRequest(get))
	if err != nil || !slices.Equal(keysOf(asked.Msg.GetInputRequired()), []string{"for"}) {
		t.Fatalf("got %v, %v", asked, err)
	}
	get.RequestState = asked.Msg.GetInputRequired().GetRequestState()
	get.InputResponses = map[string]*outriggerv1.InputResponse{"for": accepted(`{"what":"the ink"}`)}
	prompt, err := client.GetPrompt(t.Context(), connect.NewRequest(get))
	if err != nil || prompt.Msg.GetResult().GetMessages()[0].GetContent().GetText().GetText() != "Say sorry." {
		t.Errorf("got %v, %v", prompt, err)
	}
}

// TestAConsentIsGivenAtEverySidecar runs a destructive tool, for which each
// sidecar on the way asks. The user's answer may come in either form.
func aConsentIsGivenAtEverySidecar(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	const key = "outrigger_confirm"
	yes, err := structpb.NewStruct(map[string]any{"confirm": true})
	if err != nil {
		t.Fatal(err)
	}
	forms := []*outriggerv1.InputResponse{
		accepted(`{}`),
		{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: &outriggerv1.ElicitationResult{Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT}}},
		accepted(`{"confirm":true}`),
		{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: &outriggerv1.ElicitationResult{
			Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT, ContentForm: &outriggerv1.ElicitationResult_Content{Content: yes},
		}}},
	}
	for _, answer := range forms {
		call := with(toolCall("wipe", `{"drawer":3}`), canAll())
		questions := 0
		outcome := run(t, client, call)
		for ; outcome.GetInputRequired() != nil; questions++ {
			asked := outcome.GetInputRequired()
			if !slices.Equal(keysOf(asked), []string{key}) || !strings.Contains(asked.GetInputRequests()[key].GetElicitation().GetMessage(), `{"drawer":3}`) {
				t.Fatalf("asked %v", asked)
			}
			outcome = run(t, client, again(call, asked, map[string]*outriggerv1.InputResponse{key: answer}))
		}
		want := 1
		if tw.inner != tw.outer {
			want = 2
		}
		if got := blockText(outcome.GetResult()); got != "All gone." || questions != want {
			t.Errorf("got %q after %d questions, want %d", got, questions, want)
		}
	}
	call := with(toolCall("wipe", `{}`), canAll())
	for _, answer := range []*outriggerv1.InputResponse{
		accepted(`{"confirm":false}`), accepted(`{"confirm":"true"}`), accepted(`{"yes":true}`),
		{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: &outriggerv1.ElicitationResult{Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_DECLINE}}},
	} {
		asked := run(t, client, call).GetInputRequired()
		_, err := client.CallTool(t.Context(), connect.NewRequest(again(call, asked, map[string]*outriggerv1.InputResponse{key: answer})))
		if connect.CodeOf(err) != connect.CodePermissionDenied || reason(t, err) != errmap.DestructiveBlocked {
			t.Errorf("%v: got %v", answer, err)
		}
	}
}

// TestWhatACallCarriesReachesTheBackend holds what the backend got against what
// was sent.
func whatACallCarriesReachesTheBackend(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	const parent, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-11111111111111111111111111111111-2222222222222222-00"
	said := canAll()
	said.ProtocolVersion, said.LogLevel, said.ProgressToken = "2026-07-28", outriggerv1.LogLevel_LOG_LEVEL_NOTICE, big("-123456789012345678901")
	said.ClientInfo = &outriggerv1.Implementation{Name: t.Name()}
	said.Capabilities.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: []byte(`{"x":{"n":9007199254740993}}`)}
	sent := with(toolCall("tidy", `{}`), said)
	sent.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(`{"com.example/a":[1.50,9007199254740993],"traceparent":"` + parent + `"}`)}
	run(t, client, sent)
	var got *outriggerv1.ToolCall
	for _, seen := range tw.desk.Seen() {
		if call, ok := seen.(*outriggerv1.ToolCall); ok && call.GetContext().GetClientInfo().GetName() == t.Name() {
			got = call
		}
	}
	if diff := cmp.Diff(sent, got, protocmp.Transform()); diff != "" {
		t.Errorf("the backend's call (-sent +got):\n%s", diff)
	}

	// The trace context of an RPC is that of its headers, and that of _meta where they have none.
	req := connect.NewRequest(toolCall("lab.inspect", `{}`))
	req.Msg.MetaForm = &outriggerv1.ToolCall_Meta{Meta: &structpb.Struct{Fields: map[string]*structpb.Value{
		"traceparent": structpb.NewStringValue(parent), "tracestate": structpb.NewStringValue("agent=1"), "baggage": structpb.NewStringValue("k=v"),
	}}}
	inspected := func() string {
		t.Helper()
		resp, err := client.CallTool(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return string(resp.Msg.GetResult().GetDataJson())
	}
	body := inspected()
	if !strings.Contains(body, `"traceparent":{"values":["`+parent+`"]}`) || !strings.Contains(body, `"baggage":{"values":["k=v"]}`) || !strings.Contains(body, "agent=1") {
		t.Errorf("without headers, the backend saw %s", body)
	}
	req.Header().Set("Traceparent", other)
	if body = inspected(); !strings.Contains(body, other) || strings.Contains(body, parent) || strings.Contains(body, "agent=1") || !strings.Contains(body, `"k=v"`) {
		t.Errorf("with headers, the backend saw %s", body)
	}
}

// What has not been through a parser is parsed here, wherever it is.
func TestFreeFormPayloadsAreChecked(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Native: mcptest.Desk(), NoDemo: true})
	url := mount(t, ofRig(rig), connectapiDepth(8))
	deep := []byte(strings.Repeat(`{"a":`, 9) + `1` + strings.Repeat(`}`, 9))
	deepStruct := &structpb.Struct{}
	for range 9 {
		deepStruct = &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStructValue(deepStruct)}}
	}
	call := func(change func(*outriggerv1.ToolCall)) func(apiClient) error {
		return func(client apiClient) error {
			c := with(toolCall("tidy", `{}`), canAll())
			change(c)
			_, err := client.CallTool(t.Context(), connect.NewRequest(c))
			_, _, streamed := stream(t, client, c)
			if connect.CodeOf(err) != connect.CodeOf(streamed) {
				t.Errorf("CallTool says %v, CallToolStream %v", err, streamed)
			}
			return err
		}
	}
	read := func(change func(*outriggerv1.ReadResourceRequest)) func(apiClient) error {
		return func(client apiClient) error {
			r := &outriggerv1.ReadResourceRequest{Uri: "desk://notes/1", Context: canAll()}
			change(r)
			_, err := client.ReadResource(t.Context(), connect.NewRequest(r))
			return err
		}
	}
	otherJSON := func(text string) map[string]*outriggerv1.InputResponse {
		return map[string]*outriggerv1.InputResponse{"a/b": {Response: &outriggerv1.InputResponse_OtherJson{OtherJson: []byte(text)}}}
	}
	for _, p := range wires() {
		client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
		for _, tc := range []struct {
			name string
			do   func(apiClient) error
			path string // empty: it is fine
		}{
			{"meta that is an array", call(func(c *outriggerv1.ToolCall) { c.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(`[]`)} }), "meta_json"},
			{"meta that is no JSON", call(func(c *outriggerv1.ToolCall) { c.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(`{"a"`)} }), "meta_json"},
			{"meta with a name twice", call(func(c *outriggerv1.ToolCall) {
				c.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: []byte(`{"a":1,"a":2}`)}
			}), "meta_json.a"},
			{"extensions that are deep", call(func(c *outriggerv1.ToolCall) {
				c.Context.Capabilities.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: deep}
			}), "context.capabilities.extensions_json" + strings.Repeat(".a", 8)},
			{"extensions that are no object", call(func(c *outriggerv1.ToolCall) {
				c.Context.Capabilities.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: []byte(`"x"`)}
			}), "context.capabilities.extensions_json"},
			{"a Struct that is deep", call(func(c *outriggerv1.ToolCall) {
				c.Context.Capabilities.ExperimentalForm = &outriggerv1.ClientCapabilities_Experimental{Experimental: deepStruct}
			}), "context.capabilities.experimental" + strings.Repeat(".a", 8)},
			{"an answer that is no JSON", call(func(c *outriggerv1.ToolCall) { c.InputResponses = otherJSON(`nul`) }), `input_responses["a/b"].other_json`},
			{"an answer of another shape", call(func(c *outriggerv1.ToolCall) { c.InputResponses = otherJSON(`null`) }), ""},
			{"a form that is no object", call(func(c *outriggerv1.ToolCall) {
				c.InputResponses = map[string]*outriggerv1.InputResponse{"x": accepted(`[1]`)}
			}), `input_responses["x"].elicitation.content_json`},
			{"a form", call(func(c *outriggerv1.ToolCall) {
				c.InputResponses = map[string]*outriggerv1.InputResponse{"x": accepted(` {"a":1} `)}
			}), ""},
			{"a root's meta", call(func(c *outriggerv1.ToolCall) {
				c.InputResponses = map[string]*outriggerv1.InputResponse{"x": {Response: &outriggerv1.InputResponse_Roots{Roots: &outriggerv1.ListRootsResult{
					Roots: []*outriggerv1.Root{{Uri: "file:///a"}, {Uri: "file:///b", MetaForm: &outriggerv1.Root_MetaJson{MetaJson: []byte(`12`)}}},
				}}}}
			}), `input_responses["x"].roots.roots[1].meta_json`},
			{"the meta of a reading", read(func(r *outriggerv1.ReadResourceRequest) {
				r.MetaForm = &outriggerv1.ReadResourceRequest_MetaJson{MetaJson: []byte(`[]`)}
			}), "meta_json"},
			{"an answer to a reading", read(func(r *outriggerv1.ReadResourceRequest) { r.InputResponses = otherJSON(`{,}`) }), `input_responses["a/b"].other_json`},
			{"a reading", read(func(r *outriggerv1.ReadResourceRequest) {
				r.MetaForm = &outriggerv1.ReadResourceRequest_MetaJson{MetaJson: []byte(`{"a":1}`)}
			}), ""},
		} {
			t.Run(p.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				err := tc.do(client)
				if tc.path == "" {
					if err != nil {
						t.Errorf("refused: %v", err)
					}
					return
				}
				// In JSON, both forms are read as text.
				code, paths := refusal(t, err)
				for i := range paths {
					paths[i] = strings.Replace(paths[i], ".experimental_json.", ".experimental.", 1)
				}
				if code != errmap.InvalidParams || !slices.Equal(paths, []string{tc.path}) {
					t.Errorf("got %v at %q, want INVALID_PARAMS at %s", err, paths, tc.path)
				}
			})
		}
	}
}
