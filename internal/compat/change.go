// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Kind is the kind of a change.
type Kind string

// The kinds of changes. Whether a change is breaking is a property of the change: a tighter bound breaks an input only.
const (
	// RemovedTool means that the tool was removed.
	RemovedTool Kind = "removed_tool"
	// AddedTool means that the tool is new.
	AddedTool Kind = "added_tool"
	// Renamed means that the tool has another of the names derived from its service's Service suffix and version. It is
	// breaking if the old name now means another tool, or none.
	Renamed Kind = "renamed_tool"
	// AddedRequiredParameter means that a parameter, new or not, is now required.
	AddedRequiredParameter Kind = "added_required_parameter"
	// AddedOptionalParameter means that a parameter is newly accepted, but not required.
	AddedOptionalParameter Kind = "added_optional_parameter"
	// RemovedParameter means that a parameter, or one of its names, is no longer accepted.
	RemovedParameter Kind = "removed_parameter"
	// ChangedType means that a parameter takes values of another type.
	ChangedType Kind = "changed_type"
	// Narrowed means that fewer values are allowed: an enum value was removed, or a bound is tighter.
	Narrowed Kind = "narrowed"
	// Widened means that more values are allowed.
	Widened Kind = "widened"
	// IncompatibleOutput means that an output field was removed, became optional or has another type.
	IncompatibleOutput Kind = "incompatible_output"
	// AddedOutputField means that the output has one more field.
	AddedOutputField Kind = "added_output_field"
	// Changed means a difference that cannot be interpreted, or more differences than a caller wants to read.
	Changed Kind = "changed"
	// Destructive means that the destructive mark changed, which makes the gate hold the tool back.
	Destructive Kind = "destructive"
	// Hint means that one of MCP's annotations changed.
	Hint Kind = "hint"
	// Deprecated means that the tool or a field was deprecated, or no longer is.
	Deprecated Kind = "deprecated"
	// Version means that the tool's version changed.
	Version Kind = "version"
	// Text means that a title or a description changed.
	Text Kind = "text"
	// Detail means that other metadata changed: module, cache_ttl, or the default of a parameter.
	Detail Kind = "metadata"
)

// Change is one difference between two catalogs.
type Change struct {
	Tool string `json:"tool"`
	// Path is a JSON Pointer into the tool's new entry, or into the old one for something that was removed. References are
	// resolved: it names the place that really contains the schema.
	Path string `json:"path"`
	// Field is the path in readable form, as in "order.lines[].weightKg"; "" for the whole.
	Field    string `json:"field,omitempty"`
	Kind     Kind   `json:"kind"`
	Breaking bool   `json:"breaking"`
	// Message says what changed. Action says what a caller has to do about it, if anything.
	Message string `json:"message"`
	Action  string `json:"action,omitempty"`
}

// side is the half of a tool that a change is in: "input", "output" or "".
func (c Change) side() string {
	switch {
	case strings.HasPrefix(c.Path, "/inputSchema"), strings.HasPrefix(c.Path, "/canonicalInputSchema"):
		return "input"
	case strings.HasPrefix(c.Path, "/outputSchema"), strings.HasPrefix(c.Path, "/canonicalOutputSchema"):
		return "output"
	}
	return ""
}

// Where returns the place in readable form: "input order.weightKg", "output", or "" for the tool as a whole.
func (c Change) Where() string { return strings.TrimSpace(c.side() + " " + c.Field) }

// HasBreaking reports whether one of the changes is breaking.
func HasBreaking(changes []Change) bool {
	return slices.ContainsFunc(changes, isBreaking)
}

// sortChanges puts breaking ones first, then goes by tool and place.
func sortChanges(changes []Change) {
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(
			-cmp.Compare(boolRank(a.Breaking), boolRank(b.Breaking)),
			cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Message, b.Message),
		)
	})
}

func boolRank(b bool) int {
	if b {
		return 1
	}
	return 0
}

// maxShown is the longest value or name in a message, in runes: a line on a terminal.
const maxShown = 80

// readable shows a name or value that somebody else chose: short, and without what would move a terminal's cursor.
func readable(s string) string {
	if runes := []rune(s); len(runes) > maxShown {
		s = string(runes[:maxShown-1]) + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
