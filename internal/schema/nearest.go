// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"strings"
)

// maxNearestLength bounds the work of Nearest: the names of fields are short, and an edit distance costs the product
// of both lengths.
const maxNearestLength = 64

// Nearest returns the known name that a writer most likely meant, or "" if none is close. It ignores case and
// underscores; otherwise at most a third of the letters may differ.
func Nearest(name string, known []string) string {
	if len(name) > maxNearestLength {
		return ""
	}
	folded := foldName(name)
	best, bestDistance := "", len(folded)/3+1
	for _, k := range known {
		if len(k) > maxNearestLength {
			continue
		}
		if d := editDistance(folded, foldName(k), bestDistance); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// nearestValue is Nearest for the values of an enum, which a writer may name without the prefix that all of them have: IDLE for
// VEHICLE_STATE_IDLE.
func nearestValue(name string, known []string) string {
	if near := Nearest(name, known); near != "" || len(known) == 0 {
		return near
	}
	prefix := known[0]
	for _, k := range known {
		for !strings.HasPrefix(k, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = prefix[:strings.LastIndexByte(prefix, '_')+1]
	short := make([]string, 0, len(known))
	for _, k := range known {
		short = append(short, k[len(prefix):])
	}
	if near := Nearest(name, short); near != "" {
		return prefix + near
	}
	return ""
}

func foldName(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "_", "")
}

// editDistance is Levenshtein's, given up where it must reach limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// unknownMember words the refusal of a member that is not known.
func unknownMember(name string, known []string) string {
	near := Nearest(name, known)
	if near == "" && len(known) == 0 {
		return fmt.Sprintf("wanted no members here, found unknown field %s", quote(name))
	}
	if near == "" {
		return fmt.Sprintf("wanted one of %s, found unknown field %s", list(known), quote(name))
	}
	return fmt.Sprintf("wanted a known field, found unknown field %s; did you mean %s?", quote(name), quote(near))
}

// maxListed is how many names a message shows: enough for most messages and enums, and still one line.
const maxListed = 12

func list(names []string) string {
	quoted := make([]string, 0, min(len(names), maxListed))
	for _, n := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, quote(n))
	}
	s := strings.Join(quoted, ", ")
	if more := len(names) - maxListed; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// maxQuoted bounds what a message repeats of the caller's own text.
const maxQuoted = 64

func quote(s string) string {
	r := []rune(s)
	if len(r) > maxQuoted {
		return fmt.Sprintf("%q... (%d characters)", string(r[:maxQuoted]), len(r))
	}
	return fmt.Sprintf("%q", s)
}
