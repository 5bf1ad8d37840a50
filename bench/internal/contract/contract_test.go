// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
)

// targets are what the contract has a target for, each by how its row begins.
func targets() []string {
	return []string{
		"registration of a tool", "list of 1,000 tools", "one tool's schemas", "validation of an envelope", "discovery of 200 services",
		"stdio dispatch of one call", "stdio calls", "HTTP dispatch of one call", "HTTP calls", "run records",
	}
}

// TestEveryTargetOfTheContractIsMeasuredAndMet measures as `make bench` does. A machine at work is slower than one at
// rest, so here the targets themselves are asked for, which leave room, and not ten times as much; of the run records,
// whose figure is a small difference of two large ones, only that they are measured.
func TestEveryTargetOfTheContractIsMeasuredAndMet(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: measures for some seconds")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	root, err := sidecar.Root(here)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := sidecar.Build(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Measure(t.Context(), binary, t.TempDir(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range targets() {
		at := slices.IndexFunc(rows, func(r Row) bool { return strings.HasPrefix(r.What, what) })
		if at < 0 {
			t.Errorf("nothing measures %s", what)
			continue
		}
		r := rows[at]
		t.Logf("%s: %s, target %s", r.What, r.Figure, r.Target)
		if r.Times < 1 && what != "run records" {
			t.Errorf("%s: %s misses the target %s", r.What, r.Figure, r.Target)
		}
	}
}

// TestThePageShowsEveryTargetAndItsRatio reads the figures of the last run: the ratio is beside each target, which is
// reached, and where it is less than the goal the page says so. It does not ask for the goal: that is a matter of the
// machine that made the page, and of who else was at work there.
func TestThePageShowsEveryTargetAndItsRatio(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([<>] [^|]+) \| ([^|]+) \| ([0-9.]+) \| ([0-9]+) \| ([a-z*]+) \|$`).FindAllStringSubmatch(string(page), -1)
	for _, what := range targets() {
		at := slices.IndexFunc(shown, func(row []string) bool { return strings.HasPrefix(row[1], what) })
		if at < 0 {
			t.Errorf("the page has no row with a ratio for %s", what)
			continue
		}
		times, err := strconv.ParseFloat(shown[at][4], 64)
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := strconv.ParseFloat(shown[at][5], 64)
		if err != nil {
			t.Fatal(err)
		}
		least := float64(Goal)
		if what == "run records" { // the contract asks for 5 % and no more
			least = 1
		}
		verdict := "kept"
		if times < wanted {
			verdict = "**missed**"
		}
		// A ratio is shown with one digit, so that one at the goal may be either.
		if times < 1 || wanted < least || (shown[at][6] != verdict && times != wanted) {
			t.Errorf("%s: %s of %s is %v times the target, and the page says %s of a goal of %v", what, shown[at][3], shown[at][2], times, shown[at][6], wanted)
		}
	}
}
