// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Kind is what sort of change it is.
type Kind string

// The kinds of changes. Whether one is breaking is said by the change: a bound that is tighter breaks an input only.
const (
	// RemovedTool: the tool is gone.
	RemovedTool Kind = "removed_tool"
	// AddedTool: the tool is new.
	AddedTool Kind = "added_tool"
	// Renamed: the tool has another of the names that its service's Service suffix and version make. It breaks where the old
	// name means another tool now, or none.
	Renamed Kind = "renamed_tool"
	// AddedRequiredParameter: a parameter, new or not, has to be given now.
	AddedRequiredParameter Kind = "added_required_parameter"
	// AddedOptionalParameter: a parameter may be given now.
	AddedOptionalParameter Kind = "added_optional_parameter"
	// RemovedParameter: a parameter, or one of its names, is no longer accepted.
	RemovedParameter Kind = "removed_parameter"
	// ChangedType: a parameter takes values of another type.
	ChangedType Kind = "changed_type"
	// Narrowed: fewer values than before: an enum value is gone, a bound is tighter.
	Narrowed Kind = "narrowed"
	// Widened: more values than before.
	Widened Kind = "widened"
	// IncompatibleOutput: an output field is gone, optional or of another type.
	IncompatibleOutput Kind = "incompatible_output"
	// AddedOutputField: the output has one more field.
	AddedOutputField Kind = "added_output_field"
	// Changed: it differs in a way that is not understood, or in more than a caller wants to read.
	Changed Kind = "changed"
	// Destructive: the mark that makes the gate hold the tool back.
	Destructive Kind = "destructive"
	// Hint: one of MCP's annotations.
	Hint Kind = "hint"
	// Deprecated: the tool or a field is deprecated, or no longer is.
	Deprecated Kind = "deprecated"
	// Version: the tool's version.
	Version Kind = "version"
	// Text: a title or a description.
	Text Kind = "text"
	// Detail: other metadata: module, cache_ttl, the default of a parameter.
	Detail Kind = "metadata"
)

// Change is one difference between two catalogs.
type Change struct {
	Tool string `json:"tool"`
	// Path is a JSON Pointer into the tool's entry: the new one, or the old one for what is gone. Through references it
	// names the place where the schema really stands.
	Path string `json:"path"`
	// Field is the same for people, as in "order.lines[].weightKg"; "" for the whole.
	Field    string `json:"field,omitempty"`
	Kind     Kind   `json:"kind"`
	Breaking bool   `json:"breaking"`
	// Message says what changed, Action what a caller has to do about it, if anything.
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

// Where names the place for people: "input order.weightKg", "output", or "" for the tool as a whole.
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
