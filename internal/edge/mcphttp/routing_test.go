// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

// TestEraOfAMessage walks the ways in which body and header can name an era,
// alone, together and against each other.
func TestEraOfAMessage(t *testing.T) {
	t.Parallel()
	url := edge(t)
	legacyMeta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}`
	for _, tc := range []struct {
		name    string
		body    string
		headers []string
		status  int
		code    int
		era     string // how the result shows it
	}{
		{"meta: modern", request("tools/list", meta), modern("tools/list"), 200, 0, "modern"},
		{"meta: modern discover", request("server/discover", meta), modern("server/discover"), 200, 0, "modern"},
		{"meta: initialize does not exist in this era", request("initialize", `"protocolVersion":"2025-11-25",`+meta), modern("initialize"), 404, -32601, ""},
		{"meta: ping does not exist in this era", request("ping", meta), modern("ping"), 404, -32601, ""},
		{"meta: a version to come", request("tools/list", strings.Replace(meta, "2026-07-28", "2099-01-01", 1)),
			[]string{"MCP-Protocol-Version: 2099-01-01", "Mcp-Method: tools/list"}, 400, -32022, ""},
		{"meta: no version at all", request("tools/list", strings.Replace(meta, "2026-07-28", "1.0", 1)),
			[]string{"MCP-Protocol-Version: 1.0", "Mcp-Method: tools/list"}, 400, -32022, ""},
		{"meta: the version is a number", request("tools/list", strings.Replace(meta, `"2026-07-28"`, "7", 1)), modern("tools/list"), 400, -32602, ""},
		{"meta: no capabilities", request("tools/list", `"_meta":{`+version+`}`), modern("tools/list"), 400, -32602, ""},
		{"meta: capabilities are no object", request("tools/list", `"_meta":{`+version+`,"io.modelcontextprotocol/clientCapabilities":[]}`),
			modern("tools/list"), 400, -32602, ""},
		{"meta: legacy, header absent", request("tools/list", legacyMeta), nil, 200, 0, "legacy"},
		{"meta: legacy, header legacy", request("ping", legacyMeta), []string{"MCP-Protocol-Version: 2025-11-25"}, 200, 0, "legacy"},
		{"header: modern, no meta", request("tools/list", ""), modern("tools/list"), 400, -32602, ""},
		{"header: modern, no params", `{"jsonrpc":"2.0","id":0,"method":"tools/list"}`, modern("tools/list"), 400, -32602, ""},
		{"header: modern, a meta without a version", request("tools/list", `"_meta":{`+able+`}`), modern("tools/list"), 400, -32602, ""},
		{"header: a version to come, no meta", request("tools/list", ""), []string{"MCP-Protocol-Version: 2027-01-01"}, 400, -32602, ""},
		{"header: modern, but initialize", request("initialize", `"protocolVersion":"2025-11-25"`), modern("initialize"), 200, 0, "legacy"},
		{"header: legacy and initialize", request("initialize", `"protocolVersion":"1999-01-01"`), []string{"MCP-Protocol-Version: 2025-11-25"}, 200, 0, "legacy"},
		{"header: legacy", request("tools/list", ""), []string{"MCP-Protocol-Version: 2025-11-25"}, 200, 0, "legacy"},
		{"header: none", request("ping", ""), nil, 200, 0, "legacy"},
		{"header: none, no params", `{"jsonrpc":"2.0","id":0,"method":"ping"}`, nil, 200, 0, "legacy"},
		{"header: a legacy version that is not served", request("tools/list", ""), []string{"MCP-Protocol-Version: 2024-11-05"}, 400, -32600, ""},
		{"header: no version", request("tools/list", ""), []string{"MCP-Protocol-Version: 1.0"}, 400, -32600, ""},
		{"header: ten letters", request("tools/list", ""), []string{"MCP-Protocol-Version: zzzzzzzzzz"}, 400, -32600, ""},
		{"header: empty", request("tools/list", ""), []string{"MCP-Protocol-Version: "}, 400, -32600, ""},
		{"legacy: discover does not exist in this era", request("server/discover", ""), nil, 200, -32601, ""},
		{"legacy: an unknown method", request("tools/run", ""), nil, 200, -32601, ""},
		{"an array, header modern", "[" + request("ping", "") + "]", modern("ping"), 400, -32600, ""},
		{"an array, header legacy", "[" + request("ping", "") + "]", []string{"MCP-Protocol-Version: 2025-11-25"}, 400, -32600, ""},
		{"a response, modern", `{"jsonrpc":"2.0","id":0,"result":{}}`, modern("x"), 400, -32600, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := post(t, url, tc.body, tc.headers...)
			if got.status != tc.status || got.errorCode() != tc.code {
				t.Errorf("got %d %s, want %d and %d", got.status, got.body, tc.status, tc.code)
			}
			isModern := strings.Contains(string(got.Result), `"resultType"`)
			if tc.era != "" && (got.Result == nil || isModern != (tc.era == "modern")) {
				t.Errorf("want the %s era: %s", tc.era, got.body)
			}
			if tc.code == -32022 {
				data := got.Error.Data
				if !slices.Equal(data.Supported, dialect.Versions()) || !strings.Contains(tc.body, `"`+data.Requested+`"`) {
					t.Errorf("the version error does not help: %s", got.body)
				}
			}
			// A client tells "an older server" from "a refusal" by the body.
			if got.header.Get("Content-Type") != "application/json" || got.body == "" {
				t.Errorf("no JSON: %v %q", got.header, got.body)
			}
			opens := tc.era == "legacy" && strings.Contains(tc.body, `"initialize"`) && got.Result != nil
			if (got.header.Get("Mcp-Session-Id") != "") != opens {
				t.Errorf("a session: %v, want %v", got.header, opens)
			}
		})
	}
}

func TestTheIDIsEchoed(t *testing.T) {
	t.Parallel()
	url := edge(t)
	for _, id := range []string{`0`, `7`, `"7"`, `""`, `-1`, `9007199254740993`, `9223372036854775807`, `"\u00e9\/"`} {
		for _, body := range []string{request("tools/list", meta), request("nothing", meta)} {
			got := post(t, url, strings.Replace(body, `"id":0`, `"id":`+id, 1), modern("tools/list")...)
			if string(got.ID) != id {
				t.Errorf("id %s: %s", id, got.body)
			}
		}
	}
	for _, id := range []string{`null`, `true`, `1.5`, `{}`, `[]`, `1e3`} {
		got := post(t, url, strings.Replace(request("tools/list", meta), `"id":0`, `"id":`+id, 1), modern("tools/list")...)
		if got.status != 400 || got.errorCode() != -32600 || got.ID != nil {
			t.Errorf("id %s: got %d %s, want 400 without an id", id, got.status, got.body)
		}
	}
	for _, body := range []string{``, `{`, "\xef\xbb\xbf{}", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`} {
		for _, headers := range [][]string{nil, modern("ping")} {
			if got := post(t, url, body, headers...); got.status != 400 || got.errorCode() != -32700 || strings.Contains(got.body, `"id"`) {
				t.Errorf("%q: got %d %s, want a parse error without an id", body, got.status, got.body)
			}
		}
	}
}

func TestNotificationsGet202(t *testing.T) {
	t.Parallel()
	url := edge(t)
	for _, tc := range []struct {
		name, body string
		headers    []string
	}{
		{"legacy", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
		{"legacy with its header", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, []string{"MCP-Protocol-Version: 2025-11-25"}},
		{"modern without Mcp-Method", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,` + meta + `}}`,
			[]string{"MCP-Protocol-Version: 2026-07-28"}},
		{"modern without meta", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`,
			[]string{"MCP-Protocol-Version: 2026-07-28"}},
		{"modern with all headers", `{"jsonrpc":"2.0","method":"notifications/x","params":{` + meta + `}}`, modern("notifications/x")},
		{"a call without an id runs nothing", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"lab_echo",` + meta + `}}`, modern("tools/call")},
	} {
		if got := post(t, url, tc.body, tc.headers...); got.status != http.StatusAccepted || got.body != "" {
			t.Errorf("%s: got %d %q, want 202 and nothing", tc.name, got.status, got.body)
		}
	}
}

func TestOnlyLegacySessionsHaveOtherMethodsThanPOST(t *testing.T) {
	t.Parallel()
	url := edge(t)
	for _, tc := range []struct {
		name, method string
		headers      []string
		status       int
	}{
		{"modern GET", http.MethodGet, []string{"MCP-Protocol-Version: 2026-07-28"}, 405},
		{"modern DELETE", http.MethodDelete, []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Session-Id: s"}, 405},
		{"PUT", http.MethodPut, nil, 405},
		{"OPTIONS", http.MethodOptions, []string{"MCP-Protocol-Version: 2025-11-25"}, 405},
		{"GET without a session", http.MethodGet, nil, 400},
		{"DELETE without a session", http.MethodDelete, []string{"MCP-Protocol-Version: 2025-11-25"}, 400},
		{"GET of an unknown session", http.MethodGet, []string{"Mcp-Session-Id: s"}, 404},
		{"GET of an unknown session after an event", http.MethodGet, []string{"Mcp-Session-Id: s", "Last-Event-ID: 7"}, 404},
		{"DELETE of an unknown session", http.MethodDelete, []string{"Mcp-Session-Id: s"}, 404},
		{"GET for JSON", http.MethodGet, []string{"Accept: application/json"}, 406},
	} {
		got := send(t, tc.method, url, "", tc.headers...)
		if got.status != tc.status || got.errorCode() != -32600 {
			t.Errorf("%s: got %d %v %s", tc.name, got.status, got.header, got.body)
		}
		if tc.status == 405 && got.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", tc.name, got.header.Get("Allow"))
		}
	}
	// What a modern client drags along from elsewhere is ignored; a legacy client
	// has to open a new session.
	for _, tc := range []struct {
		body    string
		headers []string
		status  int
	}{
		{request("tools/list", meta), modern("tools/list"), 200},
		{request("tools/list", ""), nil, 404},
	} {
		got := post(t, url, tc.body, append(slices.Clone(tc.headers), "Mcp-Session-Id: stale", "Last-Event-ID: 7")...)
		if got.status != tc.status || got.header.Get("Mcp-Session-Id") != "" {
			t.Errorf("%v: got %d %v %.100s", tc.headers, got.status, got.header, got.body)
		}
	}
}
