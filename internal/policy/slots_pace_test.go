// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"
)

// TestThePaceOfRejections: it rises to what is asked for where results keep coming, and stays low where rejections cost results.
func TestThePaceOfRejections(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		// results in a millisecond, by the rejections in the millisecond before.
		results     func(rejected float64) float64
		least, most float64 // rejections in a second, in the end
	}{
		"the backend is slow": {func(float64) float64 { return 0.8 }, 2900, 3100},
		"CPU time is short":   {func(rejected float64) float64 { return max(0, 8-2*rejected) }, 100, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p rejectionPace
			now, owed, rejected, counted := time.Unix(0, 0), 0.0, 0.0, 0.0
			for ms := range 20_000 {
				now = now.Add(time.Millisecond)
				for owed += row.results(rejected); owed >= 1; owed-- {
					p.ended(now)
				}
				rejected = 0
				for range 3 {
					if p.take(now) {
						rejected++
					}
				}
				if ms >= 10_000 {
					counted += rejected
				}
			}
			if rate := counted / 10; rate < row.least || rate > row.most {
				t.Errorf("%.0f rejections/s, want %.0f to %.0f", rate, row.least, row.most)
			}
		})
	}
}
