// SPDX-License-Identifier: Apache-2.0

package outrigger_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

// start runs a sidecar of the lab until the end of the test.
func start(t *testing.T, o outrigger.Options) *outrigger.Sidecar {
	t.Helper()
	o.Handler, o.Sources = service(), []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")}
	s, err := outrigger.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(run(s))
	return s
}

// ask sends one call to a handler.
func ask(h http.Handler, host, origin string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://"+host+"/rpc", strings.NewReader(echo))
	r.Header.Set("Content-Type", "application/json")
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestGuardsAreOn: foreign hosts and origins are refused unless they are allowed.
func TestGuardsAreOn(t *testing.T) {
	t.Parallel()
	byDefault := start(t, outrigger.Options{}).Handler()
	open := start(t, outrigger.Options{AllowedHosts: []string{"tools.example"}, AllowedOrigins: []string{"https://console.example"}}).Handler()
	anyHost := start(t, outrigger.Options{AnyHost: true}).Handler()
	for _, tt := range []struct {
		name         string
		to           http.Handler
		host, origin string
		status       int
	}{
		{"loopback", byDefault, "127.0.0.1:80", "", http.StatusOK},
		{"a name that was rebound", byDefault, "tools.example", "", http.StatusForbidden},
		{"a foreign page", byDefault, "localhost", "https://evil.example", http.StatusForbidden},
		{"an allowed name", open, "tools.example", "", http.StatusOK},
		{"an allowed page", open, "tools.example", "https://console.example", http.StatusOK},
		{"any name", anyHost, "tools.example", "", http.StatusOK},
		{"any name, a foreign page", anyHost, "tools.example", "https://evil.example", http.StatusForbidden},
	} {
		if got := ask(tt.to, tt.host, tt.origin); got.Code != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, got.Code, got.Body, tt.status)
		}
	}
}

// TestLimitsAreOn: a message above the limit is refused.
func TestLimitsAreOn(t *testing.T) {
	t.Parallel()
	s := start(t, outrigger.Options{Limits: outrigger.Limits{MaxMessageBytes: 1024}})
	large := json.RawMessage(`{"nonce":"` + strings.Repeat("x", 2000) + `"}`)
	r := httptest.NewRequest(http.MethodPost, "http://localhost/rpc", bytes.NewReader(large))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestDrain: after it, calls are refused, nothing runs, and a sidecar does not run again.
func TestDrain(t *testing.T) {
	t.Parallel()
	s := start(t, outrigger.Options{})
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if got := ask(s.Handler(), "localhost", ""); got.Code != http.StatusServiceUnavailable {
		t.Errorf("after a drain: %d %s", got.Code, got.Body)
	}
	if err := s.Run(t.Context()); !errors.Is(err, outrigger.ErrStarted) {
		t.Errorf("it runs again: %v", err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Errorf("a second drain: %v", err)
	}
}

// TestNeverRun: a sidecar that never ran is ended by Drain, and by the end of Run's
// context.
func TestNeverRun(t *testing.T) {
	t.Parallel()
	for _, end := range []func(*outrigger.Sidecar) error{
		func(s *outrigger.Sidecar) error { return s.Drain(t.Context()) },
		func(s *outrigger.Sidecar) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return s.Run(ctx)
		},
	} {
		s, err := outrigger.New(t.Context(), outrigger.Options{Handler: service()})
		if err != nil {
			t.Fatal(err)
		}
		if err := end(s); err != nil {
			t.Error(err)
		}
	}
}

// TestHooks: calls and tools are told, and the log goes to the program's own.
func TestHooks(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var calls []outrigger.Call
	tools := make(chan int, 8)
	var lines lockedBuffer
	s := start(t, outrigger.Options{
		Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		Hooks: outrigger.Hooks{
			Call:  func(c outrigger.Call) { mu.Lock(); defer mu.Unlock(); calls = append(calls, c) },
			Tools: func(all []outrigger.Tool) { tools <- len(all) },
		},
	})
	if n := <-tools; n != len(s.Tools()) || n == 0 {
		t.Errorf("%d tools are told, %d there", n, len(s.Tools()))
	}
	ask(s.Handler(), "localhost", "")
	if _, err := s.CallTool(t.Context(), "lab.nothing", nil); err == nil {
		t.Error("a tool that does not exist can be called")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(calls) != 2 || calls[0].Tool != "lab.echo" || calls[0].Edge != "rpc" || calls[0].Code != "" || calls[0].Duration <= 0 ||
		calls[1].Tool != "" || calls[1].Edge != "other" || calls[1].Code != "TOOL_NOT_FOUND" {
		t.Errorf("%+v", calls)
	}
	if text := lines.String(); !strings.Contains(text, "msg=ready") {
		t.Errorf("the log is %s", text)
	}
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestOptionsAreChecked: everything that is wrong is reported by New, together.
func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		options outrigger.Options
		want    []string
	}{
		"no backend":      {outrigger.Options{}, []string{"Backend or Handler"}},
		"two backends":    {outrigger.Options{Backend: "http://127.0.0.1:1", Handler: service()}, []string{"only one"}},
		"one and several": {outrigger.Options{Backend: "http://127.0.0.1:1", Config: &configv1.Config{Backends: []*configv1.Backend{{Name: "a", Url: "http://127.0.0.1:2"}}}}, []string{"leave out Backend"}},
		"sources of several": {outrigger.Options{
			Config:  &configv1.Config{Backends: []*configv1.Backend{{Name: "a", Url: "http://127.0.0.1:2"}}},
			Sources: []outrigger.Source{outrigger.Services("outrigger.demo.v1.Lab")},
		}, []string{"descriptors or reflection of each"}},
		"several of one name": {outrigger.Options{
			Config: &configv1.Config{Backends: []*configv1.Backend{{Name: "a", Url: "http://127.0.0.1:2"}, {Name: "a", Url: "http://127.0.0.1:3"}}},
		}, []string{"two backends have the same name"}},
		"several faults": {outrigger.Options{
			Backend: "http://127.0.0.1:1", Policy: outrigger.Policy{Gate: "closed"}, Limits: outrigger.Limits{Timeout: -time.Second}, TokensFile: "nowhere.yaml",
		}, []string{"gate", "timeout", "access.tokens_file"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := outrigger.New(t.Context(), tt.options)
			if err == nil {
				t.Fatal("it is accepted")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not name %s", err, want)
				}
			}
		})
	}
}

// TestOperator: the operator's pages are there, and a drain can be asked for.
func TestOperator(t *testing.T) {
	t.Parallel()
	s := start(t, outrigger.Options{})
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Operator().ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w
	}
	if w := get(http.MethodGet, "/readyz"); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(http.MethodGet, "/metrics"); !strings.Contains(w.Body.String(), "outrigger_") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := get(http.MethodPost, "/drain"); w.Code != http.StatusAccepted && w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestServicesThatAreNotLinked end the sidecar with an error.
func TestServicesThatAreNotLinked(t *testing.T) {
	t.Parallel()
	s, err := outrigger.New(t.Context(), outrigger.Options{
		Handler: service(), Sources: []outrigger.Source{outrigger.Services("shop.v1.Shop")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "shop.v1.Shop") {
		t.Errorf("it ends with %v", err)
	}
}
