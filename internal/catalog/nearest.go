// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// nearestInput bounds the part of an unknown name that is compared: twice the longest name in MCP form, so that a
	// name with a prefix still finds its tool, while a name of a megabyte costs no more than one of 128 bytes.
	nearestInput = 2 * mcpNameLimit
	// nearestShare is the part of a name that may differ before it is another name altogether: one character in three.
	nearestShare = 3
)

// Nearest returns the canonical names of at most n listed tools with names similar to the given one, nearest first, ties
// by name. It returns none if nothing is similar. It compares both forms and ignores case. A name that matches the end of
// a tool's name (the caller left out the service) counts as similar. The time is bounded by the number of tools,
// whatever the name is.
func (c *Catalog) Nearest(name string, n int) []string { return nearestOf(c.Tools(), name, n) }

// nearestOf is Nearest among some tools.
func nearestOf(tools []*Tool, name string, n int) []string {
	if n <= 0 || name == "" {
		return nil
	}
	if len(name) > nearestInput {
		name = name[:nearestInput]
	}
	asked := flatName(name)
	type candidate struct {
		name     string
		distance int
	}
	var found []candidate
	var rows editRows
	for _, t := range tools {
		d, near := rows.near(asked, strings.ReplaceAll(t.Name, ".", "_"))
		if t.Native {
			// Its name in MCP is no form of the canonical one.
			if other, isNearer := rows.near(asked, flatName(t.MCPName)); isNearer && (!near || other < d) {
				d, near = other, true
			}
		}
		if near {
			found = append(found, candidate{t.Name, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	out := make([]string, 0, min(n, len(found)))
	for _, f := range found[:min(n, len(found))] {
		out = append(out, f.name)
	}
	return out
}

// flatName makes names comparable across forms, spellings and cases: GetFeature, get-feature and get.feature meet.
func flatName(name string) string {
	if strings.ContainsAny(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		name = snakeCase(name)
	}
	return strings.NewReplacer(".", "_", "-", "_", "/", "_", ":", "_").Replace(name)
}

// isTail reports whether the one name is the other one's last words, as get_feature is of route_guide_get_feature.
func isTail(asked, known string) bool {
	return strings.HasSuffix(known, "_"+asked) || strings.HasSuffix(asked, "_"+known)
}

// editRows is the working memory of distance, reused from name to name.
type editRows struct{ before, last, next []int }

// near is how far a known name is from the one that was asked for, and whether that is near.
func (r *editRows) near(asked, known string) (int, bool) {
	if len(known) > nearestInput {
		known = known[:nearestInput]
	}
	most := max(len(asked), len(known)) / nearestShare
	d, near := r.distance(asked, known, most)
	if !near && isTail(asked, known) {
		d, near = most+1, true
	}
	return d, near
}

// distance is the number of insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal
// string alignment), and whether it is at most the given bound. It gives up as soon as it cannot be.
func (r *editRows) distance(a, b string, most int) (int, bool) {
	if len(a)-len(b) > most || len(b)-len(a) > most {
		return 0, false
	}
	width := len(b) + 1
	if cap(r.last) < width {
		r.before, r.last, r.next = make([]int, width), make([]int, width), make([]int, width)
	}
	before, last, next := r.before[:width], r.last[:width], r.next[:width]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		least := i
		for j := 1; j < width; j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			best := min(last[j]+1, next[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, before[j-2]+1)
			}
			next[j] = best
			least = min(least, best)
		}
		if least > most {
			return 0, false
		}
		before, last, next = last, next, before
	}
	return last[width-1], last[width-1] <= most
}
