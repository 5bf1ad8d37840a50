// SPDX-License-Identifier: Apache-2.0

package share

import "sync"

// Verdict is whether a caller gets what it asks for.
type Verdict int

// The verdicts.
const (
	// Granted: it has it now, and gives it back with [Ledger.Release].
	Granted Verdict = iota
	// Full: nothing is left for anybody.
	Full
	// Over: something is left, and it is for the others.
	Over
)

// Ledger knows who holds how many of a bounded number of things. Make one with
// [NewLedger]; nil grants everything and counts nothing.
type Ledger struct {
	total int64
	rule  Rule

	mu         sync.Mutex
	used       int64
	held       map[string]int64
	full, over uint64
}

// NewLedger returns a Ledger of a total of which nothing is held.
func NewLedger(total int64, rule Rule) *Ledger {
	return &Ledger{total: total, rule: rule, held: map[string]int64{}}
}

// Acquire asks for one more.
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

// Release gives one back.
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
	// Used is how many are held now, by Callers of them.
	Used    int64
	Callers int
	// Full and Over count what was refused, by the verdict.
	Full, Over uint64
}

// Stats returns the counts; none of nil.
func (l *Ledger) Stats() Stats {
	if l == nil {
		return Stats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Used: l.used, Callers: len(l.held), Full: l.full, Over: l.over}
}
