// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// series is one figure over all rounds.
type series []float64

// median is the middle value, or the mean of the two in the middle.
func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// over divides round by round.
func (s series) over(base series) series {
	if len(base) != len(s) {
		return nil
	}
	ratio := make(series, len(s))
	for i := range s {
		ratio[i] = s[i] / base[i]
	}
	return ratio
}

// minus subtracts round by round.
func (s series) minus(base series) series {
	if len(base) != len(s) {
		return nil
	}
	difference := make(series, len(s))
	for i := range s {
		difference[i] = s[i] - base[i]
	}
	return difference
}

// spread shows the median and, in brackets, the least and the most; "–" where there is none.
func (s series) spread() string {
	if len(s) < 2 {
		return s.middle() // nothing to spread
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.median()), number(slices.Min(s)), number(slices.Max(s)))
}

// middle shows the median alone.
func (s series) middle() string {
	if len(s) == 0 {
		return "–"
	}
	return number(s.median())
}

// number shows three digits or all whole ones, thousands apart: more would pretend to a precision that is not there.
func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "–"
	case v < 0:
		return "-" + number(-v)
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

// count shows a number of things.
func count(n int) string { return grouped(strconv.Itoa(n)) }

// grouped sets thousands apart.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
