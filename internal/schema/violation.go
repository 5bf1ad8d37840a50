// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Violation is one problem of a document. The members are part of what callers get. Programs should read Path and
// Keyword, since the text of Message may change.
type Violation struct {
	// Path is the JSON Pointer (RFC 6901) of the value; for an unknown, repeated or missing member it names that member.
	Path string `json:"path"`
	// Keyword is the JSON Schema keyword that the value violates, or one of the keywords of Inspect.
	Keyword string `json:"keyword"`
	// Message says what was expected and what was found.
	Message string `json:"message"`
}

// AppendPointer appends one reference token, a member name or an index, to a JSON Pointer, escaped as RFC 6901 requires.
// The pointer to the whole document is "".
func AppendPointer(pointer, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return pointer + "/" + token
}

// SortViolations sorts violations by path, keyword and message, drops duplicates and keeps at most limit of them. Numbers
// in paths compare as numbers, so that /items/2 comes before /items/10. A limit of zero or less keeps all. It modifies
// the given slice.
func SortViolations(vs []Violation, limit int) []Violation {
	slices.SortFunc(vs, func(a, b Violation) int {
		return cmp.Or(comparePointers(a.Path, b.Path), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	vs = slices.Compact(vs)
	if limit > 0 && len(vs) > limit {
		vs = vs[:limit]
	}
	return vs
}

func comparePointers(a, b string) int {
	for {
		if a == b {
			return 0
		}
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		if c := compareTokens(x, y); c != 0 {
			return c
		}
		if a == "" || b == "" {
			return cmp.Compare(len(a), len(b))
		}
	}
}

func compareTokens(x, y string) int {
	i, errX := strconv.Atoi(x)
	j, errY := strconv.Atoi(y)
	if errX == nil && errY == nil && i != j {
		return cmp.Compare(i, j)
	}
	return cmp.Compare(x, y)
}
