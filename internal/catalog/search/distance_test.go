// SPDX-License-Identifier: Apache-2.0

package search_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
)

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1},
		{"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		var d search.Distance
		if got := d.Between(tc.a, tc.b, 10); got != tc.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
		if got := d.Between(tc.a, tc.b, tc.want-1); tc.want > 0 && got != tc.want {
			t.Errorf("distance(%q, %q) within %d is %d", tc.a, tc.b, tc.want-1, got)
		}
	}
}

// TestEditDistanceGivesUpRightly compares the bounded distance with the unbounded one.
func TestEditDistanceGivesUpRightly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringMatching(`[ab_]{0,12}`).Draw(t, "a"), rapid.StringMatching(`[ab_]{0,12}`).Draw(t, "b")
		most := rapid.IntRange(0, 12).Draw(t, "most")
		var d search.Distance
		full := d.Between(a, b, 100)
		if got := d.Between(a, b, most); got != min(full, most+1) {
			t.Fatalf("distance(%q, %q, %d) = %d; unbounded %d", a, b, most, got, full)
		}
		if back := d.Between(b, a, 100); back != full {
			t.Fatalf("distance is not symmetric for %q and %q: %d and %d", a, b, full, back)
		}
	})
}
