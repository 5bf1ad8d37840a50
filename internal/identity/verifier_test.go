// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// open makes a verifier that runs until the end of the test.
func open(t testing.TB, o identity.VerifierOptions) *identity.Verifier {
	t.Helper()
	o.Resource = orText(o.Resource, resource)
	v, err := identity.NewVerifier(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, v)
	return v
}

// run runs a verifier until the end of the test.
func run(t testing.TB, v *identity.Verifier) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { v.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// outcome is the name of the caller, or the reason for its refusal.
func outcome(who *identity.Identity, err error) string {
	var refused *identity.Refusal
	var down *identity.Unavailable
	switch {
	case errors.As(err, &refused):
		return string(refused.Reason)
	case errors.As(err, &down):
		return "unavailable"
	case err != nil:
		return err.Error()
	}
	return who.Name()
}

func show(v *identity.Verifier, token string) (*identity.Identity, error) {
	return v.Authenticate(context.Background(), identity.Credentials{Token: token, Method: "POST", Path: "/mcp"})
}

// TestOauthIdentity: what a token says about its caller.
func TestOauthIdentity(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	v := open(t, identity.VerifierOptions{
		Issuers: []identity.Issuer{{URL: i.URL, GroupsClaim: "realm.groups", RolesClaim: "roles"}},
		Grant:   identity.Grant{Tools: []string{"lab.*"}, Trust: identity.Trusted},
	})
	who, err := show(v, i.Token(resource, func(c map[string]any) {
		c["sub"], c["scp"], c["roles"] = "ann é%", []string{"tools:read", "more"}, []string{"Role.One"}
		c["realm"] = map[string]any{"groups": []string{"g1", "g2"}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	f := who.Facts()
	if who.Name() != i.URL+"#ann%20%C3%A9%25" || who.Principal() != "oauth:"+i.URL+" ann é%" || f.ClientID != "app" ||
		!slices.Equal(f.Scopes, []string{"Role.One", "more", "tools:read", "tools:write"}) || !slices.Equal(f.Groups, []string{"g1", "g2"}) ||
		f.Claims["sub"] != "ann é%" || who.Trust() != identity.Trusted || who.MayCall("fleet.x") || !who.MayCall("lab.x") {
		t.Errorf("%q %q %+v", who.Name(), who.Principal(), f)
	}
	for name, claims := range map[string]map[string]any{
		"overage": {"_claim_names": map[string]any{"realm.groups": "src1"}}, "implicit flow": {"hasgroups": true},
	} {
		who, err = show(v, i.Token(resource, func(c map[string]any) {
			c["realm"] = map[string]any{"groups": []string{"g1"}}
			maps.Copy(c, claims)
		}))
		if err != nil || !who.Facts().GroupsUnknown || who.Facts().Groups != nil {
			t.Errorf("%s: %v %v", name, who.Facts().Groups, err)
		}
	}
}

// TestATokenIsVerifiedOnce: not per call, and not per caller that brings it at the same time.
func TestATokenIsVerifiedOnce(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}})
	token := i.Token(resource, nil)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 50 {
				if who, err := show(v, token); err != nil {
					t.Error(outcome(who, err))
				}
			}
		})
	}
	all.Wait()
	if s := v.Stats(); s.Verified != 1 || s.Hits+s.Misses != 64*50 || s.Cached != 1 || i.KeyFetches() != 1 {
		t.Errorf("%+v, %d fetches", s, i.KeyFetches())
	}
}

// TestAKeyThatIsGone ends what it has signed.
func TestAKeyThatIsGone(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}, RefreshInterval: 20 * time.Millisecond, FetchInterval: 20 * time.Millisecond})
	token := i.Token(resource, nil)
	if who, err := show(v, token); err != nil {
		t.Fatal(outcome(who, err))
	}
	i.Publish(oauthtest.NewKey(t, "second", "ES256"))
	testkit.Until(t, "the token is refused", func() bool {
		who, err := show(v, token)
		return outcome(who, err) == "key"
	})
}

// TestTheIssuersName: a token must have exactly that of the metadata, whatever the operator wrote.
func TestTheIssuersName(t *testing.T) {
	t.Parallel()
	for _, slash := range []bool{true, false} {
		for _, written := range []string{"", "/"} {
			i := oauthtest.Start(t)
			if slash {
				i.SetSlash()
			}
			v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL + written}}})
			for _, said := range []string{"", "/"} {
				who, err := show(v, i.Token(resource, func(c map[string]any) { c["iss"] = i.URL + said }))
				if ok := slash == (said == "/"); ok != (err == nil) {
					t.Errorf("metadata with a slash %v, configured %q, token %q: %s", slash, written, said, outcome(who, err))
				}
			}
		}
	}
}

// TestDiscovery: where metadata is found, and which is not taken.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	good := oauthtest.Start(t)
	doc := func(issuer, jwks string) string { return `{"issuer":"` + issuer + `","jwks_uri":"` + jwks + `"}` }
	for _, tt := range []struct{ name, path, at, jwks, want string }{
		{"RFC 8414", "/a", "/.well-known/oauth-authorization-server/a", good.JWKS(), ""},
		{"OpenID, inserted", "/a", "/.well-known/openid-configuration/a", good.JWKS(), ""},
		{"OpenID, appended", "/a", "/a/.well-known/openid-configuration", good.JWKS(), ""},
		{"OpenID at the root", "", "/.well-known/openid-configuration", good.JWKS(), ""},
		{"nowhere", "/a", "/elsewhere", good.JWKS(), "unavailable"},
		{"redirect", "", "/.well-known/openid-configuration", good.URL + "/moved", "unavailable"},
		{"http beyond loopback", "", "/.well-known/openid-configuration", "http://example.com/jwks", "unavailable"},
		{"file", "", "/.well-known/openid-configuration", "file:///etc/passwd", "unavailable"},
		{"no keys", "", "/.well-known/openid-configuration", "", "unavailable"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mux := http.NewServeMux()
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			issuer := server.URL + tt.path
			mux.HandleFunc("GET "+tt.at, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(doc(issuer, tt.jwks))) })
			v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: issuer}}})
			who, err := show(v, good.Token(resource, func(c map[string]any) { c["iss"] = issuer }))
			if got := outcome(who, err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
}

// TestResponsesAreBounded in size and in time.
func TestResponsesAreBounded(t *testing.T) {
	t.Parallel()
	good := oauthtest.Start(t)
	for name, row := range map[string]struct {
		answer http.HandlerFunc
		takes  time.Duration
	}{
		"large": {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", 5000) + "{}")) }},
		"slow":  {answer: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, takes: 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := backend.NewInProcess(row.answer, zap.NewNop())
			defer func() { _ = server.Close() }()
			v, err := identity.NewVerifier(identity.VerifierOptions{
				Resource: resource, Issuers: []identity.Issuer{{URL: good.URL, JWKS: good.URL + "/jwks"}},
				FetchTimeout: 3 * time.Second, MaxFetchBytes: 4096,
			})
			if err != nil {
				t.Fatal(err)
			}
			v.ReachBy(server.Dial)
			run(t, v)
			begin := time.Now()
			who, err := show(v, good.Token(resource, nil))
			if took := time.Since(begin); outcome(who, err) != "unavailable" || took != row.takes {
				t.Errorf("%s: %s after %v, want %v", name, outcome(who, err), took, row.takes)
			}
		})
	}
}

// TestKeysOfAFile: a key set that somebody else publishes, without a request to the issuer. It is read again at the interval of other keys.
func TestKeysOfAFile(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	publish := func(path string) {
		t.Helper()
		res, err := http.Get(i.JWKS())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		keys, err := io.ReadAll(res.Body)
		if err == nil {
			err = os.WriteFile(path, keys, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	publish(path)
	asked := i.KeyFetches()
	v := open(t, identity.VerifierOptions{RefreshInterval: 20 * time.Millisecond, Issuers: []identity.Issuer{{URL: i.URL, JWKS: "file://" + path}}})
	if who, err := show(v, i.Token(resource, nil)); err != nil {
		t.Errorf("a token of a key in the file: %s", outcome(who, err))
	}
	i.Key = oauthtest.NewKey(t, "second", "ES256")
	i.Publish(i.Key)
	token := i.Token(resource, nil)
	if who, err := show(v, token); outcome(who, err) != string(identity.UnknownKey) {
		t.Errorf("a token of a key that is not in the file: %s", outcome(who, err))
	}
	publish(path)
	testkit.Until(t, "the new key is read", func() bool {
		_, err := show(v, i.Token(resource, nil))
		return err == nil
	})
	if got := i.KeyFetches(); got != asked+1 {
		t.Errorf("the issuer was asked %d times for its keys, besides by the test", got-asked-1)
	}
	if who, err := show(open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL, JWKS: "file:///no/such/keys.json"}}}), token); outcome(who, err) != "unavailable" {
		t.Errorf("without the file: %s", outcome(who, err))
	}
}

// TestWhatIsConfigured: what cannot be right is an error before anything runs.
func TestWhatIsConfigured(t *testing.T) {
	t.Parallel()
	for _, o := range []identity.VerifierOptions{
		{Resource: resource},
		{Resource: "tools", Issuers: []identity.Issuer{{URL: "https://a"}}},
		{Resource: "http://example.com/mcp", Issuers: []identity.Issuer{{URL: "https://a"}}},
		{Resource: "https://a/mcp#x", Issuers: []identity.Issuer{{URL: "https://a"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "http://example.com"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "https://user:secret@a"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "https://a"}, {URL: "https://a/"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "https://a", JWKS: "http://example.com"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "https://a", JWKS: "file://host/keys.json"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "file:///keys.json"}}},
		{Resource: resource, Issuers: []identity.Issuer{{URL: "https://a", Introspection: &identity.Introspection{URL: "http://example.com"}}}},
	} {
		if identity.CheckVerifier(o) == nil {
			t.Errorf("%+v is fine", o)
		}
	}
	if err := identity.CheckVerifier(identity.VerifierOptions{Resource: "https://a/mcp", Issuers: []identity.Issuer{{URL: "https://a"}}}); err != nil {
		t.Error(err)
	}
	if got := identity.MetadataURL("https://a:8443/x/mcp/"); got != "https://a:8443/.well-known/oauth-protected-resource/x/mcp" {
		t.Error(got)
	}
}

// TestLimitsOfTime: leeway counts in both directions, to the second.
func TestLimitsOfTime(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	exact := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}, Leeway: -1})
	wide := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}})
	at := func(name string, by time.Duration) string {
		return i.Token(resource, func(c map[string]any) { c[name] = time.Now().Add(by).Unix() })
	}
	for _, tt := range []struct {
		name        string
		by          time.Duration
		exact, wide string
	}{
		{"exp", -30 * time.Second, "expired", ""}, {"exp", -62 * time.Second, "expired", "expired"},
		{"nbf", 30 * time.Second, "early", ""}, {"nbf", 90 * time.Second, "early", "early"},
		{"iat", 30 * time.Second, "early", ""},
	} {
		for want, v := range map[string]*identity.Verifier{"x" + tt.exact: exact, "y" + tt.wide: wide} {
			who, err := show(v, at(tt.name, tt.by))
			if got := outcome(who, err); want[1:] == "" && err != nil || want[1:] != "" && got != want[1:] {
				t.Errorf("%s %v: %s, want %s", tt.name, tt.by, got, want)
			}
		}
	}
}

// TestBindings: certificates, required keys and strict types.
func TestBindings(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	sum := sha256.Sum256([]byte("a certificate"))
	token := i.Token(resource, func(c map[string]any) {
		c["cnf"] = map[string]any{"x5t#S256": base64.RawURLEncoding.EncodeToString(sum[:])}
	})
	v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}})
	for certificate, want := range map[string]string{"a certificate": i.URL + "#ann", "another": "binding", "": "binding"} {
		who, err := v.Authenticate(t.Context(), identity.Credentials{Token: token, Certificate: []byte(certificate)})
		if got := outcome(who, err); got != want {
			t.Errorf("%q: %s", certificate, got)
		}
	}
	strict := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}, StrictType: true, DPoP: identity.DPoP{Required: true}})
	header := i.Header()
	header["typ"] = "JWT"
	who, err := show(strict, i.Key.Sign(header, i.Claims(resource)))
	if outcome(who, err) != "type" {
		t.Error(outcome(who, err))
	}
	who, err = show(strict, i.Token(resource, nil))
	if outcome(who, err) != "binding" {
		t.Error(outcome(who, err))
	}
	if r := strict.Refuse(identity.Missing, identity.Credentials{}); r.Challenge != "Bearer "+metadata+", DPoP "+algs {
		t.Error(r.Challenge)
	}
}

// TestNonces: a proof without one learns which to use.
func TestNonces(t *testing.T) {
	t.Parallel()
	i, client := oauthtest.Start(t), oauthtest.NewClient(t)
	v := open(t, identity.VerifierOptions{Issuers: []identity.Issuer{{URL: i.URL}}, DPoP: identity.DPoP{Nonces: true}, Scope: func() string { return "tools:read" }})
	token := i.Token(resource, func(c map[string]any) { c["cnf"] = client.Confirmation() })
	ask := func(nonce string) error {
		_, err := v.Authenticate(t.Context(), identity.Credentials{
			Token: token, DPoP: true, Method: "POST", Path: "/mcp",
			Proofs: []string{client.Proof("POST", resource, token, func(_, c map[string]any) { c["nonce"] = nonce })},
		})
		return err
	}
	var refused *identity.Refusal
	want := "Bearer " + metadata + `, scope="tools:read", DPoP error="use_dpop_nonce", ` +
		`error_description="the proof must have the nonce of the DPoP-Nonce header", ` + algs
	if !errors.As(ask("guessed"), &refused) || refused.Challenge != want || refused.Nonce == "" {
		t.Fatalf("%+v", refused)
	}
	if err := ask(refused.Nonce); err != nil {
		t.Error(err)
	}
}

// TestACallerWithoutItsToken is the one that it was, unless the callers file says something else of it now, or its issuer would be asked.
func TestACallerWithoutItsToken(t *testing.T) {
	t.Parallel()
	i := oauthtest.Start(t)
	subject := identity.Subject{Issuer: i.URL, Name: "ann"}
	entry := func(tools ...string) []identity.Entry {
		return []identity.Entry{{Grant: identity.Grant{Name: "clerk", Tools: tools}, Groups: []string{"desk"}, Subjects: []identity.Subject{subject}}}
	}
	plain := []identity.Issuer{{URL: i.URL}}
	asked := []identity.Issuer{{URL: i.URL, Introspection: &identity.Introspection{ClientID: oauthtest.ClientID, Secret: oauthtest.Secretly}}}
	for name, tt := range map[string]struct {
		before, now []identity.Entry
		issuers     []identity.Issuer
		known       bool
	}{
		"no entry":       {issuers: plain, known: true},
		"the same entry": {before: entry("a.*"), now: entry("a.*"), issuers: plain, known: true},
		"another entry":  {before: entry("a.*"), now: entry("b.*"), issuers: plain},
		"an entry since": {now: entry("a.*"), issuers: plain},
		"no entry since": {before: entry("a.*"), issuers: plain},
		"another issuer": {issuers: []identity.Issuer{{URL: i.URL + "/other"}}},
		"it is asked":    {issuers: asked},
	} {
		grant := identity.Grant{Tools: []string{"c.*"}}
		first := open(t, identity.VerifierOptions{Issuers: plain, Grant: grant, Book: identity.NewBook(tt.before)})
		who, err := show(first, i.Token(resource, nil))
		if err != nil {
			t.Fatal(err)
		}
		later, err := identity.NewVerifier(identity.VerifierOptions{Resource: resource, Issuers: tt.issuers, Grant: grant, Book: identity.NewBook(tt.now)})
		if err != nil {
			t.Fatal(err)
		}
		facts := who.Facts()
		facts.Claims = nil
		again := later.Again(facts, who.Standing())
		if (again != nil) != tt.known {
			t.Errorf("%s: %v", name, again)
		}
		if again != nil && (again.Principal() != who.Principal() || again.Name() != who.Name() || !slices.Equal(again.Grant().Tools, who.Grant().Tools) ||
			!slices.Equal(again.Facts().Groups, facts.Groups) || !slices.Equal(again.Facts().Scopes, facts.Scopes) || again.Facts().Entry != facts.Entry) {
			t.Errorf("%s: %+v, then %+v", name, facts, again.Facts())
		}
	}
	if (*identity.Verifier)(nil).Again(identity.Facts{Source: identity.SourceOAuth}, nil) != nil {
		t.Error("a caller without a verifier")
	}
}
