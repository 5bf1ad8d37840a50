// SPDX-License-Identifier: Apache-2.0

package dialect

import "strings"

// SameValue is the one value of a header that has no commas: lines that say the same, or are merged into a list of the same,
// are one. Where they differ it is the first; without a line it is empty.
func SameValue(values []string) (value string, isOne bool) {
	if len(values) == 1 && strings.IndexByte(values[0], ',') < 0 {
		return values[0], true // nearly all
	}
	isOne = true
	isFirst := true
	for _, line := range values {
		for part := range strings.SplitSeq(line, ",") {
			part = strings.Trim(part, " \t")
			if isFirst {
				value, isFirst = part, false
			}
			isOne = isOne && part == value
		}
	}
	return value, isOne
}

// unmerged returns a value once that a proxy has merged with itself. It is for headers whose values may have commas: it is
// tried where the value as it came is not the right one.
func unmerged(value string) string {
	if strings.IndexByte(value, ',') < 0 {
		return value
	}
	for n := 2; n <= maxMerged; n++ {
		one := strings.Trim(value[:len(value)/n], ", \t")
		if one != "" && isRepeated(value, one, n) {
			return one
		}
	}
	return value
}

// maxMerged is how many lines of the same a value may be merged of.
const maxMerged = 4

// isRepeated reports whether a value is a list of n times one.
func isRepeated(value, one string, n int) bool {
	for i := range n {
		rest, ok := strings.CutPrefix(strings.TrimLeft(value, " \t"), one)
		if !ok {
			return false
		}
		if value = strings.TrimLeft(rest, " \t"); i == n-1 {
			return value == ""
		}
		if value, ok = strings.CutPrefix(value, ","); !ok {
			return false
		}
	}
	return false
}
