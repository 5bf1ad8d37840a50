// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// runner is a sidecar whose callers run programs on any edge.
type runner struct {
	rig      *mcptest.Rig
	url      string
	one, two *http.Client
}

func newRunner(t *testing.T, rig *mcptest.Rig) *runner {
	t.Helper()
	return &runner{rig: rig, url: rig.Serve(t), one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
}

// programEdge runs a program on one edge and answers each of its questions. It returns the last reply with its quotes as they are, and how
// many questions there were. An answer is yes or no.
type programEdge func(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int)

func programEdges() map[string]programEdge {
	return map[string]programEdge{
		"MCP, modern":       modernRun,
		"MCP, legacy":       legacyRun,
		"stdio, legacy":     stdioRun,
		"/rpc":              rpcRun,
		"ToolService":       apiRun(nil),
		"ToolService, gRPC": apiRun([]connect.ClientOption{connect.WithGRPC()}),
	}
}

// answerOf is an answer to a question.
func answerOf(yes bool) string {
	if yes {
		return saysYes
	}
	return saysNo
}

// postFor sends a request as ctx has it; a context that ended is no fault of the test.
func (g *runner) postFor(ctx context.Context, t *testing.T, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.one.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return &http.Response{Header: http.Header{}, Body: http.NoBody}
	}
	return resp
}

// askedAgain repeats a request with answers as long as its reply has questions.
func askedAgain(t *testing.T, yes bool, send func(more string) []byte) (last string, asked int) {
	t.Helper()
	more := ""
	for range 9 {
		reply := send(more)
		result, _ := lookup(reply, "result")
		asks, ok := lookup(result, "inputRequests")
		if !ok {
			return string(reply), asked
		}
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(asks, &keys); err != nil {
			t.Error(err)
		}
		var responses []string
		for key := range keys {
			responses = append(responses, quoted(key)+`:`+answerOf(yes))
		}
		asked += len(keys)
		more = `,"inputResponses":{` + strings.Join(responses, ",") + `},"requestState":` + quoted(memberOf(t, reply, "requestState"))
	}
	t.Error("too many questions")
	return "", asked
}

func modernRun(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int) {
	t.Helper()
	return askedAgain(t, yes, func(more string) []byte {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"catalog_run","arguments":{"program":` + quoted(source) + `}` + askable + more + `}}`
		resp := g.postFor(ctx, t, "/mcp", body, "Accept", eitherForm, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "catalog_run")
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		if _, event, ok := bytes.Cut(raw, []byte("data: ")); ok {
			raw = bytes.TrimSpace(event)
		}
		return raw
	})
}

func rpcRun(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int) {
	t.Helper()
	return askedAgain(t, yes, func(more string) []byte {
		resp := g.postFor(ctx, t, "/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"catalog.run","arguments":{"program":`+quoted(source)+`}`+
			`,"_meta":{"io.modelcontextprotocol/clientCapabilities":`+asksForm+`}`+more+`}}`)
		defer resp.Body.Close()
		raw, _ := io.ReadAll(resp.Body)
		return raw
	})
}

const legacyOpening = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`

func legacyCall(source string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"catalog_run","arguments":{"program":` + quoted(source) + `}}}`
}

// hear reads messages of a legacy conversation up to the reply to the call. Questions are answered by reply.
func hear(t *testing.T, messages func() (string, bool), yes bool, reply func(string)) (last string, asked int) {
	t.Helper()
	for {
		text, ok := messages()
		if !ok {
			return "", asked
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Errorf("%v: %s", err, text)
			return "", asked
		}
		switch {
		case m.Method == "elicitation/create":
			asked++
			reply(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":` + answerOf(yes) + `}`)
		case m.Method == "" && string(m.ID) == "1":
			return text, asked
		}
	}
}

// legacyRun opens a session and makes the call, whose questions come on its own stream.
func legacyRun(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int) {
	t.Helper()
	opened := g.postFor(t.Context(), t, "/mcp", legacyOpening, "Accept", eitherForm)
	_ = opened.Body.Close()
	session := []string{"Accept", eitherForm, "Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	ready := g.postFor(t.Context(), t, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	_ = ready.Body.Close()
	stop := context.AfterFunc(ctx, func() { // a legacy client says that it cancels
		said := g.postFor(context.WithoutCancel(ctx), t, "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, session...)
		_ = said.Body.Close()
	})
	defer stop()
	resp := g.postFor(t.Context(), t, "/mcp", legacyCall(source), session...)
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 16<<20)
	return hear(t, func() (string, bool) {
		for lines.Scan() {
			text := strings.TrimPrefix(lines.Text(), "data: ")
			if strings.HasPrefix(text, "{") {
				return text, true
			}
		}
		return "", false
	}, yes, func(answer string) {
		said := g.postFor(t.Context(), t, "/mcp", answer, session...)
		_ = said.Body.Close()
	})
}

func stdioRun(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int) {
	t.Helper()
	in, say := io.Pipe()
	read, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := g.rig.Stdio(t.Context(), in, out)
		_ = out.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(read)
	lines.Buffer(nil, 16<<20)
	write := func(text string) { _, _ = io.WriteString(say, text+"\n") }
	write(legacyOpening)
	lines.Scan()
	write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	write(legacyCall(source))
	cancelled := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cancelled)
		write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		_ = say.Close() // nothing is said to a call that was cancelled
	})
	last, asked = hear(t, func() (string, bool) {
		ok := lines.Scan()
		return lines.Text(), ok
	}, yes, write)
	if !stop() {
		<-cancelled
	}
	_ = say.Close()
	_, _ = io.Copy(io.Discard, read)
	if err := <-ended; err != nil {
		t.Errorf("Stdio: %v", err)
	}
	return last, asked
}

func apiRun(options []connect.ClientOption) programEdge {
	return func(ctx context.Context, t *testing.T, g *runner, source string, yes bool) (last string, asked int) {
		t.Helper()
		client := outriggerv1connect.NewToolServiceClient(g.two, g.url, options...)
		call := &outriggerv1.ToolCall{
			ToolName: runName, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"program":` + quoted(source) + `}`)},
			Context: &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}}},
		}
		for range 9 {
			resp, err := client.CallTool(ctx, connect.NewRequest(call))
			if err != nil {
				return rpcError(err), asked
			}
			in := resp.Msg.GetInputRequired()
			if in == nil {
				text, _ := protojson.Marshal(resp.Msg)
				return string(resp.Msg.GetResult().GetDataJson()) + string(text), asked
			}
			call.RequestState, call.InputResponses = in.GetRequestState(), map[string]*outriggerv1.InputResponse{}
			for key := range in.GetInputRequests() {
				asked++
				answer := &outriggerv1.ElicitationResult{Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_DECLINE}
				if yes {
					answer.Action = outriggerv1.ElicitationAction_ELICITATION_ACTION_ACCEPT
				}
				call.InputResponses[key] = &outriggerv1.InputResponse{Response: &outriggerv1.InputResponse_Elicitation{Elicitation: answer}}
			}
		}
		t.Error("too many questions")
		return "", asked
	}
}

// rpcError is an error of an RPC with its details.
func rpcError(err error) string {
	out := err.Error()
	if failed, ok := err.(*connect.Error); ok { //nolint:errorlint // as the client returns it
		for _, d := range failed.Details() {
			if value, _ := d.Value(); value != nil {
				text, _ := protojson.Marshal(value)
				out += "\n" + string(text)
				if detail, ok := value.(*outriggerv1.ErrorDetail); ok {
					out += string(detail.GetErrorDetailsJson())
				}
			}
		}
	}
	return out
}

// TestProgramsOnEveryEdge: a result, all faults, questions once and at each call, an error with what had run: the same on every edge, and
// no call runs twice.
func TestProgramsOnEveryEdge(t *testing.T) {
	t.Parallel()
	all := []string{"Echo", "CancelOrder", "CancelOrder", "Echo"}
	for _, tc := range []struct {
		name      string
		configure func(*configv1.Config)
		source    string
		yes       bool
		asked     int
		ran, want []string
	}{
		{"a result", nil, `result = lab.echo(nonce="n", signed=5).signed`, false, 0, []string{"Echo"}, []string{`"result":5,"ran":[{"tool":"lab.echo","calls":1}]`}},
		{"findings", nil, "a = lab.echo(nonsense=1)\nresult = lab.eco()", false, 0, nil, []string{"INVALID_TOOL_INPUT", "line 1, column", "line 2, column", "lab.echo"}},
		{"arguments of a call", nil, "n = int(\"-5\")\nresult = fleet.get_order(order_id=n)", false, 0, nil,
			[]string{"INVALID_TOOL_INPUT", "line 2, column 10", "fleet.get_order", `order`, `"line":2,"column":10`}},
		{"once, yes", nil, cancels, true, 1, all, []string{`"result":"firstlast"`}},
		{"once, no", nil, cancels, false, 1, nil, []string{"DESTRUCTIVE_BLOCKED"}},
		{"each, yes", askEach, cancels, true, 2, all, []string{`"result":"firstlast"`}},
		{"each, no", askEach, cancels, false, 1, []string{"Echo"}, []string{"DESTRUCTIVE_BLOCKED", `"ran":[{"tool":"lab.echo","calls":1}`, `"line":2`}},
		{"an error", nil, "x = lab.echo(nonce=\"n\")\nfail(\"no \" + x.nonce)\nresult = 1", false, 0, []string{"Echo"}, []string{"TOOL_EXECUTION_FAILED", "no n", `"ran":[{"tool":"lab.echo","calls":1}]`, `"line":2`}},
	} {
		for edge, run := range programEdges() {
			t.Run(tc.name+", "+edge, func(t *testing.T) {
				t.Parallel()
				var backend calledRPCs
				g := newRunner(t, fake(t, backend.echo, both(compacted, asks, tc.configure)))
				last, asked := run(t.Context(), t, g, tc.source, tc.yes)
				if edge == "/rpc" && tc.asked > 0 { // such a caller cannot be asked
					if !containsAll(last, "DESTRUCTIVE_BLOCKED", "line 2, column 1: fleet.cancel_order", "line 3") || asked > 0 || len(backend.all()) > 0 {
						t.Errorf("asked %d times, called %v, got %s", asked, backend.all(), last)
					}
					return
				}
				text := strings.ReplaceAll(strings.ReplaceAll(last, `\`, ``), `": `, `":`)
				for _, want := range tc.want {
					if !strings.Contains(text, want) {
						t.Errorf("there is no %s in %s", want, last)
					}
				}
				if got := backend.all(); !slices.Equal(got, tc.ran) || asked != tc.asked {
					t.Errorf("asked %d times, called %v", asked, got)
				}
			})
		}
	}
}

// TestACancelledProgramOnEveryEdge: its call ends, and no other begins.
func TestACancelledProgramOnEveryEdge(t *testing.T) {
	t.Parallel()
	for edge, run := range programEdges() {
		t.Run(edge, func(t *testing.T) {
			t.Parallel()
			h := newHeld()
			rig := fake(t, h.call, compacted)
			g := newRunner(t, rig)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan string, 1)
			go func() {
				last, _ := run(ctx, t, g, "lab.echo(nonce=\"a\")\nresult = lab.echo(nonce=\"b\").nonce", false)
				ended <- last
			}()
			<-h.entered
			cancel()
			if last := <-ended; strings.Contains(last, `"result":"b"`) {
				t.Errorf("got %s", last)
			}
			if cut := rig.Drain(t.Context()); cut > 0 {
				t.Errorf("%d calls went on", cut)
			}
			if n := len(h.entered); n > 0 {
				t.Errorf("%d more calls began", n)
			}
		})
	}
}
