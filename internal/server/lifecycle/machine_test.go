// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is one thing that may happen to a process.
type step func(*lifecycle.Machine) error

func set(need string, ok bool, why string) step {
	return func(m *lifecycle.Machine) error {
		m.Set(need, ok, why)
		return nil
	}
}

func drain(why string) step {
	return func(m *lifecycle.Machine) error {
		m.Drain(why)
		return nil
	}
}

func stop(why string) step { return func(m *lifecycle.Machine) error { return m.Stop(why) } }

func TestStates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		needs []string
		steps []step
		want  []string
		err   error
	}{
		{name: "a whole life", needs: []string{"catalog", "backend"}, steps: []step{
			set("backend", true, "it answers"), set("catalog", true, "loaded"), set("backend", false, "away"), set("catalog", true, "again"),
			set("backend", true, "back"), drain("SIGTERM"), stop("all answered"),
		}, want: []string{
			"starting to ready: loaded", "ready to not_ready: backend: away", "not_ready to ready: back",
			"ready to draining: SIGTERM", "draining to stopped: all answered",
		}},
		{name: "something is missing at the start", needs: []string{"catalog"}, steps: []step{
			set("catalog", false, "no reflection"), set("backend", true, ""),
		}},
		{name: "an undeclared need", needs: []string{"catalog"}, steps: []step{set("catalog", true, "loaded"), set("disk", false, "full")},
			want: []string{"starting to ready: loaded", "ready to not_ready: disk: full"}},
		{name: "drained before it was ready", needs: []string{"catalog"}, steps: []step{drain("SIGTERM"), set("catalog", true, "late"), stop("nothing to do")},
			want: []string{"starting to draining: SIGTERM", "draining to stopped: nothing to do"}},
		{name: "drained while it is not ready", steps: []step{set("backend", true, "there"), set("backend", false, "away"), drain("/drain")},
			want: []string{"starting to ready: there", "ready to not_ready: backend: away", "not_ready to draining: /drain"}},
		{name: "drained twice", steps: []step{drain("/drain"), drain("SIGTERM"), stop("done"), stop("done")},
			want: []string{"starting to draining: /drain", "draining to stopped: done"}},
		{name: "stopped out of order", steps: []step{set("a", true, "there"), stop("why not")}, want: []string{"starting to ready: there"}, err: lifecycle.ErrNotDraining},
		{name: "nothing comes back", steps: []step{drain("SIGTERM"), stop("done"), set("a", true, ""), drain("again")},
			want: []string{"starting to draining: SIGTERM", "draining to stopped: done"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			m := lifecycle.New(func(c lifecycle.Change) { got = append(got, fmt.Sprintf("%v to %v: %s", c.From, c.To, c.Why)) }, tc.needs...)
			var err error
			for _, s := range tc.steps {
				err = errors.Join(err, s(m))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
		})
	}
}

// TestWhoWaits: those who wait for the drain, and for its end, are told then and
// not before.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := lifecycle.New(nil)
		start := time.Now()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			<-m.Draining()
			if time.Since(start) != time.Minute || m.State() != lifecycle.Draining {
				t.Errorf("draining after %v in state %v", time.Since(start), m.State())
			}
		})
		waiting.Go(func() {
			if err := m.Wait(t.Context()); err != nil || time.Since(start) != 2*time.Minute {
				t.Errorf("stopped: %v after %v", err, time.Since(start))
			}
		})
		waiting.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
			defer cancel()
			if err := m.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("impatient: %v", err)
			}
		})
		time.Sleep(time.Minute)
		if !m.Drain("test") || m.Drain("test") {
			t.Error("the first drain is the new one")
		}
		if s := m.Status(); s.State != lifecycle.Draining || !s.Since.Equal(time.Now()) || s.Why != "test" {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		if err := m.Stop("test"); err != nil {
			t.Error(err)
		}
		waiting.Wait()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Wait(gone); err != nil {
			t.Errorf("it has stopped, and who asks gets %v", err)
		}
	})
}

// TestProperties does anything in any order: states only go where they may, and
// the machine is ready exactly where its needs are met.
func TestProperties(t *testing.T) {
	t.Parallel()
	allowed := map[lifecycle.State][]lifecycle.State{
		lifecycle.Starting: {lifecycle.Ready, lifecycle.Draining},
		lifecycle.Ready:    {lifecycle.NotReady, lifecycle.Draining},
		lifecycle.NotReady: {lifecycle.Ready, lifecycle.Draining},
		lifecycle.Draining: {lifecycle.Stopped},
	}
	rapid.Check(t, func(t *rapid.T) {
		last := lifecycle.Starting
		m := lifecycle.New(func(c lifecycle.Change) {
			if c.From != last || !slices.Contains(allowed[c.From], c.To) {
				t.Fatalf("%v to %v, after %v", c.From, c.To, last)
			}
			last = c.To
		}, "a")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				m.Drain("d")
			case 1:
				if err := m.Stop("s"); (err != nil) != (last < lifecycle.Draining) {
					t.Fatalf("stop in %v: %v", last, err)
				}
			default:
				m.Set(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "need"), rapid.Bool().Draw(t, "ok"), "w")
			}
			s := m.Status()
			met := !slices.ContainsFunc(s.Needs, func(n lifecycle.Need) bool { return !n.OK })
			if s.State != last || s.State < lifecycle.Draining && met != (s.State == lifecycle.Ready) {
				t.Fatalf("%+v, told %v", s, last)
			}
		}
	})
}

// TestManyAtOnce has the race detector look.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	var told []string
	m := lifecycle.New(func(c lifecycle.Change) { told = append(told, c.To.String()) })
	var running sync.WaitGroup
	for i := range 8 {
		running.Go(func() {
			for j := range 200 {
				m.Set("a", (i+j)%2 == 0, "")
				_ = m.Status()
				if i == 7 && j == 150 {
					m.Drain("enough")
					_ = m.Stop("done")
				}
			}
		})
	}
	running.Wait()
	if got := strings.Join(told, " "); !strings.HasSuffix(got, "draining stopped") || strings.Count(got, "draining") != 1 {
		t.Errorf("told %s", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, s := range lifecycle.States() {
		names[s.String()] = true
	}
	if len(names) != 5 || names["unknown"] || lifecycle.State(99).String() != "unknown" {
		t.Errorf("%v", names)
	}
}
