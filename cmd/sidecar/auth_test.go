// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// TestAuthenticationOnEveryEdge: no request passes without credentials, and a caller
// may do what its entry says, whichever way it calls. The backend gets its name.
func TestAuthenticationOnEveryEdge(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	for edge, call := range edges() {
		t.Run(edge, func(t *testing.T) {
			t.Parallel()
			for _, token := range []string{"", unknownToken, plannerToken[:len(plannerToken)-1], "short"} {
				got := call(h.visitor(t, token), "lab.echo")
				if got.code != "UNAUTHENTICATED" || got.status != 0 && got.status != http.StatusUnauthorized || !strings.HasPrefix(got.challenge, "Bearer realm=") {
					t.Errorf("token %q: %+v", token, got)
				}
			}
			planner := h.visitor(t, plannerToken)
			if got := call(planner, "lab.echo"); got.code != "" {
				t.Errorf("what the planner may call: %+v", got)
			}
			inspect(t, call(planner, "lab.inspect"))
			got := call(planner, "fleet.cancel_order")
			wantStatus, wantChallenge := 0, `Bearer realm="outrigger", error="insufficient_scope"`
			switch edge {
			case "/rpc", "/rpc, message form", "/mcp modern", "/mcp legacy":
				wantStatus = http.StatusForbidden
			case "exchange": // an answer on a stream has no headers
				wantChallenge = ""
			}
			if got.code != "PERMISSION_DENIED" || got.status != wantStatus || got.challenge != wantChallenge {
				t.Errorf("what the planner may not call: %+v, want status %d and the challenge %q", got, wantStatus, wantChallenge)
			}
			// The order does not exist or is cancelled already: what counts is that the tool was asked.
			if got := call(h.visitor(t, chiefToken), "fleet.cancel_order"); got.code != "" && got.code != "TOOL_EXECUTION_FAILED" {
				t.Errorf("what the chief may call: %+v", got)
			}
		})
	}
}

// subject finds the name that lab.inspect was called with.
var subject = regexp.MustCompile(`x.outrigger.subject"?[^}\]]*?"?(planner|root|chief)`)

// inspect checks what the backend gets of a caller: a name, and no credential; what a
// caller says of itself goes no further.
func inspect(t *testing.T, got answer) {
	t.Helper()
	names := subject.FindAllStringSubmatch(got.said, -1)
	if len(names) == 0 {
		t.Errorf("the backend got no known name: %+v", got)
	}
	for _, name := range names {
		if name[1] != "planner" {
			t.Errorf("the backend got the name %s", name[1])
		}
	}
	said := strings.ToLower(got.said)
	if strings.Contains(said, "authorization") || strings.Contains(got.said, "root") || !strings.Contains(said, "x-tenant") {
		t.Errorf("the backend got %s", got.said)
	}
}

func second(_ *http.Response, body string) string { return body }

// TestSessionsBelongToNames: a session id is no credential.
func TestSessionsBelongToNames(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	chief, planner := h.visitor(t, chiefToken), h.visitor(t, plannerToken)
	resp, body := chief.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	id := resp.Header.Get("Mcp-Session-Id")
	if id == "" {
		t.Fatalf("no session: %d %s", resp.StatusCode, body)
	}
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	for who, want := range map[*visitor]int{chief: http.StatusOK, planner: http.StatusNotFound, h.visitor(t, ""): http.StatusUnauthorized} {
		if resp, body := who.post("/mcp", ping, "Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-06-18"); resp.StatusCode != want {
			t.Errorf("%.20s: %d, want %d: %s", who.token, resp.StatusCode, want, body)
		}
	}
}

// TestRatesBelongToNames: callers behind one address have a rate each.
func TestRatesBelongToNames(t *testing.T) {
	t.Parallel()
	h := startGuarded(t, "--caller-rate", "0.000001")
	call := edges()["/rpc"]
	for token, want := range map[string]string{plannerToken: "", chiefToken: ""} {
		v := h.visitor(t, token)
		if got := call(v, "lab.echo"); got.code != want {
			t.Errorf("the first call of %.13s: %+v", token, got)
		}
		if got := call(v, "lab.echo"); got.code != "RATE_LIMITED" {
			t.Errorf("the second call of %.13s: %+v", token, got)
		}
	}
}

// TestMutualTLS: a certificate is a name too, a token goes before it, and without
// either there is no connection.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	h := startGuarded(t, "--tls-client-ca", authority.File, "--tls-client-uris", "spiffe://example.org/agents/*")
	visit := func(token string, uris ...string) *visitor {
		v := h.visitor(t, token)
		if uris != nil {
			pair := authority.Issue(t, tlstest.Leaf{URIs: uris}).Certificate(t)
			v.client = h.http(t, &pair)
		}
		return v
	}
	call := edges()["/rpc"]
	if got := call(visit("", agentURI), "lab.inspect"); got.code != "" || !strings.Contains(got.said, "agent") {
		t.Errorf("an agent by certificate: %+v", got)
	}
	if got := call(visit("", agentURI), "fleet.get_order"); got.code != "PERMISSION_DENIED" {
		t.Errorf("what the agent may not call: %+v", got)
	}
	if got := call(visit("", "spiffe://example.org/agents/stranger"), "lab.echo"); got.code != "UNAUTHENTICATED" {
		t.Errorf("a certificate without an entry: %+v", got)
	}
	if got := call(visit(plannerToken, agentURI), "fleet.get_order"); got.code == "PERMISSION_DENIED" || got.code == "UNAUTHENTICATED" {
		t.Errorf("the token of another, which goes before the certificate: %+v", got)
	}
	if got := call(visit(unknownToken, agentURI), "lab.echo"); got.code != "UNAUTHENTICATED" {
		t.Errorf("a bad token beside a good certificate: %+v", got)
	}
	stranger := tlstest.NewAuthority(t).Issue(t, tlstest.Leaf{URIs: []string{agentURI}}).Certificate(t)
	other := authority.Issue(t, tlstest.Leaf{URIs: []string{"spiffe://example.org/other"}}).Certificate(t)
	for name, shown := range map[string]*tls.Certificate{"no certificate": nil, "another authority's": &stranger, "another name": &other} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.main+"/rpc", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := h.http(t, shown).Do(r); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s: let in with %s", name, resp.Status)
		}
	}
}

// TestCertificatesAlone: without a callers file, a certificate's name is the
// caller's.
func TestCertificatesAlone(t *testing.T) {
	t.Parallel()
	authority := tlstest.NewAuthority(t)
	h := startGuarded(t, "--tls-client-ca", authority.File, "--tokens", "")
	pair := authority.Issue(t, tlstest.Leaf{URIs: []string{agentURI}}).Certificate(t)
	v := h.visitor(t, "")
	v.client = h.http(t, &pair)
	if got := edges()["tool API, gRPC"](v, "lab.inspect"); got.code != "" || !strings.Contains(got.said, agentURI) {
		t.Errorf("%+v", got)
	}
}

// TestNoSecretComesOut drives every edge with good, bad and unknown tokens, and
// then looks for them in everything that came out of the process: answers, the
// log at its most talkative, run records with payloads, and all operators' pages.
func TestNoSecretComesOut(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	heard := map[string]string{}
	v := h.visitor(t, "")
	// Tokens where none belong, first, because the log is bounded: in the query, in
	// the path, in another scheme, in other headers.
	for _, odd := range []string{"/rpc?access_token=" + plannerToken, "/" + plannerToken, "/mcp/" + plannerToken} {
		heard["odd"] += second(v.post(odd, "{}"))
	}
	v.post("/rpc", "{}", "Authorization", "Basic "+plannerToken)
	v.post("/rpc", "{}", "Cookie", "token="+plannerToken, "X-Api-Key", plannerToken)
	heard["odd"] += v.heard.String()
	for edge, call := range edges() {
		for _, token := range []string{plannerToken, chiefToken, unknownToken, unknownToken + "\u00e9", plannerToken[:10]} {
			v := h.visitor(t, token)
			if token != unknownToken+"\u00e9" || strings.HasPrefix(edge, "/") { // RPC clients refuse to send it
				call(v, "lab.echo")
				call(v, "fleet.cancel_order")
			}
			heard[edge] += v.heard.String()
		}
	}
	for _, page := range []string{"/metrics", "/readyz?verbose", "/describe", "/trust", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
		_, body := fetch(t, getRequest(t, h.admin+page))
		heard[page] = body
	}
	h.end(t)
	heard["log"] = h.log.String()
	err := filepath.WalkDir(h.records, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		heard["records"] += string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, where := range []string{"log", "records", "/metrics", "/rpc", "tool API, gRPC", "odd"} {
		if heard[where] == "" {
			t.Errorf("nothing came out of %s, so nothing was looked at", where)
		}
	}
	for where, text := range heard {
		for _, secret := range []string{plannerToken, chiefToken, unknownToken, digestOf(plannerToken), "PRIVATE KEY"} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s holds a secret: %.200s", where, text[max(0, at-150):])
			}
		}
	}
}

// TestForeignPagesAreKeptOut of every listener, on every path, wherever they come
// with; and foreign names of loopback listeners.
func TestForeignPagesAreKeptOut(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	for listener, paths := range map[string][]string{
		h.main: {"/mcp", "/rpc", "/outrigger.v1.ToolService/ListTools", "/outrigger.demo.v1.Lab/Echo", "/grpc.health.v1.Health/Check", "/"},
		h.admin: {"/livez", "/readyz", "/metrics", "/drain", "/trust", "/debug/pprof/", "/outrigger.v1.ToolService/RegisterTool",
			"/outrigger.v1.ToolService/UnregisterTool", "/"},
		h.health: {"/livez", "/readyz", "/startupz", "/metrics", "/"},
	} {
		for _, path := range paths {
			for name, value := range map[string]string{"Origin": "https://evil.example", "origin null": "null", "Host": "evil.example"} {
				for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
					r, err := http.NewRequestWithContext(t.Context(), method, listener+path, nil)
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer "+chiefToken)
					if name == "Host" {
						r.Host = value
					} else {
						r.Header.Set("Origin", value)
					}
					resp, err := h.http(t, nil).Do(r)
					if err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode != http.StatusForbidden {
						t.Errorf("%s %s with %s %s: %d", method, path, name, value, resp.StatusCode)
					}
				}
			}
		}
	}
	select {
	case code := <-h.code:
		t.Errorf("a foreign page ended the process with %d", code)
	case <-time.After(time.Millisecond):
	}
}

// TestRefusalsAreCounted where Prometheus sees them.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	call := edges()["/rpc"]
	call(h.visitor(t, ""), "lab.echo")
	call(h.visitor(t, unknownToken), "lab.echo")
	call(h.visitor(t, unknownToken), "lab.echo")
	_, page := fetch(t, getRequest(t, h.admin+"/metrics"))
	for _, line := range []string{
		`outrigger_unauthenticated_total{reason="missing"} 1`, `outrigger_unauthenticated_total{reason="unknown"} 2`,
		`outrigger_unauthenticated_total{reason="malformed"} 0`, `outrigger_tls_certificate_expiry_timestamp_seconds `,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no %s", line)
		}
	}
}
