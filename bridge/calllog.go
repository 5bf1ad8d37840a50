// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/loglimit"
)

// CallLogMode selects the tool calls that are logged.
type CallLogMode uint32

// The modes. logAllCalls is the zero value. logFailedCalls leaves out those that
// succeeded, logNoCalls all but those that failed through a fault of the sidecar.
const (
	logAllCalls CallLogMode = iota
	logFailedCalls
	logNoCalls
)

// ParseCallLogMode reads "all", "failed" or "off".
func ParseCallLogMode(s string) (CallLogMode, error) {
	switch s {
	case "all":
		return logAllCalls, nil
	case "failed":
		return logFailedCalls, nil
	case "off":
		return logNoCalls, nil
	}
	return logAllCalls, fmt.Errorf("log calls %q: want all, failed or off", s)
}

// defaultCallLogRate is how many lines a second the calls of one kind may leave:
// enough to read along, and at some 300 bytes a line no more than a few
// gigabytes a day, whatever the load.
const defaultCallLogRate = 100

// CallLog decides which calls are logged. Successful and failed calls have separate
// budgets per second, so that neither hides the other; calls over the budget are
// counted. It can be changed while in use. Make one with [NewCallLog]; nil logs
// every call.
type CallLog struct {
	mode    atomic.Uint32
	most    atomic.Int64
	done    budget
	failed  budget
	refused budget
	skipped atomic.Uint64
}

// NewCallLog returns a CallLog; perSecond 0 is 100 lines a second.
func NewCallLog(mode CallLogMode, perSecond int) *CallLog {
	l := &CallLog{}
	l.Set(mode, perSecond)
	return l
}

// Set changes the mode.
func (l *CallLog) Set(mode CallLogMode, perSecond int) {
	if perSecond <= 0 {
		perSecond = defaultCallLogRate
	}
	l.mode.Store(uint32(mode))
	l.most.Store(int64(perSecond))
}

// Skipped returns the number of calls that were not logged because of the budget.
// Calls excluded by the mode do not count.
func (l *CallLog) Skipped() uint64 {
	if l == nil {
		return 0
	}
	return l.skipped.Load()
}

// admits reports whether a call that ended at this time leaves a line.
func (l *CallLog) admits(now time.Time, failed bool) bool {
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
	if of.take(now.Unix(), l.most.Load()) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// admitsRefusal reports whether a message that never became a request leaves a line.
// Without authentication anyone can send one, so there are few.
func (l *CallLog) admitsRefusal(now time.Time) bool {
	if l == nil {
		return true
	}
	if CallLogMode(l.mode.Load()) == logNoCalls {
		return false
	}
	if l.refused.take(now.Unix(), min(l.most.Load(), loglimit.PerSecond)) {
		return true
	}
	l.skipped.Add(1)
	return false
}

// budget counts lines within one second. At the turn of a second a few lines may
// go uncounted, which is cheaper than a lock for all.
type budget struct{ second, used atomic.Int64 }

func (b *budget) take(second, most int64) bool {
	if was := b.second.Load(); was != second && b.second.CompareAndSwap(was, second) {
		b.used.Store(0)
	}
	return b.used.Add(1) <= most
}
