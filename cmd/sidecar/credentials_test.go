// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestABackendThatWantsCredentials is used through every edge, and nothing that
// comes out of the process shows them: not when they are right, not when they are
// refused, and not when the backend repeats them.
func TestABackendThatWantsCredentials(t *testing.T) {
	t.Parallel()
	const first, second = "canary-first-8Xk20dk3QmZ", "canary-second-Lw93nXc6RmV"
	f := newFront(t)
	f.wantToken(first)
	dir := t.TempDir()
	token, records := filepath.Join(dir, "token"), filepath.Join(dir, "runs")
	rewrite(t, token, first+"\n")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &lockedBuffer{}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{
			"serve", "--backend", f.url, "--backend-token-file", token, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
			"--record-dir", records, "--record-payloads", "--log-format", "json", "--log-level", "debug", "--reload-interval", "50ms",
		}, strings.NewReader(""), io.Discard, out, nil)
	}()
	h := &guardedSidecar{log: out}
	testkit.Says(t, h.log, `"msg":"ready"`)
	h.addresses()
	p := &process{main: h.main, admin: h.admin}

	call := func() string {
		t.Helper()
		_, body := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"}}}`)
		return body
	}
	if body := call(); !strings.Contains(body, `"result"`) {
		t.Fatalf("/rpc: %s", body)
	}
	if _, body := postRPC(t, p.main, `{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"fleet.watch_vehicles","arguments":{"rounds":1}}}`); !strings.Contains(body, `"result"`) {
		t.Errorf("a stream: %s", body)
	}
	if got, err := p.client(t).CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"n"}`)},
	})); err != nil || got.Msg.GetResult().GetStatus() != "success" {
		t.Errorf("ToolService: %v, %v", got, err)
	}
	typed := demov1connect.NewLabClient(http.DefaultClient, p.main)
	req := connect.NewRequest(&demov1.EchoRequest{Nonce: "n"})
	req.Header().Set("Authorization", "Bearer caller")
	if got, err := typed.Echo(t.Context(), req); err != nil || got.Msg.GetNonce() != "n" {
		t.Errorf("typed: %v, %v", got, err)
	}

	f.wantToken(second)
	refused := call()
	if !strings.Contains(refused, "unauthenticated") || !strings.Contains(refused, "invalid token") {
		t.Errorf("with a token that is not wanted: %s", refused)
	}
	rewrite(t, token, second)
	testkit.Says(t, h.log, `"msg":"backend credentials reloaded"`)
	if body := call(); !strings.Contains(body, `"result"`) {
		t.Errorf("after the change: %s", body)
	}
	rewrite(t, token, " ")
	testkit.Says(t, h.log, `backend credentials reload failed; keeping the last good ones`)
	if body := call(); !strings.Contains(body, `"result"`) {
		t.Errorf("after a faulty change: %s", body)
	}

	var shown strings.Builder
	shown.WriteString(refused)
	for _, page := range []string{"/metrics", "/readyz?verbose", "/describe", "/trust"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, body := fetch(t, req)
		shown.WriteString(body)
	}
	stop()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	shown.WriteString(out.String())
	if err := filepath.WalkDir(records, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		shown.Write(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(shown.String(), `"tool":"lab.echo"`) {
		t.Error("the records were not read")
	}
	for _, secret := range []string{first, second} {
		if i := strings.Index(shown.String(), secret); i >= 0 {
			t.Errorf("shown: %s", shown.String()[max(0, i-200):i+len(secret)])
		}
	}
}

// TestCredentialsAreCheckedBeforeAPortOpens, and named by their flags or fields.
func TestCredentialsAreCheckedBeforeAPortOpens(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "sidecar.yaml")
	rewrite(t, token, "canary-8Xk20dk3QmZ")
	rewrite(t, file, "backend:\n  metadata:\n    static:\n      authorization: canary-8Xk20dk3QmZ\n      host: canary-8Xk20dk3QmZ\n")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"no file":       {[]string{"--backend", "http://127.0.0.1:1", "--backend-token-file", token + "x"}, "--backend-token-file: token file: open "},
		"in the clear":  {[]string{"--backend", "http://spicedb:50051", "--backend-token-file", token}, "--backend: credentials would cross the network without TLS"},
		"a header file": {[]string{"--backend", "http://127.0.0.1:1", "--backend-header-file", token}, "--backend-header-file: header file: "},
		"a host":        {[]string{"--config", file, "--backend", "http://127.0.0.1:1"}, "backend.metadata.static: host is reserved by the protocol"},
	} {
		var stderr bytes.Buffer
		code := run(t.Context(), append([]string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "--record-dir", "off"}, tt.args...),
			strings.NewReader(""), io.Discard, &stderr, nil)
		if code != exitUsage || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: exit code %d, %s", name, code, stderr.String())
		}
		if strings.Contains(stderr.String(), "canary") {
			t.Errorf("%s: shown: %s", name, stderr.String())
		}
	}
}
