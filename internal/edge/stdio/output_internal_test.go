// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// gate is a writer that takes a write when it is asked to.
type gate struct {
	open   chan error
	writes [][]byte
}

func (g *gate) Write(p []byte) (int, error) {
	err := <-g.open
	g.writes = append(g.writes, bytes.Clone(p))
	return len(p), err
}

// A line has one end for every reader, and the pieces, which others may hold, stay as they
// are.
func TestALineHasOneEnd(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	o := newOutput(&got, func(err error) { t.Errorf("failed: %v", err) })
	shared := []byte("\"\u2028\u202e\"")
	if err := o.line([]byte("[\"\u0085\","), shared, []byte(",\"\u2029é\"]\n")); err != nil {
		t.Error(err)
	}
	if got.String() != `["\u0085","\u2028`+"\u202e"+`","\u2029é"]`+"\n" || string(shared) != "\"\u2028\u202e\"" {
		t.Errorf("%+q from %+q", got.String(), shared)
	}
}

// Lines that come while one is written go out together, in their order, and the
// pieces of a line stay together.
func TestLinesThatWaitAreWrittenTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan error)}
		o := newOutput(g, func(err error) { t.Errorf("failed: %v", err) })
		var first sync.WaitGroup
		first.Go(func() { _ = o.line([]byte("first\n")) })
		synctest.Wait()
		large := strings.Repeat("l", mostJoined) + "\n"
		for _, pieces := range [][]string{{"a\n"}, {"b", "", "c\n"}, {large}, {"d\n"}, {"e\n"}} {
			var line [][]byte
			for _, piece := range pieces {
				line = append(line, []byte(piece))
			}
			if err := o.line(line...); err != nil { // it does not wait
				t.Error(err)
			}
		}
		close(g.open)
		first.Wait()
		if err := o.awaitWritten(); err != nil {
			t.Error(err)
		}
		want := []string{"first\n", "a\nbc\n", large, "d\ne\n"}
		if len(g.writes) != len(want) {
			t.Fatalf("%d writes: %.40q, want %.40q", len(g.writes), g.writes, want)
		}
		for i := range want {
			if string(g.writes[i]) != want[i] {
				t.Errorf("write %d: %.40q, want %.40q", i, g.writes[i], want[i])
			}
		}
	})
}

// Who writes much to a peer that does not read waits, and goes on when it reads.
func TestWhatWaitsToBeWrittenIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lines, each = 100, 8 << 10
		g := &gate{open: make(chan error)}
		o := newOutput(g, func(err error) { t.Errorf("failed: %v", err) })
		var done sync.Mutex
		through := 0
		var writers sync.WaitGroup
		for range lines {
			writers.Go(func() {
				if err := o.line(bytes.Repeat([]byte("x"), each-1), []byte("\n")); err != nil {
					t.Error(err)
				}
				done.Lock()
				defer done.Unlock()
				through++
			})
		}
		synctest.Wait()
		// One is being written, and those that wait are one line over the bound at most.
		if most := mostWaiting/each + 1; through > most || o.size > mostWaiting+each {
			t.Errorf("%d lines were taken with %d bytes waiting, want at most %d", through, o.size, most)
		}
		close(g.open)
		writers.Wait()
		if err := o.awaitWritten(); err != nil {
			t.Error(err)
		}
		if text := bytes.Join(g.writes, nil); len(text) != lines*each || bytes.Count(text, []byte("\n")) != lines {
			t.Errorf("%d bytes were written in %d writes", len(text), len(g.writes))
		}
	})
}

// A failure ends the output once, for those who wait too.
func TestAFailedOutputTakesNothingMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full, failures := errors.New("no reader"), 0
		g := &gate{open: make(chan error)}
		o := newOutput(g, func(error) { failures++ })
		var writers sync.WaitGroup
		for i := range 20 {
			writers.Go(func() { _ = o.line(bytes.Repeat([]byte{byte('a' + i)}, 8<<10), []byte("\n")) })
		}
		synctest.Wait()
		g.open <- full
		writers.Wait()
		if err := o.line([]byte("more\n")); !errors.Is(err, full) || !errors.Is(o.awaitWritten(), full) {
			t.Errorf("after a failure: %v", err)
		}
		if failures != 1 || len(g.writes) != 1 {
			t.Errorf("%d failures were told, %d writes", failures, len(g.writes))
		}
	})
}

// Lines of many writers are whole, and those of one writer are in its order.
func TestLinesOfManyWritersAreWhole(t *testing.T) {
	t.Parallel()
	const writers, each = 16, 200
	var out bytes.Buffer
	o := newOutput(&out, func(err error) { t.Errorf("failed: %v", err) })
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range each {
				_ = o.line(fmt.Appendf(nil, "%d ", w), nil, fmt.Appendf(nil, "%d\n", n))
			}
		})
	}
	all.Wait()
	if err := o.awaitWritten(); err != nil {
		t.Fatal(err)
	}
	var next [writers]int
	lines := 0
	for line := range strings.Lines(out.String()) {
		var w, n int
		if _, err := fmt.Sscanf(line, "%d %d\n", &w, &n); err != nil || n != next[w] {
			t.Fatalf("line %q of writer %d, who is at %d: %v", line, w, next[w], err)
		}
		next[w]++
		lines++
	}
	if lines != writers*each {
		t.Errorf("%d lines, want %d", lines, writers*each)
	}
}
