// SPDX-License-Identifier: Apache-2.0

// Package testtimes says which packages and tests of a run were slowest, and which take twice the time that is on record. It reads
// the events that "go test -json" prints.
package testtimes

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	// Shown is how many packages and tests a table has.
	Shown = 10
	// Factor is what a package or test may take of the time on record.
	Factor = 2
	// Floor is the least time in seconds that counts: what takes less varies with the machine's mood more than by half.
	Floor = 5
	// Busy is how many times slower than on record a machine may be for its times to say anything.
	Busy = 1.5
	// enough is how many packages have to be on record before their median says how fast this machine is.
	enough = 5
)

// Times are seconds by package and by test. The name of a test begins with that of its package, such as "bridge.TestFlight". A
// subtest is part of its test.
type Times struct {
	Packages map[string]float64 `json:"packages"`
	Tests    map[string]float64 `json:"tests"`
}

// event is what is read of an event of go test.
type event struct {
	Action  string  `json:"Action"`
	Package string  `json:"Package"`
	Test    string  `json:"Test"`
	Elapsed float64 `json:"Elapsed"`
}

// Read adds the times of the events to t. Packages whose results came from the cache, or have no tests, have none. Lines that are no
// event, as of a build that failed, are passed over.
func (t *Times) Read(events io.Reader) error {
	if t.Packages == nil {
		t.Packages, t.Tests = map[string]float64{}, map[string]float64{}
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if line := lines.Bytes(); !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
			continue
		}
		if e.Action != "pass" && e.Action != "fail" || e.Elapsed < 0.05 || strings.Contains(e.Test, "/") {
			continue
		}
		name := short(e.Package)
		if e.Test == "" {
			t.Packages[name] += e.Elapsed
		} else {
			t.Tests[name+"."+e.Test] += e.Elapsed
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("events of tests: %w", err)
	}
	return nil
}

// short is the name of a package within this repository.
func short(pkg string) string {
	name := strings.TrimPrefix(pkg, "github.com/outrigger-mcp/outrigger")
	return cmp.Or(strings.TrimPrefix(name, "/"), ".")
}

// Record returns what is worth recording: what takes more than half of the floor.
func (t *Times) Record() Times {
	kept := func(all map[string]float64) map[string]float64 {
		out := maps.Clone(all)
		maps.DeleteFunc(out, func(_ string, s float64) bool { return s < Floor/2. })
		return out
	}
	return Times{Packages: kept(t.Packages), Tests: kept(t.Tests)}
}

// Machine is how much longer than on record the packages took in the middle, at least 1: a slower or busier machine. It is zero where
// too few packages ran to say: others had their results in the cache.
func (t *Times) Machine(recorded Times) float64 {
	var ratios []float64
	for name, was := range recorded.Packages {
		if is, ok := t.Packages[name]; ok && was > 0 {
			ratios = append(ratios, is/was)
		}
	}
	if len(ratios) < enough {
		return 0
	}
	slices.Sort(ratios)
	return max(1, ratios[len(ratios)/2])
}

// Slow is a package or test that took more than [Factor] times its time on record, in seconds.
type Slow struct {
	Name    string
	Is, Was float64
	// Alone is what it may take at most when nothing else runs: [Busy] times what is on record, which was measured beside all others.
	Alone float64
}

// Doubled returns the packages and tests that took more than [Factor] times what is on record, on a machine as fast as this one, and
// more than that of the [Floor]; sorted by name. There are none where too few packages ran to tell how fast the machine is, or where
// it is more than [Busy] times slower. Which of many tests the others hold up is chance, so each is to be measured again, alone.
func (t *Times) Doubled(recorded Times) []Slow {
	machine := t.Machine(recorded)
	if machine == 0 || machine > Busy {
		return nil
	}
	var out []Slow
	compare := func(now, was map[string]float64) {
		for name, is := range now {
			if before, ok := was[name]; ok && is > Factor*machine*max(before, Floor) {
				out = append(out, Slow{Name: name, Is: is, Was: before, Alone: Busy * max(before, Floor)})
			}
		}
	}
	compare(t.Packages, recorded.Packages)
	compare(t.Tests, recorded.Tests)
	slices.SortFunc(out, func(a, b Slow) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Table is a list of the slowest packages and tests, beside what is on record.
func (t *Times) Table(recorded Times) string {
	var out strings.Builder
	list := func(title string, now, was map[string]float64) {
		names := slices.SortedFunc(maps.Keys(now), func(a, b string) int { return cmp.Or(cmp.Compare(now[b], now[a]), cmp.Compare(a, b)) })
		fmt.Fprintf(&out, "%s\n", title)
		for _, name := range names[:min(Shown, len(names))] {
			before := ""
			if s, ok := was[name]; ok {
				before = fmt.Sprintf("  (%.0f s on record)", s)
			}
			fmt.Fprintf(&out, "  %6.1f s  %s%s\n", now[name], name, before)
		}
	}
	list("slowest packages", t.Packages, recorded.Packages)
	list("slowest tests", t.Tests, recorded.Tests)
	return out.String()
}
