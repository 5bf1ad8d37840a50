// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// CallLogMode says which tool calls leave a line in the log: all, those that failed, or
// none.
type CallLogMode uint32

// The modes. logAllCalls is the zero value. logFailedCalls leaves out those that
// succeeded, logNoCalls all but those that failed through a fault of the sidecar.
const (
	logAllCalls CallLogMode = iota
	logFailedCalls
	logNoCalls
)

// ParseCallLogMode reads a mode from "all", "failed" or "off".
func ParseCallLogMode(s string) (CallLogMode, error) {
	mode := slices.Index([]string{"all", "failed", "off"}, s) // in the order of the modes
	if mode < 0 {
		return logAllCalls, fmt.Errorf("log calls %q: want all, failed or off", s)
	}
	return CallLogMode(mode), nil
}

// CallLog decides which calls leave a line in the log. Calls that succeed and calls
// that fail have separate budgets per second; calls above the budget are counted. Its
// settings can change at run time. A nil CallLog logs every call. Make one with
// [NewCallLog].
type CallLog struct {
	mode    atomic.Uint32
	most    atomic.Int64
	done    budget
	failed  budget
	refused budget
	skipped atomic.Uint64
}

// NewCallLog returns a CallLog that logs at most perSecond lines of each kind; 0 means
// 100.
func NewCallLog(mode CallLogMode, perSecond int) *CallLog {
	l := &CallLog{}
	l.Set(mode, perSecond)
	return l
}

// Set changes the mode and the rate.
func (l *CallLog) Set(mode CallLogMode, perSecond int) {
	defaults.Fill(&perSecond, defaults.LogMaxCallsPerSecond)
	l.mode.Store(uint32(mode))
	l.most.Store(int64(perSecond))
}

// Skipped returns the number of calls that were not logged because of the rate. Calls
// that the mode leaves out do not count.
func (l *CallLog) Skipped() uint64 {
	if l == nil {
		return 0
	}
	return l.skipped.Load()
}

// Admits reports whether a call that ended at this time leaves a line.
func (l *CallLog) Admits(now time.Time, failed bool) bool {
	if l == nil {
		return true
	}
	mode, of := CallLogMode(l.mode.Load()), &l.done
	if failed {
		of = &l.failed
	}
	if mode == logNoCalls || mode == logFailedCalls && !failed {
		return false
	}
	if of.spend(now.Unix(), l.most.Load()) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// refusalsPerSecond bounds the lines of messages that were refused: enough to see what is going on.
const refusalsPerSecond = 10

// AdmitsRefusal reports whether a message that never became a request leaves a line.
// Without authentication anyone can send one, so there are few.
func (l *CallLog) AdmitsRefusal(now time.Time) bool {
	if l == nil {
		return true
	}
	if CallLogMode(l.mode.Load()) == logNoCalls {
		return false
	}
	if l.refused.spend(now.Unix(), min(l.most.Load(), refusalsPerSecond)) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// budget counts lines within one second. At the turn of a second a few lines may
// go uncounted, which is cheaper than a lock for all.
type budget struct{ second, used atomic.Int64 }

func (b *budget) spend(second, most int64) bool {
	if was := b.second.Load(); was != second && b.second.CompareAndSwap(was, second) {
		b.used.Store(0)
	}
	return b.used.Add(1) <= most
}
