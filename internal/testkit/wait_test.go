// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// failing records what a test fails with.
type failing struct {
	testing.TB

	said string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure is what a test says that fails with wait, and when.
func failure(t *testing.T, wait func(testing.TB)) (said string, after time.Duration) {
	t.Helper()
	f, began, done := &failing{TB: t}, time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		wait(f)
	}()
	<-done
	return f.said, time.Since(began)
}

// TestWaits: each wait ends with what it waits for, and fails with what is missing not before the limit.
func TestWaits(t *testing.T) {
	t.Parallel()
	const late = base - time.Second // which is in time
	closed := make(chan int)
	close(closed)
	for name, row := range map[string]struct {
		wait func(tb testing.TB, after <-chan int)
		want string // when it is over
	}{
		"until": {func(tb testing.TB, c <-chan int) { Until(tb, "it comes", func() bool { return len(c) > 1 }) }, "it comes: not within"},
		"try": {func(tb testing.TB, c <-chan int) {
			Try(tb, "it comes", func() error { return map[bool]error{false: errors.New("so far none")}[len(c) > 1] })
		}, "so far none"},
		"says":    {func(tb testing.TB, c <-chan int) { Says(tb, counted{c}, "2 values") }, "0 values"},
		"receive": {func(tb testing.TB, c <-chan int) { Receive(tb, "it comes", c) }, "it comes: not within"},
		"find": {func(tb testing.TB, c <-chan int) {
			if got := Find(tb, "it comes", c, func(n int) bool { return n == 2 }); got != 2 {
				tb.Fatalf("found %d", got)
			}
		}, "it comes: not within"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := make(chan int, 2)
				time.AfterFunc(late, func() { c <- 1; c <- 2 })
				if said, _ := failure(t, func(tb testing.TB) { row.wait(tb, c) }); said != "" {
					t.Errorf("in time: %s", said)
				}
				said, after := failure(t, func(tb testing.TB) { row.wait(tb, make(chan int)) })
				if after < base || after > most*base+time.Second || !strings.Contains(said, row.want) || !strings.Contains(said, "CPUs") {
					t.Errorf("after %s: %.500s", after, said)
				}
				if !strings.Contains(said, "goroutine ") || len(said) > dumped+1000 {
					t.Errorf("%d bytes of diagnosis: %.500s", len(said), said)
				}
			})
		})
	}
	if said, _ := failure(t, func(tb testing.TB) { Find(tb, "it comes", closed, func(int) bool { return true }) }); said != "it comes: nothing more can come" {
		t.Errorf("a channel that is closed: %s", said)
	}
	if got := Receive(t, "the end", closed); got != 0 {
		t.Errorf("received %d", got)
	}
}

type counted struct{ c <-chan int }

func (c counted) String() string { return fmt.Sprintf("%d values", len(c.c)) }

func TestLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"":                       base,
		"much":                   base,
		"0.10 9 9 1/2 3":         base,
		"2.00 0 0 1/2 3":         base,
		"5.00 0 0 1/2 3":         base * 5 / 2,
		"400.25 0.00 0.00 1/2 3": most * base,
	} {
		if got, _ := limitAt(text, 2); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := Limit(); got < base || got > most*base {
		t.Errorf("%s", got)
	}
}
