// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

const token = "planner-0123456789abcdef"

// behind is what a handler behind the door saw.
type behind struct {
	who    *identity.Identity
	header http.Header
}

// middlewareOf makes a Middleware and a handler behind it. Refusals show the code.
func middlewareOf(o identity.MiddlewareOptions) (*identity.Middleware, http.Handler, *behind) {
	var saw behind
	o.Refuse = func(w http.ResponseWriter, _ *http.Request, err *errmap.Error) {
		shown := err.JSONRPC(errmap.About{})
		shown.SetHeaders(w.Header())
		w.WriteHeader(shown.HTTPStatus)
		_, _ = w.Write([]byte(err.Message))
	}
	middleware := identity.NewMiddleware(o)
	return middleware, middleware.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		saw = behind{identity.FromContext(r.Context()), r.Header.Clone()}
	})), &saw
}

func book() *identity.Book {
	return identity.NewBook([]identity.Entry{{
		Grant: identity.Grant{Name: "planner", Tools: []string{"*"}}, Tokens: []identity.Digest{sha256.Sum256([]byte(token))},
		URIs: []string{"spiffe://example.org/planner"},
	}})
}

func TestMiddleware(t *testing.T) {
	t.Parallel()
	const challenge = `Bearer realm="outrigger"`
	tests := []struct {
		name      string
		shown     []string // values of Authorization
		uris      []string
		who       string
		challenge string
		reason    identity.Reason
	}{
		{"a token", []string{"Bearer " + token}, nil, "planner", "", ""},
		{"another case, more space", []string{"bEARER   " + token}, nil, "planner", "", ""},
		{"a certificate", nil, []string{"spiffe://example.org/planner"}, "planner", "", ""},
		{"nothing", nil, nil, "", challenge, identity.Missing},
		{"an empty header", []string{""}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"no token", []string{"Bearer "}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"a password", []string{"Basic cGxhbm5lcjpwYXNzd29yZA=="}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"a token without its scheme", []string{token}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"two headers", []string{"Bearer " + token, "Bearer " + token}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"a list", []string{"Bearer " + token + ", Bearer x"}, nil, "", challenge + `, error="invalid_request"`, identity.Malformed},
		{"unknown", []string{"Bearer " + token + "x"}, nil, "", challenge + `, error="invalid_token"`, identity.Unknown},
		{"a password beside a certificate", []string{"Basic eA=="}, []string{"spiffe://example.org/planner"}, "", challenge + `, error="invalid_request"`, identity.Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			middleware, handler, saw := middlewareOf(identity.MiddlewareOptions{
				Who: book(), Subject: "x-outrigger-subject", Names: func(*tls.ConnectionState) []string { return tt.uris },
			})
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Header["Authorization"] = tt.shown
			if tt.shown == nil {
				r.Header.Del("Authorization")
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if tt.who == "" {
				if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != tt.challenge || saw.header != nil {
					t.Errorf("%d, challenge %q, let through: %v", w.Code, w.Header().Get("WWW-Authenticate"), saw.header != nil)
				}
				if middleware.Refused(tt.reason) != 1 {
					t.Errorf("refusals for %s are not counted", tt.reason)
				}
				return
			}
			if w.Code != http.StatusOK || saw.who.Name() != tt.who || saw.header.Get("X-Outrigger-Subject") != tt.who {
				t.Errorf("%d, %q, %v", w.Code, saw.who.Name(), saw.header)
			}
			if len(saw.header.Values("Authorization")) != 0 {
				t.Error("the token goes further than the door")
			}
		})
	}
}

// TestWhatIsTakenOut: whether callers are asked or not, what they show stays at
// the door, and callers cannot name themselves.
func TestWhatIsTakenOut(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]identity.Authenticator{"asked": book(), "not asked": nil} {
		_, handler, saw := middlewareOf(identity.MiddlewareOptions{Who: who, Subject: "x-outrigger-subject"})
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Proxy-Authorization", "Basic eA==")
		r.Header["X-Outrigger-Subject"] = []string{"admin", "root"}
		r.Header["X_outrigger_subject"] = []string{"admin"}
		r.Header["x-OUTRIGGER.subject"] = []string{"admin"}
		r.Header.Set("X-Outrigger-Subjects", "stays")
		handler.ServeHTTP(httptest.NewRecorder(), r)
		var got []string
		for header, values := range saw.header {
			for _, v := range values {
				got = append(got, header+"="+v)
			}
		}
		want := 1 // the one that stays
		if who != nil {
			want++
		}
		if all := strings.Join(got, " "); len(got) != want || strings.Contains(all, "admin") || strings.Contains(all, "root") {
			t.Errorf("%s: %v", name, got)
		}
		if (saw.who == nil) != (who == nil) {
			t.Errorf("%s: %v", name, saw.who)
		}
	}
	if (*identity.Middleware)(nil).Refused(identity.Missing) != 0 {
		t.Error("a nil door")
	}
}

// TestAdmit: a request of a caller who was authenticated otherwise has no credentials left, and none but that caller.
func TestAdmit(t *testing.T) {
	t.Parallel()
	b := book()
	named := b.Named("planner")
	for name, who := range map[string]*identity.Identity{"a caller": named, "one without authentication": nil} {
		d := identity.NewMiddleware(identity.MiddlewareOptions{Who: b, Subject: "x-outrigger-subject"})
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("X_outrigger_subject", "root")
		r = r.WithContext(identity.WithConsole(identity.NewContext(r.Context(), identity.NewIdentity(identity.Grant{Name: "olive"})), &identity.Console{Operator: "olive"}))
		got := d.Admit(r, who)
		if identity.FromContext(got.Context()) != who || identity.ConsoleOf(got.Context()).Name() != "olive" || identity.ConsoleOf(t.Context()).Name() != "" {
			t.Errorf("%s: %v", name, identity.FromContext(got.Context()))
		}
		want := 0
		if who != nil {
			want = 1
		}
		if len(got.Header) != want || got.Header.Get("X-Outrigger-Subject") != who.Name() || !d.IsOn() {
			t.Errorf("%s: %v", name, got.Header)
		}
	}
	if named == nil || named.Name() != "planner" || b.Named("alice") != nil || (*identity.Book)(nil).Named("planner") != nil {
		t.Errorf("%v", named)
	}
}

// broken is an authenticator that cannot say anything.
type broken struct{}

func (broken) Authenticate(context.Context, identity.Credentials) (*identity.Identity, error) {
	return nil, errors.New("no answer from 10.0.0.7")
}

// TestAuthenticationFailsToRun: what is a failure of this side is not the caller's.
func TestAuthenticationFailsToRun(t *testing.T) {
	t.Parallel()
	_, handler, saw := middlewareOf(identity.MiddlewareOptions{Who: broken{}})
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", nil))
	if w.Code != http.StatusServiceUnavailable || saw.header != nil || strings.Contains(w.Body.String(), "10.0.0.7") || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLines: the log says that somebody was refused and why, not what they
// showed, and not without end.
func TestLines(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	middleware, handler, _ := middlewareOf(identity.MiddlewareOptions{Who: book(), Log: zap.New(core)})
	const refusals = 200
	for range refusals {
		r := httptest.NewRequest(http.MethodPost, "/"+strings.Repeat("x", 500), nil)
		r.Header.Set("Authorization", "Bearer wrong-"+token)
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	// The bucket holds ten and fills while the test runs.
	if n := logged.Len(); n < 10 || n > refusals/2 || middleware.Refused(identity.Unknown) != refusals {
		t.Errorf("%d lines, %d refusals", n, middleware.Refused(identity.Unknown))
	}
	for _, entry := range logged.All() {
		for _, field := range entry.Context {
			if strings.Contains(field.String, token) || len(field.String) > 200 {
				t.Fatalf("%s: %s", field.Key, field.String)
			}
		}
	}
}

// BenchmarkMiddleware is what asking costs each request.
func BenchmarkMiddleware(b *testing.B) {
	for name, who := range map[string]identity.Authenticator{"asked": book(), "not asked": nil} {
		b.Run(name, func(b *testing.B) {
			middleware := identity.NewMiddleware(identity.MiddlewareOptions{Who: who, Subject: "x-outrigger-subject"})
			handler := middleware.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				r.Header.Set("Authorization", "Bearer "+token)
				handler.ServeHTTP(w, r)
			}
		})
	}
}

// TestWhatANamedCallerGetsIsNoSharedCaches: a GET's answer could be kept by a cache in front, for everybody.
func TestWhatANamedCallerGetsIsNoSharedCaches(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]string{http.MethodGet: "private", http.MethodHead: "private", http.MethodPost: ""} {
		for _, isAsked := range []bool{true, false} {
			o := identity.MiddlewareOptions{}
			if isAsked {
				o.Who = book()
			}
			r := httptest.NewRequest(method, "/outrigger.v1.ToolService/ListTools", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			identity.NewMiddleware(o).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, r)
			if got := w.Header().Get("Cache-Control"); isAsked && got != want || !isAsked && got != "" {
				t.Errorf("%s, asked %v: %q", method, isAsked, got)
			}
		}
	}
}
