// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

var notReady = []admin.Check{
	{Name: "catalog", Detail: "reflection: connection refused\r\nnext try in 2s"},
	{Name: "draining", OK: true, Detail: "3 in flight"},
	{Name: "reflection", Detail: "connection refused", Info: true},
}

func failing() (bool, []admin.Check) { return false, notReady }

func passing() (bool, []admin.Check) {
	return true, []admin.Check{{Name: "catalog", OK: true, Detail: "12 tools"}, {Name: "native", Detail: "not served", Info: true}}
}

func do(t *testing.T, h http.Handler, method, target string) *http.Response {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestProbes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options admin.Options
		target  string
		status  int
		body    string
		// health is the body on the health listener, which tells no causes; "" where
		// it is the same.
		health string
	}{
		{"zero value started", admin.Options{}, "/startupz", 200, "started\n", ""},
		{"zero value ready", admin.Options{}, "/readyz", 200, "ready\n", ""},
		{"zero value verbose", admin.Options{}, "/readyz?verbose", 200, "ready\n", ""},
		{"alive although not ready", admin.Options{Ready: failing}, "/livez", 200, "alive\n", ""},
		{"ready", admin.Options{Ready: passing}, "/readyz", 200, "ready\n", ""},
		{"not ready says why, in one line", admin.Options{Ready: failing}, "/readyz", 503,
			"not ready: catalog: reflection: connection refused next try in 2s\n", "not ready: catalog\n"},
		{"verbose", admin.Options{Ready: failing}, "/readyz?verbose", 503, "" +
			"not ready: catalog: reflection: connection refused next try in 2s\n" +
			"catalog     failed         reflection: connection refused next try in 2s\n" +
			"draining    ok             3 in flight\n" +
			"reflection  failed (info)  connection refused\n",
			"not ready: catalog\n" +
				"catalog   failed\ndraining  ok\n"},
		{"an info check does not decide", admin.Options{Ready: passing}, "/readyz?verbose=1", 200, "" +
			"ready\n" +
			"catalog  ok             12 tools\n" +
			"native   failed (info)  not served\n",
			"ready\ncatalog  ok\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := admin.New(tt.options)
			for name, h := range map[string]http.Handler{"admin": a.Handler(), "health": a.HealthHandler()} {
				resp := do(t, h, http.MethodGet, tt.target)
				if resp.StatusCode != tt.status {
					t.Errorf("%s: status %d, want %d", name, resp.StatusCode, tt.status)
				}
				want := tt.body
				if name == "health" {
					want = cmp.Or(tt.health, want)
				}
				if diff := gocmp.Diff(want, body(t, resp)); diff != "" {
					t.Errorf("%s: body (-want +got):\n%s", name, diff)
				}
				for header, want := range map[string]string{
					"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Type": "text/plain; charset=utf-8",
				} {
					if got := resp.Header.Get(header); got != want {
						t.Errorf("%s: %s is %q, want %q", name, header, got, want)
					}
				}
			}
		})
	}
}

// TestKeys: both listeners show the public keys, where there are any, and a cache may
// keep them.
func TestKeys(t *testing.T) {
	t.Parallel()
	keys := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=300")
		_, _ = io.WriteString(w, `{"keys":[]}`)
	})
	for _, tt := range []struct {
		keys   http.Handler
		method string
		status int
	}{{keys, http.MethodGet, 200}, {keys, http.MethodHead, 200}, {keys, http.MethodPost, 405}, {nil, http.MethodGet, 404}} {
		a := admin.New(admin.Options{Keys: tt.keys})
		for name, h := range map[string]http.Handler{"admin": a.Handler(), "health": a.HealthHandler()} {
			resp := do(t, h, tt.method, "/jwks")
			if resp.StatusCode != tt.status || tt.status == 200 && resp.Header.Get("Cache-Control") != "public, max-age=300" {
				t.Errorf("%s: %s: %d %v", name, tt.method, resp.StatusCode, resp.Header)
			}
		}
	}
}

// TestDegraded: what fails for a part of the calls does not take the process out of
// rotation, and is said.
func TestDegraded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ready bool
		ok    bool
		code  int
		want  string
	}{
		{ready: true, ok: true, code: http.StatusOK, want: "ready\n"},
		{ready: true, code: http.StatusOK, want: "ready, degraded: state: not connected\n"},
		{ok: true, code: http.StatusServiceUnavailable, want: "not ready: catalog: empty\n"},
		{code: http.StatusServiceUnavailable, want: "not ready: catalog: empty\n"},
	} {
		a := admin.New(admin.Options{Ready: func() (bool, []admin.Check) {
			return tc.ready, []admin.Check{{Name: "catalog", OK: tc.ready, Detail: "empty"}, {Name: "state", OK: tc.ok, Degrades: true, Detail: "not connected"}}
		}})
		resp := do(t, a.Handler(), http.MethodGet, "/readyz")
		if got := body(t, resp); resp.StatusCode != tc.code || got != tc.want {
			t.Errorf("%+v: %d %q", tc, resp.StatusCode, got)
		}
	}
}

func TestDetailIsBounded(t *testing.T) {
	t.Parallel()
	a := admin.New(admin.Options{Ready: func() (bool, []admin.Check) {
		return false, []admin.Check{{Name: "catalog", Detail: strings.Repeat("é", 100_000)}}
	}})
	if got := len(body(t, do(t, a.Handler(), http.MethodGet, "/readyz?verbose"))); got > 4096 {
		t.Errorf("%d bytes for one check", got)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Drain: &work{}}).Handler()
	tests := []struct {
		method, target string
		allow          []string
	}{
		{http.MethodGet, "/drain", []string{"POST"}},
		{http.MethodPut, "/drain", []string{"POST"}},
		{http.MethodPost, "/readyz", []string{"GET", "HEAD"}},
		{http.MethodDelete, "/livez", []string{"GET", "HEAD"}},
		{http.MethodPost, "/debug/pprof/profile", []string{"GET"}},
	}
	for _, tt := range tests {
		resp := do(t, h, tt.method, tt.target)
		if resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: status %d", tt.method, tt.target, resp.StatusCode)
		}
		if diff := gocmp.Diff(tt.allow, resp.Header.Values("Allow")); diff != "" {
			t.Errorf("%s %s: Allow (-want +got):\n%s", tt.method, tt.target, diff)
		}
	}
	if resp := do(t, h, http.MethodHead, "/livez"); resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD /livez: status %d", resp.StatusCode)
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	a := admin.New(admin.Options{Describe: func(context.Context) ([]byte, error) { return []byte(`{"name":"x"}`), nil }})
	resp := do(t, a.Handler(), http.MethodGet, "/describe")
	if got := body(t, resp); resp.StatusCode != http.StatusOK || got != "{\"name\":\"x\"}\n" || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d, %q as %s", resp.StatusCode, got, resp.Header.Get("Content-Type"))
	}
	if resp := do(t, a.Handler(), http.MethodPost, "/describe"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", resp.StatusCode)
	}
	if resp := do(t, a.HealthHandler(), http.MethodGet, "/describe"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the health listener describes: status %d", resp.StatusCode)
	}
	early := admin.New(admin.Options{Describe: func(context.Context) ([]byte, error) { return nil, errors.New("no tools yet") }})
	resp = do(t, early.Handler(), http.MethodGet, "/describe")
	if got := body(t, resp); resp.StatusCode != http.StatusServiceUnavailable || got != "no tools yet\n" {
		t.Errorf("nothing to say yet: %d, %q", resp.StatusCode, got)
	}
	if resp := do(t, admin.New(admin.Options{}).Handler(), http.MethodGet, "/describe"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("nothing to describe: status %d", resp.StatusCode)
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	a := admin.New(admin.Options{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })})
	without := admin.New(admin.Options{})
	for name, h := range map[string][2]http.Handler{
		"admin": {a.Handler(), without.Handler()}, "health": {a.HealthHandler(), without.HealthHandler()},
	} {
		resp := do(t, h[0], http.MethodGet, "/metrics")
		if got := body(t, resp); resp.StatusCode != http.StatusOK || got != "up 1\n" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %q, Cache-Control %q", name, resp.StatusCode, got, resp.Header.Get("Cache-Control"))
		}
		if resp := do(t, h[0], http.MethodPost, "/metrics"); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s: POST: status %d", name, resp.StatusCode)
		}
		if resp := do(t, h[1], http.MethodGet, "/metrics"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s without metrics: status %d", name, resp.StatusCode)
		}
	}
}

func TestProfilesAreForOperatorsOnly(t *testing.T) {
	t.Parallel()
	a := admin.New(admin.Options{})
	for target, want := range map[string]string{
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
		"/debug/pprof/cmdline":           "test",
		"/debug/pprof/symbol":            "num_symbols",
	} {
		resp := do(t, a.Handler(), http.MethodGet, target)
		if got := body(t, resp); resp.StatusCode != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("GET %s: %d, %.80q", target, resp.StatusCode, got)
		}
		if resp := do(t, a.HealthHandler(), http.MethodGet, target); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s on the health listener: status %d", target, resp.StatusCode)
		}
	}
}

func TestUnknownPagesNameTheKnownOnes(t *testing.T) {
	t.Parallel()
	a := admin.New(admin.Options{})
	resp := do(t, a.Handler(), http.MethodGet, "/healthz")
	if got := body(t, resp); resp.StatusCode != http.StatusNotFound || !strings.Contains(got, "/readyz") || !strings.Contains(got, "/drain") {
		t.Errorf("%d, %q", resp.StatusCode, got)
	}
	resp = do(t, a.HealthHandler(), http.MethodGet, "/")
	if got := body(t, resp); resp.StatusCode != http.StatusNotFound || strings.Contains(got, "/drain") {
		t.Errorf("%d, %q", resp.StatusCode, got)
	}
}
