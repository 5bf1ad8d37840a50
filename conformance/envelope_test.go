// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

const (
	parseError = "PARSE_ERROR"
	badShape   = "INVALID_ENVELOPE"
)

// badEnvelope is a message that no edge may take for a request.
type badEnvelope struct {
	name, raw string
	// want is the canonical code.
	want string
	// canonicalOnly marks what MCP admits: it has fewer rules about ids and
	// params.
	canonicalOnly bool
	// unasked marks what has no reply on stdio, which can do without.
	unasked bool
}

// badEnvelopes are the JSON and envelope rows of the table of bad input.
func badEnvelopes() []badEnvelope {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	return []badEnvelope{
		{name: "truncated", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{}`, want: parseError},
		{name: "no JSON at all", raw: `hello`, want: parseError},
		{name: "byte order mark", raw: "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`, want: parseError},
		{name: "invalid UTF-8", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"` + "\xff" + `"}}`, want: parseError},
		{name: "overlong UTF-8", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"` + "\xc0\xaf" + `"}}`, want: parseError},
		{name: "lone surrogate", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\ud800"}}`, want: parseError},
		{name: "surrogates in the wrong order", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\udc00\ud800"}}`, want: parseError},
		{name: "trailing data", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{}} {}`, want: parseError},
		{name: "trailing comma", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{},}`, want: parseError},
		{name: "comment", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{}/**/}`, want: parseError},
		{name: "NaN", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":NaN}}`, want: parseError},
		{name: "control character in a string", raw: "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\",\"params\":{\"x\":\"\x01\"}}", want: parseError},
		{name: "duplicate name", raw: `{"jsonrpc":"2.0","id":"a","id":"b","method":"ping","params":{}}`, want: parseError},
		{name: "duplicate name in escaped form", raw: `{"jsonrpc":"2.0","id":"a","\u0069d":"b","method":"ping","params":{}}`, want: parseError},
		{name: "duplicate name in params", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":[{"y":1,"y":2}]}}`, want: parseError},
		{name: "duplicate escaped name in params", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"xb":1,"x\u0062":2}}`, want: parseError},
		{name: "nested 65 deep", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":` + deep(63) + `}}`, want: parseError},
		{name: "nested 100,000 deep", raw: strings.Repeat(`{"a":`, 100_000), want: parseError},

		{name: "a number", raw: `7`, want: badShape},
		{name: "a string", raw: `"ping"`, want: badShape},
		{name: "null", raw: `null`, want: badShape},
		{name: "an empty object", raw: `{}`, want: badShape},
		{name: "an empty array", raw: `[]`, want: badShape},
		{name: "id null", raw: `{"jsonrpc":"2.0","id":null,"method":"ping","params":{}}`, want: badShape},
		{name: "id true", raw: `{"jsonrpc":"2.0","id":true,"method":"ping","params":{}}`, want: badShape},
		{name: "id object", raw: `{"jsonrpc":"2.0","id":{},"method":"ping","params":{}}`, want: badShape},
		{name: "id array", raw: `{"jsonrpc":"2.0","id":["a"],"method":"ping","params":{}}`, want: badShape},
		{name: "id 1.5", raw: `{"jsonrpc":"2.0","id":1.5,"method":"ping","params":{}}`, want: badShape},
		{name: "id 1.0", raw: `{"jsonrpc":"2.0","id":1.0,"method":"ping","params":{}}`, want: badShape},
		{name: "id 1e3", raw: `{"jsonrpc":"2.0","id":1e3,"method":"ping","params":{}}`, want: badShape},
		{name: "id of 1,025 bytes", raw: `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1025) + `","method":"ping","params":{}}`, want: badShape},
		{name: "id of 1 MB", raw: `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1<<20) + `","method":"ping","params":{}}`, want: badShape},
		{name: "integer id", raw: `{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}`, want: badShape, canonicalOnly: true},
		{name: "no jsonrpc", raw: `{"id":"a","method":"ping","params":{}}`, want: badShape},
		{name: "jsonrpc 1.0", raw: `{"jsonrpc":"1.0","id":"a","method":"ping","params":{}}`, want: badShape},
		{name: "jsonrpc as a number", raw: `{"jsonrpc":2.0,"id":"a","method":"ping","params":{}}`, want: badShape},
		{name: "method and result", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","result":{}}`, want: badShape},
		{name: "method and error", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","error":{"code":1,"message":"x"}}`, want: badShape},
		{name: "method is a number", raw: `{"jsonrpc":"2.0","id":"a","method":7,"params":{}}`, want: badShape},
		{name: "method is empty", raw: `{"jsonrpc":"2.0","id":"a","method":"","params":{}}`, want: badShape},
		{name: "Method", raw: `{"jsonrpc":"2.0","id":"a","Method":"ping","params":{}}`, want: badShape},
		{name: "Method beside method", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","Method":"tools/list","params":{}}`, want: badShape},
		{name: "ID beside id", raw: `{"jsonrpc":"2.0","id":"a","ID":"b","method":"ping","params":{}}`, want: badShape},
		{name: "param with a long s", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":{},"param\u017f":{}}`, want: badShape},
		{name: "method with a zero byte", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","method\u0000":"x","params":{}}`, want: badShape},
		{name: "params array", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":[]}`, want: badShape},
		{name: "params string", raw: `{"jsonrpc":"2.0","id":"a","method":"ping","params":"x"}`, want: badShape},
		{name: "no params", raw: `{"jsonrpc":"2.0","id":"a","method":"ping"}`, want: badShape, canonicalOnly: true},
		{name: "neither method nor result", raw: `{"jsonrpc":"2.0","id":"a","params":{}}`, want: badShape},
		{name: "result and error", raw: `{"jsonrpc":"2.0","id":"a","result":{},"error":{"code":1,"message":"x"}}`, want: badShape, unasked: true},
		{name: "an unexpected response", raw: `{"jsonrpc":"2.0","id":"a","result":{}}`, want: badShape, unasked: true},
		{name: "an unexpected error", raw: `{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}`, want: badShape, unasked: true},
		{name: "a notification without jsonrpc", raw: `{"method":"notifications/x"}`, want: badShape, unasked: true},
	}
}

// TestBadEnvelopesGetTheSameError sends every bad envelope to an HTTP edge and
// to a stdio process of the same dialect. Both must answer alike, and the
// process must go on as if nothing had been.
func TestBadEnvelopesGetTheSameError(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	modern := func(raw string) string {
		raw = strings.ReplaceAll(raw, `"params":{}`, `"params":{`+caller.ModernMeta+`}`)
		return strings.ReplaceAll(raw, `"params":{"x`, `"params":{`+caller.ModernMeta+`,"x`)
	}
	plain := func(raw string) string { return raw }
	for _, d := range []struct {
		name, path, dialect string
		dress               func(string) string
		header              map[string]string
		open                []string
		alive               string
	}{
		{name: "canonical", path: "/rpc", dialect: "auto", dress: plain,
			alive: `{"jsonrpc":"2.0","id":"alive","method":"ping","params":{}}`},
		{name: "canonical only", path: "/rpc", dialect: "canonical", dress: plain,
			alive: `{"jsonrpc":"2.0","id":"alive","method":"ping","params":{}}`},
		{name: "legacy", path: "/mcp", dialect: "mcp", dress: plain,
			header: map[string]string{"Mcp-Protocol-Version": "2025-11-25"},
			open:   []string{caller.Initialize, caller.Initialized},
			alive:  `{"jsonrpc":"2.0","id":"alive","method":"ping"}`},
		{name: "modern", path: "/mcp", dialect: "mcp", dress: modern,
			header: map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"},
			alive:  `{"jsonrpc":"2.0","id":"alive","method":"server/discover","params":{` + caller.ModernMeta + `}}`},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			pipe := sidecar.Pipe(t, built.binary, "--demo", "--dialect", d.dialect)
			for _, line := range d.open {
				pipe.MustSend(t, line)
			}
			if d.open != nil {
				pipe.Next(t)
			}
			for _, row := range badEnvelopes() {
				if row.canonicalOnly && d.path == "/mcp" {
					continue
				}
				raw := d.dress(row.raw)
				req := request(t, http.MethodPost, server.URL(d.path), strings.NewReader(raw))
				for name, value := range d.header {
					req.Header.Set(name, value)
				}
				overHTTP := send(t, req)
				pipe.MustSend(t, raw)
				overStdio := string(overHTTP.body)
				if !row.unasked {
					overStdio = pipe.Next(t)
				}
				if overHTTP.status != http.StatusBadRequest {
					t.Errorf("%s: HTTP status %d, want 400: %s", row.name, overHTTP.status, overHTTP.body)
				}
				compareReplies(t, row, overHTTP.body, []byte(overStdio), d.path == "/rpc")
			}
			pipe.MustSend(t, d.alive)
			if got := reply(t, []byte(pipe.Next(t))); string(got.ID) != `"alive"` || got.Error != nil {
				t.Errorf("after all that, a good message gets %+v", got)
			}
		})
	}
}

// compareReplies holds for the two answers to one bad envelope.
func compareReplies(t *testing.T, row badEnvelope, overHTTP, overStdio []byte, canonical bool) {
	t.Helper()
	var a, b map[string]any
	if json.Unmarshal(overHTTP, &a) != nil || json.Unmarshal(overStdio, &b) != nil {
		t.Errorf("%s: no JSON: HTTP %.200s, stdio %.200s", row.name, overHTTP, overStdio)
		return
	}
	// An array is a batch on /rpc and no message anywhere else, so its reasons
	// differ.
	if row.name == "an empty array" {
		dropReasons(a)
		dropReasons(b)
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("%s: the answers differ (-HTTP +stdio):\n%s", row.name, diff)
	}
	got := reply(t, overHTTP)
	if code := errorCode(got); code != row.want {
		t.Errorf("%s: %s, want %s: %s", row.name, code, row.want, overHTTP)
	}
	want := int64(-32600)
	if row.want == parseError {
		want = -32700
	}
	if got.Error != nil && got.Error.Code != want {
		t.Errorf("%s: JSON-RPC code %d, want %d", row.name, got.Error.Code, want)
	}
	id, present := a["id"]
	if canonical && !present {
		t.Errorf("%s: the canonical dialect leaves out the id: %s", row.name, overHTTP)
	}
	if !canonical && present && id == nil {
		t.Errorf("%s: MCP has no null id: %s", row.name, overHTTP)
	}
}

func dropReasons(message map[string]any) {
	failure, _ := message["error"].(map[string]any)
	data, _ := failure["data"].(map[string]any)
	delete(data, "violations")
}
