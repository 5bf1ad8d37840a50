// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"iter"
	"slices"
)

// maxAttempts bounds the search for a smaller document.
const maxAttempts = 400

// minimize takes members and elements out of a document, and puts one of its values in its place, for as long as the
// document still shows what it showed.
func minimize(root any, shows func(any) bool) any {
	attempts := 0
	for {
		smaller, ok := any(nil), false
		for candidate := range candidates(root) {
			if attempts++; attempts > maxAttempts {
				return root
			}
			if shows(candidate) {
				smaller, ok = candidate, true
				break
			}
		}
		if !ok {
			return root
		}
		root = smaller
	}
}

// candidates are the documents that are one step smaller: without one member or element, or with a smaller value in one.
func candidates(v any) iter.Seq[any] {
	return func(yield func(any) bool) {
		switch v := v.(type) {
		case object:
			step(yield, len(v), func(i int) any { return v.without(i) }, func(i int) any { return v[i].value }, func(i int, below any) any {
				changed := slices.Clone(v)
				changed[i].value = below
				return changed
			})
		case []any:
			step(yield, len(v), func(i int) any { return slices.Concat(v[:i], v[i+1:]) }, func(i int) any { return v[i] }, func(i int, below any) any {
				changed := slices.Clone(v)
				changed[i] = below
				return changed
			})
		}
	}
}

// step yields the candidates of a container of n values.
func step(yield func(any) bool, n int, without, value func(i int) any, with func(i int, below any) any) {
	for i := range n {
		if !yield(without(i)) {
			return
		}
	}
	for i := range n {
		for below := range candidates(value(i)) {
			if !yield(with(i, below)) {
				return
			}
		}
	}
}
