// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// inside is what no answer to a caller may hold: addresses, names of files, and
// how Go words errors.
var inside = regexp.MustCompile(`127\.0\.0\.1|dial tcp|unix:|connection re(fused|set)|no such file|\.sock|\.binpb|\bEOF\b|broken pipe|\.go:|goroutine|` +
	`i/o timeout|context (deadline|canceled)|http2:|proto:|protojson|unmarshal|grpcwire|reflection:|0x[0-9a-f]{6,}`)

// TestCausesStayInside breaks the backend in every way that has its own code,
// and reads what each edge says: the canonical code, and nothing of the cause. The
// log keeps it.
func TestCausesStayInside(t *testing.T) {
	t.Parallel()
	descriptors := filepath.Join(t.TempDir(), "shop.binpb")
	writeShop(t, descriptors, "GetThing")
	const call = `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"shop.get_thing","arguments":{}}}`
	for _, tt := range []struct {
		name, code, logged string
		args               []string
	}{
		{"no backend, no catalog", "UNAVAILABLE", "connection refused", []string{"--backend", "http://127.0.0.1:1"}},
		{"no socket, no catalog", "UNAVAILABLE", "no such file", []string{"--backend", "unix:///nowhere/shop.sock"}},
		{"no backend", "UNAVAILABLE", "connection refused", []string{"--backend", "http://127.0.0.1:1", "--descriptors", descriptors}},
		{"a backend that hangs up", "UNAVAILABLE", "closed the connection", []string{"--backend", "grpc://" + hangsUp(t), "--descriptors", descriptors}},
		{"a backend that speaks something else", "", "", []string{"--backend", "connect+" + speaksHTML(t), "--descriptors", descriptors}},
		{"a backend over TLS where none is expected", "", "", []string{"--backend", "grpc://" + speaksTLS(t), "--descriptors", descriptors}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--catalog-wait", "50ms", "--max-attempts", "1", "--log-format", "json", "--record-dir", "off"}, tt.args...)
			h := openHouse(t, append([]string{"serve", "--health", "127.0.0.1:0"}, args...)...)
			check := func(edge, answer string) {
				t.Helper()
				if found := inside.FindString(answer); found != "" {
					t.Errorf("%s tells a caller %q:\n%s", edge, found, answer)
				}
				if !strings.Contains(answer, tt.code) && !strings.Contains(answer, "Grpc-Status:[14]") { // its details are base64
					t.Errorf("%s does not say %s: %s", edge, tt.code, answer)
				}
			}
			post := func(path, body string, headers ...string) string {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.main+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				for i := 0; i+1 < len(headers); i += 2 {
					req.Header.Set(headers[i], headers[i+1])
				}
				resp, err := webClient(1).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				raw, _ := io.ReadAll(resp.Body)
				return fmt.Sprint(resp.Header, resp.Trailer, string(raw))
			}
			const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
			check("/rpc", post("/rpc", call))
			check("/rpc, a batch", post("/rpc", "["+call+"]"))
			check("/rpc, the message form", post("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"shop.get_thing","arguments":{}}}`))
			check("/mcp, modern", post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_get_thing","arguments":{},`+modernMeta+`}}`,
				"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "shop_get_thing"))
			check("/mcp, legacy", post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"shop_get_thing","arguments":{}}}`,
				"MCP-Protocol-Version", "2025-03-26"))
			check("ToolService over Connect", post("/outrigger.v1.ToolService/CallTool", `{"tool_name":"shop.get_thing"}`, "Connect-Protocol-Version", "1"))
			check("ToolService over gRPC-Web", post("/outrigger.v1.ToolService/CallTool", "\x00\x00\x00\x00\x10\x0a\x0eshop.get_thing", "Content-Type", "application/grpc-web+proto"))
			check("the typed pass-through", post("/shop.v1.Shop/GetThing", `{}`, "Connect-Protocol-Version", "1"))
			var out, errs bytes.Buffer
			run(t.Context(), append([]string{"stdio"}, args...), strings.NewReader(call+"\n"), &out, &errs, nil)
			check("stdio", out.String())
			for _, method := range []string{"tools/list", "server/describe"} {
				answer := post("/rpc", `{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":{}}`)
				if found := inside.FindString(answer); found != "" {
					t.Errorf("%s tells a caller %q: %s", method, found, answer)
				}
			}
			for _, query := range []string{"", "?verbose"} {
				if _, page := get2(t, h.health+"/readyz"+query); inside.MatchString(page) {
					t.Errorf("the health listener tells %q", page)
				}
			}
			testkit.Says(t, h.log, tt.logged)
		})
	}
}

// openHouse starts a sidecar without TLS and callers.
func openHouse(t *testing.T, args ...string) *guardedSidecar {
	t.Helper()
	h := &guardedSidecar{code: make(chan int, 1), log: &lockedBuffer{}}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	all := append([]string{args[0], "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, args[1:]...)
	go func() { h.code <- run(ctx, all, strings.NewReader(""), io.Discard, h.log, nil) }()
	t.Cleanup(func() { h.end(t) })
	testkit.Says(t, h.log, `"listener":"health"`)
	testkit.Says(t, h.log, `"listener":"main"`)
	h.addresses()
	return h
}

// hangsUp is the address of a peer that ends each connection as soon as something
// has come.
func hangsUp(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = nc.Read(make([]byte, 1))
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener.Addr().String()
}

// speaksHTML is the URL of a web server.
func speaksHTML(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>unexpected EOF at /srv/main.go:3</html>")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// speaksTLS is the address of a server that wants TLS.
func speaksTLS(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = zap.NewStdLog(zap.NewNop())
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}
