// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"google.golang.org/protobuf/types/known/durationpb"
)

// sought is a Guard whose backend is asked by Seek. away is what it says, "" that
// it is there.
type sought struct {
	*backend.Guard

	mu    sync.Mutex
	away  errmap.Code
	asked []time.Duration // since the test began
}

// says sets what the backend says from now on.
func (s *sought) says(code errmap.Code) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = code
}

// times are when it was asked.
func (s *sought) times() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// seeking runs a test with a Guard that opens at the first failure, and no real
// clock.
func seeking(t *testing.T, c *configv1.Resilience, test func(t *testing.T, s *sought)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		opened, began := make(chan struct{}, 1), time.Now()
		s := &sought{}
		c.Breaker.MinCalls = new(int32(1))
		s.Guard = once(t, c, backend.GuardOptions{OnState: func(_, to backend.BreakerState) {
			if to == backend.BreakerOpen {
				select {
				case opened <- struct{}{}:
				default:
				}
			}
		}})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.Seek(ctx, opened, func(context.Context) *errmap.Error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.asked = append(s.asked, time.Since(began))
				if s.away != "" {
					return errmap.New(s.away)
				}
				return nil
			})
		}()
		test(t, s)
		stop()
		<-done
	})
}

// A backend that is away for ten seconds is found within the longest pause, and
// asked at growing distances until then.
func TestSeekFindsABackendSoon(t *testing.T) {
	t.Parallel()
	for _, probes := range []int{1, 3} {
		seeking(t, &configv1.Resilience{Breaker: &configv1.Breaker{OpenFor: durationpb.New(time.Minute), Probes: new(int32(probes))}}, func(t *testing.T, s *sought) {
			time.Sleep(time.Hour) // a backend that answers is not probed
			if len(s.times()) > 0 {
				t.Errorf("asked at %v", s.times())
			}
			s.says(errmap.Unavailable)
			call(s.Guard, backend.GuardedCall{}, errmap.TransportError)
			time.Sleep(10 * time.Second)
			if n := len(s.times()); n < 8 || n > 17 {
				t.Errorf("asked %d times in 10 s: %v", n, s.times())
			}
			first := s.times()[0] - time.Hour
			if first < 180*time.Millisecond || first > 320*time.Millisecond {
				t.Errorf("asked first after %v", first)
			}
			if got, _, sent := call(s.Guard, backend.GuardedCall{}, ""); sent || got != errmap.Unavailable {
				t.Errorf("a call goes through: %v", got)
			}
			s.says("")
			// 1 s and a quarter for each answer that is needed.
			time.Sleep(time.Duration(probes)*1250*time.Millisecond + 10*time.Millisecond)
			if s.Stats().Breaker != backend.BreakerClosed {
				t.Errorf("%d answers are needed: %v after %v", probes, s.Stats().Breaker, s.times())
			}
			if held := s.Stats().Held; held != 1 {
				t.Errorf("%d calls were held back, of which there was one", held)
			}
			n := len(s.times())
			time.Sleep(time.Hour)
			if len(s.times()) != n {
				t.Errorf("%d questions after the backend was found", len(s.times())-n)
			}
		})
	}
}

// A caller's call that takes its time does not keep the others away from a backend
// that is back.
func TestSeekDoesNotWaitForASlowProbe(t *testing.T) {
	t.Parallel()
	seeking(t, &configv1.Resilience{Breaker: &configv1.Breaker{OpenFor: durationpb.New(2 * time.Second)}}, func(t *testing.T, s *sought) {
		s.says(errmap.Unavailable)
		call(s.Guard, backend.GuardedCall{}, errmap.Unavailable)
		time.Sleep(2 * time.Second)
		release := make(chan struct{})
		go func() {
			_, _ = backend.DoGuarded(t.Context(), s.Guard, backend.GuardedCall{}, func(context.Context) (int, *errmap.Error) {
				<-release
				return 0, errmap.New(errmap.TransportError)
			})
		}()
		synctest.Wait()
		if s.Stats().Breaker != backend.BreakerHalfOpen {
			t.Fatalf("%v", s.Stats().Breaker)
		}
		s.says("")
		time.Sleep(1300 * time.Millisecond)
		if got, _, sent := call(s.Guard, backend.GuardedCall{}, ""); got != "" || !sent {
			t.Errorf("held back behind a slow call: %v", got)
		}
		close(release) // it began in another round and says nothing
		synctest.Wait()
		if s.Stats().Breaker != backend.BreakerClosed {
			t.Errorf("%v", s.Stats().Breaker)
		}
	})
}

// A backend that hangs answers questions all the same. It is left alone for all of
// OpenFor, and then asked in a caller's place.
func TestSeekLeavesABackendThatHangsAlone(t *testing.T) {
	t.Parallel()
	seeking(t, &configv1.Resilience{Breaker: &configv1.Breaker{OpenFor: durationpb.New(5 * time.Second)}}, func(t *testing.T, s *sought) {
		for _, tool := range []string{"a.b", "a.c"} {
			call(s.Guard, backend.GuardedCall{Key: tool}, errmap.Timeout)
		}
		time.Sleep(4900 * time.Millisecond)
		if len(s.times()) > 0 || s.Stats().Breaker != backend.BreakerOpen || s.Stats().Held != 0 {
			t.Errorf("asked at %v, %+v", s.times(), s.Stats())
		}
		time.Sleep(1400 * time.Millisecond)
		if len(s.times()) != 1 || s.Stats().Breaker != backend.BreakerClosed {
			t.Errorf("asked at %v, %v", s.times(), s.Stats().Breaker)
		}
	})
}

// An answer to a question from before the breaker opened anew says nothing.
func TestSeekTakesNoAnswerFromBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := make(chan struct{}, 1)
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(300 * time.Millisecond)}}, backend.GuardOptions{})
		call(g, backend.GuardedCall{}, errmap.Unavailable)
		opened <- struct{}{}
		ctx, stop := context.WithCancel(t.Context())
		release, done, questions := make(chan struct{}), make(chan struct{}), 0
		go func() {
			defer close(done)
			g.Seek(ctx, opened, func(context.Context) *errmap.Error {
				if questions++; questions > 1 {
					return errmap.New(errmap.Unavailable)
				}
				<-release
				return nil
			})
		}()
		time.Sleep(time.Second)
		call(g, backend.GuardedCall{}, errmap.Unavailable) // a probe, which fails
		close(release)
		synctest.Wait()
		if s := g.Stats(); s.Breaker != backend.BreakerOpen || s.Opened != 2 || questions == 0 {
			t.Errorf("%d questions, %+v", questions, s)
		}
		stop()
		<-done
	})
	var none *backend.Guard
	none.Seek(t.Context(), nil, nil)
	backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Breaker: &configv1.Breaker{Mode: new("off")}}), backend.GuardOptions{}).Seek(t.Context(), nil, nil)
}
