// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestEachFaultOfABackendHasItsFix sets up real servers with one fault each. The
// doctor names the fault and the fix, serve warns of the same once, and with the
// fix, where it is a setting of the sidecar, the doctor is content.
func TestEachFaultOfABackendHasItsFix(t *testing.T) {
	t.Parallel()
	const token = "canary-8Xk20dk3QmZ"
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	plain := peer.GRPCSetup(t, peer.Setup{})
	secure := peer.GRPCSetup(t, peer.Setup{TLS: true})
	mutual := peer.GRPCSetup(t, peer.Setup{TLS: true, ClientCertificates: true})
	silent := peer.GRPCSetup(t, peer.Setup{NoReflection: true})
	silentTLS := peer.GRPCSetup(t, peer.Setup{NoReflection: true, TLS: true})
	empty := peer.GRPCSetup(t, peer.Setup{NoServices: true})
	guarded := peer.GRPCSetup(t, peer.Setup{Token: token})
	page := webServer(t, false, http.StatusNotFound, "text/html; charset=utf-8")
	pageTLS := webServer(t, true, http.StatusNotFound, "text/html; charset=utf-8")
	closed := webServer(t, false, http.StatusUnauthorized, "text/plain")
	address := func(s *peer.Service) string { _, a, _ := strings.Cut(s.URL, "://"); return a }

	for name, tt := range map[string]struct {
		args  []string
		cause string
		fix   string
		// mended are arguments with which all is well; nil where the fault is not ours.
		mended []string
	}{
		"unknown authority": {
			[]string{"--backend", secure.URL}, "tls_unknown_authority", "--backend-ca FILE", []string{"--backend", secure.URL, "--backend-ca", secure.CA}},
		"unknown authority, probed": {
			[]string{"--backend", "https://" + address(secure)}, "tls_unknown_authority", "--backend-ca FILE", nil},
		"another name": {
			[]string{"--backend", secure.URL, "--backend-ca", secure.CA, "--backend-server-name", "example.org"}, "tls_wrong_name", "--backend-server-name NAME", nil},
		"a client certificate": {
			[]string{"--backend", mutual.URL, "--backend-ca", mutual.CA}, "tls_client_refused", "--backend-cert FILE and --backend-key FILE", nil},
		"plaintext to TLS": {
			[]string{"--backend", "grpc://" + address(secure)}, "tls_needed", "--backend grpcs://" + address(secure), nil},
		"plaintext to TLS, probed": {
			[]string{"--backend", "http://" + address(secure)}, "tls_needed", "--backend https://" + address(secure), nil},
		"TLS to plaintext": {
			[]string{"--backend", "grpcs://" + address(plain)}, "tls_not_spoken", "--backend grpc://" + address(plain), []string{"--backend", plain.URL}},
		"TLS to plaintext, probed": {
			[]string{"--backend", "https://" + address(plain)}, "tls_not_spoken", "--backend http://" + address(plain), []string{"--backend", "http://" + address(plain)}},
		"a web server":          {[]string{"--backend", "http://" + page}, "web_server", "correct the port in --backend", nil},
		"a web server with TLS": {[]string{"--backend", "http://" + pageTLS}, "tls_needed", "--backend https://" + pageTLS, nil},
		"a web server for gRPC": {[]string{"--backend", "grpc://" + page}, "no_http2", "correct --backend; for Connect or gRPC-Web: connect+http(s)://", nil},
		"TLS to a web server":   {[]string{"--backend", "https://" + page}, "tls_not_spoken", "--backend http://" + page, nil},
		"HTTP that asks who":    {[]string{"--backend", "http://" + closed}, "unauthenticated", "--backend-token-file FILE", nil},
		"reflection of nothing": {[]string{"--backend", empty.URL}, "reflection_empty", "register the services before reflection", nil},
		"no reflection":         {[]string{"--backend", silent.URL}, "no_reflection", "--descriptors api.binpb", []string{"--backend", silent.URL, "--descriptors", labDescriptors(t)}},
		"no reflection over TLS": {
			[]string{"--backend", silentTLS.URL, "--backend-ca", silentTLS.CA}, "no_reflection", "--descriptors api.binpb",
			[]string{"--backend", silentTLS.URL, "--backend-ca", silentTLS.CA, "--descriptors", labDescriptors(t)}},
		"no credentials": {
			[]string{"--backend", guarded.URL}, "unauthenticated", "--backend-token-file FILE", []string{"--backend", guarded.URL, "--backend-token-file", tokenFile}},
		"no credentials, probed": {
			[]string{"--backend", "http://" + address(guarded)}, "unauthenticated", "--backend-token-file FILE",
			[]string{"--backend", "http://" + address(guarded), "--backend-token-file", tokenFile}},
		"nothing there":    {[]string{"--backend", "http://127.0.0.1:1"}, "connection_refused", "start the backend", nil},
		"no such socket":   {[]string{"--backend", "unix:///nonexistent/s"}, "connection_refused", "start the backend", nil},
		"no such host":     {[]string{"--backend", "http://nosuch.invalid:1"}, "unknown_host", "correct the host", nil},
		"hangs up at once": {[]string{"--backend", "http://" + hangsUp(t)}, "hung_up", "look at the backend's log", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := doctor(t, tt.args...)
			if code != 1 || !strings.Contains(out, tt.fix) {
				t.Errorf("doctor ends with %d, want the fix %q:\n%s", code, tt.fix, out)
			}
			server := sidecar.Serve(t, built.binary, append(tt.args, "--log-level", "debug")...)
			entry := server.Log(t, "the warning", func(e sidecar.Entry) bool { return e.Fields["cause"] != nil && e.Fields["level"] == "warn" })
			if fix, _ := entry.Fields["fix"].(string); entry.Fields["cause"] != tt.cause || !strings.Contains(fix, tt.fix) {
				t.Errorf("serve says %v, want %s and %q", entry.Fields, tt.cause, tt.fix)
			}
			// Attempts go on, and say nothing more.
			server.Log(t, "another attempt", func(e sidecar.Entry) bool { return e.Message == "backend still unusable" })
			if got := strings.Count(server.Text(), `"fix":`); got != 1 {
				t.Errorf("%d warnings, want one:\n%s", got, server.Text())
			}
			if tt.mended == nil {
				return
			}
			if code, out := doctor(t, tt.mended...); code != 0 {
				t.Errorf("with the fix, doctor ends with %d:\n%s", code, out)
			}
		})
	}
	if _, out := doctor(t, "--backend", plain.URL); !strings.Contains(out, "no comments") || !strings.Contains(out, "--descriptors api.binpb") {
		t.Errorf("doctor says nothing about comments:\n%s", out)
	}
}

// TestServeSaysWhenTheBackendIsBack, and what else it is in between.
func TestServeSaysWhenTheBackendIsBack(t *testing.T) {
	t.Parallel()
	first := peer.GRPCSetup(t, peer.Setup{})
	_, address, _ := strings.Cut(first.URL, "://")
	server := serve(t, "--backend", first.URL)
	cause := func(want string) {
		t.Helper()
		server.Log(t, want, func(e sidecar.Entry) bool { return e.Fields["cause"] == want && e.Fields["level"] == "warn" })
	}
	first.Stop()
	cause("connection_refused")
	hung := listenAgain(t, address)
	cause("hung_up")
	_ = hung.Close()
	peer.GRPCAt(t, address)
	server.Log(t, "backend reachable again", func(e sidecar.Entry) bool { return e.Message == "backend reachable again" })
	server.Log(t, "the catalog", func(e sidecar.Entry) bool {
		return e.Message == "catalog refreshed" && e.Fields["reason"] == "reconnected"
	})
}

// listenAgain takes connections on an address and closes them.
func listenAgain(t *testing.T, address string) net.Listener {
	t.Helper()
	l := testkit.Listen(t, address)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l
}

func hangsUp(t *testing.T) string {
	t.Helper()
	return listenAgain(t, "127.0.0.1:0").Addr().String()
}

// webServer answers everything with one status.
func webServer(t *testing.T, secure bool, status int, contentType string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<html><body>not here</body></html>")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// doctor runs `sidecar doctor`.
func doctor(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built.binary, append([]string{"doctor"}, args...)...)
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "canary") {
		t.Errorf("doctor shows a credential:\n%s", out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}
