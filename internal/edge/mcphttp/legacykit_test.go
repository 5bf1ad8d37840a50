// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Revisions that open with initialize, newest first.
const (
	rev11 = "2025-11-25"
	rev06 = "2025-06-18"
	rev03 = "2025-03-26"
)

func revisions() []string { return []string{rev11, rev06, rev03} }

// allAbilities is what a client declares that can do all there is.
const allAbilities = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{},"context":{}},"roots":{"listChanged":true}}`

// officeOptions change the sidecar of a test.
type officeOptions struct {
	configure func(*configv1.Config)
	http      mcphttp.Options
	session   func(*session.Options)
	feed      func(*notify.FeedOptions)
	// wrap, where set, is around the handler.
	wrap func(http.Handler) http.Handler
	// more are tools besides those of the desk.
	more []mcptest.NativeTool
}

// office starts a sidecar in front of a backend with something of allAbilities.
func office(t testing.TB, o officeOptions) (*mcptest.Rig, string) {
	t.Helper()
	backend := mcptest.Desk()
	backend.Tools = append(backend.Tools, o.more...)
	rig := mcptest.Start(t, mcptest.Options{
		Native: backend, NoDemo: true, Configure: o.configure, Adjust: server.Adjust{Sessions: o.session, Feed: o.feed},
	})
	handler := http.Handler(mcphttp.New(rig.Bridge, o.http))
	if o.wrap != nil {
		handler = o.wrap(handler)
	}
	url := mcptest.Serve(t, handler)
	t.Cleanup(rig.Bridge.Sessions().Close)
	return rig, url
}

// legacy is a client of a legacy revision with a session.
type legacy struct {
	t                testing.TB
	url, version, id string
	http             *http.Client
}

// opening is an initialize.
func opening(version, capabilities string) string {
	return request("initialize", `"protocolVersion":"`+version+`","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}`)
}

// openAs opens a session with an HTTP client.
func openAs(t testing.TB, client *http.Client, url, version, capabilities string) *legacy {
	t.Helper()
	c := &legacy{t: t, url: url, version: version, http: client}
	resp := c.do(http.MethodPost, opening(version, capabilities))
	defer func() { _ = resp.Body.Close() }()
	if c.id = resp.Header.Get("Mcp-Session-Id"); resp.StatusCode != http.StatusOK || c.id == "" {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("initialize: %d %v %s", resp.StatusCode, resp.Header, body)
	}
	return c
}

// openWith opens a session of another client.
func openWith(t testing.TB, url, version, capabilities string) *legacy {
	t.Helper()
	return openAs(t, mcptest.Client(t, 1), url, version, capabilities)
}

// do sends a request with the headers of the session, and "Name: value" ones in
// their place.
func (c *legacy) do(method, body string, headers ...string) *http.Response {
	c.t.Helper()
	resp, err := c.try(c.t.Context(), method, body, headers...)
	if err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	return resp
}

func (c *legacy) try(ctx context.Context, method, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.id != "" {
		req.Header.Set("Mcp-Session-Id", c.id)
		req.Header.Set("MCP-Protocol-Version", c.version)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); value == "" {
			req.Header.Del(name)
		}
	}
	return c.http.Do(req)
}

// post sends one message and returns the whole answer.
func (c *legacy) post(body string, headers ...string) answer {
	c.t.Helper()
	return c.read(c.do(http.MethodPost, body, headers...))
}

// read reads an answer that is no stream.
func (c *legacy) read(resp *http.Response) answer {
	c.t.Helper()
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answerOf(c.t, resp, raw)
}

// sseEvent is one server-sent event; a comment has nothing but its text.
type sseEvent struct {
	id, data, retry, comment string
	hasData                  bool
}

// message is the JSON-RPC message of an event.
func (e sseEvent) message(t testing.TB) *jsonrpc.Message {
	t.Helper()
	m := jsonrpc.Parse([]byte(e.data), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	if m.Fault != nil {
		t.Fatalf("%q is no message: %s", e.data, m.Fault.Reason)
	}
	return &m
}

// sse is an open stream.
type sse struct {
	t      testing.TB
	resp   *http.Response
	lines  *bufio.Reader
	hangUp context.CancelFunc
	last   string // the id of the last event
}

// newSSE reads a stream that has begun.
func newSSE(t testing.TB, resp *http.Response) *sse {
	return &sse{t: t, resp: resp, lines: bufio.NewReader(resp.Body), hangUp: func() {}}
}

// begun is a request whose answer begins later: with the first message of a
// call, say.
type begun struct {
	c      *legacy
	body   string
	hangUp context.CancelFunc
	resp   chan *http.Response
	err    error
}

// begin sends a request and does not wait.
func (c *legacy) begin(method, body string, headers ...string) *begun {
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Limit())
	b := &begun{c: c, body: body, hangUp: cancel, resp: make(chan *http.Response, 1)}
	c.t.Cleanup(cancel)
	go func() {
		resp, err := c.try(ctx, method, body, headers...)
		b.err = err
		b.resp <- resp
	}()
	return b
}

// stream waits for the answer to begin, and wants a stream.
func (b *begun) stream() *sse {
	t := b.c.t
	t.Helper()
	resp := <-b.resp
	if b.err != nil {
		t.Fatalf("%s: %v", b.body, b.err)
	}
	e := newSSE(t, resp)
	e.hangUp = b.hangUp
	t.Cleanup(e.close)
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %d %v %s", b.body, resp.StatusCode, resp.Header, raw)
	}
	return e
}

// answer waits for the whole answer, which is no stream.
func (b *begun) answer() answer {
	b.c.t.Helper()
	resp := <-b.resp
	if b.err != nil {
		b.c.t.Fatalf("%s: %v", b.body, b.err)
	}
	return b.c.read(resp)
}

// stream sends a request that is answered with a stream at once.
func (c *legacy) stream(method, body string, headers ...string) *sse {
	c.t.Helper()
	return c.begin(method, body, headers...).stream()
}

// close hangs up.
func (e *sse) close() {
	e.hangUp()
	_ = e.resp.Body.Close()
}

// take reads one event; its error is how the connection ended.
func (e *sse) take() (sseEvent, error) {
	var out sseEvent
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			return sseEvent{}, err
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if out.id != "" {
				e.last = out.id
			}
			return out, nil
		case name == "":
			out.comment = "a comment" + value
		case name == "id":
			out.id = value
		case name == "data":
			out.data, out.hasData = out.data+value, true
		case name == "retry":
			out.retry = value
		case line != "event: message":
			e.t.Errorf("what is %q?", line)
		}
	}
}

// next reads the next event that is no comment.
func (e *sse) next() sseEvent {
	e.t.Helper()
	for {
		got, err := e.take()
		if err != nil {
			e.t.Fatalf("the stream has ended: %v", err)
		}
		if got.comment == "" {
			return got
		}
	}
}

// greeting reads the event that only brings an id.
func (e *sse) greeting() {
	e.t.Helper()
	if got := e.next(); got.id == "" || !got.hasData || got.data != "" || got.retry != "" {
		e.t.Fatalf("the first event is %+v", got)
	}
}

// method reads a message and wants it to be a request or a notification.
func (e *sse) method(want string) *jsonrpc.Message {
	e.t.Helper()
	m := e.next().message(e.t)
	if m.Method != want {
		e.t.Fatalf("got %s %s, want %s", m.Method, m.Params, want)
	}
	return m
}

// result reads a message and wants it to be a result that holds a text.
func (e *sse) result(want string) *jsonrpc.Message {
	e.t.Helper()
	m := e.next().message(e.t)
	if m.Kind != jsonrpc.KindSuccess || !strings.Contains(string(m.Result), want) {
		e.t.Fatalf("got %s %s %s, want a result with %q", m.Method, m.Result, m.Params, want)
	}
	return m
}

// ended wants the server to have closed the stream, and nothing before that.
func (e *sse) ended() {
	e.t.Helper()
	for {
		got, err := e.take()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil || got.comment == "" {
			e.t.Fatalf("got %+v and %v, want the end", got, err)
		}
	}
}

// toolCall is a call of a tool without arguments.
func toolCall(id, name string, meta ...string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"` + strings.Join(append([]string{""}, meta...), ",") + `}}`
}

// wantsProgress asks for progress.
const wantsProgress = `"_meta":{"progressToken":"p"}`

// steps is a tool that does what a test lets it do.
type steps struct {
	name    string
	entered chan context.Context
	step    chan *outriggerv1.ToolEvent
	// ended is how the run ended: nil, or the cause of its context.
	ended chan error
}

func newSteps(name string) *steps {
	return &steps{name: name, entered: make(chan context.Context, 64), step: make(chan *outriggerv1.ToolEvent), ended: make(chan error, 64)}
}

// tool declares it. Each step is sent on; where the steps are over it answers.
func (s *steps) tool() mcptest.NativeTool {
	return mcptest.NativeTool{
		Declared: mcptest.JSONTool(s.name, "Does it step by step.", mcptest.NoArguments, ""),
		Run: func(ctx context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			s.entered <- ctx
			for {
				select {
				case e, ok := <-s.step:
					if !ok {
						s.ended <- nil
						return mcptest.Success("", mcptest.TextBlock("It is done.")), nil
					}
					if err := send(e); err != nil {
						s.ended <- err
						return nil, err
					}
				case <-ctx.Done():
					s.ended <- ctx.Err()
					return nil, ctx.Err()
				}
			}
		},
	}
}

// quiet is an event: nothing will come for a while.
func quiet() *outriggerv1.ToolEvent {
	return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Quiet{Quiet: &outriggerv1.Quiet{}}}
}
