// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"math/big"
	"strings"
)

// maxRangePattern is where a pattern for a range stops being of use to a reader; beyond it only the digits are counted.
const maxRangePattern = 160

// plainPattern matches the decimal form of an integer of at most as many digits as the type has.
func plainPattern(t integerType) string {
	digits := len(t.most) - 1
	if t.least[0] == '-' {
		return fmt.Sprintf("(0|-?[1-9][0-9]{0,%d})", digits)
	}
	return fmt.Sprintf("(0|[1-9][0-9]{0,%d})", digits)
}

// rangePattern matches the decimal form of the integers from lo to hi, for integers in strings, where minimum and maximum
// do not apply. A bound that is the type's own is relaxed to its number of digits, since spelling it out takes hundreds of
// characters; the format or the transcoder holds it. For 1 to 100 it is ([1-9][0-9]{0,1}|100).
func rangePattern(lo, hi *big.Int, t integerType) string {
	var parts []string
	if lo.Cmp(hi) > 0 {
		return "[^\\s\\S]" // rules that contradict each other: nothing matches
	}
	if lo.Sign() < 0 {
		least := big.NewInt(1)
		if hi.Sign() < 0 {
			least = new(big.Int).Neg(hi)
		}
		if negative := magnitudes(least, new(big.Int).Neg(lo), lo.Cmp(t.lo()) == 0); len(negative) > 0 {
			parts = append(parts, "-"+group(negative))
		}
	}
	if hi.Sign() >= 0 {
		least := lo
		if lo.Sign() <= 0 {
			parts = append(parts, "0")
			least = big.NewInt(1)
		}
		if least.Cmp(hi) <= 0 {
			parts = append(parts, magnitudes(least, hi, hi.Cmp(t.hi()) == 0)...)
		}
	}
	pattern := "(" + strings.Join(parts, "|") + ")"
	if len(pattern) > maxRangePattern {
		return plainPattern(t)
	}
	return pattern
}

// magnitudes lists alternatives for the positive integers from lo to hi, one for each number of digits; numbers of
// digits that are complete share one.
func magnitudes(lo, hi *big.Int, relaxed bool) []string {
	var parts []string
	first, last := lo.String(), hi.String()
	fullFrom, fullTo := 0, 0
	flush := func() {
		switch {
		case fullFrom == 0:
		case fullFrom == fullTo:
			parts = append(parts, "[1-9]"+anyDigits(fullFrom-1))
		default:
			parts = append(parts, fmt.Sprintf("[1-9][0-9]{%d,%d}", fullFrom-1, fullTo-1))
		}
		fullFrom = 0
	}
	for n := len(first); n <= len(last); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(first) {
			from = first
		}
		if n == len(last) && !relaxed {
			to = last
		}
		if from == "1"+strings.Repeat("0", n-1) && to == strings.Repeat("9", n) {
			if fullFrom == 0 {
				fullFrom = n
			}
			fullTo = n
			continue
		}
		flush()
		parts = append(parts, sameLength(from, to)...)
	}
	flush()
	return parts
}

// sameLength lists alternatives for the numbers from a to b, which have the same number of digits. It splits at the first
// digit: what begins like a, what begins like b, and what lies between and may go on with any digits. From 23 to 57:
// 2[3-9], [3-4][0-9], 5[0-7].
func sameLength(a, b string) []string {
	switch {
	case a == b:
		return []string{a}
	case len(a) == 1:
		return []string{digitClass(a[0], b[0])}
	case a[0] == b[0]:
		return []string{a[:1] + group(sameLength(a[1:], b[1:]))}
	}
	var head, tail []string
	lo, hi := a[0], b[0]
	if strings.Trim(a[1:], "0") != "" {
		head = []string{a[:1] + group(sameLength(a[1:], strings.Repeat("9", len(a)-1)))}
		lo++
	}
	if strings.Trim(b[1:], "9") != "" {
		tail = []string{b[:1] + group(sameLength(strings.Repeat("0", len(b)-1), b[1:]))}
		hi--
	}
	if lo <= hi {
		head = append(head, digitClass(lo, hi)+anyDigits(len(a)-1))
	}
	return append(head, tail...)
}

func digitClass(lo, hi byte) string {
	if lo == hi {
		return string(lo)
	}
	return fmt.Sprintf("[%c-%c]", lo, hi)
}

func anyDigits(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[0-9]"
	default:
		return fmt.Sprintf("[0-9]{%d}", n)
	}
}

func group(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, "|") + ")"
}
