// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"sync"
	"time"
)

// Verdict is the result of a request for one more.
type Verdict int

// The verdicts.
const (
	// Granted means that the caller has it now. The caller returns it with
	// [Ledger.Release].
	Granted Verdict = iota
	// ShareFull means that nothing is left for any caller.
	ShareFull
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
		return ShareFull
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

// LedgerStats are the counts of a Ledger.
type LedgerStats struct {
	// Used is the number held now, Callers the number of callers that hold any.
	Used    int64
	Callers int
	// ShareFull and Over count refused requests by verdict.
	Full, Over uint64
}

// Stats returns the counts. For nil they are zero.
func (l *Ledger) Stats() LedgerStats {
	if l == nil {
		return LedgerStats{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return LedgerStats{Used: l.used, Callers: len(l.held), Full: l.full, Over: l.over}
}

// aboutFor is how long after its last request somebody is still active: its share binds the others for as long, so that it
// finds room when it comes back.
const aboutFor = 10 * time.Second

// Recent knows which two names were seen last. This is enough to tell whether one of them is alone. The zero value has seen
// none. It is not safe for concurrent use.
type Recent struct {
	last, other     string
	lastAt, otherAt time.Time
}

// Seen notes a name.
func (r *Recent) Seen(name string, now time.Time) {
	if name != r.last {
		r.other, r.otherAt = r.last, r.lastAt
		r.last = name
	}
	r.lastAt = now
}

// Alone reports whether no other name was seen in the last ten seconds.
func (r *Recent) Alone(name string, now time.Time) bool {
	at := r.lastAt
	if r.last == name {
		at = r.otherAt
	}
	return at.IsZero() || now.Sub(at) > aboutFor
}

// Rule limits how much of a total one caller may hold. It is the dynamic threshold of
// shared-memory switches (Choudhury and Hahne, 1998): a caller may hold at most a fixed
// multiple of the free amount. It reserves nothing for callers that do not exist and
// does not need their number, and a new caller always finds room:
//
//	percent 80: the multiple is 80/(100-80) = 4
//	one busy caller     holds at most 4/5 of the total
//	two of them         hold 4/9 each, 1/9 is free
//	n of them           hold 4/(1+4n) each
//
// The zero Rule lets one caller hold everything.
type Rule struct {
	percent int64
	// weight is 0 for 1.
	weight int64
}

// Percent returns the rule under which a single caller may hold p percent of a total.
// 100 and more give the zero Rule.
func Percent(p int) Rule {
	if p <= 0 || p >= 100 {
		return Rule{}
	}
	return Rule{percent: int64(p)}
}

// Weighted returns the rule for a caller that may hold a multiple of what others may. Beside a caller with weight 1, one with
// weight 4 gets four fifths of what both hold together.
func (r Rule) Weighted(weight int) Rule {
	if weight > 1 && r.percent > 0 {
		r.weight = int64(weight)
	}
	return r
}

// Allows reports whether a caller that holds held may have n more of total, of which all
// callers together use used.
func (r Rule) Allows(held, n, used, total int64) bool {
	free := total - used
	if n > free {
		return false
	}
	if r.percent == 0 {
		return true
	}
	// (held + n) <= free * weight * percent / (100 - percent), without the rounding, where
	// free is what there is before: of 1 somebody may have 1.
	return float64(held+n)*float64(100-r.percent) <= float64(free)*float64(r.percent*max(r.weight, 1))
}

// Part returns how much of a total one caller may hold while the others hold nothing.
func (r Rule) Part(total int64) int64 {
	if r.percent == 0 {
		return total
	}
	return int64(float64(total) * float64(r.percent) / 100)
}
