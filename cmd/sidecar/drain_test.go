// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// runDrain runs the command and returns its exit code and what it said.
func runDrain(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"drain"}, args...), strings.NewReader(""), &out, &errs, environ)
	return code, out.String(), errs.String()
}

func TestAdminURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:9901": "http://127.0.0.1:9901",
		":9901":          "http://127.0.0.1:9901",
		"0.0.0.0:9901":   "http://127.0.0.1:9901",
		"[::]:9901":      "http://[::1]:9901",
		"[::1]:9901":     "http://[::1]:9901",
		"localhost:1":    "http://localhost:1",
		"":               "",
		"off":            "",
		"127.0.0.1":      "",
		"127.0.0.1:":     "",
		"127.0.0.1:0":    "",
	} {
		got, err := adminURL(address)
		if want == "" {
			if err == nil || !strings.Contains(err.Error(), "such as 127.0.0.1:9901") {
				t.Errorf("%q: %v, %v", address, got, err)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%q: %v, %v; want %s", address, got, err, want)
		}
	}
}

// TestDrainOfOthers asks what is no sidecar.
func TestDrainOfOthers(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("drained\x1b[2J\u202e\r\x07 for good"))
	}))
	t.Cleanup(hostile.Close)
	for _, tc := range []struct {
		name, url string
		args      []string
		code      int
		want      string
	}{
		{"something else", other.URL, nil, 1, "unexpected response 404 404 page not found: is this the admin listener"},
		{"texts for the terminal", hostile.URL, nil, 0, "drained"},
		{"no listener", testkit.Dead(t), nil, 0, "the sidecar has stopped already"},
		{"no time", other.URL, []string{"--timeout", "0s"}, 2, "--timeout: must be above 0"},
		{"an argument", other.URL, []string{"now"}, 2, "see `sidecar drain --help`"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			address := strings.TrimPrefix(tc.url, "http://")
			code, stdout, stderr := runDrain(t, []string{"OUTRIGGER_ADMIN=" + address}, tc.args...)
			if code != tc.code || !strings.Contains(stdout+stderr, tc.want) || strings.ContainsAny(stdout+stderr, "\x1b\u202e\r\x07") {
				t.Errorf("exit code %d, %q %q; want %d, %q", code, stdout, stderr, tc.code, tc.want)
			}
		})
	}
	if code, _, stderr := runDrain(t, nil, "--admin", "nowhere"); code != 2 || !strings.Contains(stderr, "--admin: want host:port") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// endless is a sidecar that never ends.
type endless struct{}

func (endless) RoundTrip(req *http.Request) (*http.Response, error) {
	if wait, err := time.ParseDuration(req.URL.Query().Get("wait")); err == nil && wait > 0 {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	body := io.NopCloser(strings.NewReader("draining; 2 requests in flight\nand more\n"))
	return &http.Response{StatusCode: http.StatusAccepted, Body: body}, nil
}

func TestADrainThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 42 * time.Second
		d := &draining{adminClient: &adminClient{name: "it", base: &url.URL{Scheme: "http", Host: "it"}, client: &http.Client{Transport: endless{}}}}
		began := time.Now()
		_, err := d.run(t.Context(), timeout)
		const want = "drain it: not finished within 42s (draining; 2 requests in flight); the sidecar continues until its own --grace is over"
		if err == nil || err.Error() != want {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != timeout {
			t.Errorf("after %v", took)
		}
	})
}

// TestDrainDelay holds that nothing is asked before the delay is over, and that a
// delay out of range is refused.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	begun := time.Now()
	var after atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		after.CompareAndSwap(0, int64(time.Since(begun)))
		w.WriteHeader(http.StatusOK)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	if code, _, stderr := runDrain(t, nil, "--admin", address, "--delay", delay.String()); code != 0 {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if got := time.Duration(after.Load()); got < delay {
		t.Errorf("it was asked after %v, want at least %v", got, delay)
	}
	for _, wrong := range []string{"-1s", "6m"} {
		if code, _, stderr := runDrain(t, nil, "--admin", address, "--delay", wrong); code != 2 || !strings.Contains(stderr, "--delay: must be at least 0s and at most 5m0s") {
			t.Errorf("--delay %s: exit code %d: %s", wrong, code, stderr)
		}
	}
}

// TestADrainAnswersASilentCall: a call that became an event stream while it was silent has its answer, on either version of HTTP.
func TestADrainAnswersASilentCall(t *testing.T) {
	t.Parallel()
	p := startBinary(t, "serve", "--demo", "--keep-alive", "1s", "--record-dir", "off")
	streams := map[int]*bufio.Reader{1: nil, 2: nil}
	for version := range streams {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.main+"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_sleep","arguments":{"duration":"3s","nonce":"n"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2025-11-25"}}
		resp, err := webClient(version).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		streams[version] = bufio.NewReader(resp.Body)
		if comment, err := streams[version].ReadString('\n'); err != nil || comment != ":\n" {
			t.Errorf("HTTP/%d: %q, %v", version, comment, err)
		}
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for version, stream := range streams {
		if rest, err := io.ReadAll(stream); err != nil || !strings.Contains(string(rest), `"nonce":"n"`) {
			t.Errorf("HTTP/%d: %q, %v", version, rest, err)
		}
	}
}
