// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/server/admin"
)

// work is a process that takes a while to drain.
type work struct {
	takes    time.Duration
	inFlight int

	mu     sync.Mutex
	drains int
	done   chan struct{}
}

func (p *work) Drain(string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drains++
	if p.drains == 1 {
		p.done = make(chan struct{})
		time.AfterFunc(p.takes, func() { close(p.done) })
	}
}

func (p *work) Drained(ctx context.Context) error {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *work) InFlight() int { return p.inFlight }

func post(h http.Handler, target string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestDrainIsBegunAndWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &work{takes: 10 * time.Second, inFlight: 3}
		a := admin.New(admin.Options{Drain: p})
		start := time.Now()
		if a.Awaited() {
			t.Error("there is no waiter yet")
		}
		for _, step := range []struct {
			target string
			status int
			text   string
			after  time.Duration
		}{
			{"/drain", 202, "draining; 3 requests in flight", 0},
			{"/drain?wait=4s", 202, "draining; 3 requests in flight", 4 * time.Second},
			{"/drain?wait=1h", 200, "drained", 10 * time.Second},
			{"/drain", 200, "drained", 10 * time.Second},
			{"/drain?wait=1ms", 200, "drained", 10 * time.Second},
		} {
			status, text := post(a.Handler(), step.target)
			if status != step.status || text != step.text || time.Since(start) != step.after {
				t.Errorf("%s: %d %q after %v, want %d %q after %v", step.target, status, text, time.Since(start), step.status, step.text, step.after)
			}
		}
		if !a.Awaited() || p.drains != 5 {
			t.Errorf("awaited %v, %d drains", a.Awaited(), p.drains)
		}
	})
}

func TestDrainRefusesBadWaits(t *testing.T) {
	t.Parallel()
	p := &work{}
	for _, wait := range []string{"", "10", "soon", "-1s", "2h", "1s1", "%00"} {
		if status, text := post(admin.New(admin.Options{Drain: p}).Handler(), "/drain?wait="+wait); status != 400 || !strings.Contains(text, "such as 10s") {
			t.Errorf("%q: %d %s", wait, status, text)
		}
	}
	if p.drains != 0 {
		t.Errorf("%d drains", p.drains)
	}
}

func TestDrainIsForOperatorsOnly(t *testing.T) {
	t.Parallel()
	p := &work{}
	for name, h := range map[string]http.Handler{
		"health listener":  admin.New(admin.Options{Drain: p}).HealthHandler(),
		"nothing to drain": admin.New(admin.Options{}).Handler(),
	} {
		if status, _ := post(h, "/drain"); status != 404 || p.drains != 0 {
			t.Errorf("%s: %d, %d drains", name, status, p.drains)
		}
	}
}
