// SPDX-License-Identifier: Apache-2.0

package path

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
)

// dialect is how one kind of JSON-RPC client writes a call.
type dialect struct {
	path, tool string
	// tail follows the arguments inside params.
	tail   string
	header map[string]string
	// hello opens a caller's session and returns headers for its calls; nil where there is nothing to open.
	hello func(context.Context, *post) (http.Header, error)
}

func openModern(ctx context.Context, s *Session) error {
	const version = "2026-07-28"
	_, mcpTool := s.work.Tool()
	return s.openJSON(ctx, dialect{
		path: "/mcp", tool: mcpTool,
		tail: `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}`,
		header: map[string]string{
			"Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": version,
			"Mcp-Method": "tools/call", "Mcp-Name": mcpTool,
		},
	})
}

func openLegacy(ctx context.Context, s *Session) error {
	_, mcpTool := s.work.Tool()
	return s.openJSON(ctx, dialect{
		path: "/mcp", tool: mcpTool,
		header: map[string]string{"Accept": "application/json, text/event-stream"},
		hello:  initialize,
	})
}

func openCanonical(ctx context.Context, s *Session) error {
	canonicalTool, _ := s.work.Tool()
	return s.openJSON(ctx, dialect{path: "/rpc", tool: canonicalTool})
}

// initialize opens a session as the revision before 2026-07-28 wants it. The session's id is optional there; where the
// server gives one, calls carry it.
func initialize(ctx context.Context, p *post) (http.Header, error) {
	const version = "2025-11-25"
	header, answer, err := p.do(ctx, []byte(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
	if err != nil {
		return nil, err
	}
	if !new(expectation).hasMember(answer, "protocolVersion", []byte(version)) {
		return nil, wrongAnswer("protocol "+version, answer)
	}
	calls := p.header.Clone()
	calls.Set("Mcp-Protocol-Version", version)
	if id := header.Get("Mcp-Session-Id"); id != "" {
		calls.Set("Mcp-Session-Id", id)
	}
	note := *p
	note.header = calls
	res, err := note.send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)) //nolint:bodyclose // send reads and closes it
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusAccepted {
		return nil, wrongAnswer("status 202", []byte(res.Status))
	}
	return calls, nil
}

// closeTimeout bounds the end of one session; a server that does not end it in time is left alone.
const closeTimeout = 5 * time.Second

// goodbye ends a session, as a client does that is done: one that is left open would cost its server memory until the
// end of the run. Whatever the server answers is fine, for those that keep no sessions too.
func goodbye(p post) {
	if p.header.Get("Mcp-Session-Id") == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	req := &http.Request{Method: http.MethodDelete, URL: p.url, Host: p.url.Host, Header: p.header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	res, err := p.transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, res.Body) // frees the connection for the next one
	_ = res.Body.Close()
}

func (s *Session) openJSON(ctx context.Context, d dialect) error {
	header := http.Header{"Content-Type": {"application/json"}}
	for name, value := range d.header {
		header.Set(name, value)
	}
	transport := s.newTransport()
	before, after := s.work.Arguments()
	for i := range s.count {
		c := &jsonCaller{
			counter:     counter{caller: i},
			expectation: expectation{work: s.work},
			post:        post{transport: transport, url: httpURL(s.addrs.Sidecar, d.path), header: header},
			beforeNonce: append([]byte(`","method":"tools/call","params":{"name":"`+d.tool+`","arguments":`), before...),
			afterNonce:  append(slices.Clip(after), d.tail+"}}"...),
			dialect:     d,
		}
		if d.hello != nil {
			var err error
			if c.header, err = d.hello(ctx, &c.post); err != nil {
				return err
			}
			s.closers = append(s.closers, func() { goodbye(c.post) })
		}
		s.Callers = append(s.Callers, c)
	}
	return nil
}

// jsonCaller makes tools/call requests.
type jsonCaller struct {
	counter
	expectation
	post

	beforeNonce, afterNonce []byte
	body                    []byte
	dialect                 dialect
}

// ErrNoJSON tells that calls of a path carry no JSON-RPC.
var ErrNoJSON = errors.New("the path carries no JSON-RPC")

// Ask sends a call with that id and those arguments, both JSON, on the first caller's connection, and returns the reply
// as it came, whatever its status. It checks nothing.
func (s *Session) Ask(ctx context.Context, id, arguments string) ([]byte, error) {
	if len(s.Callers) == 0 {
		return nil, ErrNoJSON
	}
	c, ok := s.Callers[0].(*jsonCaller)
	if !ok {
		return nil, ErrNoJSON
	}
	body := `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + c.dialect.tool + `","arguments":` + arguments + c.dialect.tail + `}}`
	if _, err := c.send(ctx, []byte(body)); err != nil { //nolint:bodyclose // send reads and closes it
		return nil, err
	}
	return bytes.Clone(c.answer.Bytes()), nil
}

var _ load.Caller = (*jsonCaller)(nil)

// Call makes one call and checks its answer.
func (c *jsonCaller) Call(ctx context.Context) error {
	call, nonce := c.next()
	c.body = append(c.body[:0], `{"jsonrpc":"2.0","id":"`...)
	c.body = strconv.AppendUint(c.body, call, 10)
	c.body = append(c.body, c.beforeNonce...)
	c.body = append(c.body, nonce...)
	c.body = append(c.body, c.afterNonce...)
	_, reply, err := c.do(ctx, c.body)
	if err != nil {
		return err
	}
	return c.checkReply(call, nonce, reply)
}
