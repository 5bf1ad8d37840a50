// SPDX-License-Identifier: Apache-2.0

package event

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxPatterns is the maximum number of patterns in one filter, as EventFilter.methods of
// the contract outrigger.v1 allows. Every publisher pays for them.
const MaxPatterns = 256

// Filter selects events. The zero value selects all events.
type Filter struct {
	// Methods are patterns in which * matches any run of characters, including an empty
	// one. Every other character matches itself, and case matters. An event passes if a
	// pattern matches its whole method.
	Methods []string
}

// FilterError says why a filter is invalid.
type FilterError struct {
	// Index is the index of the pattern, or -1 if there are too many.
	Index  int
	Reason string
}

// Error implements error.
func (e *FilterError) Error() string {
	if e.Index < 0 {
		return "event: filter: " + e.Reason
	}
	return fmt.Sprintf("event: filter: pattern %d: %s", e.Index, e.Reason)
}

// matcher is a compiled filter. Immutable.
type matcher struct {
	// text is the same for filters that let the same patterns through.
	text string
	all  bool
	// exact are the patterns without a star, in order.
	exact []string
	globs []glob
}

// glob is a pattern with at least one star.
type glob struct {
	prefix, suffix string
	// middle are the runs between the stars, none empty.
	middle []string
}

func compile(f Filter) (*matcher, error) {
	if len(f.Methods) == 0 {
		return &matcher{all: true}, nil
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	m := &matcher{}
	for _, pattern := range m.own(f.Methods) {
		parts := strings.Split(pattern, "*")
		last := len(parts) - 1
		if last == 0 {
			m.exact = append(m.exact, pattern)
			continue
		}
		g := glob{prefix: parts[0], suffix: parts[last]}
		for _, part := range parts[1:last] {
			if part != "" {
				g.middle = append(g.middle, part)
			}
		}
		m.all = m.all || g.prefix == "" && g.suffix == "" && len(g.middle) == 0
		m.globs = append(m.globs, g)
	}
	m.exact, m.globs = slices.Clip(m.exact), slices.Clip(m.globs)
	return m, nil
}

// Matcher returns whether an event of a method passes. The error is a *[FilterError].
func (f Filter) Matcher() (func(method string) bool, error) {
	m, err := compile(f)
	if err != nil {
		return nil, err
	}
	return m.fits, nil
}

func (f *Filter) check() error {
	if len(f.Methods) > MaxPatterns {
		return &FilterError{Index: -1, Reason: fmt.Sprintf("%d patterns, over the limit of %d", len(f.Methods), MaxPatterns)}
	}
	for i, pattern := range f.Methods {
		switch {
		case pattern == "":
			return &FilterError{Index: i, Reason: "it is empty and would fit nothing"}
		case len(pattern) > MaxMethodBytes:
			return &FilterError{Index: i, Reason: fmt.Sprintf("%d bytes, over the limit of %d", len(pattern), MaxMethodBytes)}
		}
	}
	return nil
}

// own returns the patterns in order and each once, as parts of the matcher's text:
// they keep nothing else alive. The text has the length of each pattern before it, so
// that no two lists have the same.
func (m *matcher) own(patterns []string) []string {
	patterns = slices.Compact(slices.Sorted(slices.Values(patterns)))
	var text []byte
	for _, pattern := range patterns {
		text = strconv.AppendInt(text, int64(len(pattern)), 10)
		text = append(append(text, ':'), pattern...)
	}
	m.text = string(text)
	rest := m.text
	for i, pattern := range patterns {
		_, rest, _ = strings.Cut(rest, ":")
		patterns[i], rest = rest[:len(pattern)], rest[len(pattern):]
	}
	return patterns
}

func (m *matcher) fits(method string) bool {
	if m.all {
		return true
	}
	if _, ok := slices.BinarySearch(m.exact, method); ok {
		return true
	}
	for i := range m.globs {
		if m.globs[i].fits(method) {
			return true
		}
	}
	return false
}

// fits takes each run at its first place, which is never wrong where stars
// admit anything, and needs no going back: a hostile pattern costs no more than
// a long one.
func (g *glob) fits(method string) bool {
	rest, ok := strings.CutPrefix(method, g.prefix)
	if !ok {
		return false
	}
	if rest, ok = strings.CutSuffix(rest, g.suffix); !ok {
		return false
	}
	for _, part := range g.middle {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}
