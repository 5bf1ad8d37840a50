// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// slowEndpoint is an introspection endpoint in front of an issuer that answers when it is released.
type slowEndpoint struct {
	release   chan struct{}
	now, most atomic.Int32
}

func (s *slowEndpoint) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := s.now.Add(1)
		defer s.now.Add(-1)
		for old := s.most.Load(); now > old && !s.most.CompareAndSwap(old, now); old = s.most.Load() {
		}
		<-s.release
		next.ServeHTTP(w, r)
	})
}

// introspection.max_concurrent: further requests wait for a place, and fail as unavailable if
// there is none within fetch_timeout.
func TestIntrospectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most, tokens = 2, 8
	for name, tt := range map[string]struct {
		timeout time.Duration
		waits   bool
	}{
		"a place is free in time": {timeout: time.Minute, waits: true},
		"no place is free":        {timeout: 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i, dial := oauthtest.InMemory(t)
				slow := &slowEndpoint{release: make(chan struct{})}
				server := backend.NewInProcess(slow.before(&httputil.ReverseProxy{
					Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "issuer" },
					Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}, ErrorLog: log.New(io.Discard, "", 0),
				}), zap.NewNop())
				t.Cleanup(func() { _ = server.Close() })
				v, err := identity.NewVerifier(identity.VerifierOptions{Resource: resource, FetchTimeout: tt.timeout, Issuers: []identity.Issuer{{URL: i.URL, Introspection: &identity.Introspection{
					ClientID: oauthtest.ClientID, Secret: oauthtest.Secretly, URL: "http://127.0.0.1:2/realm/introspect", MaxConcurrent: most,
				}}}})
				if err != nil {
					t.Fatal(err)
				}
				v.ReachBy(func(ctx context.Context, network, address string) (net.Conn, error) {
					if address == "127.0.0.1:2" {
						return server.Dial(ctx, network, address)
					}
					return dial(ctx, network, address)
				})
				run(t, v)
				outcomes, began := make(chan string, tokens), time.Now()
				for n := range tokens {
					token := "opaque-0123456789-" + strconv.Itoa(n)
					i.Grant(token, i.Claims(resource))
					go func() { outcomes <- outcome(show(v, token)) }()
				}
				synctest.Wait()
				if n := slow.now.Load(); n != most {
					t.Errorf("%d requests at once, want %d", n, most)
				}
				want := i.URL + "#ann"
				if tt.waits {
					close(slow.release)
				} else {
					want = "unavailable"
					defer close(slow.release)
				}
				for range tokens {
					if got := <-outcomes; got != want {
						t.Errorf("%s, want %s", got, want)
					}
				}
				if took := time.Since(began); !tt.waits && took != tt.timeout {
					t.Errorf("given up after %s, want %s", took, tt.timeout)
				}
				// The endpoint does not know of requests that were given up.
				if got := slow.most.Load(); tt.waits && got != most {
					t.Errorf("%d concurrent requests", got)
				}
			})
		})
	}
}
