// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"
)

// TestThePaceOfRejections: it rises to what is asked for where CPU time is left, and falls to the least where looks at the
// queue are late.
func TestThePaceOfRejections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		late        func(second int) time.Duration
		least, most float64 // rejections in a second, in the last of ten
	}{
		"the backend is slow":    {func(int) time.Duration { return 100 * time.Microsecond }, 2900, 3100},
		"CPU time is short":      {func(int) time.Duration { return 5 * time.Millisecond }, 200, 300},
		"CPU time gets short":    {func(s int) time.Duration { return time.Duration(s) * time.Millisecond }, 200, 300},
		"CPU time is left again": {func(s int) time.Duration { return time.Duration(8-s) * time.Millisecond }, 2900, 3100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p rejectionPace
			now, rejected := time.Unix(0, 0), 0.0
			for ms := range 10_000 {
				now = now.Add(time.Millisecond)
				if ms%2 == 0 {
					p.looked(now, row.late(ms/1000))
				}
				for range 3 {
					if p.mayReject(now) && ms >= 9_000 {
						rejected++
					}
				}
			}
			if rejected < row.least || rejected > row.most {
				t.Errorf("%.0f rejections/s, want %.0f to %.0f", rejected, row.least, row.most)
			}
		})
	}
}
