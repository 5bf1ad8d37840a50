// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func numbered(i int) Arrival { return Arrival{RequestID: json.RawMessage(strconv.Itoa(i))} }

// Any interleaving of Begin and End keeps the order of arrival and loses
// nothing, entries without an end included.
func TestOrderOfArrival(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		r, err := OpenRecord(RecordOptions{Dir: dir, Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		var open []*Entry
		var want []string
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			if len(open) == 0 || rapid.Bool().Draw(t, "begin") {
				want = append(want, strconv.Itoa(len(want)))
				open = append(open, r.Begin(numbered(len(want)-1)))
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			open[i].End(Outcome{OK: true})
			open = slices.Delete(open, i, i+1)
		}
		unfinished := len(open)
		got := finished(t, r)
		if diff := cmp.Diff(want, recordIds(t, got), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
			t.Fatal(diff)
		}
		if s := r.Stats(); s.Unfinished != uint64(unfinished) || s.Written != uint64(len(want)) || s.Open+s.Held+s.Queued != 0 || s.Late+s.Dropped != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

// With a bound, what comes late is what was skipped, everything else is in
// order, and no line is lost.
func TestOrderWithinBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		r, err := OpenRecord(RecordOptions{Dir: dir, Deterministic: true, MaxPending: most})
		if err != nil {
			t.Fatal(err)
		}
		var open []*Entry
		begun := 0
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			if len(open) == 0 || rapid.IntRange(0, 2).Draw(t, "begin") == 0 {
				open = append(open, r.Begin(numbered(begun)))
				begun++
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
			open[i].End(Outcome{OK: true})
			open = slices.Delete(open, i, i+1)
			if s := r.Stats(); s.Held > most {
				t.Fatalf("%+v", s)
			}
		}
		got := recordIds(t, finished(t, r))
		s := r.Stats()
		if len(got) != begun || s.Dropped != 0 {
			t.Fatalf("%d of %d lines: %+v", len(got), begun, s)
		}
		// The late lines are those with a younger one before them.
		late, youngest, seen := uint64(0), -1, map[string]bool{}
		for _, id := range got {
			n, err := strconv.Atoi(id)
			if err != nil || seen[id] {
				t.Fatal(id, err)
			}
			seen[id] = true
			if n < youngest {
				late++
			}
			youngest = max(youngest, n)
		}
		if late > s.Late {
			t.Fatalf("%d lines out of order, %d counted", late, s.Late)
		}
	})
}

func TestLongCallComesLate(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{MaxPending: 2})
	long := r.Begin(numbered(0))
	for i := 1; i <= 3; i++ {
		r.Begin(numbered(i)).End(Outcome{OK: true})
	}
	if s := r.Stats(); s.Held != 0 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
	long.End(Outcome{OK: true})
	long.End(Outcome{OK: true}) // has no effect
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != "1 2 3 0" {
		t.Error(got)
	}
	if s := r.Stats(); s.Late != 1 || s.Written != 4 || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
}

// A call that goes on for long holds back no line for longer than MaxHold, on a
// quiet sidecar too; a deterministic run waits.
func TestHeldTimeIsBounded(t *testing.T) {
	t.Parallel()
	for _, deterministic := range []bool{false, true} {
		t.Run(strconv.FormatBool(deterministic), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := recordBegin(t, RecordOptions{Deterministic: deterministic})
				long := r.Begin(numbered(0))
				time.Sleep(defaultMaxHold / 2)
				longer := r.Begin(numbered(1))
				r.Begin(numbered(2)).End(Outcome{OK: true})
				time.Sleep(defaultMaxHold/2 - time.Second)
				synctest.Wait()
				if n := len(lines(t, r)); n != 0 {
					t.Errorf("%d lines before their turn", n)
				}
				time.Sleep(defaultMaxHold/2 + 2*time.Second)
				synctest.Wait()
				want, late, order := 1, uint64(2), "2 1 0"
				if deterministic {
					want, late, order = 0, 0, "0 1 2"
				}
				if n := len(lines(t, r)); n != want {
					t.Errorf("%d lines after the bound, want %d", n, want)
				}
				longer.End(Outcome{OK: true})
				long.End(Outcome{OK: true})
				if got := strings.Join(recordIds(t, finished(t, r)), " "); got != order {
					t.Error(got)
				}
				if s := r.Stats(); s.Late != late {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// The bound in bytes lets go of lines before the one in lines does.
func TestHeldBytesAreBounded(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{Payloads: true, MaxPendingBytes: 8 << 10})
	r.Begin(numbered(0)) // never ends
	big := []byte(`"` + strings.Repeat("x", 3<<10) + `"`)
	for i := 1; i <= 2; i++ {
		r.Begin(numbered(i)).End(Outcome{OK: true, Result: big})
	}
	if s := r.Stats(); s.Held != 0 {
		t.Errorf("%+v", s)
	}
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != "1 2 0" {
		t.Error(got)
	}
	if s := r.Stats(); s.Late != 1 || s.Unfinished != 1 {
		t.Errorf("%+v", s)
	}
}

func TestOpenEntriesAreBounded(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{MaxOpen: 2})
	a, b, c := r.Begin(numbered(0)), r.Begin(numbered(1)), r.Begin(numbered(2))
	if c != nil {
		t.Error("a third entry is open")
	}
	c.End(Outcome{})
	a.End(Outcome{OK: true})
	r.Begin(numbered(3)).End(Outcome{OK: true})
	b.End(Outcome{OK: true})
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != "0 1 3" {
		t.Error(got)
	}
	if s := r.Stats(); s.Dropped != 1 {
		t.Errorf("%+v", s)
	}
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{})
	open := r.Begin(numbered(0))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	open.End(Outcome{OK: true})
	if e := r.Begin(numbered(1)); e != nil {
		t.Error("an entry is open after Close")
	}
	if got := finished(t, r); len(got) != 1 || read(t, got[0]).Status != nil {
		t.Error(got)
	}
	if s := r.Stats(); s.Written != 1 || s.Dropped != 1 || s.Unfinished != 1 {
		t.Errorf("%+v", s)
	}
}

func TestNilRun(t *testing.T) { // not parallel: it counts allocations
	var r *Run
	e := r.Begin(numbered(0))
	e.End(Outcome{})
	if e != nil || r.Close() != nil || r.Stats() != (RecordStats{}) || r.Folder() != "" {
		t.Error("nil records something")
	}
	if n := testing.AllocsPerRun(100, func() { r.Begin(Arrival{Method: "x"}).End(Outcome{OK: true}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Many goroutines, some of which close: every entry leaves one line, and what
// one goroutine began in order is in order.
func TestConcurrently(t *testing.T) {
	t.Parallel()
	r := recordBegin(t, RecordOptions{MaxFileBytes: 20 << 10, MaxFiles: 1000, MaxPending: 64, Payloads: true, Deterministic: true})
	const workers, each = 8, 300
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range each {
				e := r.Begin(Arrival{RequestID: json.RawMessage(strconv.Itoa(w*each + i)), Params: []byte(`{"token":"x"}`)})
				if i%10 == 0 {
					all.Go(func() { e.End(Outcome{Error: json.RawMessage(inputError)}) })
				} else {
					e.End(Outcome{OK: true, Result: []byte(`{}`)})
				}
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, id := range recordIds(t, finished(t, r)) {
		if seen[id] {
			t.Errorf("%s twice", id)
		}
		seen[id] = true
	}
	if s := r.Stats(); len(seen) != workers*each || s.Written != workers*each || s.Dropped != 0 {
		t.Errorf("%d ids, %+v", len(seen), s)
	}
}

// Entries that end while the run closes are written once, finished or not.
func TestEndWhileClosing(t *testing.T) {
	t.Parallel()
	for range 20 {
		r := recordBegin(t, RecordOptions{Payloads: true})
		var all sync.WaitGroup
		for i := range 50 {
			e := r.Begin(numbered(i))
			all.Go(func() { e.End(Outcome{OK: true, Result: []byte(`{"a":"b"}`)}) })
		}
		got := finished(t, r)
		all.Wait()
		if len(got) != 50 {
			t.Fatalf("%d lines", len(got))
		}
		for _, line := range got {
			read(t, line)
		}
	}
}
