// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"reflect"
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

// script is a backend that fails with one code after another, and then answers
// with the number of the attempt. An empty code answers too.
type script struct {
	mu    sync.Mutex
	codes []errmap.Code
	at    []time.Duration
	start time.Time
}

func (s *script) run(context.Context) (int, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start.IsZero() {
		s.start = time.Now()
	}
	s.at = append(s.at, time.Since(s.start))
	n := len(s.at)
	if n <= len(s.codes) && s.codes[n-1] != "" {
		return -n, errmap.New(s.codes[n-1])
	}
	return n, nil
}

func TestWhatIsRepeated(t *testing.T) {
	t.Parallel()
	const down, broken = errmap.Unavailable, errmap.TransportError
	again := backend.GuardedCall{Repeatable: true}
	for _, tc := range []struct {
		name  string
		codes []errmap.Code
		call  backend.GuardedCall
		opts  *configv1.Resilience
		// attempts there are; code is of the last.
		attempts int
		code     errmap.Code
	}{
		{name: "nothing fails", call: again, attempts: 1},
		{name: "not reached once", codes: []errmap.Code{down}, call: again, attempts: 2},
		{name: "broke off once", codes: []errmap.Code{broken}, call: again, attempts: 2},
		{name: "twice", codes: []errmap.Code{broken, down}, call: again, attempts: 3},
		{name: "as often as there are attempts", codes: []errmap.Code{down, down, broken}, call: again, attempts: 3, code: broken},
		{name: "one attempt", codes: []errmap.Code{down}, call: again, opts: &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(1))}}, attempts: 1, code: down},
		{name: "five attempts", codes: []errmap.Code{down, down, down, down}, call: again, opts: &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(5))}}, attempts: 5},
		{name: "does harm", codes: []errmap.Code{down}, attempts: 1, code: down},
		{name: "an answer has begun", codes: []errmap.Code{broken}, call: backend.GuardedCall{Repeatable: true, Answered: func() bool { return true }}, attempts: 1, code: broken},
		{name: "no answer has begun", codes: []errmap.Code{broken}, call: backend.GuardedCall{Repeatable: true, Answered: func() bool { return false }}, attempts: 2},
		{name: "out of time", codes: []errmap.Code{errmap.Timeout}, call: again, attempts: 1, code: errmap.Timeout},
		{name: "cancelled", codes: []errmap.Code{errmap.Cancelled}, call: again, attempts: 1, code: errmap.Cancelled},
		{name: "the tool's own failure", codes: []errmap.Code{errmap.ToolExecutionFailed}, call: again, attempts: 1, code: errmap.ToolExecutionFailed},
		{name: "the tool fails after a repetition", codes: []errmap.Code{down, errmap.ToolExecutionFailed}, call: again, attempts: 2, code: errmap.ToolExecutionFailed},
		{name: "garbage", codes: []errmap.Code{errmap.SerializationError}, call: again, attempts: 1, code: errmap.SerializationError},
		{name: "too large", codes: []errmap.Code{errmap.ResourceExhausted}, call: again, attempts: 1, code: errmap.ResourceExhausted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{codes: tc.codes}
				g := backend.NewGuard(configtest.Filled(t, tc.opts), backend.GuardOptions{})
				got, err := backend.DoGuarded(t.Context(), g, tc.call, s.run)
				if len(s.at) != tc.attempts || g.Stats().Repeated != uint64(tc.attempts-1) {
					t.Errorf("%d attempts, %+v; want %d", len(s.at), g.Stats(), tc.attempts)
				}
				switch {
				case tc.code == "" && (err != nil || got != tc.attempts):
					t.Errorf("got %d, %v", got, err)
				case tc.code != "" && (err == nil || err.Code != tc.code || got != -tc.attempts):
					t.Errorf("got %d, %v, want %s", got, err, tc.code)
				}
			})
		})
	}
}

// TestAnUnknownOutcomeStaysUnknown: UNAVAILABLE says that the backend did not run
// the call, which is unknown once one attempt broke off. Found by the fault
// test: kill -9 in mid-call, and connections refused after it.
func TestAnUnknownOutcomeStaysUnknown(t *testing.T) {
	t.Parallel()
	const down, broken = errmap.Unavailable, errmap.TransportError
	for _, tc := range []struct {
		name  string
		codes []errmap.Code
		code  errmap.Code
		of    int // the attempt whose outcome the caller gets
	}{
		{"broke off, then not reached", []errmap.Code{broken, down, down}, broken, 1},
		{"not reached, broke off, not reached", []errmap.Code{down, broken, down}, broken, 2},
		{"broke off twice, then not reached", []errmap.Code{broken, broken, down}, broken, 2},
		{"broke off, then the tool's own failure", []errmap.Code{broken, errmap.ToolExecutionFailed}, errmap.ToolExecutionFailed, 2},
		{"broke off, not reached, then out of time", []errmap.Code{broken, down, errmap.Timeout}, errmap.Timeout, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &script{codes: tc.codes}
				got, err := backend.DoGuarded(t.Context(), backend.NewGuard(configtest.Filled(t, (*configv1.Resilience)(nil)), backend.GuardOptions{}), backend.GuardedCall{Repeatable: true}, s.run)
				if err == nil || err.Code != tc.code || got != -tc.of || len(s.at) != len(tc.codes) {
					t.Errorf("attempt %d, %v after %d attempts; want attempt %d, %s after %d", -got, err, len(s.at), tc.of, tc.code, len(tc.codes))
				}
			})
		})
	}
}

func TestPausesGrowAndVary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rounds = 50
		varies := false
		var first time.Duration
		for range rounds {
			s := &script{codes: []errmap.Code{errmap.Unavailable, errmap.Unavailable, errmap.Unavailable, errmap.Unavailable}}
			g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(5)), Backoff: durationpb.New(100 * time.Millisecond), MaxBackoff: durationpb.New(300 * time.Millisecond)}, Breaker: &configv1.Breaker{Mode: new("off")}}), backend.GuardOptions{})
			if _, err := backend.DoGuarded(t.Context(), g, backend.GuardedCall{Repeatable: true}, s.run); err != nil {
				t.Fatal(err)
			}
			for i, middle := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond, 300 * time.Millisecond} {
				pause := s.at[i+1] - s.at[i]
				if pause < middle*3/4 || pause > middle*5/4 {
					t.Errorf("pause %d is %v, want %v and a quarter to either side", i+1, pause, middle)
				}
			}
			if first == 0 {
				first = s.at[1]
			}
			varies = varies || s.at[1] != first
		}
		if !varies {
			t.Errorf("%d first pauses are all %v", rounds, first)
		}
	})
}

func TestTheDeadlineLeavesRoomOrThereIsNoRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for room, attempts := range map[time.Duration]int{40 * time.Millisecond: 1, 100 * time.Millisecond: 2, time.Second: 3} {
			ctx, cancel := context.WithTimeout(t.Context(), room)
			s := &script{codes: []errmap.Code{errmap.Unavailable, errmap.Unavailable}}
			start := time.Now()
			_, err := backend.DoGuarded(ctx, backend.NewGuard(configtest.Filled(t, (*configv1.Resilience)(nil)), backend.GuardOptions{}), backend.GuardedCall{Repeatable: true}, s.run)
			if len(s.at) != attempts || (err == nil) != (attempts == 3) {
				t.Errorf("%v: %d attempts, %v; want %d", room, len(s.at), err, attempts)
			}
			if time.Since(start) >= room {
				t.Errorf("%v: it took %v", room, time.Since(start))
			}
			cancel()
		}
	})
}

func TestACallerThatLeavesEndsThePause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		s := &script{codes: []errmap.Code{errmap.Unavailable}}
		start := time.Now()
		_, err := backend.DoGuarded(ctx, backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{Backoff: durationpb.New(time.Second)}}), backend.GuardOptions{}), backend.GuardedCall{Repeatable: true}, s.run)
		if len(s.at) != 1 || err == nil || err.Code != errmap.Unavailable || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%d attempts, %v after %v", len(s.at), err, time.Since(start))
		}
	})
}

// TestTheBudgetBoundsRepetitions has a backend that is down at once, where a
// bound on what runs at a time would never be met.
func TestTheBudgetBoundsRepetitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls, percent, burst = 1000, 20, 10
		g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{BudgetPercent: new(int32(percent)), BudgetBurst: new(int32(burst))}, Breaker: &configv1.Breaker{Mode: new("off")}}), backend.GuardOptions{})
		sent := 0
		for range calls {
			_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{Repeatable: true}, func(context.Context) (int, *errmap.Error) {
				sent++
				return 0, errmap.New(errmap.Unavailable)
			})
		}
		most := burst + calls*percent/100
		if repeated := sent - calls; repeated > most || repeated < most-1 {
			t.Errorf("%d repetitions of %d calls, want %d", repeated, calls, most)
		}
		if s := g.Stats(); s.Repeated != uint64(sent-calls) || s.OverBudget == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestANilGuardLetsEverythingThroughOnce(t *testing.T) {
	t.Parallel()
	s := &script{codes: []errmap.Code{errmap.Unavailable}}
	if _, err := backend.DoGuarded(t.Context(), nil, backend.GuardedCall{Repeatable: true}, s.run); err == nil || len(s.at) != 1 {
		t.Errorf("%d attempts, %v", len(s.at), err)
	}
	var g *backend.Guard
	if !reflect.DeepEqual(g.Stats(), backend.GuardStats{}) {
		t.Errorf("%+v", g.Stats())
	}
}
