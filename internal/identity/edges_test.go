// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// edge is one way in.
type edge struct {
	name, method, path, body string
	header                   map[string]string
	http2                    bool
}

const (
	asJSON  = "application/json"
	asGRPC  = "application/grpc"
	noBytes = "\x00\x00\x00\x00\x00" // an empty gRPC message
)

func edges() []edge {
	accept := map[string]string{"Content-Type": asJSON, "Accept": "application/json, text/event-stream"}
	modern := map[string]string{
		"Content-Type": asJSON, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list",
	}
	meta := `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	grpc := map[string]string{"Content-Type": asGRPC, "TE": "trailers"}
	return []edge{
		{"mcp modern", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + meta + `}}`, modern, false},
		{"mcp legacy", "POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, accept, false},
		{"mcp stream", "GET", "/mcp", "", map[string]string{"Accept": "text/event-stream", "Mcp-Session-Id": "x"}, false},
		{"mcp delete", "DELETE", "/mcp", "", map[string]string{"Mcp-Session-Id": "x"}, false},
		{"rpc", "POST", "/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`, accept, false},
		{"rpc batch", "POST", "/rpc", `[{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}]`, accept, true},
		{"tool api, connect", "POST", "/outrigger.v1.ToolService/ListTools", `{}`, map[string]string{"Content-Type": asJSON, "Connect-Protocol-Version": "1"}, false},
		{"tool api, gRPC", "POST", "/outrigger.v1.ToolService/ListTools", noBytes, grpc, true},
		{"tool api, gRPC-Web", "POST", "/outrigger.v1.ToolService/ListTools", noBytes, map[string]string{"Content-Type": "application/grpc-web+proto"}, false},
		{"tool api, stream", "POST", "/outrigger.v1.ToolService/WatchTools", "\x02", grpc, true},
		{"pass-through, connect", "POST", "/outrigger.demo.v1.Lab/Echo", `{}`, map[string]string{"Content-Type": asJSON, "Connect-Protocol-Version": "1"}, false},
		{"pass-through, gRPC", "POST", "/outrigger.demo.v1.Lab/Echo", noBytes, grpc, true},
		{"reflection", "POST", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "", grpc, true},
		{"health", "POST", "/grpc.health.v1.Health/Check", noBytes, grpc, true},
		{"unknown path", "GET", "/elsewhere", "", nil, false},
	}
}

// reply is what came back.
type reply struct {
	status    int
	grpc      string
	body      []byte
	challenge []string
	nonce     string
}

// asker sends requests over both versions of HTTP.
type asker struct {
	url      string
	one, two *http.Client
}

func newAsker(t testing.TB, url string) *asker {
	return &asker{url: url, one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
}

func (a *asker) ask(t testing.TB, e *edge, s shown) reply {
	t.Helper()
	url := a.url + e.path
	if s.query != "" {
		url += "?" + s.query
	}
	r, err := http.NewRequestWithContext(t.Context(), e.method, url, strings.NewReader(e.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range e.header {
		r.Header.Set(name, value)
	}
	r.Header["Authorization"], r.Header["Dpop"] = s.auth, s.proofs
	client := a.one
	if e.http2 {
		client = a.two
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	out := reply{status: got.StatusCode, grpc: got.Header.Get("Grpc-Status"), challenge: got.Header.Values("WWW-Authenticate"), nonce: got.Header.Get("DPoP-Nonce")}
	switch kind := got.Header.Get("Content-Type"); {
	case kind == "text/event-stream": // it does not end
	case strings.HasPrefix(kind, asGRPC) && !strings.HasPrefix(kind, asGRPC+"-web"):
		if _, err := io.ReadFull(got.Body, make([]byte, len(noBytes))); err == io.EOF { // no message, so an error
			out.grpc = orTrailer(out.grpc, got.Trailer.Get("Grpc-Status"))
		}
	default:
		out.body, _ = io.ReadAll(got.Body)
	}
	return out
}

func orTrailer(header, trailer string) string {
	if header != "" {
		return header
	}
	return trailer
}

// isRefused holds where the answer is the canonical error in the protocol of the edge, with the
// exact challenge.
func (r *reply) isRefused(e *edge, want answer) bool {
	if len(r.challenge) != 1 || r.challenge[0] != want.challenge {
		// gRPC-Web has it in the body, with the trailers.
		if !strings.Contains(e.header["Content-Type"], "grpc-web") || !bytes.Contains(bytes.ToLower(r.body), []byte(strings.ToLower(want.challenge))) {
			return false
		}
	}
	status, grpc, connect := http.StatusUnauthorized, "16", "unauthenticated"
	if want.code == "INVALID_AUTHORIZATION" {
		status, grpc, connect = http.StatusBadRequest, "3", "invalid_argument"
	}
	switch kind := e.header["Content-Type"]; {
	case kind == asGRPC:
		return r.status == http.StatusOK && r.grpc == grpc
	case strings.Contains(kind, "grpc-web"):
		return r.status == http.StatusOK && (r.grpc == grpc || bytes.Contains(bytes.ToLower(r.body), []byte("grpc-status: "+grpc)))
	case e.header["Connect-Protocol-Version"] != "" || e.path == "/elsewhere": // a GET may be Connect's
		return r.status == status && bytes.Contains(r.body, []byte(`"code":"`+connect+`"`)) && bytes.Contains(r.body, []byte(`"reason":"`+want.code+`"`))
	}
	var failed struct {
		Error struct {
			Code int
			Data struct{ Code string }
		}
	}
	return r.status == status && json.Unmarshal(r.body, &failed) == nil && failed.Error.Data.Code == want.code && failed.Error.Code != 0
}

// withOAuth is a configuration with the issuers of a scene and a callers file.
func withOAuth(t testing.TB, s *scene) func(*configv1.Config) {
	sum := sha256.Sum256([]byte(fileToken))
	path := filepath.Join(t.TempDir(), "callers.yaml")
	text := "callers:\n- name: clerk\n  token_sha256: [" + hex.EncodeToString(sum[:]) + "]\n  tools: [\"*\"]\n" +
		"- name: joined\n  oauth: [{issuer: \"" + s.issuer.URL + "\", subject: joe}]\n  tools: [\"*\"]\n  subscribe: [\"*\"]\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(c *configv1.Config) {
		c.Access.TokensFile = path
		c.Access.Oauth.Resource = resource
		c.Access.Oauth.IssuerUrls = []string{s.issuer.URL}
		c.Access.Oauth.Issuers = []*configv1.OAuthIssuer{{Url: s.other.URL, Audiences: []string{"api://other"}}}
	}
}

// TestFaultsOnEveryEdge: no bad token passes the door of any edge, each gets the canonical
// error with the exact challenge, and nothing of a token is in an answer or in the log.
func TestFaultsOnEveryEdge(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	core, logged := observer.New(zapcore.DebugLevel)
	rig := mcptest.Start(t, mcptest.Options{Configure: withOAuth(t, s), Log: zap.New(core)})
	a := newAsker(t, rig.Serve(t))
	faults := s.faults()
	if len(faults) < 60 {
		t.Errorf("the table has %d faults", len(faults))
	}
	var tokens []string
	for _, e := range edges() {
		good := shown{auth: []string{"Bearer " + s.issuer.Token(resource, nil)}}
		if got := a.ask(t, &e, good); got.isDenied() {
			t.Errorf("%s: a good token is refused: %d %s %q %s", e.name, got.status, got.grpc, got.challenge, got.body)
		}
		for _, f := range faults {
			show := f.show(e.method, e.path)
			if f.name == "a replayed proof" {
				a.ask(t, &e, show)
			}
			got := a.ask(t, &e, show)
			if !got.isRefused(&e, f.want) {
				t.Errorf("%s, %s: %d, gRPC %q, %q, want %q\n%s", e.name, f.name, got.status, got.grpc, got.challenge, f.want, got.body)
			}
			for _, auth := range append(show.auth, show.proofs...) {
				_, token, _ := strings.Cut(auth, " ")
				if len(token) > 20 {
					tokens = append(tokens, token)
				}
				if len(token) > 20 && bytes.Contains(got.body, []byte(token)) {
					t.Errorf("%s, %s: the answer repeats the token", e.name, f.name)
				}
			}
		}
	}
	for _, line := range logged.All() {
		text, _ := json.Marshal(line.ContextMap())
		for _, token := range tokens {
			if strings.Contains(line.Message+string(text), token) {
				t.Fatalf("a token is in the log: %s", line.Message)
			}
		}
	}
}

// isDenied holds for an answer of the door.
func (r *reply) isDenied() bool {
	return len(r.challenge) > 0 || r.status == http.StatusUnauthorized || r.grpc == "16" || r.status == http.StatusServiceUnavailable
}

// TestGoodTokensOnEveryEdge: each kind of good credentials passes every door.
func TestGoodTokensOnEveryEdge(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	rig := mcptest.Start(t, mcptest.Options{Configure: withOAuth(t, s)})
	a := newAsker(t, rig.Serve(t))
	i := s.issuer
	bound := i.Token(resource, func(c map[string]any) { c["cnf"] = s.client.Confirmation() })
	with := func(name string, value any) func(string, string) shown {
		return bearer(i.Token(resource, func(c map[string]any) { c[name] = value }))
	}
	goods := map[string]func(method, path string) shown{
		"callers file":      bearer(fileToken),
		"aud with a slash":  with("aud", resource+"/"),
		"aud array":         with("aud", []string{"a", resource}),
		"scp array":         with("scp", []string{"a"}),
		"in another case":   always("bEaReR   " + i.Token(resource, nil)),
		"RS256":             bearer(s.rsa.Sign(map[string]any{"alg": "RS256", "kid": "rsa"}, i.Claims(resource))),
		"no kid, no typ":    bearer(i.Key.Sign(map[string]any{"alg": "ES256"}, i.Claims(resource))),
		"jku is ignored":    bearer(i.Key.Sign(map[string]any{"alg": "ES256", "kid": "first", "jku": "http://127.0.0.1:1/", "typ": "JWT"}, i.Claims(resource))),
		"another issuer":    bearer(s.other.Token(resource, nil)),
		"another audience":  bearer(s.other.Token("api://other", nil)),
		"subject of a file": with("sub", "joe"),
		"DPoP": func(method, path string) shown {
			return shown{auth: []string{"DPoP " + bound}, proofs: []string{s.client.Proof(method, origin+path+"?a=b", bound, nil)}}
		},
		"DPoP in another spelling": func(method, path string) shown {
			return shown{auth: []string{"dpop " + bound}, proofs: []string{s.client.Proof(method, "HTTP://127.0.0.1:9"+path, bound, nil)}}
		},
	}
	for _, e := range edges() {
		for name, show := range goods {
			if got := a.ask(t, &e, show(e.method, e.path)); got.isDenied() {
				t.Errorf("%s, %s: %d, gRPC %q, %q\n%s", e.name, name, got.status, got.grpc, got.challenge, got.body)
			}
		}
	}
}
