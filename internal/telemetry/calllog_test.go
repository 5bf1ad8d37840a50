// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

func TestWhichCallsLeaveALine(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, tt := range []struct {
		mode         string
		done, failed bool
	}{
		{"all", true, true},
		{"failed", false, true},
		{"off", false, false},
	} {
		mode, err := ParseCallLogMode(tt.mode)
		if err != nil {
			t.Fatal(err)
		}
		l := NewCallLog(mode, 0)
		if l.Admits(now, false) != tt.done || l.Admits(now, true) != tt.failed {
			t.Errorf("%s", tt.mode)
		}
		if l.Skipped() != 0 {
			t.Errorf("%s: what the mode leaves out counts as skipped", tt.mode)
		}
	}
	if _, err := ParseCallLogMode("some"); err == nil {
		t.Error("an unknown mode is taken")
	}
	var none *CallLog
	if !none.Admits(now, false) || none.Skipped() != 0 {
		t.Error("nil leaves out calls")
	}
}

func TestLinesOfASecondAreBounded(t *testing.T) {
	t.Parallel()
	l := NewCallLog(logAllCalls, 3)
	lines := func(second int64, failed bool, calls int) (n int) {
		for range calls {
			if l.Admits(time.Unix(second, 0), failed) {
				n++
			}
		}
		return n
	}
	if done, failed := lines(100, false, 10), lines(100, true, 2); done != 3 || failed != 2 || l.Skipped() != 7 {
		t.Errorf("%d and %d lines, %d skipped; want 3, 2 and 7", done, failed, l.Skipped())
	}
	if done := lines(101, false, 2); done != 2 {
		t.Errorf("%d lines in the next second, want 2", done)
	}
	l.Set(logAllCalls, 5)
	if done := lines(101, false, 9); done != 3 {
		t.Errorf("%d more lines after the bound was raised to 5, want 3", done)
	}
	l.Set(logAllCalls, 0)
	if done := lines(102, false, 1000); done != defaults.LogMaxCallsPerSecond {
		t.Errorf("%d lines, want the default", done)
	}
}

// TestNoCallIsLostToTheCount is for the race detector: whatever callers do at the
// turn of a second, each call has a line or is counted.
func TestNoCallIsLostToTheCount(t *testing.T) {
	t.Parallel()
	const callers, seconds, most = 8, 20, 10
	l := NewCallLog(logAllCalls, most)
	var mu sync.Mutex
	var all sync.WaitGroup
	lines := 0
	for range callers {
		all.Go(func() {
			n := 0
			for i := range seconds * 1000 {
				if l.Admits(time.Unix(int64(i/1000), 0), false) {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			lines += n
		})
	}
	all.Wait()
	if got := uint64(lines) + l.Skipped(); got != callers*seconds*1000 || lines < most {
		t.Errorf("%d lines and %d skipped of %d calls", lines, l.Skipped(), callers*seconds*1000)
	}
}
