// SPDX-License-Identifier: Apache-2.0

package behalf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestExchange: the request has the parameters of RFC 8693, and the next call takes the
// token from the cache.
func TestExchange(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	x := newExchanger(t, exchange(&configv1.TokenExchange{
		TokenUrl: as.URL, ClientId: "side car", ClientSecretFile: write(t, "secret", []byte("p:ss%word\n")),
		Audience: []string{"shop", "stock"}, Resource: []string{"https://shop.example.com"}, Scope: []string{"orders", "stock"},
	}))
	ctx := request(t, oauthCaller("alice", "planner"), canary)
	for range 3 {
		got, err := x.Authorization(ctx)
		if err != nil || got != "Bearer for-the-backend" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	seen := as.seen()
	if len(seen) != 1 {
		t.Fatalf("%d exchanges for three calls", len(seen))
	}
	want := map[string][]string{
		"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token": {canary}, "subject_token_type": {behalf.TypeAccessToken}, "requested_token_type": {behalf.TypeAccessToken},
		"audience": {"shop", "stock"}, "resource": {"https://shop.example.com"}, "scope": {"orders stock"},
	}
	if diff := cmp.Diff(want, map[string][]string(seen[0].PostForm)); diff != "" {
		t.Errorf("parameters (-want +got):\n%s", diff)
	}
	if user, password, _ := seen[0].BasicAuth(); user != "side+car" || password != "p%3Ass%25word" {
		t.Errorf("client %q, secret %q", user, password)
	}
	if s := x.Stats(); s.Issued != 1 || s.CacheHits != 2 || s.Cached != 1 || s.Seconds <= 0 {
		t.Errorf("%+v", s)
	}
}

func TestClientInBody(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	secret := write(t, "secret", []byte("s3cret"))
	for _, x := range []*configv1.TokenExchange{
		{TokenUrl: as.URL, ClientId: "sidecar", ClientSecretFile: secret, ClientAuth: new("post")},
		{TokenUrl: as.URL, ClientId: "sidecar"},
	} {
		if _, err := newExchanger(t, exchange(x)).Authorization(request(t, oauthCaller("alice", ""), canary)); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"s3cret", ""} {
		r := as.seen()[i]
		if r.Header.Get("Authorization") != "" || r.PostForm.Get("client_id") != "sidecar" || r.PostForm.Get("client_secret") != want {
			t.Errorf("%v %v", r.Header, r.PostForm)
		}
	}
}

// TestExchangeFaults: what an authorization server can do wrong, and what the caller is
// told. Whatever it says, the caller's token is in no error and no log line.
func TestExchangeFaults(t *testing.T) {
	t.Parallel()
	elsewhere := newTokenServer(t, says(200, good))
	refused := func(code string) http.HandlerFunc {
		return says(400, fmt.Sprintf(`{"error":%q,"error_description":"token %s is bad"}`, code, canary))
	}
	tests := []struct {
		name    string
		answer  http.HandlerFunc
		code    errmap.Code
		message string
		after   time.Duration // of UNAVAILABLE; 0: one second
	}{
		{"invalid_grant", refused("invalid_grant"), errmap.Unauthenticated, "log in again", 0},
		{"invalid_token", refused("invalid_token"), errmap.Unauthenticated, "(invalid_token)", 0},
		{"interaction_required", refused("interaction_required"), errmap.Unauthenticated, "(interaction_required)", 0},
		{"access_denied", refused("access_denied"), errmap.PermissionDenied, "(access_denied)", 0},
		{"invalid_target", refused("invalid_target"), errmap.PermissionDenied, "(invalid_target)", 0},
		{"invalid_scope", refused("invalid_scope"), errmap.PermissionDenied, "(invalid_scope)", 0},
		{"invalid_request", refused("invalid_request"), errmap.PermissionDenied, "(invalid_request)", 0},
		{"a rejection with 403", says(403, `{"error":"access_denied"}`), errmap.PermissionDenied, "(access_denied)", 0},
		{"invalid_client", says(401, `{"error":"invalid_client"}`), errmap.Unavailable, "check backend.identity.exchange", 0},
		{"unauthorized_client", refused("unauthorized_client"), errmap.Unavailable, "(unauthorized_client)", 0},
		{"unsupported_grant_type", refused("unsupported_grant_type"), errmap.Unavailable, "(unsupported_grant_type)", 0},
		{"an error that is the token", refused(canary), errmap.Unavailable, "unknown error", 0},
		{"400 without JSON", says(400, "<html>"+canary), errmap.Unavailable, "HTTP status 400", 0},
		{"500", says(500, canary), errmap.Unavailable, "HTTP status 500", 0},
		{"503 with Retry-After", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
		}, errmap.Unavailable, "HTTP status 503", 7 * time.Second},
		{"429", says(429, ""), errmap.Unavailable, "HTTP status 429", 0},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, errmap.Unavailable, "HTTP status 307", 0},
		{"201", says(201, good), errmap.Unavailable, "HTTP status 201", 0},
		{"no JSON", says(200, "token="+canary), errmap.Unavailable, "not the JSON of a token", 0},
		{"an empty object", says(200, "{}"), errmap.Unavailable, "no token that a header can carry", 0},
		{"a header injection", says(200, `{"access_token":"a\r\nx-admin: 1","token_type":"Bearer"}`), errmap.Unavailable, "no token that a header", 0},
		{"a huge token", says(200, `{"access_token":"`+strings.Repeat("a", 17<<10)+`","token_type":"Bearer"}`), errmap.Unavailable, "no token that a header", 0},
		{"the caller's own token", says(200, `{"access_token":"`+canary+`","token_type":"Bearer"}`), errmap.Unavailable, "caller's own token", 0},
		{"a refresh token", says(200, `{"access_token":"x","token_type":"Bearer","issued_token_type":"urn:ietf:params:oauth:token-type:refresh_token"}`),
			errmap.Unavailable, "refresh token", 0},
		{"a DPoP token", says(200, `{"access_token":"x","token_type":"DPoP"}`), errmap.Unavailable, "no bearer token", 0},
		{"no token type", says(200, `{"access_token":"x"}`), errmap.Unavailable, "no bearer token", 0},
		{"a lifetime of words", says(200, `{"access_token":"x","token_type":"Bearer","expires_in":"soon"}`), errmap.Unavailable, "no number", 0},
		{"a response over the limit", says(200, good+strings.Repeat(" ", 64<<10)), errmap.Unavailable, "exceeds 65536 bytes", 0},
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, errmap.Unavailable, "did not answer in time", 0},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, errmap.Unavailable, "could not be reached", 0},
		{"a broken response", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("{"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, errmap.Unavailable, "broke off", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			core, logged := observer.New(zap.DebugLevel)
			as := newTokenServer(t, tt.answer)
			timeout := 10 * time.Second // any other fault shows before it, on a busy machine too
			if tt.name == "no answer" {
				timeout = 300 * time.Millisecond
			}
			i := exchange(&configv1.TokenExchange{TokenUrl: as.URL, ClientId: "sidecar"})
			i.Exchange.Timeout = durationpb.New(timeout)
			x, failed := behalf.NewExchanger(i, "", zap.New(core))
			if failed != nil {
				t.Fatal(failed)
			}
			t.Cleanup(x.Close)
			got, err := x.Authorization(request(t, oauthCaller("alice", ""), canary))
			if err == nil || err.Code != tt.code || !strings.Contains(err.Message, tt.message) || got != "" {
				t.Fatalf("%q, %v %+v", got, err, err)
			}
			if tt.code == errmap.Unavailable && err.RetryAfter != max(tt.after, time.Second) {
				t.Errorf("retry after %v", err.RetryAfter)
			}
			if tt.code == errmap.Unauthenticated && err.Challenge == "" {
				t.Error("no challenge")
			}
			if logged.Len() != 1 {
				t.Errorf("%d log lines", logged.Len())
			}
			if text := fmt.Sprintf("%v %+v %#v %v", err, *err, errors.Unwrap(err), logged.All()); strings.Contains(text, canary) {
				t.Errorf("the token is shown: %s", text)
			}
		})
	}
	if n := len(elsewhere.seen()); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// TestExchangeSuccesses: forms of a good response that servers use.
func TestExchangeSuccesses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body   string
		cached bool
	}{
		"a lifetime as a string": {`{"access_token":"x","token_type":"bearer","expires_in":"300"}`, true},
		"no lifetime":            {`{"access_token":"x","token_type":"Bearer"}`, true},
		"a null lifetime":        {`{"access_token":"x","token_type":"Bearer","expires_in":null}`, true},
		"another kind of token":  {`{"access_token":"x","token_type":"N_A","expires_in":1e9}`, true},
		"already expired":        {`{"access_token":"x","token_type":"Bearer","expires_in":0}`, false},
		"a negative lifetime":    {`{"access_token":"x","token_type":"Bearer","expires_in":-5}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := newTokenServer(t, says(200, tt.body))
			x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
			for range 2 {
				if got, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err != nil || got != "Bearer x" {
					t.Fatalf("%q, %v", got, err)
				}
			}
			if n := len(as.seen()); (n == 1) != tt.cached {
				t.Errorf("%d exchanges", n)
			}
		})
	}
}

// TestOneExchangeAtATime for a token, however many callers wait for it; and the end of one waiting
// caller ends no other.
func TestOneExchangeAtATime(t *testing.T) {
	t.Parallel()
	admit := make(chan struct{})
	as := newTokenServer(t, func(w http.ResponseWriter, r *http.Request) {
		<-admit
		says(200, good)(w, r)
	})
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
	gone, leave := context.WithCancel(request(t, oauthCaller("alice", ""), canary))
	left := make(chan *errmap.Error, 1)
	go func() {
		_, err := x.Authorization(gone)
		left <- err
	}()
	testkit.Until(t, "an exchange has begun", func() bool { return len(as.seen()) > 0 })
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err != nil {
				t.Error(err)
			}
		})
	}
	leave()
	if err := <-left; err == nil || err.Code != errmap.Cancelled {
		t.Errorf("the caller that left: %v", err)
	}
	close(admit)
	all.Wait()
	if n := len(as.seen()); n != 1 {
		t.Errorf("%d exchanges for one token", n)
	}
}

// TestDeadlineOfTheCall bounds how long it waits for an exchange.
func TestDeadlineOfTheCall(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
	ctx, cancel := context.WithTimeout(request(t, oauthCaller("alice", ""), canary), 20*time.Millisecond)
	defer cancel()
	if _, err := x.Authorization(ctx); err == nil || err.Code != errmap.Timeout {
		t.Errorf("%v", err)
	}
}

// TestAway: after three failures in a row, calls fail at once.
func TestAway(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(503, ""))
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
	for i := range 8 {
		_, err := x.Authorization(request(t, oauthCaller("alice", ""), fmt.Sprintf("%s-%d", canary, i)))
		if err == nil || err.Code != errmap.Unavailable || err.RetryAfter < time.Second {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if n, s := len(as.seen()), x.Stats(); n != 3 || s.Spared != 5 || s.Unavailable != 3 {
		t.Errorf("%d exchanges, %+v", n, s)
	}
}

// TestRejectionIsRemembered for a while, so that a loop is no load.
func TestRejectionIsRemembered(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(400, `{"error":"invalid_grant"}`))
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
	for range 10 {
		if _, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err == nil || err.Code != errmap.Unauthenticated {
			t.Fatalf("%v", err)
		}
	}
	if n := len(as.seen()); n != 1 {
		t.Errorf("%d exchanges", n)
	}
}

// TestMaxTokens bounds the cache.
func TestMaxTokens(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL, MaxTokens: new(int32(3))}))
	for i := range 10 {
		if _, err := x.Authorization(request(t, oauthCaller("alice", ""), fmt.Sprintf("%s-%d", canary, i))); err != nil {
			t.Fatal(err)
		}
	}
	if s := x.Stats(); s.Cached != 3 || s.MaxCached != 3 {
		t.Errorf("%+v", s)
	}
}

// TestMissing: callers without an OAuth token. The token of another source is a secret
// between the caller and the sidecar, and goes nowhere.
func TestMissing(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	file := identity.NewIdentity(identity.Grant{Name: "planner"})
	certificate := identity.NewIdentityOf(identity.Grant{Name: "spiffe://a/b"}, identity.Facts{Source: identity.SourceCertificate})
	ended, end := context.WithCancel(identity.NewContext(t.Context(), oauthCaller("alice", "")))
	ended = behalf.WithToken(ended, canary)
	end()
	ended = context.WithoutCancel(ended) // as a task has it
	for name, ctx := range map[string]context.Context{
		"anonymous":          t.Context(),
		"callers file":       request(t, file, canary),
		"certificate":        request(t, certificate, canary),
		"another issuer":     request(t, identity.NewIdentityOf(identity.Grant{Name: "x"}, identity.Facts{Source: identity.SourceOAuth, Issuer: "https://other.example.com", Subject: "x"}), canary),
		"OAuth, no token":    identity.NewContext(t.Context(), oauthCaller("alice", "")),
		"an ended request":   ended,
		"an empty token":     request(t, oauthCaller("alice", ""), ""),
		"no identity at all": behalf.WithToken(t.Context(), canary),
	} {
		i := exchange(&configv1.TokenExchange{TokenUrl: as.URL, Issuers: []string{issuer}})
		x := newExchanger(t, i)
		if _, err := x.Authorization(ctx); err == nil || err.Code != errmap.PermissionDenied || strings.Contains(err.Message, canary) {
			t.Errorf("%s: %v", name, err)
		}
		if s := x.Stats(); s.Missing != 1 {
			t.Errorf("%s: %+v", name, s)
		}
		i.OnMissing = new("none")
		if got, err := newExchanger(t, i).Authorization(ctx); err != nil || got != "" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if n := len(as.seen()); n != 0 {
		t.Errorf("%d exchanges", n)
	}
}

// TestSecretReload: the next exchange has the new secret, and a bad file changes nothing.
func TestSecretReload(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	path := write(t, "secret", []byte("one"))
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL, ClientId: "sidecar", ClientSecretFile: path}))
	for i, tt := range []struct {
		text    string
		changed bool
		fails   bool
		want    string
	}{{"one", false, false, "one"}, {"two", true, false, "two"}, {"", false, true, "two"}, {"a\nb", false, true, "two"}, {strings.Repeat("x", 5000), false, true, "two"}} {
		write(t, path, []byte(tt.text))
		changed, err := x.Reload()
		if changed != tt.changed || (err != nil) != tt.fails {
			t.Errorf("%q: %v, %v", tt.text, changed, err)
		}
		if _, err := x.Authorization(request(t, oauthCaller("alice", ""), fmt.Sprint(canary, i))); err != nil {
			t.Fatal(err)
		}
		if _, secret, _ := as.seen()[i].BasicAuth(); secret != tt.want {
			t.Errorf("secret %q, want %q", secret, tt.want)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://login.example.com/token": true, "http://127.0.0.1:8080/token": true, "http://[::1]/t": true, "http://localhost/t": true,
		"http://login.example.com/token": false, "ftp://localhost/": false, "https://": false, "https://u:p@h/": false, "https://h/#f": false,
		"http://localhost.example.com/": false, "": false,
	} {
		if err := behalf.CheckURL(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestTLS: an authorization server with a certificate of an unknown CA is not trusted.
func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(says(200, good))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails on purpose
	server.StartTLS()
	defer server.Close()
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: server.URL}))
	if _, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err == nil || err.Code != errmap.Unavailable {
		t.Errorf("%v", err)
	}
	ca := write(t, "ca.pem", pemOf("CERTIFICATE", server.Certificate().Raw))
	x = newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: server.URL, CaFile: ca}))
	if _, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err != nil {
		t.Error(err)
	}
	if _, err := behalf.NewExchanger(exchange(&configv1.TokenExchange{TokenUrl: server.URL, CaFile: write(t, "none.pem", []byte("x"))}), "", zap.NewNop()); err == nil {
		t.Error("a CA file without a certificate")
	}
}

// TestClosed: no exchange begins after Close.
func TestClosed(t *testing.T) {
	t.Parallel()
	as := newTokenServer(t, says(200, good))
	x := newExchanger(t, exchange(&configv1.TokenExchange{TokenUrl: as.URL}))
	x.Close()
	if _, err := x.Authorization(request(t, oauthCaller("alice", ""), canary)); err == nil || err.Code != errmap.Unavailable || len(as.seen()) != 0 {
		t.Errorf("%v", err)
	}
}

// BenchmarkExchanged is what a call costs once the token is there.
func BenchmarkExchanged(b *testing.B) {
	as := newTokenServer(b, says(200, good))
	x := newExchanger(b, exchange(&configv1.TokenExchange{TokenUrl: as.URL, Audience: []string{"shop"}}))
	ctx := request(b, oauthCaller("alice", ""), canary+strings.Repeat("x", 900))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.Authorization(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
