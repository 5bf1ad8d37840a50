// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

func TestHeadersRepeatTheBody(t *testing.T) {
	t.Parallel()
	url := edge(t)
	call := request("tools/call", `"name":"lab_echo","arguments":{},`+meta)
	dotted := strings.Replace(call, "lab_echo", "lab.echo", 1)
	greek := strings.Replace(call, "lab_echo", "λ", 1)
	const mismatch = -32020
	v, m := "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call"
	for _, tc := range []struct {
		name    string
		body    string
		headers []string
		status  int
		code    int
	}{
		{"all", call, []string{v, m, "Mcp-Name: lab_echo"}, 200, 0},
		{"names of headers in another case", call, []string{"mcp-protocol-version: 2026-07-28", "MCP-METHOD: tools/call", "mcp-name: lab_echo"}, 200, 0},
		{"space around", call, []string{v, "Mcp-Method:  tools/call\t", "Mcp-Name: lab_echo "}, 200, 0},
		{"dotted in both", dotted, []string{v, m, "Mcp-Name: lab.echo"}, 200, 0},
		{"twice the same", call, []string{v, v, m, m, "Mcp-Name: lab_echo", "Mcp-Name: lab_echo"}, 200, 0},
		{"encoded", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2VjaG8=?="}, 200, 0},
		{"merged by a proxy", call, []string{v + ", 2026-07-28", m + ",tools/call , tools/call", "Mcp-Name: lab_echo, lab_echo"}, 200, 0},
		{"encoded and merged", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2VjaG8=?=, =?base64?bGFiX2VjaG8=?="}, 200, 0},
		{"two versions, merged", call, []string{v + ", 2025-11-25", m, "Mcp-Name: lab_echo"}, 400, mismatch},
		{"two methods, merged", call, []string{v, m + ", tools/list", "Mcp-Name: lab_echo"}, 400, mismatch},
		{"two names, merged", call, []string{v, m, "Mcp-Name: lab_echo, lab_fail"}, 400, mismatch},
		{"a name and a part of one", call, []string{v, m, "Mcp-Name: lab_echo, lab_ech"}, 400, mismatch},
		{"no version", call, []string{m, "Mcp-Name: lab_echo"}, 400, mismatch},
		{"no method", call, []string{v, "Mcp-Name: lab_echo"}, 400, mismatch},
		{"no name", call, []string{v, m}, 400, mismatch},
		{"another version", call, []string{"MCP-Protocol-Version: 2025-11-25", m, "Mcp-Name: lab_echo"}, 400, mismatch},
		{"another method", call, []string{v, "Mcp-Method: tools/list", "Mcp-Name: lab_echo"}, 400, mismatch},
		{"the method in another case", call, []string{v, "Mcp-Method: Tools/Call", "Mcp-Name: lab_echo"}, 400, mismatch},
		{"another name", call, []string{v, m, "Mcp-Name: lab_fail"}, 400, mismatch},
		{"the other form of the name", call, []string{v, m, "Mcp-Name: lab.echo"}, 400, mismatch},
		{"two versions", call, []string{v, "MCP-Protocol-Version: 2025-11-25", m, "Mcp-Name: lab_echo"}, 400, mismatch},
		{"two names", call, []string{v, m, "Mcp-Name: lab_echo", "Mcp-Name: lab_fail"}, 400, mismatch},
		{"base64 of another name", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2ZhaWw=?="}, 400, mismatch},
		{"base64 without padding", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2VjaG8?="}, 400, mismatch},
		{"base64 of another alphabet", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2Vja!8=?="}, 400, mismatch},
		{"base64 with stray bits", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2VjaG9=?="}, 400, mismatch},
		{"base64 of no UTF-8", call, []string{v, m, "Mcp-Name: =?base64?/w==?="}, 400, mismatch},
		{"a marker in capitals is a literal", call, []string{v, m, "Mcp-Name: =?BASE64?bGFiX2VjaG8=?="}, 400, mismatch},
		{"a marker without its end is a literal", call, []string{v, m, "Mcp-Name: =?base64?bGFiX2VjaG8="}, 400, mismatch},
		{"bytes beyond ASCII", greek, []string{v, m, "Mcp-Name: λ"}, 400, mismatch},
		{"the method is never encoded", call, []string{v, "Mcp-Method: =?base64?dG9vbHMvY2FsbA==?=", "Mcp-Name: lab_echo"}, 400, mismatch},
		// What is wrong first is reported first.
		{"an unknown method goes before its name", request("tools/run", meta), []string{v, "Mcp-Method: tools/run"}, 404, -32601},
		{"a missing header goes before the params", request("tools/call", meta), []string{v, m}, 400, mismatch},
		{"the params go last", request("tools/call", meta), []string{v, m, "Mcp-Name: lab_echo"}, 200, -32602},
		{"a name that is no string", request("tools/call", `"name":7,`+meta), []string{v, m, "Mcp-Name: 7"}, 200, -32602},
		{"the version goes before the method", strings.Replace(call, "2026-07-28", "2099-01-01", 1), []string{"MCP-Protocol-Version: 2099-01-01"}, 400, -32022},
		{"other methods have no name", request("tools/list", meta), []string{v, "Mcp-Method: tools/list", "Mcp-Name: anything"}, 200, 0},
		{"a legacy version, merged", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18, 2025-06-18"}, 200, 0},
		{"a legacy version, in two lines", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-06-18"}, 200, 0},
		{"two legacy versions, merged", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18, 2025-11-25"}, 400, -32600},
		{"two legacy versions, in two lines", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18", "MCP-Protocol-Version: 2025-11-25"}, 400, -32600},
		{"a legacy version and another", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18, 2026-07-28"}, 400, -32600},
		{"a legacy version and nothing", request("ping", ""), []string{"MCP-Protocol-Version: 2025-06-18,"}, 400, -32600},
		{"a version that is not served, merged", request("ping", ""), []string{"MCP-Protocol-Version: 2024-11-05, 2024-11-05"}, 400, -32600},
		{"legacy has no such headers", request("tools/call", `"name":"lab_echo"`), []string{"Mcp-Method: x", "Mcp-Name: y"}, 200, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, tc.body, tc.headers...)
			if got.status != tc.status || got.errorCode() != tc.code || string(got.ID) != "0" {
				t.Errorf("got %d %s, want %d and %d", got.status, got.body, tc.status, tc.code)
			}
			if tc.code == mismatch && got.Error != nil && strings.TrimPrefix(got.Error.Message, "Header mismatch") == "" {
				t.Errorf("the error does not say what differs: %s", got.body)
			}
		})
	}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	url := edge(t)
	const js, sse = "application/json", "text/event-stream"
	for _, tc := range []struct {
		name   string
		accept []string
		want   string
	}{
		{"none", nil, js},
		{"both, as the revision asks", []string{"Accept: application/json, text/event-stream"}, js},
		{"both in two lines", []string{"Accept: text/event-stream", "Accept: application/json"}, js},
		{"JSON alone", []string{"Accept: application/json"}, js},
		{"anything", []string{"Accept: */*"}, js},
		{"any application", []string{"Accept: application/*"}, js},
		{"capitals and parameters", []string{"Accept: Application/JSON;q=0.5;v=1"}, js},
		{"events alone", []string{"Accept: text/event-stream"}, sse},
		{"any text", []string{"Accept: text/*"}, sse},
		{"JSON ruled out", []string{"Accept: application/json;q=0, text/event-stream"}, sse},
		{"JSON ruled out of anything", []string{"Accept: application/json;q=0, */*"}, sse},
		{"JSON ruled out of anything, in two lines", []string{"Accept: */*", "Accept: application/json; q=0.000"}, sse},
		{"JSON ruled out of any application", []string{"Accept: application/*, application/json;q=0, text/*;q=0"}, ""},
		{"events ruled out of anything", []string{"Accept: */*, text/event-stream;q=0"}, js},
		{"anything ruled out but JSON", []string{"Accept: */*;q=0, application/json"}, js},
		{"both ruled out of anything", []string{"Accept: text/event-stream;q=0, application/json;q=0, */*"}, ""},
		{"something else", []string{"Accept: text/html"}, ""},
		{"nothing of it", []string{"Accept: application/json;q=0"}, ""},
		{"empty", []string{"Accept: "}, ""},
		{"nonsense", []string{"Accept: ;;;,,"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, request("tools/list", meta), append(modern("tools/list"), tc.accept...)...)
			if tc.want == "" {
				if got.status != 406 || got.errorCode() != -32600 {
					t.Errorf("got %d %s, want 406", got.status, got.body)
				}
				return
			}
			if got.status != 200 || got.header.Get("Content-Type") != tc.want {
				t.Errorf("got %d %v, want %s", got.status, got.header, tc.want)
			}
			if tc.want != sse {
				return
			}
			data, ok := strings.CutPrefix(got.body, "event: message\ndata: ")
			data, whole := strings.CutSuffix(data, "\n\n")
			if !ok || !whole || strings.Contains(data, "\n") || !strings.HasPrefix(data, `{"jsonrpc":"2.0","id":0,"result":`) {
				t.Errorf("not one event: %q", got.body)
			}
			if got.header.Get("X-Accel-Buffering") != "no" || got.header.Get("Cache-Control") != "no-cache" {
				t.Errorf("a proxy may hold it back: %v", got.header)
			}
			// A stream can only begin with 200, so refusals stay JSON, and a
			// notification has nothing to stream.
			if refused := post(t, url, request("nothing", meta), append(modern("nothing"), tc.accept...)...); refused.status != 404 || refused.errorCode() != -32601 {
				t.Errorf("a refusal: %d %s", refused.status, refused.body)
			}
			if n := post(t, url, `{"jsonrpc":"2.0","method":"n"}`, tc.accept...); n.status != 202 || n.body != "" {
				t.Errorf("a notification: %d %q", n.status, n.body)
			}
		})
	}
}

func TestTheBodyIsChecked(t *testing.T) {
	t.Parallel()
	url := edge(t)
	for _, tc := range []struct {
		headers []string
		status  int
		code    int
		body    string
	}{
		{[]string{"Content-Type: text/plain"}, 200, 0, ""}, // the first line counts, and it says JSON
		{modern("tools/list", "Content-Encoding: br"), 415, -32600, ""},
		{modern("tools/list"), 413, -31011, strings.Repeat(" ", defaults.MaxMessageBytes+1)},
		{nil, 413, -32600, strings.Repeat(" ", defaults.MaxMessageBytes+1)},
	} {
		body := tc.body
		if body == "" {
			body = request("tools/list", "")
		}
		if got := post(t, url, body, tc.headers...); got.status != tc.status || got.errorCode() != tc.code {
			t.Errorf("%v: got %d %.200s, want %d and %d", tc.headers, got.status, got.body, tc.status, tc.code)
		}
	}
}
