// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	c := garden(t)
	for _, tc := range []struct {
		name, asked string
		n           int
		want        []string
	}{
		{"typing slip", "garden_keeper.get_plnat", 1, []string{"garden_keeper.get_plant"}},
		{"MCP form", "garden_keeper_get_plantt", 1, []string{"garden_keeper.get_plant"}},
		{"proto spelling", "GardenKeeper/GetPlant", 1, []string{"garden_keeper.get_plant"}},
		{"full RPC path", "garden.v1.GardenKeeper/GetPlant", 1, []string{"garden_keeper.get_plant"}},
		{"without the service", "get_plant", 1, []string{"garden_keeper.get_plant"}},
		{"declared name", "garden.uprot", 1, []string{"garden.uproot"}},
		{"hidden tools are not named", "garden_keeper.sharpen_tools", 1, nil},
		{"nothing near", "zzzzzzzzzzzzzzzzzzzzzz", 3, []string{}},
		{"none wanted", "get_plant", 0, nil},
		{"nothing asked", "", 3, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := c.Nearest(tc.asked, tc.n)
			if tc.name == "hidden tools are not named" {
				for _, n := range got {
					if n == tc.asked {
						t.Errorf("Nearest names the hidden tool %s", n)
					}
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Nearest(%q, %d) (-want +got):\n%s", tc.asked, tc.n, diff)
			}
		})
	}
}

func TestNearestTimeIsBounded(t *testing.T) {
	t.Parallel()
	var tools []*Tool
	for i := range 1000 {
		tools = append(tools, &Tool{Name: fmt.Sprintf("service_number_%d.method_number_%d", i, i)})
	}
	c := &Catalog{own: &lists{visible: tools}}
	start := time.Now()
	c.Nearest(strings.Repeat("service_number_", 100_000), 3)
	// A megabyte compared in full would take minutes; this leaves room for a busy machine under the race detector.
	if took := time.Since(start); took > testkit.Limit() {
		t.Errorf("Nearest took %v for a name of 1.5 MB", took)
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		var rows editRows
		if got, ok := rows.distance(tc.a, tc.b, 10); !ok || got != tc.want {
			t.Errorf("distance(%q, %q) = %d, %v, want %d", tc.a, tc.b, got, ok, tc.want)
		}
		if _, ok := rows.distance(tc.a, tc.b, tc.want-1); ok {
			t.Errorf("distance(%q, %q) is found within %d", tc.a, tc.b, tc.want-1)
		}
	}
}

// TestEditDistanceGivesUpRightly compares the bounded distance with the unbounded one.
func TestEditDistanceGivesUpRightly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[ab_]{0,12}`).Draw(t, "a"), rapid.StringMatching(`[ab_]{0,12}`).Draw(t, "b")
		most := rapid.IntRange(0, 12).Draw(t, "most")
		var rows editRows
		full, _ := rows.distance(a, b, 100)
		got, ok := rows.distance(a, b, most)
		if ok != (full <= most) || ok && got != full {
			t.Fatalf("distance(%q, %q, %d) = %d, %v; unbounded %d", a, b, most, got, ok, full)
		}
		if back, _ := rows.distance(b, a, 100); back != full {
			t.Fatalf("distance is not symmetric for %q and %q: %d and %d", a, b, full, back)
		}
	})
}
