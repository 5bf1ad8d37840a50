// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// changeKind is the kind of a change.
type changeKind string

// The kinds of changes. Whether a change is breaking is a property of the change: a tighter bound breaks an input only.
const (
	// kindRemovedTool means that the tool was removed.
	kindRemovedTool changeKind = "removed_tool"
	// kindAddedTool means that the tool is new.
	kindAddedTool changeKind = "added_tool"
	// kindRenamed means that the tool has another of the names derived from its service's Service suffix and version. It is
	// breaking if the old name now means another tool, or none.
	kindRenamed changeKind = "renamed_tool"
	// kindAddedRequiredParameter means that a parameter, new or not, is now required.
	kindAddedRequiredParameter changeKind = "added_required_parameter"
	// kindAddedOptionalParameter means that a parameter is newly accepted, but not required.
	kindAddedOptionalParameter changeKind = "added_optional_parameter"
	// kindRemovedParameter means that a parameter, or one of its names, is no longer accepted.
	kindRemovedParameter changeKind = "removed_parameter"
	// kindChangedType means that a parameter takes values of another type.
	kindChangedType changeKind = "changed_type"
	// kindNarrowed means that fewer values are allowed: an enum value was removed, or a bound is tighter.
	kindNarrowed changeKind = "narrowed"
	// kindWidened means that more values are allowed.
	kindWidened changeKind = "widened"
	// kindIncompatibleOutput means that an output field was removed, became optional or has another type.
	kindIncompatibleOutput changeKind = "incompatible_output"
	// kindAddedOutputField means that the output has one more field.
	kindAddedOutputField changeKind = "added_output_field"
	// kindChanged means a difference that is not plain, or more differences than a caller wants to read.
	kindChanged changeKind = "changed"
	// kindDestructive means that the destructive mark changed, which makes the gate hold the tool back.
	kindDestructive changeKind = "destructive"
	// kindHint means that one of MCP's annotations changed.
	kindHint changeKind = "hint"
	// kindDeprecated means that the tool or a field was deprecated, or no longer is.
	kindDeprecated changeKind = "deprecated"
	// kindVersion means that the tool's version changed.
	kindVersion changeKind = "version"
	// kindText means that a title or a description changed.
	kindText changeKind = "text"
	// kindDetail means that other metadata changed: module, cache_ttl, or the default of a parameter.
	kindDetail changeKind = "metadata"
)

// Change is one difference between two catalogs.
type Change struct {
	Tool string `json:"tool"`
	// Path is a JSON Pointer into the tool's new entry, or into the old one for something that was removed. References are
	// resolved: it names the place that really contains the schema.
	Path string `json:"path"`
	// Field is the path in readable form, as in "order.lines[].weightKg"; "" for the whole.
	Field    string     `json:"field,omitempty"`
	Kind     changeKind `json:"kind"`
	Breaking bool       `json:"breaking"`
	// Unclear means that it may break: what changed is not plain.
	Unclear bool `json:"unclear,omitempty"`
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

// alarm is 2 for what breaks, 1 for what may break, and 0 for the rest.
func (c Change) alarm() int {
	switch {
	case c.Breaking:
		return 2
	case c.Unclear:
		return 1
	}
	return 0
}

// sortChanges puts breaking ones first and those that may break next, then goes by tool and place.
func sortChanges(changes []Change) {
	slices.SortStableFunc(changes, func(a, b Change) int {
		return cmp.Or(
			cmp.Compare(b.alarm(), a.alarm()),
			cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Message, b.Message),
		)
	})
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

// report notes a difference at a place of the new schema, or of the old one for what is gone.
func (c *comparer) report(at place, where string, about aspect, e effect, message string) {
	change := Change{Tool: c.tool, Path: c.prefix + at.at, Message: message}
	if where != "" {
		change.Field = readable(where)
	}
	switch about {
	case aboutText:
		change.Kind = kindText
	case aboutDefault:
		change.Kind, change.Action = kindDetail, "Where you rely on the default, send the value."
	case aboutDeprecated:
		change.Kind = kindDeprecated
	case aboutUnclear:
		change.Kind, change.Unclear, change.Action = kindChanged, true, "Read the new schema, and adapt the call."
		if c.isOutput {
			change.Action = "Read the new schema, and adapt what reads the result."
		}
	default:
		if c.isOutput {
			change.classifyOutput(about, e)
		} else {
			change.classifyInput(about, e)
		}
	}
	// cut shortens the list, and says so. It keeps what is alarming, so that is what may not be crowded out here.
	isAlarming := change.alarm() > 0
	if c.alarming > c.limits.MaxChanges || !isAlarming && len(c.changes)-c.alarming > c.limits.MaxChanges {
		return
	}
	if isAlarming {
		c.alarming++
	}
	c.changes = append(c.changes, change)
}

// classifyInput: whatever callers send today must be accepted tomorrow.
func (c *Change) classifyInput(about aspect, e effect) {
	c.Breaking = e&narrows != 0
	switch {
	case about == aboutRemoved:
		c.Kind, c.Action = kindRemovedParameter, "Stop sending it under this name; a call with it is refused."
	case about == aboutAdded:
		c.Kind = kindAddedOptionalParameter
	case about == aboutMust:
		c.Kind, c.Action = kindAddedRequiredParameter, "Send it with every call."
	case !c.Breaking:
		c.Kind = kindWidened
	case about == aboutType:
		c.Kind, c.Action = kindChangedType, "Send a value of the new type."
	default:
		c.Kind, c.Action = kindNarrowed, "Check what you send against the new rule."
	}
}

// classifyOutput: whatever callers read today must be there tomorrow, in the same form.
func (c *Change) classifyOutput(about aspect, e effect) {
	switch {
	case about == aboutRemoved:
		c.Kind, c.Breaking, c.Action = kindIncompatibleOutput, true, "Stop reading it; it is no longer there."
	case about == aboutMay:
		c.Kind, c.Breaking, c.Action = kindIncompatibleOutput, true, "Be ready for a result without it."
	case about == aboutAdded:
		c.Kind = kindAddedOutputField
	case about == aboutType && e&widens != 0:
		c.Kind, c.Breaking, c.Action = kindIncompatibleOutput, true, "Adapt what reads it."
	case e&widens != 0:
		c.Kind, c.Action = kindWidened, "Be ready for values that were not possible before."
	default:
		c.Kind = kindNarrowed
	}
}
