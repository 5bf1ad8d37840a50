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

// Fault is one error in the configuration.
type Fault struct {
	// Source is the file's name, a flag ("--timeout"), or an environment
	// variable. It is empty if the fault is a missing value.
	Source string
	// Path is the field, such as "tools[3].method". It is empty for a fault of
	// the file as a whole.
	Path string
	// Line and Column count from 1. They are 0 for sources other than a file.
	Line, Column int
	// Message says what is wrong and, where possible, what to do.
	Message string
}

// String formats the fault on one line, as compilers do.
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

// Error is the error of an invalid configuration.
type Error struct {
	// Faults are all faults found: first those of the file by line, then those of
	// the environment, of flags, and missing values. There is at least one, and there
	// are at most 100.
	Faults []Fault
	// Omitted is the number of faults beyond that limit.
	Omitted int
}

// Error formats the faults, one per line.
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
	case strings.HasPrefix(f.Source, envPrefix), isVariable(f.Source):
		return 1
	default:
		return 0
	}
}
