// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestStagesAreBounded: a dialogue of many rounds has so many stages, the last of which covers the rest.
func TestStagesAreBounded(t *testing.T) {
	t.Parallel()
	s := newStages(time.Now())
	for range 10 * maxStages {
		s.enter(stageAdmit)
	}
	steps, now, _ := s.steps(time.Hour, true)
	last := steps[len(steps)-1]
	if len(steps) != maxStages || now != "rounds" || last.GetName() != "rounds" || last.GetAt().AsDuration()+last.GetTook().AsDuration() != time.Hour {
		t.Errorf("%d steps, the last %v, now in %s", len(steps), last, now)
	}
}

// TestStagesHaveNames: each has one, and docs/ARCHITECTURE.md says what it is.
func TestStagesHaveNames(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for s := range stageCount {
		name := s.String()
		if name == "" || seen[name] || !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("stage %d is called %q", s, name)
		}
		seen[name] = true
	}
}

// TestItemsOfAStreamAreBounded: an operator sees the last ones, of each no more than its beginning, and learns how many are gone.
func TestItemsOfAStreamAreBounded(t *testing.T) {
	t.Parallel()
	var none *shownItems
	none.add([]byte("1"))
	if items, omitted := none.since(0); items != nil || omitted != 0 {
		t.Errorf("%v, %d of a call that no console made", items, omitted)
	}
	s := &shownItems{}
	const all = 3*maxItemsShown + 5
	for i := range all {
		s.add([]byte(strconv.Itoa(i + 1)))
	}
	for _, tt := range []struct {
		after   uint64
		count   int
		first   string
		omitted uint64
		what    string
	}{
		{0, maxItemsShown, strconv.Itoa(all - maxItemsShown + 1), all - maxItemsShown, "from the start"},
		{all - maxItemsShown - 1, maxItemsShown, strconv.Itoa(all - maxItemsShown + 1), 1, "after one that is gone"},
		{all - 2, 2, strconv.Itoa(all - 1), 0, "the last two"},
		{all, 0, "", 0, "none is new"},
		{all + 1, maxItemsShown, strconv.Itoa(all - maxItemsShown + 1), all - maxItemsShown, "a number of another call"},
	} {
		items, omitted := s.since(tt.after)
		if len(items) != tt.count || omitted != tt.omitted || tt.count > 0 && (items[0].GetJson() != tt.first || items[len(items)-1].GetNumber() != all) {
			t.Errorf("%s: %d omitted, %v", tt.what, omitted, items)
		}
	}
	s.add([]byte(strings.Repeat("x", maxItemShown-1) + "\u00e9\u00e9"))
	if items, _ := s.since(all); len(items[0].GetJson()) != maxItemShown-1 || items[0].GetSize() != maxItemShown+3 {
		t.Errorf("%d of %d bytes", len(items[0].GetJson()), items[0].GetSize())
	}
}

// TestALoudToolLeavesOthersTheirShare: each tool keeps calls that failed, however often another one fails, and the newest of each.
func TestALoudToolLeavesOthersTheirShare(t *testing.T) {
	t.Parallel()
	w := &watched{}
	add := func(tool string, n int) {
		for range n {
			w.last++
			w.failed.add(known{tool: tool, number: w.last, id: w.last})
		}
	}
	add("quiet", 3)
	add("other", 300)
	add("loud", 20*maxKept)
	add("late", 2)
	got := map[string][]uint64{}
	all, count := w.failed.newest(nil, 0, 2*maxKept)
	for i, k := range all {
		if got[k.tool] = append(got[k.tool], k.number); i > 0 && all[i-1].number <= k.number {
			t.Fatalf("%d after %d", k.number, all[i-1].number)
		}
	}
	if len(all) != maxKept || count != maxKept || len(got["quiet"]) != 3 || len(got["late"]) != 2 || len(got["other"]) < maxKept/2-5 || len(got["loud"]) < maxKept/2-5 {
		t.Errorf("%d of %d calls: %d, %d, %d, %d", len(all), count, len(got["quiet"]), len(got["late"]), len(got["other"]), len(got["loud"]))
	}
	if newest := w.last - 2; got["loud"][0] != newest || got["other"][0] != 303 {
		t.Errorf("the newest are %d and %d", got["loud"][0], got["other"][0])
	}
	if some, count := w.failed.newest(nil, w.last-10, 4); len(some) != 4 || count != 10 || some[0].number != w.last {
		t.Errorf("%d of %d", len(some), count)
	}
	for i := range 3 * maxKept {
		add("tool "+strconv.Itoa(i), 1)
	}
	if len(w.failed.of) > maxKept || len(w.failed.calls) != maxKept {
		t.Errorf("%d tools, %d calls", len(w.failed.of), len(w.failed.calls))
	}
}
