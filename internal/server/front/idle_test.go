// SPDX-License-Identifier: Apache-2.0

package front

import (
	"testing"
	"time"
)

func TestWhenMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	none, first, second := time.Time{}, time.Unix(1, 0), time.Unix(2, 0)
	var s spareTime
	for i, look := range []struct {
		what     string
		begun    uint64
		inFlight int
		built    time.Time
		want     bool
	}{
		{"nothing has happened", 0, 0, none, false},
		{"the first catalog", 0, 0, first, true},
		{"once for it", 0, 0, first, false},
		{"work", 5, 1, first, false},
		{"one call that takes long", 5, 1, first, false},
		{"quiet", 5, 0, first, true},
		{"still quiet", 5, 0, first, false},
		{"work again", 9, 0, first, false},
		{"quiet again", 9, 0, first, true},
		{"another catalog in the middle of work", 20, 8, second, true},
		{"work goes on", 30, 8, second, false},
		{"quiet at last", 30, 0, second, true},
		{"another catalog in a quiet time", 30, 0, first, true},
		{"once", 30, 0, first, false},
	} {
		if got := s.wants(look.begun, look.inFlight, look.built); got != look.want {
			t.Errorf("%d, %s: got %t", i, look.what, got)
		}
	}
}
