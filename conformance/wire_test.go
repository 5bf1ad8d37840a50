// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// answer is an HTTP response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// send makes one HTTP request on its own connection.
func send(t *testing.T, req *http.Request) answer {
	t.Helper()
	client := caller.Client(false)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

// request prepares a request with a JSON body.
func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return req
}

// reply reads one JSON-RPC response.
func reply(t *testing.T, raw []byte) caller.Reply {
	t.Helper()
	var r caller.Reply
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("no JSON-RPC message: %v: %.300s", err, raw)
	}
	return r
}

// errorCode is the canonical code of a JSON-RPC error response, "" where it is
// none.
func errorCode(r caller.Reply) string {
	if r.Error == nil {
		return ""
	}
	return caller.CodeOf(r.Error.Data)
}

// replies reads a batch of JSON-RPC responses.
func replies(t *testing.T, raw []byte) []caller.Reply {
	t.Helper()
	var all []caller.Reply
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("no array of JSON-RPC messages: %v: %.300s", err, raw)
	}
	return all
}

// jsonEqual reports whether two JSON texts say the same.
func jsonEqual(raw []byte, want string) bool {
	var a, b any
	return json.Unmarshal(raw, &a) == nil && json.Unmarshal([]byte(want), &b) == nil && cmp.Equal(a, b)
}
