// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/oauth"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// slowEndpoint is an introspection endpoint that answers when it is released.
type slowEndpoint struct {
	url     string
	arrived chan struct{}
	release chan struct{}
	now     atomic.Int32
	most    atomic.Int32
}

func startSlow(t *testing.T, i *oauthtest.Issuer) *slowEndpoint {
	t.Helper()
	to, err := url.Parse(i.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	s := &slowEndpoint{arrived: make(chan struct{}, 100), release: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := s.now.Add(1)
		defer s.now.Add(-1)
		for old := s.most.Load(); now > old && !s.most.CompareAndSwap(old, now); old = s.most.Load() {
		}
		s.arrived <- struct{}{}
		<-s.release
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL + to.Path + "/introspect"
	return s
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
			i := oauthtest.Start(t)
			slow := startSlow(t, i)
			v := open(t, oauth.Options{FetchTimeout: tt.timeout, Issuers: []oauth.Issuer{{URL: i.URL, Introspection: &oauth.Introspection{
				ClientID: oauthtest.ClientID, Secret: oauthtest.Secretly, URL: slow.url, MaxConcurrent: most,
			}}}})
			outcomes := make(chan string, tokens)
			for n := range tokens {
				token := "opaque-0123456789-" + strconv.Itoa(n)
				i.Grant(token, i.Claims(resource))
				go func() { outcomes <- outcome(show(v, token)) }()
			}
			for range most {
				<-slow.arrived
			}
			select {
			case <-slow.arrived:
				t.Error("one request too many")
			case <-time.After(300 * time.Millisecond): // a real peer
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
			// The endpoint does not know of requests that were given up.
			if got := slow.most.Load(); tt.waits && got != most {
				t.Errorf("%d concurrent requests", got)
			}
		})
	}
}
