// SPDX-License-Identifier: Apache-2.0

//go:build linux

package nodetest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/node"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// slowStart is how long the app takes to listen in the test of readiness.
const slowStart = 8 * time.Second

// testStart starts a pod whose app is slow: the sidecar is there first, says that
// it started and lives but is not ready, and refuses calls; when the app
// listens, the pod becomes ready, and nothing was restarted.
func testStart(t *testing.T, n *node.Node, r *result) {
	p := run(t, n, "minimal", "slow-app", func(o object) {
		app := o.container(t, "fleet")
		app["args"] = append(app["args"].([]any), "-delay", slowStart.String())
	})
	var ip string
	testkit.Try(t, "both containers run", func() error {
		s := p.status(t)
		ip = s.Status.PodIP
		if s.container("fleet").State.Running == nil || s.container("sidecar").State.Running == nil {
			return errors.New(p.describe(t))
		}
		return nil
	})
	var listening, started entry
	testkit.Try(t, "both have said so", func() (err error) {
		listening, err = p.logs["sidecar"].find("msg", "listening")
		if err != nil {
			return err
		}
		started, err = p.logs["fleet"].find("event", "started")
		return err
	})
	r.appAfterSidecar = started.At.Sub(listening.At)
	if r.appAfterSidecar <= 0 {
		t.Errorf("the app started at %v, before the sidecar listened at %v", started.At, listening.At)
	}

	// The app does not listen yet.
	for path, want := range map[string]int{"/startupz": 200, "/livez": 200, "/readyz": 503} {
		if code, text := probe(t, ip, path); code != want {
			t.Errorf("%s is %d while the app does not listen, want %d: %s", path, code, want, text)
		}
	}
	if s := p.status(t); s.ready() || s.container("sidecar").Ready {
		t.Error("the pod is ready while the app does not listen")
	}
	if _, err := p.logs["fleet"].find("event", "listening"); err == nil {
		t.Fatalf("the app was to take %s, which was not enough for this machine", slowStart)
	}

	s := p.ready(t)
	app, err := p.logs["fleet"].find("event", "listening")
	if err != nil {
		t.Fatal(err)
	}
	r.readyAfterApp = time.Since(app.At)
	for _, name := range []string{"sidecar", "fleet"} {
		if c := s.container(name); c.RestartCount != 0 {
			t.Errorf("%s was restarted %d times", name, c.RestartCount)
		}
	}
	for _, e := range edges() {
		if got := e.dial(ip+":8080")(t.Context(), "first", time.Millisecond); got.outcome != answered || got.nonce != "first" {
			t.Errorf("%s: %+v", e.name, got)
		}
	}
	checkAuthentication(t, ip)
}

// checkAuthentication calls without a token and with a wrong one.
func checkAuthentication(t *testing.T, ip string) {
	t.Helper()
	for name, header := range map[string]string{"no token": "", "a wrong token": "Bearer wrong"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+ip+":8080/rpc",
			strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if header != "" {
			req.Header.Set("Authorization", header)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s gets HTTP %d", name, res.StatusCode)
		}
	}
	// Operators' pages are for the pod itself.
	client := &http.Client{Timeout: 2 * time.Second}
	if res, err := client.Get("http://" + ip + ":9901/livez"); err == nil {
		_ = res.Body.Close()
		t.Error("the admin listener can be reached from outside of the pod")
	}
}

func probe(t *testing.T, ip, path string) (int, string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + net.JoinHostPort(ip, "9902") + path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(text))
}
