// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

func TestDrainEmpty(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	if table.Draining() {
		t.Error("a new table is draining")
	}
	for range 2 {
		if err := table.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := table.Register(t.Context(), table.NewOrigin(), one); !errors.Is(err, ErrDraining) || !table.Draining() {
		t.Errorf("error %v, want ErrDraining", err)
	}
}

// TestWhoComesDuringADrainIsNotCounted: a drain waits for the calls that there were,
// however many callers come again and again.
func TestWhoComesDuringADrainIsNotCounted(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	held := register(t, table, table.NewOrigin(), one)
	drained := make(chan error, 1)
	go func() { drained <- table.Drain(t.Context()) }()
	for !table.Draining() {
		runtime.Gosched()
	}
	var callers sync.WaitGroup
	var came atomic.Int64
	const most = 1_000_000
	for range 4 {
		callers.Go(func() {
			for o := table.NewOrigin(); came.Add(1) < most; {
				if _, err := table.Register(t.Context(), o, one); !errors.Is(err, ErrDraining) {
					t.Errorf("error %v, want ErrDraining", err)
					return
				}
			}
		})
	}
	for came.Load() < most {
		if n := table.InFlight(); n != 1 {
			t.Errorf("%d calls are counted, want the one from before", n)
			break
		}
	}
	if !held.Finish() {
		t.Error("the call in flight lost its reply")
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	came.Store(most)
	callers.Wait()
}

// TestDrainWaits: calls in flight end as ever, new ones are refused, and all who
// drain are told.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := New(Options{})
		o := table.NewOrigin()
		quick, slow, cancelled := register(t, table, o, jsonrpc.IntID(1)), register(t, table, o, jsonrpc.IntID(2)), register(t, table, o, jsonrpc.IntID(3))
		start := time.Now()
		var drains sync.WaitGroup
		for range 3 {
			drains.Go(func() {
				if err := table.Drain(t.Context()); err != nil || time.Since(start) != 5*time.Second {
					t.Errorf("Drain: %v after %v", err, time.Since(start))
				}
			})
		}
		synctest.Wait()
		if _, err := table.Register(t.Context(), o, jsonrpc.IntID(4)); !errors.Is(err, ErrDraining) {
			t.Errorf("error %v, want ErrDraining", err)
		}
		if !quick.Finish() {
			t.Error("a call in flight lost its reply")
		}
		table.Cancel(o, jsonrpc.IntID(3), "")
		time.Sleep(time.Second)
		if !slow.Finish() {
			t.Error("a call in flight lost its reply")
		}
		time.Sleep(4 * time.Second) // the work of the cancelled call goes on
		cancelled.Finish()
		drains.Wait()
		checkEmpty(t, table)
	})
}

func TestDrainCuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := New(Options{})
		var calls []*Call
		for range 100 { // over all shards
			calls = append(calls, register(t, table, table.NewOrigin(), one))
		}
		table.Cancel(calls[0].Origin(), one, "")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		var drainError *DrainError
		err := table.Drain(ctx)
		if !errors.As(err, &drainError) || drainError.Cut != 99 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want 99 calls cut", err)
		}
		if got := time.Since(start); got != 10*time.Second {
			t.Errorf("cut after %v", got)
		}
		for i, c := range calls {
			want := ErrDrainCut
			if i == 0 {
				want = ErrCancelled
			}
			if !errors.Is(context.Cause(c.Context()), want) {
				t.Errorf("cause %v, want %v", context.Cause(c.Context()), want)
			}
			if c.Finish() != (i > 0) {
				t.Errorf("call %d: a cut call is answered, a cancelled one is not", i)
			}
		}
		if err := table.Drain(ctx); err != nil {
			t.Errorf("Drain once more: %v", err)
		}
		checkEmpty(t, table)
	})
}

// TestDrainRace: whatever Register let in, Drain has waited for.
func TestDrainRace(t *testing.T) {
	t.Parallel()
	for range 200 {
		table := New(Options{})
		var callers sync.WaitGroup
		begin := make(chan struct{})
		for range 8 {
			callers.Go(func() {
				<-begin
				for {
					c, err := table.Register(t.Context(), table.NewOrigin(), one)
					if err != nil {
						return
					}
					c.Finish()
				}
			})
		}
		close(begin)
		if err := table.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		for i := range table.shards {
			if n := len(table.shards[i].all()); n != 0 {
				t.Errorf("%d calls in flight after Drain", n)
			}
		}
		callers.Wait()
		checkEmpty(t, table)
	}
}

// TestDrainNamesWhatItCutOff: a bounded number of calls, with bounded texts.
func TestDrainNamesWhatItCutOff(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o := table.NewOrigin()
	for i := range maxUnfinished + 8 {
		if _, err := table.RegisterNamed(t.Context(), o, jsonrpc.IntID(int64(i+1)), "shop.get\n"+strings.Repeat("x", 1000)); err != nil {
			t.Fatal(err)
		}
	}
	var cut *DrainError
	if err := table.Drain(over); !errors.As(err, &cut) || cut.Cut != maxUnfinished+8 || len(cut.Unfinished) != maxUnfinished {
		t.Fatalf("%v: %d named", err, len(cut.Unfinished))
	}
	seen := map[string]bool{}
	for _, u := range cut.Unfinished {
		seen[u.ID] = true
		if len(u.Name) != 256 || strings.Contains(u.String(), "\n") {
			t.Errorf("%s", u)
		}
	}
	if len(seen) != maxUnfinished {
		t.Errorf("%d different ids", len(seen))
	}
}
