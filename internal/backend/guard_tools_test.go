// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

// TestOneSlowToolIsHeldBackAlone: a tool that always meets its deadline closes
// itself off, with a hint that names it, and nothing else.
func TestOneSlowToolIsHeldBackAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		g := once(t, &configv1.Resilience{
			Breaker: &configv1.Breaker{OpenFor: durationpb.New(2 * time.Second)},
		}, backend.GuardOptions{OnTool: func(key string, from, to backend.BreakerState) {
			changes = append(changes, fmt.Sprintf("%s: %v to %v", key, from, to))
		}})
		slow, quick := backend.GuardedCall{Key: "shop.slow"}, backend.GuardedCall{Key: "shop.quick"}
		for range 20 {
			call(g, slow, errmap.Timeout)
		}
		_, err := backend.DoGuarded(t.Context(), g, slow, func(context.Context) (int, *errmap.Error) {
			t.Error("the call is sent")
			return 0, nil
		})
		if err == nil || err.Code != errmap.Unavailable || err.RetryAfter != 2*time.Second || !strings.Contains(err.Message, "shop.slow") {
			t.Errorf("%v after %v", err, err.RetryAfter)
		}
		for range 40 {
			if got, _, sent := call(g, quick, ""); got != "" || !sent {
				t.Fatalf("another tool: %s, sent %v", got, sent)
			}
		}
		s := g.Stats()
		if diff := cmp.Diff([]backend.ToolBreaker{{Tool: "shop.slow", State: backend.BreakerOpen}}, s.Tools); diff != "" || s.Breaker != backend.BreakerClosed || s.ToolsHeld != 1 || s.Held != 0 {
			t.Errorf("%+v %s", s, diff)
		}
		time.Sleep(2 * time.Second)
		if _, _, sent := call(g, slow, errmap.Timeout); !sent {
			t.Error("nothing is tried after the time")
		}
		if _, _, sent := call(g, slow, ""); sent {
			t.Error("a probe that runs out of time closes it")
		}
		time.Sleep(2 * time.Second)
		for range 2 {
			if got, _, sent := call(g, slow, ""); got != "" || !sent {
				t.Errorf("afterwards: %s, sent %v", got, sent)
			}
		}
		if s := g.Stats(); len(s.Tools) != 0 || s.ToolsOpened != 2 {
			t.Errorf("%+v", s)
		}
		want := []string{"shop.slow: closed to open", "shop.slow: open to half_open", "shop.slow: half_open to open", "shop.slow: open to half_open", "shop.slow: half_open to closed"}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestABlackHoleShowsOnlyTimeouts: the backend's breaker opens where two tools run
// out of time and none answers, and not where one of all does.
func TestABlackHoleShowsOnlyTimeouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		tools int
		calls func(g *backend.Guard)
		want  backend.BreakerState
	}{
		{"two tools", 2, func(*backend.Guard) {}, backend.BreakerOpen},
		{"thirty tools", 30, func(*backend.Guard) {}, backend.BreakerOpen},
		{"one tool", 1, func(*backend.Guard) {}, backend.BreakerClosed},
		{"two tools, and one that answers", 2, func(g *backend.Guard) { call(g, backend.GuardedCall{Key: "a.quick"}, "") }, backend.BreakerClosed},
		{"two tools, and one that fails", 2, func(g *backend.Guard) { call(g, backend.GuardedCall{Key: "a.bad"}, errmap.ToolExecutionFailed) }, backend.BreakerClosed},
		{"two tools, and a caller who left", 2, func(g *backend.Guard) { call(g, backend.GuardedCall{Key: "a.quick"}, errmap.Cancelled) }, backend.BreakerOpen},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := once(t, nil, backend.GuardOptions{})
			call(g, backend.GuardedCall{Key: "a.long_ago"}, "")
			time.Sleep(11 * time.Second)
			for i := range 30 {
				tt.calls(g)
				call(g, backend.GuardedCall{Key: fmt.Sprintf("a.t%d", i%tt.tools)}, errmap.Timeout)
			}
			if s := g.Stats(); s.Breaker != tt.want {
				t.Errorf("%s: %v, want %v", tt.name, s.Breaker, tt.want)
			}
		})
	}
}

// TestADoubtIsSettledByTheHealthCheck: a backend with one tool, which times out, is
// asked; where it does not answer, it counts as gone until it does.
func TestADoubtIsSettledByTheHealthCheck(t *testing.T) {
	t.Parallel()
	for _, away := range []errmap.Code{"", errmap.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			wake, asked := make(chan struct{}, 1), 0
			told := func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			}
			g := once(t, nil, backend.GuardOptions{OnDoubt: told, OnState: func(_, to backend.BreakerState) {
				if to == backend.BreakerOpen {
					told()
				}
			}})
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				g.Seek(ctx, wake, func(context.Context) *errmap.Error {
					if asked++; away != "" && asked < 4 {
						return errmap.New(away)
					}
					return nil
				})
			}()
			for range 20 {
				call(g, backend.GuardedCall{Key: "a.only"}, errmap.Timeout)
			}
			synctest.Wait()
			time.Sleep(700 * time.Millisecond)
			if got, want := g.Stats().Breaker == backend.BreakerOpen, away != ""; got != want {
				t.Errorf("the health check says %q: open %v after %d questions", away, got, asked)
			}
			time.Sleep(5 * time.Second)
			if s := g.Stats(); s.Breaker != backend.BreakerClosed {
				t.Errorf("%v after %d questions", s.Breaker, asked)
			}
			stop()
			<-done
		})
	}
}

// TestEntriesOfToolsGo: with the time, and with the tool.
func TestEntriesOfToolsGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1))}}, backend.GuardOptions{})
		call(g, backend.GuardedCall{Key: "a.gone"}, errmap.Timeout)
		call(g, backend.GuardedCall{Key: "a.kept"}, errmap.Timeout)
		g.KeepTools(func(key string) bool { return key == "a.kept" })
		if s := g.Stats(); len(s.Tools) != 1 || s.Tools[0].Tool != "a.kept" {
			t.Errorf("%+v", s.Tools)
		}
		time.Sleep(time.Minute)
		if s := g.Stats(); len(s.Tools) != 0 {
			t.Errorf("a minute later: %+v", s.Tools)
		}
		if _, _, sent := call(g, backend.GuardedCall{Key: "a.kept"}, ""); !sent {
			t.Error("held back after a minute")
		}
		for i := range 300 {
			call(g, backend.GuardedCall{Key: fmt.Sprintf("a.t%03d", i)}, errmap.Timeout)
			call(g, backend.GuardedCall{Key: "a.quick"}, "")
		}
		if s := g.Stats(); len(s.Tools) != 256 || s.MoreTools != 44 || s.Breaker != backend.BreakerClosed {
			t.Errorf("%d named, %d more, backend %v", len(s.Tools), s.MoreTools, s.Breaker)
		}
	})
	var none *backend.Guard
	none.KeepTools(nil)
}

// TestAToolsProbeIsNotLostBehindTheBackend: the place of a probe is given back where
// the backend's breaker does not let it through.
func TestAToolsProbeIsNotLostBehindTheBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(2)), OpenFor: durationpb.New(2 * time.Second)}}, backend.GuardOptions{})
		slow, other := backend.GuardedCall{Key: "a.slow"}, backend.GuardedCall{Key: "a.other"}
		for range 2 {
			call(g, slow, errmap.Timeout)
		}
		time.Sleep(1900 * time.Millisecond)
		for range 2 {
			call(g, other, errmap.Unavailable)
		}
		time.Sleep(200 * time.Millisecond) // the tool may try, the backend may not
		if _, _, sent := call(g, slow, ""); sent {
			t.Error("the backend's breaker is open")
		}
		time.Sleep(2 * time.Second)
		call(g, other, "")
		if got, _, sent := call(g, slow, ""); got != "" || !sent {
			t.Errorf("the probe's place is lost: %s", got)
		}
	})
}
