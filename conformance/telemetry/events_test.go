// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// events reads server-sent events of one response.
type events struct {
	resp  *http.Response
	lines *bufio.Reader
	end   context.CancelFunc
	// last is the id of the last event.
	last string
}

// listens is the method of a GET, which has no message.
const listens = "GET"

// stream makes a request whose answer must be a stream. after is the Last-Event-ID of a stream to resume, "" for none.
func (w *overHTTP) stream(t *testing.T, a ask, after string) *events {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	req := w.request(ctx, t, http.MethodPost, a)
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	if a.method == listens {
		req.Method, req.Body, req.ContentLength = http.MethodGet, nil, 0
		req.Header.Del("Content-Type")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Fatalf("HTTP %d with %s", resp.StatusCode, got)
	}
	return &events{resp: resp, lines: bufio.NewReader(resp.Body), end: end}
}

// next returns the next message.
func (e *events) next(t *testing.T) string {
	t.Helper()
	for {
		line, err := e.lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch {
		case name == "id":
			e.last = value
		case name == "data" && value != "":
			return value
		}
	}
}

// close breaks the connection.
func (e *events) close() {
	e.end()
	_ = e.resp.Body.Close()
}

// member is a member of a JSON object, as text.
func member(t *testing.T, object string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(object)
	for _, name := range path {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(raw, &members); err != nil || members[name] == nil {
			t.Fatalf("no %s in %s", name, object)
		}
		raw = members[name]
	}
	return string(raw)
}
