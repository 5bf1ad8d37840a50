// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// ask is one request of a wire.
type ask struct {
	id, method string
	// tool is the canonical name of a tool to call, args its arguments.
	tool, args string
	// params are those of another method, without _meta; "" for none.
	params string
	// raw is a whole message instead.
	raw string
	// capabilities of the client, for MCP 2026-07-28.
	capabilities string
	origin       origin
}

// wire carries JSON-RPC to a sidecar. It returns the answer, "" where none came because the caller gave up.
type wire interface {
	send(ctx context.Context, t *testing.T, a ask) string
}

// text is the message.
func (a ask) text(d caller.Dialect) string {
	if a.raw != "" {
		return a.raw
	}
	members := []string{}
	if a.tool != "" {
		members = append(members, `"name":"`+d.Name(a.tool)+`"`, `"arguments":`+a.args)
	}
	if a.params != "" {
		members = append(members, a.params)
	}
	meta := []string{}
	if d == caller.Modern {
		capabilities := a.capabilities
		if capabilities == "" {
			capabilities = "{}"
		}
		meta = append(meta, `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":`+capabilities)
	}
	if of := a.origin.meta(); of != "" {
		meta = append(meta, of)
	}
	if len(meta) > 0 {
		members = append(members, `"_meta":{`+strings.Join(meta, ",")+`}`)
	}
	out := `{"jsonrpc":"2.0",`
	if a.id != "" {
		out += `"id":"` + a.id + `",`
	}
	return out + `"method":"` + a.verb() + `","params":{` + strings.Join(members, ",") + `}}`
}

func (a ask) verb() string {
	if a.tool != "" {
		return "tools/call"
	}
	return a.method
}

// overHTTP posts messages.
type overHTTP struct {
	client  *http.Client
	url     string
	dialect caller.Dialect
	session string
	bearer  string
}

func dialHTTP(t *testing.T, s *sidecar.Server, path string, d caller.Dialect) *overHTTP {
	t.Helper()
	return dialWith(t, caller.Client(false), s.URL(path), d)
}

// dialWith is dialHTTP with its own client.
func dialWith(t *testing.T, client *http.Client, url string, d caller.Dialect) *overHTTP {
	t.Helper()
	w := &overHTTP{client: client, url: url, dialect: d}
	t.Cleanup(w.client.CloseIdleConnections)
	return w
}

// open begins a legacy session.
func (w *overHTTP) open(t *testing.T, capabilities string) {
	t.Helper()
	opening := ask{id: "open", method: "initialize", params: `"protocolVersion":"2025-11-25","capabilities":` + capabilities +
		`,"clientInfo":{"name":"telemetry","version":"1"}`, origin: originOf(w.url, "open")}
	resp := w.do(t.Context(), t, http.MethodPost, opening)
	_ = resp.Body.Close()
	if w.session = resp.Header.Get("Mcp-Session-Id"); w.session == "" {
		t.Fatalf("HTTP %d without a session", resp.StatusCode)
	}
	ready := ask{method: "notifications/initialized", origin: originOf(w.url, "ready")}
	_ = w.do(t.Context(), t, http.MethodPost, ready).Body.Close()
}

func (w *overHTTP) request(ctx context.Context, t *testing.T, method string, a ask) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.url, strings.NewReader(a.text(w.dialect)))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(req.Header, a.origin.header())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if w.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+w.bearer)
	}
	switch w.dialect {
	case caller.Modern:
		req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		req.Header.Set("Mcp-Method", a.verb())
		if a.tool != "" {
			req.Header.Set("Mcp-Name", w.dialect.Name(a.tool))
		}
		if id := taskOf(a.params); id != "" {
			req.Header.Set("Mcp-Name", id)
		}
	case caller.Legacy:
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		if w.session != "" {
			req.Header.Set("Mcp-Session-Id", w.session)
		}
	}
	return req
}

// taskOf is the task that params name.
func taskOf(params string) string {
	var p struct {
		TaskID string `json:"taskId"`
	}
	_ = json.Unmarshal([]byte("{"+params+"}"), &p)
	return p.TaskID
}

func (w *overHTTP) do(ctx context.Context, t *testing.T, method string, a ask) *http.Response {
	t.Helper()
	resp, err := w.client.Do(w.request(ctx, t, method, a))
	if err != nil {
		t.Fatalf("%s: %v", a.verb(), err)
	}
	return resp
}

func (w *overHTTP) send(ctx context.Context, t *testing.T, a ask) string {
	t.Helper()
	resp, err := w.client.Do(w.request(ctx, t, http.MethodPost, a))
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("%s: %v", a.verb(), err)
		}
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() == nil {
		t.Errorf("%s: %v", a.verb(), err)
	}
	return string(body)
}

// overStdio writes to its own process, one message at a time.
type overStdio struct {
	pipe    *sidecar.Stdio
	dialect caller.Dialect
}

func dialStdio(t *testing.T, args []string, d caller.Dialect) *overStdio {
	t.Helper()
	w := &overStdio{pipe: sidecar.Pipe(t, built.binary, args...), dialect: d}
	if d == caller.Legacy {
		w.pipe.MustSend(t, caller.Initialize)
		_ = w.pipe.Next(t)
		w.pipe.MustSend(t, caller.Initialized)
	}
	return w
}

func (w *overStdio) send(ctx context.Context, t *testing.T, a ask) string {
	t.Helper()
	w.pipe.MustSend(t, a.text(w.dialect))
	if a.id == "" && a.raw == "" {
		return "" // a notification
	}
	for {
		select {
		case line, ok := <-w.pipe.Lines():
			if !ok {
				t.Fatalf("the sidecar ended: %s", w.pipe.Text())
			}
			if a.raw != "" || strings.Contains(string(line), `"id":"`+a.id+`"`) {
				return string(line)
			}
		case <-ctx.Done():
			cancelled := ask{method: "notifications/cancelled", params: `"requestId":"` + a.id + `"`}
			w.pipe.MustSend(t, cancelled.text(w.dialect))
			return ""
		}
	}
}
