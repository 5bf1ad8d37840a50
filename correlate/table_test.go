// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

var one = jsonrpc.StringID("1")

func register(t *testing.T, table *Table, o Origin, id jsonrpc.ID, opts ...CallOption) *Call {
	t.Helper()
	c, err := table.Register(t.Context(), o, id, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Finish() })
	return c
}

func TestFinishWinsOnce(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	c := register(t, table, table.NewOrigin(), one)
	if c.Context().Err() != nil || table.InFlight() != 1 || !c.ID().Equal(one) {
		t.Fatalf("err %v, %d in flight, id %q", c.Context().Err(), table.InFlight(), c.ID())
	}
	if !c.Finish() {
		t.Error("the first Finish lost")
	}
	if !errors.Is(context.Cause(c.Context()), context.Canceled) {
		t.Errorf("cause %v", context.Cause(c.Context()))
	}
	if c.Finish() || table.Cancel(c.Origin(), one, "") {
		t.Error("the call ended twice")
	}
	checkEmpty(t, table)
}

func TestDuplicateIsRefusedWithoutHarm(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o := table.NewOrigin()
	first := register(t, table, o, one)
	escaped, err := jsonrpc.ParseID([]byte(`"\u0031"`))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []jsonrpc.ID{one, escaped} {
		if c, err := table.Register(t.Context(), o, id); !errors.Is(err, ErrDuplicateID) || c != nil {
			t.Errorf("Register %s again: %v, %v", id, c, err)
		}
	}
	if first.Context().Err() != nil || table.InFlight() != 1 {
		t.Errorf("the first call was disturbed: %v, %d in flight", first.Context().Err(), table.InFlight())
	}
	register(t, table, o, jsonrpc.IntID(1))    // another type is another id
	register(t, table, table.NewOrigin(), one) // another origin is another scope
	if !first.Finish() || !register(t, table, o, one).Finish() {
		t.Error("an id cannot be used again after its call has finished")
	}
}

func TestZeroIDsNeverCollide(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o := table.NewOrigin()
	a, b := register(t, table, o, jsonrpc.ID{}), register(t, table, o, jsonrpc.ID{})
	if table.Cancel(o, jsonrpc.ID{}, "") {
		t.Error("a zero id was cancelled")
	}
	if !a.Finish() || b.Context().Err() != nil {
		t.Error("one call without id ended another")
	}
	if table.CloseOrigin(o) != 1 || b.Finish() {
		t.Error("closing the origin left a call without id")
	}
	checkEmpty(t, table)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o, other := table.NewOrigin(), table.NewOrigin()
	c, same := register(t, table, o, one), register(t, table, other, one)
	if table.Cancel(o, jsonrpc.IntID(1), "") || table.Cancel(table.NewOrigin(), one, "") {
		t.Error("a call that does not exist was cancelled")
	}
	if !table.Cancel(o, one, "user left") || table.Cancel(o, one, "") {
		t.Error("want one successful Cancel")
	}
	cause := context.Cause(c.Context())
	var cancelled *CancelError
	if !errors.Is(cause, ErrCancelled) || !errors.As(cause, &cancelled) || cancelled.Reason != "user left" {
		t.Errorf("cause %v", cause)
	}
	if table.InFlight() != 2 {
		t.Errorf("%d in flight, want the cancelled call to count until Finish", table.InFlight())
	}
	again := register(t, table, o, one)
	if c.Finish() {
		t.Error("a cancelled call may reply")
	}
	if !again.Finish() || !same.Finish() {
		t.Error("another call was disturbed")
	}
	checkEmpty(t, table)
}

func TestCancelReasonIsBounded(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{strings.Repeat("é", 200), strings.Repeat("a", 1<<20), "\xff\xfe", "a\nb"} {
		err := newCancelError(reason)
		if len(err.Reason) > maxReasonBytes || !utf8.ValidString(err.Reason) || strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%.20q: %d bytes, %.40q", reason, len(err.Reason), err.Error())
		}
	}
	if newCancelError("").Error() != ErrCancelled.Error() {
		t.Error("an empty reason shows")
	}
}

func TestCloseOrigin(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o, other := table.NewOrigin(), table.NewOrigin()
	var calls []*Call
	for i := range 10 {
		calls = append(calls, register(t, table, o, jsonrpc.IntID(int64(i))))
	}
	stays := register(t, table, other, one)
	middle := calls[5]
	if !middle.Finish() {
		t.Fatal("Finish lost")
	}
	if n := table.CloseOrigin(o); n != 9 {
		t.Errorf("%d calls closed, want 9", n)
	}
	for _, c := range calls {
		if c != middle && !errors.Is(context.Cause(c.Context()), ErrOriginClosed) {
			t.Errorf("cause %v", context.Cause(c.Context()))
		}
		if c.Finish() {
			t.Error("a call of a closed origin may reply")
		}
	}
	if table.CloseOrigin(o) != 0 || !stays.Finish() {
		t.Error("closing disturbed another origin, or closed twice")
	}
	checkEmpty(t, table)
}

func TestFull(t *testing.T) {
	t.Parallel()
	table := New(Options{MaxInFlight: 2})
	o := table.NewOrigin()
	a := register(t, table, o, jsonrpc.IntID(1))
	register(t, table, o, jsonrpc.IntID(2))
	table.Cancel(o, jsonrpc.IntID(2), "") // still winding down
	if _, err := table.Register(t.Context(), o, jsonrpc.IntID(3)); !errors.Is(err, ErrFull) {
		t.Fatalf("error %v, want ErrFull", err)
	}
	a.Finish()
	register(t, table, o, jsonrpc.IntID(3))
}

func TestDefaultMaxInFlight(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o := table.NewOrigin()
	for range defaults.MaxInFlight {
		register(t, table, o, jsonrpc.ID{})
	}
	if _, err := table.Register(t.Context(), o, jsonrpc.ID{}); !errors.Is(err, ErrFull) {
		t.Fatalf("error %v, want ErrFull", err)
	}
}

func TestParentContext(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	gone := errors.New("connection lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	c, err := table.Register(ctx, table.NewOrigin(), one)
	if err != nil {
		t.Fatal(err)
	}
	cancel(gone)
	<-c.Context().Done()
	if !errors.Is(context.Cause(c.Context()), gone) {
		t.Errorf("cause %v", context.Cause(c.Context()))
	}
	if !c.Finish() {
		t.Error("the table ended a call that only its context ended")
	}
	checkEmpty(t, table)
}

// TestDeadlines runs on a fake clock.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		opts   func(now time.Time) []CallOption
		parent time.Duration
		want   time.Duration // 0: none
	}{
		{"none", func(time.Time) []CallOption { return nil }, 0, 0},
		{"timeout", func(time.Time) []CallOption { return []CallOption{WithTimeout(time.Second)} }, 0, time.Second},
		{"no timeout", func(time.Time) []CallOption { return []CallOption{WithTimeout(0), WithDeadline(time.Time{})} }, 0, 0},
		{"deadline", func(now time.Time) []CallOption { return []CallOption{WithDeadline(now.Add(time.Minute))} }, 0, time.Minute},
		{"timeout before deadline", func(now time.Time) []CallOption {
			return []CallOption{WithDeadline(now.Add(time.Minute)), WithTimeout(time.Second)}
		}, 0, time.Second},
		{"deadline before timeout", func(now time.Time) []CallOption {
			return []CallOption{WithDeadline(now.Add(time.Second)), WithTimeout(time.Minute)}
		}, 0, time.Second},
		{"parent before timeout", func(time.Time) []CallOption { return []CallOption{WithTimeout(time.Minute)} }, time.Second, time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				table, start, ctx := New(Options{}), time.Now(), t.Context()
				if test.parent > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.parent)
					defer cancel()
				}
				c, err := table.Register(ctx, table.NewOrigin(), one, test.opts(start)...)
				if err != nil {
					t.Fatal(err)
				}
				if test.want == 0 {
					time.Sleep(time.Hour)
					synctest.Wait()
					if c.Context().Err() != nil {
						t.Errorf("ended by %v", context.Cause(c.Context()))
					}
				} else {
					<-c.Context().Done()
					if got := time.Since(start); got != test.want {
						t.Errorf("ended after %v, want %v", got, test.want)
					}
					if !errors.Is(context.Cause(c.Context()), context.DeadlineExceeded) || !errors.Is(c.Context().Err(), context.DeadlineExceeded) {
						t.Errorf("cause %v", context.Cause(c.Context()))
					}
				}
				if !c.Finish() {
					t.Error("a call that timed out is not answered")
				}
				checkEmpty(t, table)
			})
		})
	}
}

// countingParent counts the contexts that hang on it. One with a deadline leaves
// its parent in the same step that stops its timer.
type countingParent struct {
	context.Context
	done     chan struct{}
	children atomic.Int64
}

func (p *countingParent) Done() <-chan struct{} { return p.done }

// AfterFunc is what package context looks for in a foreign parent.
func (p *countingParent) AfterFunc(func()) func() bool {
	p.children.Add(1)
	return sync.OnceValue(func() bool { p.children.Add(-1); return true })
}

func TestNothingHangsOnTheParent(t *testing.T) {
	t.Parallel()
	table := New(Options{})
	o := table.NewOrigin()
	ends := map[string]func(*Call){
		"finish":         func(c *Call) { c.Finish() },
		"cancel":         func(*Call) { table.Cancel(o, one, "") },
		"close":          func(*Call) { table.CloseOrigin(o) },
		"drain":          func(*Call) { table.cut() },
		"cancel, finish": func(c *Call) { table.Cancel(o, one, ""); c.Finish() },
	}
	for name, end := range ends {
		for _, opts := range [][]CallOption{nil, {WithTimeout(time.Hour)}} {
			parent := &countingParent{Context: t.Context(), done: make(chan struct{})}
			c, err := table.Register(parent, o, one, opts...)
			if err != nil {
				t.Fatal(err)
			}
			if n := parent.children.Load(); n != 0 {
				t.Fatalf("%s: %d contexts on the parent before one was asked for", name, n)
			}
			if c.Context() != c.Context() || parent.children.Load() != 1 {
				t.Fatalf("%s: %d contexts on the parent, want 1", name, parent.children.Load())
			}
			if _, err := table.Register(parent, o, one, opts...); !errors.Is(err, ErrDuplicateID) || parent.children.Load() != 1 {
				t.Errorf("%s: a refused call (%v) left a context behind", name, err)
			}
			end(c)
			if n := parent.children.Load(); n != 0 {
				t.Errorf("%s: %d contexts left on the parent", name, n)
			}
			c.Finish()
		}
	}
	checkEmpty(t, table)
}
