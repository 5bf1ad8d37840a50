// SPDX-License-Identifier: Apache-2.0

package httpguard_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/edge/httpguard"
)

// TestOnlyTheListenersOwnSchemeIsItsOwn: a page of https is not one of a plain
// listener, unless the operator says under which origin a proxy serves it.
func TestOnlyTheListenersOwnSchemeIsItsOwn(t *testing.T) {
	t.Parallel()
	const host = "localhost:8080"
	for _, tc := range []struct {
		name   string
		o      httpguard.Options
		origin string
		want   int
	}{
		{"http on a plain listener", httpguard.Options{Loopback: true}, "http://" + host, 204},
		{"https on a plain listener", httpguard.Options{Loopback: true}, "https://" + host, 403},
		{"https on a TLS listener", httpguard.Options{Loopback: true, TLS: true}, "https://" + host, 204},
		{"http on a TLS listener", httpguard.Options{Loopback: true, TLS: true}, "http://" + host, 403},
		{"https behind a proxy", httpguard.Options{Loopback: true, OwnOrigins: []string{"https://" + host}}, "https://" + host, 204},
		{"https that is allowed", httpguard.Options{Loopback: true, AllowedOrigins: []string{"https://" + host}}, "https://" + host, 204},
		{"http beside another own origin", httpguard.Options{Loopback: true, OwnOrigins: []string{"https://tools.example"}}, "http://" + host, 204},
	} {
		if w := send(t, tc.o, http.MethodPost, "/mcp", host, http.Header{"Origin": {tc.origin}}); w.Code != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, w.Code, tc.want)
		}
	}
}

// TestTheLogNamesTheFlag, within a bound.
func TestTheLogNamesTheFlag(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	guard, err := httpguard.New(httpguard.Options{Loopback: true, Log: zap.New(core)})
	if err != nil {
		t.Fatal(err)
	}
	next := guard.Wrap(http.NotFoundHandler())
	for range 100 {
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host = "localhost:8080"
		r.Header.Set("Origin", "https://localhost:8080")
		next.ServeHTTP(httptest.NewRecorder(), r)
	}
	lines := logs.All()
	if len(lines) == 0 || len(lines) > 20 {
		t.Fatalf("%d lines for 100 refusals", len(lines))
	}
	if text := fmt.Sprint(lines[0].ContextMap()); !strings.Contains(text, "--allowed-origins") || !strings.Contains(text, "https://localhost:8080") {
		t.Errorf("the line says %s", text)
	}
}

// TestTwoHosts on HTTP/2: a host header beside :authority has to agree, and no
// stage behind sees it.
func TestTwoHosts(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		authority string
		hosts     []string
		major     int
		want      int
	}{
		{"none", "localhost:8080", nil, 2, 204},
		{"the same", "localhost:8080", []string{"localhost:8080"}, 2, 204},
		{"in capitals", "localhost:8080", []string{"LOCALHOST:8080"}, 2, 204},
		{"the port that the scheme implies", "localhost", []string{"localhost:80"}, 2, 204},
		{"another host", "localhost:8080", []string{"evil.example"}, 2, 400},
		{"another port", "localhost:8080", []string{"localhost:9090"}, 2, 400},
		{"empty", "localhost:8080", []string{""}, 2, 400},
		{"twice", "localhost:8080", []string{"localhost:8080", "localhost:8080"}, 2, 400},
		{"ours second", "evil.example", []string{"localhost:8080"}, 2, 400},
		{"HTTP/1, which net/http has checked", "localhost:8080", []string{"x"}, 1, 204},
	} {
		guard, err := httpguard.New(httpguard.Options{Loopback: true})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Host, r.ProtoMajor = tc.authority, tc.major
		if tc.hosts != nil {
			r.Header["Host"] = tc.hosts
		}
		w := httptest.NewRecorder()
		guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := r.Header["Host"]; ok && r.ProtoMajor == 2 {
				t.Errorf("%s: the host header goes further", tc.name)
			}
			w.WriteHeader(http.StatusNoContent)
		})).ServeHTTP(w, r)
		if w.Code != tc.want || w.Header().Get("Connection") != "" {
			t.Errorf("%s: %d %v, want %d", tc.name, w.Code, w.Header(), tc.want)
		}
	}
}

// TestTheServerAsAWhole: OPTIONS * is guarded like any path, and nothing that asks
// for * reaches [http.ServeMux], which would close the connection.
func TestTheServerAsAWhole(t *testing.T) {
	t.Parallel()
	guard, err := httpguard.New(httpguard.Options{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	next := guard.Wrap(http.NewServeMux())
	for _, tc := range []struct {
		method, host, origin string
		want                 int
	}{
		{http.MethodOptions, "localhost", "", 204},
		{http.MethodOptions, "evil.example", "", 403},
		{http.MethodOptions, "localhost", "http://evil.example", 403},
		{http.MethodOptions, "localhost", "http://localhost", 204},
		{http.MethodGet, "localhost", "", 400},
		{http.MethodPost, "localhost", "", 400},
	} {
		r := httptest.NewRequest(tc.method, "/", nil)
		r.Host, r.RequestURI, r.URL.Path = tc.host, "*", "*"
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		w := httptest.NewRecorder()
		next.ServeHTTP(w, r)
		if w.Code != tc.want || w.Header().Get("Connection") != "" {
			t.Errorf("%s * for %s from %q: %d %v, want %d", tc.method, tc.host, tc.origin, w.Code, w.Header(), tc.want)
		}
	}
}
