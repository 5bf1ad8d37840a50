// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkEmpty fails if the table holds anything at all.
func checkEmpty(t interface{ Errorf(string, ...any) }, table *Table) {
	if n := table.InFlight(); n != 0 {
		t.Errorf("%d calls in flight, want none", n)
	}
	for i := range table.shards {
		s := &table.shards[i]
		s.mu.Lock()
		if len(s.byID) != 0 || len(s.byOrigin) != 0 {
			t.Errorf("shard %d: %d ids and %d origins are left behind", i, len(s.byID), len(s.byOrigin))
		}
		s.mu.Unlock()
	}
}
