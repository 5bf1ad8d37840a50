// SPDX-License-Identifier: Apache-2.0

package behalf_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/identity/behalf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const issuer = "https://login.example.com/"

// canary is a caller's token. It may be nowhere but in the request of an exchange.
const canary = "canary-7f3a9c51e0d24b68"

// oauthCaller is a caller that an authorization server knows.
func oauthCaller(subject, client string) *identity.Identity {
	return identity.NewIdentityOf(identity.Grant{Name: issuer + "#" + subject, Tools: []string{"*"}},
		identity.Facts{Source: identity.SourceOAuth, Issuer: issuer, Subject: subject, ClientID: client})
}

// request is the context of a request of a caller with a token.
func request(t testing.TB, who *identity.Identity, token string) context.Context {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	t.Cleanup(end)
	return behalf.WithToken(identity.NewContext(ctx, who), token)
}

// tokenServer is an authorization server on loopback that answers each exchange by a
// function, and remembers what it was sent.
type tokenServer struct {
	URL string

	mu       sync.Mutex
	requests []*http.Request // with parsed forms
}

func newTokenServer(t testing.TB, answer http.HandlerFunc) *tokenServer {
	t.Helper()
	s := &tokenServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Errorf("the form of an exchange: %v", err)
		}
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/token"
	return s
}

func (s *tokenServer) seen() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

// says is a handler with a fixed answer.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

const good = `{"access_token":"for-the-backend","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":300}`

// exchange are the default settings with those of an exchange.
func exchange(x *configv1.TokenExchange) *configv1.BackendIdentity {
	i := config.Defaults(config.Serve).GetBackend().GetIdentity()
	proto.Merge(i.GetExchange(), x)
	return i
}

func newExchanger(t testing.TB, i *configv1.BackendIdentity) *behalf.Exchanger {
	t.Helper()
	x, err := behalf.NewExchanger(i, "", zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

func write(t testing.TB, path string, text []byte) string {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.TempDir(), path)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
