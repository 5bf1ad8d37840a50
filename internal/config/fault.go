// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxFaults bounds the faults of one Error. More than a hundred are a sign of
// the wrong file rather than of a hundred mistakes.
const maxFaults = 100

// Fault is one thing that is wrong with the configuration.
type Fault struct {
	// Source is the file's name, a flag ("--timeout"), or an environment
	// variable. It is empty when the fault is that something is missing.
	Source string
	// Path is the field, such as "tools[3].method". It is empty for a fault of
	// the file as a whole.
	Path string
	// Line and Column count from 1. They are 0 outside of a file.
	Line, Column int
	// Message says in words what is wrong, and where possible what to do.
	Message string
}

// String renders the fault in one line, as compilers do.
func (f Fault) String() string {
	var b strings.Builder
	if f.Source != "" {
		b.WriteString(f.Source)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
		}
		b.WriteString(": ")
	}
	// A flag or a variable is a name for its field already.
	if f.Path != "" && (f.Source == "" || f.Line > 0) {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Error is a configuration that cannot be used.
type Error struct {
	// Faults are all that was found: first those of the file by line, then those
	// of the environment, of flags, and what is missing. At least one, and at
	// most 100.
	Faults []Fault
	// Omitted is the number of faults above that bound.
	Omitted int
}

// Error renders one fault a line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Faults)+1)
	for _, f := range e.Faults {
		lines = append(lines, f.String())
	}
	if e.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.Omitted))
	}
	return strings.Join(lines, "\n")
}

// errorFromFaults sorts and bounds the faults. It keeps the order in which they
// were found where nothing else orders them.
func errorFromFaults(faults []Fault) *Error {
	sorted := slices.Clone(faults)
	slices.SortStableFunc(sorted, func(a, b Fault) int {
		return cmp.Or(
			cmp.Compare(a.rank(), b.rank()),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
	e := &Error{Faults: sorted}
	if len(sorted) > maxFaults {
		e.Faults, e.Omitted = sorted[:maxFaults], len(sorted)-maxFaults
	}
	return e
}

func (f Fault) rank() int {
	switch {
	case f.Source == "":
		return 3
	case strings.HasPrefix(f.Source, "--"):
		return 2
	case strings.HasPrefix(f.Source, envPrefix):
		return 1
	default:
		return 0
	}
}
