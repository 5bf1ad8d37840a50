// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/oauthtest"
)

// TestRotationOverHTTP is TestRotation for a whole sidecar: calls come in over HTTP, on several
// edges, and run against a backend.
func TestRotationOverHTTP(t *testing.T) {
	t.Parallel()
	total := rotationTime(t)
	refresh, fetch := max(total/20, time.Second), max(total/60, time.Second) // no configuration has less
	r := &rotation{issuer: oauthtest.Start(t), workers: 32, pause: 5 * time.Millisecond}
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		o := c.Access.Oauth
		o.Resource, o.IssuerUrls = resource, []string{r.issuer.URL}
		o.KeyRefreshInterval, o.KeyFetchInterval = durationpb.New(refresh), durationpb.New(fetch)
	}})
	p := newPresenter(t, rig.Serve(t))
	r.present = p.present
	took := r.run(t, total, refresh, func() int { _, failed := keyFetches(t, rig); return failed })
	ok, failed := keyFetches(t, rig)
	if most := mostFetches(took, refresh, fetch); ok+failed > most || r.issuer.KeyFetches() > most {
		t.Errorf("%d fetches, %d of them failed, %d requests, at most %d expected", ok+failed, failed, r.issuer.KeyFetches(), most)
	}
	t.Logf("%d calls, %.0f/s, %d unavailable, %d attacks, %d fetches, %d of them failed, 99 %% of the answers within %v, all within %v",
		r.calls.Load(), float64(r.calls.Load())/took.Seconds(), r.unavailable.Load(), r.attacks.Load(), ok+failed, failed, p.took(0.99), p.took(1))
}

// presenter shows tokens to a sidecar, on one edge after the other.
type presenter struct {
	url    string
	client *http.Client
	turn   atomic.Int64
	edges  []edge

	mu    sync.Mutex
	times []time.Duration
}

func newPresenter(t *testing.T, url string) *presenter {
	t.Helper()
	p := &presenter{url: url, client: mcptest.Client(t, 1)}
	p.client.Timeout = time.Minute
	p.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	for _, e := range edges() {
		if slices.Contains([]string{"mcp modern", "rpc", "tool api, connect", "pass-through, connect"}, e.name) {
			p.edges = append(p.edges, e)
		}
	}
	return p
}

// present sends a request with a token.
func (p *presenter) present(token string) string {
	e := &p.edges[int(p.turn.Add(1))%len(p.edges)]
	begin := time.Now()
	status, said, err := p.send(e, token)
	p.mu.Lock()
	p.times = append(p.times, time.Since(begin))
	p.mu.Unlock()
	switch {
	case err != nil:
		return err.Error()
	case status == http.StatusOK && !strings.Contains(said, `"error"`):
		return ""
	case status == http.StatusServiceUnavailable:
		return "unavailable"
	}
	return fmt.Sprintf("%s: %d %s", e.name, status, said)
}

func (p *presenter) send(e *edge, token string) (status int, said string, err error) {
	r, err := http.NewRequest(e.method, p.url+e.path, strings.NewReader(e.body)) //nolint:noctx // the client has a timeout
	if err != nil {
		return 0, "", err
	}
	for name, value := range e.header {
		r.Header.Set(name, value)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := p.client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// took is the time in which a share of the answers came.
func (p *presenter) took(share float64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.times)
	return p.times[int(share*float64(len(p.times)-1))].Round(10 * time.Microsecond)
}

// fetchCounts are the metrics of fetches.
var fetchCounts = regexp.MustCompile(`(?m)^outrigger_oauth_key_fetches_total\{result="(ok|failed)"\} (\d+)$`)

// keyFetches reads them from the operators' page.
func keyFetches(t *testing.T, rig *mcptest.Rig) (ok, failed int) {
	t.Helper()
	resp, err := mcptest.Client(t, 1).Get(rig.Operators(t) + "/metrics") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, found := range fetchCounts.FindAllStringSubmatch(string(page), -1) {
		if counts[found[1]], err = strconv.Atoi(found[2]); err != nil {
			t.Fatal(err)
		}
	}
	if len(counts) != 2 {
		t.Fatalf("no counts of fetches: %s", page)
	}
	return counts["ok"], counts["failed"]
}
