// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

const (
	readerToken   = "canary-reader-4Hq81mXb5TnW"
	operatorToken = "canary-operator-9Kd02mXq77Z"
)

func operatorsYAML() string {
	return fmt.Sprintf("operators:\n  - name: reader\n    token_sha256: [%q]\n    role: read\n  - name: operator\n    token_sha256: [%q]\n    role: operate\n",
		digestOf(readerToken), digestOf(operatorToken))
}

// governed is a sidecar whose operators authenticate, on a Unix socket.
type governed struct {
	socket, tokens string
	stop           context.CancelFunc
	code           chan int
	log            *lockedBuffer
	client         *http.Client
}

func startGoverned(t *testing.T, args ...string) *governed {
	t.Helper()
	return startOnSocket(t, true, args...)
}

// startOnSocket starts a sidecar whose admin listener is a Unix socket, with operators or
// without.
func startOnSocket(t *testing.T, hasOperators bool, args ...string) *governed {
	t.Helper()
	dir := t.TempDir()
	g := &governed{
		socket: filepath.Join(dir, "admin.sock"), tokens: filepath.Join(dir, "operators.yaml"), code: make(chan int, 1), log: &lockedBuffer{},
	}
	rewrite(t, g.tokens, operatorsYAML())
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	all := append([]string{
		"serve", "--demo", "--listen", "127.0.0.1:0", "--admin", "unix://" + g.socket, "--admin-socket-mode", "0660",
		"--record-dir", "off", "--log-format", "json", "--reload-interval", "50ms",
	}, args...)
	if hasOperators {
		all = append(all, "--admin-tokens", g.tokens)
	}
	go func() { g.code <- run(ctx, all, strings.NewReader(""), io.Discard, g.log, nil) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", g.socket)
	}}
	g.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		stop()
		if code := <-g.code; code != exitOK {
			t.Errorf("exit code %d:\n%s", code, g.log.String())
		}
		for _, token := range []string{readerToken, operatorToken} {
			if strings.Contains(g.log.String(), token) {
				t.Error("a token is in the log")
			}
		}
	})
	testkit.Says(t, g.log, `"msg":"ready"`)
	return g
}

// ask sends a request and returns its status and answer.
func (g *governed) ask(t *testing.T, method, path, token, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := g.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text), res.Header
}

// TestOperators: what each role may do on the admin listener, and that probes are open.
func TestOperators(t *testing.T) {
	t.Parallel()
	g := startGoverned(t)
	if at, err := os.Lstat(g.socket); err != nil || at.Mode().Perm() != 0o660 {
		t.Errorf("the socket: %v, %v", at, err)
	}
	const trust = `{"trust":"trusted"}`
	for _, tt := range []struct {
		method, path, body         string
		unknown, reader, operating int
	}{
		{"GET", "/livez", "", 200, 200, 200},
		{"GET", "/readyz", "", 200, 200, 200},
		{"GET", "/readyz?verbose", "", 200, 200, 200},
		{"GET", "/startupz", "", 200, 200, 200},
		{"GET", "/metrics", "", 401, 200, 200},
		{"GET", "/describe", "", 401, 200, 200},
		{"GET", "/trust", "", 401, 200, 200},
		{"POST", "/trust", trust, 401, 403, 200},
		{"POST", "/refresh", "", 401, 403, 200},
		{"GET", "/debug/pprof/cmdline", "", 401, 403, 200},
		{"GET", "/debug/pprof/", "", 401, 403, 200},
		{"GET", "/debug/pprof/heap", "", 401, 403, 200},
		{"POST", "/outrigger.v1.ToolService/ListTools", "{}", 401, 200, 200},
		{"POST", "/outrigger.v1.ToolService/RegisterTool", `{"name":"a.b"}`, 401, 403, 400},
		{"POST", "/outrigger.v1.ToolService/UnregisterTool", `{"name":"a.b"}`, 401, 403, 404},
		{"POST", "/drain", "", 401, 403, 0}, // the last would end the process
		{"GET", "/none", "", 404, 404, 404},
	} {
		for token, want := range map[string]int{"": tt.unknown, unknownToken: tt.unknown, readerToken: tt.reader, operatorToken: tt.operating} {
			if want == 0 {
				continue
			}
			if token == unknownToken && tt.path == "/readyz?verbose" || token == unknownToken && tt.path == "/readyz" {
				want = 401 // the details are not for everyone
			}
			status, text, header := g.ask(t, tt.method, tt.path, token, tt.body)
			if status != want {
				t.Errorf("%s %s with %q: %d %s, want %d", tt.method, tt.path, token, status, text, want)
			}
			if status == 401 && !strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s %s: challenge %q", tt.method, tt.path, header.Get("WWW-Authenticate"))
			}
		}
	}
	if _, text, _ := g.ask(t, "GET", "/readyz?verbose", "", ""); strings.Contains(text, "tools") {
		t.Errorf("details for everyone: %s", text)
	}
	if _, text, _ := g.ask(t, "GET", "/readyz?verbose", readerToken, ""); !strings.Contains(text, "catalog") {
		t.Errorf("no details for an operator: %s", text)
	}
	if !strings.Contains(g.log.String(), `"who":"operator"`) {
		t.Error("the log does not say who changed trust")
	}
	// A role that is taken away is gone with the next request.
	rewrite(t, g.tokens, strings.ReplaceAll(operatorsYAML(), "role: operate", "role: read"))
	testkit.Until(t, "the role has gone", func() bool {
		status, _, _ := g.ask(t, "POST", "/refresh", operatorToken, "")
		return status == 403
	})
}

// TestASocketWithoutOperators: the permissions of its file decide, and the log names the
// process that made a change.
func TestASocketWithoutOperators(t *testing.T) {
	t.Parallel()
	g := startOnSocket(t, false)
	for _, one := range [][3]string{{"GET", "/metrics", ""}, {"GET", "/debug/pprof/cmdline", ""}, {"POST", "/refresh", ""}, {"POST", "/trust", `{"trust":"trusted"}`}} {
		if status, text, _ := g.ask(t, one[0], one[1], "", one[2]); status != 200 {
			t.Errorf("%s: %d %s", one[1], status, text)
		}
	}
	if status, text, _ := g.ask(t, "POST", "/trust", "", `{"trust":"trusted"}`, "Origin", "https://evil.example"); status != 403 {
		t.Errorf("a page: %d %s", status, text)
	}
	if runtime.GOOS == "linux" && !strings.Contains(g.log.String(), fmt.Sprintf(`"who":"unix:uid=%d,pid=%d"`, os.Getuid(), os.Getpid())) {
		t.Error("the log does not name the process")
	}
	g.client.CloseIdleConnections() // the drain would wait for them
	if code, stdout, stderr := runDrain(t, nil, "--admin", "unix://"+g.socket); code != exitOK {
		t.Errorf("drain: %d %s %s", code, stdout, stderr)
	}
}

// TestNoPageReachesTheAdminListener, whatever origins may call tools.
func TestNoPageReachesTheAdminListener(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, "--allowed-origins", "https://app.example.com,*")
	for _, headers := range [][]string{
		{"Origin", "https://app.example.com"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"},
	} {
		for _, one := range [][3]string{
			{"POST", "/drain", ""}, {"POST", "/refresh", ""}, {"POST", "/trust", `{"trust":"trusted"}`}, {"GET", "/debug/pprof/profile?seconds=1", ""},
			{"GET", "/describe", ""}, {"POST", "/outrigger.v1.ToolService/UnregisterTool", `{"name":"a.b"}`},
			{"GET", "/console", ""}, {"POST", "/console/sign-in", `{"token":"x"}`}, {"POST", "/console/call/rpc", "{}"}, {"GET", "/console/call/mcp", ""},
			{"POST", "/outrigger.admin.v1.AdminService/GetServer", "{}"},
		} {
			status, text, header := g.ask(t, one[0], one[1], operatorToken, one[2], headers...)
			if status != 403 || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s with %v: %d %s, %v", one[1], headers, status, text, header)
			}
		}
	}
	if _, text, _ := g.ask(t, "GET", "/trust", readerToken, ""); !strings.Contains(text, `"changes":0`) {
		t.Errorf("trust has changed: %s", text)
	}
	link := []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}
	for path, want := range map[string]int{"/console": 200, "/console/try/lab.echo": 200, "/trust": 403, "/console/call/mcp": 403} {
		if status, text, _ := g.ask(t, "GET", path, "", "", link...); status != want {
			t.Errorf("a link to %s: %d %s", path, status, text)
		}
	}
	// The page's own origin, under the name that the client has for the listener.
	status, text, header := g.ask(t, "POST", "/console/sign-in", "", `{"token":"`+operatorToken+`"}`, "Origin", "http://localhost")
	cookie, _, _ := strings.Cut(header.Get("Set-Cookie"), ";")
	if status != 204 || cookie == "" {
		t.Fatalf("sign-in: %d %s %v", status, text, header)
	}
	for origin, want := range map[string]int{"http://localhost": 200, "http://localhost:3000": 403, "https://evil.example": 403} {
		if status, text, _ := g.ask(t, "POST", "/outrigger.admin.v1.AdminService/GetServer", "", "{}", "Cookie", cookie, "Origin", origin); status != want {
			t.Errorf("a session on a page of %s: %d %s", origin, status, text)
		}
	}
	if status, text, _ := g.ask(t, "POST", "/refresh", "", "", "Cookie", cookie, "Origin", "http://localhost"); status != 401 {
		t.Errorf("a session outside the console: %d %s", status, text)
	}
}

// TestDrainWithAToken: `sidecar drain` on a Unix socket, without and with a token.
func TestDrainWithAToken(t *testing.T) {
	t.Parallel()
	g := startGoverned(t)
	dir := t.TempDir()
	files := map[string]string{"read": readerToken, "operate": operatorToken + "\n", "short": "x"}
	for name, token := range files {
		files[name] = filepath.Join(dir, name)
		rewrite(t, files[name], token)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--admin", "unix://" + g.socket}, 1, "--token-file names the token"},
		{[]string{"--admin", "unix://" + g.socket, "--token-file", files["read"]}, 1, "needs the role operate"},
		{[]string{"--admin", "unix://" + g.socket, "--token-file", files["short"]}, 1, "has no token of 16 to 4096"},
		{[]string{"--admin", "unix://" + g.socket, "--token-file", filepath.Join(dir, "none")}, 1, "no such file"},
		{[]string{"--admin", "unix://relative"}, 2, "unix:///path"},
		{[]string{"--admin", "unix://" + g.socket, "--token-file", files["operate"]}, 0, "drained"},
		{[]string{"--admin", "unix://" + g.socket}, 0, "stopped already"},
	} {
		if tt.want == "stopped already" {
			code := <-g.code
			g.code <- code
		}
		code, stdout, stderr := runDrain(t, nil, tt.args...)
		if code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%v: %d %s %s, want %d %q", tt.args, code, stdout, stderr, tt.code, tt.want)
		}
	}
	if _, err := os.Lstat(g.socket); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestAdminTLS: operators by certificate, and no other client.
func TestAdminTLS(t *testing.T) {
	t.Parallel()
	const uri = "spiffe://example.org/ops"
	authority := tlstest.NewAuthority(t)
	server := authority.Issue(t, tlstest.Leaf{Hosts: []string{"127.0.0.1"}})
	tokens := filepath.Join(t.TempDir(), "operators.yaml")
	rewrite(t, tokens, "operators:\n  - name: ops\n    certificate_uris: ["+uri+"]\n    role: operate\n")
	h := startGuarded(t, "--admin-tokens", tokens, "--admin-tls-cert", server.CertFile, "--admin-tls-key", server.KeyFile, "--admin-tls-client-ca", authority.File)
	get := func(uri string, header ...string) (int, error) {
		shown := authority.Issue(t, tlstest.Leaf{URIs: []string{uri}})
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority.Pool, Certificates: []tls.Certificate{shown.Certificate(t)}}}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https"+strings.TrimPrefix(h.admin, "http")+"/describe", http.NoBody)
		if err != nil {
			return 0, err
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		if host, ok := strings.CutPrefix(req.Header.Get("Origin"), "https://"); ok {
			req.Host = host
		}
		res, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	if status, err := get(uri); status != 200 || err != nil {
		t.Errorf("the operator: %d, %v", status, err)
	}
	// A browser shows its certificate to any name that leads here, so a page of another name is none of ours.
	if status, err := get(uri, "Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"); status != 403 || err != nil {
		t.Errorf("a page under another name: %d, %v", status, err)
	}
	if status, err := get("spiffe://example.org/other"); status != 401 || err != nil {
		t.Errorf("another certificate: %d, %v", status, err)
	}
}

// TestRightsOnTheBus: callers publish and read what their entries say.
func TestRightsOnTheBus(t *testing.T) {
	t.Parallel()
	h := startGuarded(t)
	rewrite(t, h.callers, fmt.Sprintf(`callers:
  - name: planner
    token_sha256: [%q]
    tools: ["*"]
  - name: chief
    token_sha256: [%q]
    tools: ["*"]
    publish: ["notifications/orders/*"]
    subscribe: ["notifications/orders/*", "notifications/stock"]
`, digestOf(plannerToken), digestOf(chiefToken)))
	testkit.Says(t, h.log, "callers file reloaded")
	planner, chief := h.visitor(t, plannerToken).api(connect.WithGRPC()), h.visitor(t, chiefToken).api(connect.WithGRPC())
	publish := func(c outriggerv1connect.ToolServiceClient, method string) connect.Code {
		_, err := c.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: method}))
		return connect.CodeOf(err)
	}
	const ok = connect.Code(0)
	codeOf := func(err error) connect.Code {
		if err == nil {
			return ok
		}
		return connect.CodeOf(err)
	}
	for method, want := range map[string]connect.Code{"notifications/orders/new": ok, "notifications/stock": connect.CodePermissionDenied} {
		_, err := chief.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: method}))
		if codeOf(err) != want {
			t.Errorf("chief publishes %s: %v", method, err)
		}
	}
	if got := publish(planner, "notifications/orders/new"); got != connect.CodePermissionDenied {
		t.Errorf("planner publishes: %v", got)
	}
	subscribe := func(c outriggerv1connect.ToolServiceClient, methods ...string) error {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := c.Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{
			Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: methods}},
		}))
		if err != nil {
			return err
		}
		defer func() { _ = stream.Close() }()
		if len(methods) == 0 || methods[0] != "*" {
			stream.Receive() // ends at once, or the test is stuck
			return stream.Err()
		}
		if _, err := chief.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: "notifications/orders/new"})); err != nil {
			return err
		}
		if !stream.Receive() {
			return stream.Err()
		}
		if got := stream.Msg().GetMethod(); got != "notifications/orders/new" {
			t.Errorf("received %s", got)
		}
		return nil
	}
	if got := codeOf(subscribe(planner, "notifications/orders/new")); got != connect.CodePermissionDenied {
		t.Errorf("planner subscribes: %v", got)
	}
	if got := codeOf(subscribe(chief, "notifications/secret")); got != connect.CodePermissionDenied {
		t.Errorf("chief subscribes to another topic: %v", got)
	}
	if err := subscribe(chief, "*"); err != nil {
		t.Errorf("chief subscribes: %v", err)
	}
	// A notification of the canonical dialect has no answer: it is not published, and logged.
	h.visitor(t, plannerToken).post("/rpc", `{"jsonrpc":"2.0","method":"notifications/orders/new"}`)
	testkit.Says(t, h.log, "notification not published")
}

// TestTokenOfAnOperator prints an entry that the sidecar takes.
func TestTokenOfAnOperator(t *testing.T) {
	t.Parallel()
	var out, errs lockedBuffer
	if code := run(t.Context(), []string{"token", "ops", "--operator", "read"}, strings.NewReader(""), &out, &errs, nil); code != exitOK {
		t.Fatal(errs.String())
	}
	path := filepath.Join(t.TempDir(), "operators.yaml")
	rewrite(t, path, "operators:\n"+out.String())
	if !strings.Contains(out.String(), "role: read") || strings.Contains(out.String(), "tools") {
		t.Error(out.String())
	}
	if code := run(t.Context(), []string{"token", "ops", "--operator", "all"}, strings.NewReader(""), &out, &errs, nil); code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if _, err := config.LoadOperators(path); err != nil {
		t.Error(err)
	}
}
