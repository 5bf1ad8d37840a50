// SPDX-License-Identifier: Apache-2.0

package share

import "sync"

// Verdict is the result of a request for one more.
type Verdict int

// The verdicts.
const (
	// Granted means that the caller has it now. The caller returns it with
	// [Ledger.Release].
	Granted Verdict = iota
	// Full means that nothing is left for any caller.
	Full
	// Over means that something is left, but the caller has used up its share.
	Over
	// OverTool means that something is left, but the tool has used up its share. A
	// [Ledger] knows no tools.
	OverTool
)

// Ledger tracks how many of a bounded number of things each caller holds. Make one with
// [NewLedger]. Nil grants everything and counts nothing.
type Ledger struct {
	total int64
	rule  Rule

	mu         sync.Mutex
	used       int64
	held       map[string]int64
	full, over uint64
}

// NewLedger returns a Ledger for a total of which nothing is held.
func NewLedger(total int64, rule Rule) *Ledger {
	return &Ledger{total: total, rule: rule, held: map[string]int64{}}
}

// Acquire requests one more for a caller.
func (l *Ledger) Acquire(caller string) Verdict {
	if l == nil {
		return Granted
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.used >= l.total:
		l.full++
		return Full
	case !l.rule.Allows(l.held[caller], 1, l.used, l.total):
		l.over++
		return Over
	}
	l.used++
	l.held[caller]++
	return Granted
}

// Release returns one.
func (l *Ledger) Release(caller string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used--
	if l.held[caller]--; l.held[caller] <= 0 {
		delete(l.held, caller)
	}
}

// Stats are the counts of a Ledger.
type Stats struct {
	// Used is the number held now, Callers the number of callers that hold any.
	Used    int64
	Callers int
	// Full and Over count refused requests by verdict.
	Full, Over uint64
}

// Stats returns the counts. For nil they are zero.
func (l *Ledger) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Used: l.used, Callers: len(l.held), Full: l.full, Over: l.over}
}
