// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// legacy is a client of a legacy revision of MCP. Each of its requests goes to the replica
// that the test chooses.
type legacy struct {
	t           *testing.T
	version, id string
	http        *http.Client
}

// newLegacy opens a session at a replica.
func newLegacy(t *testing.T, s *sidecar.Server, version string) *legacy {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c := &legacy{t: t, version: version, http: &http.Client{Transport: transport}}
	status, header, text := c.open(s)
	if c.id = header.Get("Mcp-Session-Id"); status != http.StatusOK || c.id == "" {
		t.Fatalf("initialize: %d %s", status, text)
	}
	return c
}

// open sends an initialize.
func (c *legacy) open(s *sidecar.Server) (int, http.Header, string) {
	c.t.Helper()
	return c.post(s, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+c.version+
		`","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
}

// do sends a request. The body must be closed.
func (c *legacy) do(ctx context.Context, s *sidecar.Server, method, body, lastEvent string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL("/mcp"), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.id != "" {
		req.Header.Set("Mcp-Session-Id", c.id)
		req.Header.Set("Mcp-Protocol-Version", c.version)
	}
	if lastEvent != "" {
		req.Header.Set("Last-Event-Id", lastEvent)
	}
	return c.http.Do(req)
}

// send sends a request and returns the whole answer.
func (c *legacy) send(s *sidecar.Server, method, body string) (int, http.Header, string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), testkit.Limit())
	defer cancel()
	resp, err := c.do(ctx, s, method, body, "")
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func (c *legacy) post(s *sidecar.Server, body string) (int, http.Header, string) {
	c.t.Helper()
	return c.send(s, http.MethodPost, body)
}

// want sends a request and compares the status and a part of the answer.
func (c *legacy) want(s *sidecar.Server, method, body string, status int, part string) {
	c.t.Helper()
	got, _, text := c.send(s, method, body)
	if got != status || !strings.Contains(text, part) {
		c.t.Fatalf("%s %s: %d %s, want %d and %q", method, body, got, text, status, part)
	}
}

// echo is a plain call.
func echo(id int, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":%q}}}`, id, text)
}

// rounds is a call with a progress notification for each round.
func rounds(id, n int, interval string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"fleet_watch_vehicles","arguments":{"vehicleIds":["101"],"rounds":%d,"interval":%q},"_meta":{"progressToken":"p%d"}}}`, id, n, interval, id)
}

// told is a server-sent event.
type told struct{ id, data string }

// stream is an open stream of events.
type stream struct {
	t      *testing.T
	resp   *http.Response
	lines  *bufio.Reader
	ctx    context.Context //nolint:containedctx // that of the request
	hangUp context.CancelFunc
	last   string // the last id
}

// listen opens a stream: with a GET, or the answer to a message.
func (c *legacy) listen(s *sidecar.Server, method, body, lastEvent string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c.t.Cleanup(cancel)
	timer := time.AfterFunc(testkit.Limit(), cancel)
	c.t.Cleanup(func() { timer.Stop() })
	resp, err := c.do(ctx, s, method, body, lastEvent)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("%s opens no stream: %d %s", method, resp.StatusCode, text)
	}
	return &stream{t: c.t, resp: resp, lines: bufio.NewReader(resp.Body), ctx: ctx, hangUp: cancel, last: lastEvent}
}

// try reads the next event that has a message; an error at the end.
func (s *stream) try() (told, error) {
	var e told
	for {
		line, err := s.lines.ReadString('\n')
		if err != nil {
			return e, err
		}
		name, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
		switch name {
		case "id":
			e.id, s.last = value, value
		case "data":
			e.data = value
		case "":
			if e.data != "" {
				return e, nil
			}
			e = told{}
		}
	}
}

// next is the next event that has a message.
func (s *stream) next() told {
	s.t.Helper()
	e, err := s.try()
	if err != nil {
		s.t.Fatalf("no event: %v", err)
	}
	return e
}

// rest reads to the end, which has to come.
func (s *stream) rest() (all []told) {
	s.t.Helper()
	for {
		e, err := s.try()
		if err != nil {
			if s.ctx.Err() != nil {
				s.t.Errorf("the stream has not ended; it had %d more events", len(all))
			}
			return all
		}
		all = append(all, e)
	}
}
