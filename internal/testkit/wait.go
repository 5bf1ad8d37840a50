// SPDX-License-Identifier: Apache-2.0

// Package testkit is what tests of every module share. Where a test waits for what another goroutine, another process or the
// kernel does in its own time, it waits here: there is one limit, which grows with the load of the machine, and one diagnosis
// when it is over. What depends on time alone is shown in a bubble of testing/synctest, and not with this package.
package testkit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	base      = time.Minute // on a machine with nothing else to do
	most      = 5           // times as long at most, however much the machine has to do
	firstLook = time.Millisecond
	lastLook  = 50 * time.Millisecond
	dumped    = 16 << 10 // bytes of goroutines in a diagnosis
)

// Until returns when holds does, and fails the test where that takes too long. It asks again and again, at first often.
func Until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	Try(tb, what, func() error {
		if !holds() {
			return errNot
		}
		return nil
	})
}

var errNot = errors.New("it does not hold")

// Try returns when check returns no error, and fails the test with the last one where that takes too long.
func Try(tb testing.TB, what string, check func() error) {
	tb.Helper()
	began := time.Now()
	for look := firstLook; ; look = min(2*look, lastLook) {
		err := check()
		if err == nil {
			return
		}
		if isOver, why := over(began); isOver {
			tb.Fatalf("%s: %s: %v\n%s", what, why, err, goroutines())
		}
		time.Sleep(look)
	}
}

// Says returns when a log holds a text, and fails the test with the log where that takes too long.
func Says(tb testing.TB, log fmt.Stringer, text string) {
	tb.Helper()
	Try(tb, "the log says "+text, func() error {
		if said := log.String(); !strings.Contains(said, text) {
			return fmt.Errorf("it says\n%s", said)
		}
		return nil
	})
}

// Receive returns what comes from a channel, which is the zero value where it is closed, and fails the test where nothing
// comes for too long.
func Receive[T any](tb testing.TB, what string, from <-chan T) T {
	tb.Helper()
	value, _ := receive(tb, what, from)
	return value
}

// Find returns the first value from a channel that is the one, and fails the test where the channel is closed before or
// nothing comes for too long.
func Find[T any](tb testing.TB, what string, from <-chan T, is func(T) bool) T {
	tb.Helper()
	for {
		value, ok := receive(tb, what, from)
		switch {
		case !ok:
			tb.Fatalf("%s: nothing more can come", what)
		case is(value):
			return value
		}
	}
}

func receive[T any](tb testing.TB, what string, from <-chan T) (value T, ok bool) {
	tb.Helper()
	began := time.Now()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case value, ok = <-from:
			return value, ok
		case <-look.C:
			if isOver, why := over(began); isOver {
				tb.Fatalf("%s: %s\n%s", what, why, goroutines())
			}
		}
	}
}

// Limit is how long to wait at most for what takes a moment on a machine with nothing else to do: for timers that the code
// under test or a library keeps itself.
func Limit() time.Duration {
	limit, _ := limitAt(loadavg(), runtime.NumCPU())
	return limit
}

// over reports whether a wait has taken too long, with what there is to say about it. The load is read again each time, so a
// wait becomes longer while the machine gets more to do.
func over(began time.Time) (isOver bool, why string) {
	waited := time.Since(began)
	if waited < base { // the limit is never less, and most waits end before the load is of interest
		return false, ""
	}
	cpus := runtime.NumCPU()
	limit, load := limitAt(loadavg(), cpus)
	return waited >= limit, fmt.Sprintf("not within %s (at a load of %s on %d CPUs)", waited.Round(time.Millisecond), load, cpus)
}

// limitAt is the limit for the text of /proc/loadavg, and the load of the last minute in it.
func limitAt(text string, cpus int) (limit time.Duration, load string) {
	load, _, _ = strings.Cut(text, " ")
	average, err := strconv.ParseFloat(load, 64)
	if err != nil {
		return base, "unknown"
	}
	return time.Duration(float64(base) * max(1, min(average/float64(cpus), most))), load
}

// loadavg is empty on systems that do not have it there.
func loadavg() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return string(text)
}

// goroutines are the stacks of all, cut to a bound.
func goroutines() []byte {
	text := make([]byte, dumped)
	return text[:runtime.Stack(text, true)]
}
