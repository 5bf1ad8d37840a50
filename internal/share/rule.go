// SPDX-License-Identifier: Apache-2.0

// Package share divides a limit among callers: it computes how much one caller
// may hold, so that others always find some left. It knows no callers and no
// resources; the owners of limits use it. Rules and ledgers are safe for concurrent use.
package share

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
