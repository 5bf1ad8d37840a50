// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math/bits"
	"slices"
	"strings"
)

const (
	// maxSimilar bounds the terms that one mistyped word may mean.
	maxSimilar = 6
	// twoTypos is the number of letters from which a word may have two errors, oneTypo that for one error.
	oneTypo, twoTypos = 4, 8
	// minPrefix is the number of letters from which a word may be the beginning of another.
	minPrefix = 4
)

// lettersOf is the set of a word's letters. Two words that differ by n errors differ by at most 2n letters.
func lettersOf(word string) uint64 {
	var out uint64
	for i := range len(word) {
		out |= 1 << (word[i] & 63)
	}
	return out
}

// similar are the terms that a word may be a mistyped form of, or the beginning of.
func (x *Index) similar(word string) []weighed {
	most := 0
	switch {
	case len(word) >= twoTypos:
		most = 2
	case len(word) >= oneTypo:
		most = 1
	}
	if most == 0 {
		return nil
	}
	var out []weighed
	letters := lettersOf(word)
	for id, term := range x.spelled {
		if len(word) >= minPrefix && len(term) > len(word) && strings.HasPrefix(term, word) {
			out = append(out, weighed{term: int32(id), weight: prefixWeight})
			continue
		}
		if abs(len(term)-len(word)) > most || term == "" || bits.OnesCount64(letters^x.letters[id]) > 2*most {
			continue
		}
		switch distance(word, term, most) {
		case 1:
			out = append(out, weighed{term: int32(id), weight: oneTypoWeight})
		case 2:
			if most == 2 {
				out = append(out, weighed{term: int32(id), weight: twoTyposWeight})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b weighed) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return strings.Compare(x.spelled[a.term], x.spelled[b.term])
	})
	return out[:min(len(out), maxSimilar)]
}

func abs(n int) int { return max(n, -n) }

// distance is the number of errors between two words: letters that are missing, extra, wrong, or exchanged with the next
// one. It is at least most+1 if there are more than that. Words are at most maxWord bytes long.
func distance(a, b string, most int) int {
	if len(a) > maxWord || len(b) > maxWord {
		return most + 1
	}
	var rows [3][maxWord + 1]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		least := i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
			least = min(least, row[j])
		}
		if least > most {
			return most + 1
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
