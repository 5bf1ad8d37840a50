// SPDX-License-Identifier: Apache-2.0

package compat

// report notes a difference at a place of the new schema, or of the old one for what is gone.
func (c *comparer) report(at place, where string, about aspect, e effect, message string) {
	change := Change{Tool: c.tool, Path: c.prefix + at.at, Field: readable(where), Message: message}
	if where == "" {
		change.Field = ""
	}
	if c.isOutput {
		change.classifyOutput(about, e)
	} else {
		change.classifyInput(about, e)
	}
	if change.Breaking && change.Action == "" {
		change.Action = "Read the new schema, and adapt the call."
	}
	// diff cuts the list, and says so. It keeps what breaks, so that is what may not be crowded out here.
	if c.breaking > c.limits.MaxChanges || !change.Breaking && len(c.changes)-c.breaking > c.limits.MaxChanges {
		return
	}
	c.breaking += boolRank(change.Breaking)
	c.changes = append(c.changes, change)
}

// classifyInput: whatever callers send today must be accepted tomorrow.
func (c *Change) classifyInput(about aspect, e effect) {
	if c.classifyNotes(about) {
		return
	}
	c.Breaking = e&narrows != 0
	switch {
	case about == aboutUnknown:
		c.Kind = Changed
	case about == aboutRemoved:
		c.Kind, c.Action = RemovedParameter, "Stop sending it under this name; a call with it is refused."
	case about == aboutAdded:
		c.Kind = AddedOptionalParameter
	case about == aboutMust:
		c.Kind, c.Action = AddedRequiredParameter, "Send it with every call."
	case about == aboutOneMust:
		c.Kind, c.Action = AddedRequiredParameter, "Send one of them with every call."
	case !c.Breaking:
		c.Kind = Widened
	case about == aboutType:
		c.Kind, c.Action = ChangedType, "Send a value of the new type."
	default:
		c.Kind, c.Action = Narrowed, "Check what you send against the new rule."
	}
}

// classifyOutput: whatever callers read today must be there tomorrow, in the same form.
func (c *Change) classifyOutput(about aspect, e effect) {
	if c.classifyNotes(about) {
		return
	}
	switch {
	case about == aboutUnknown:
		c.Kind, c.Breaking = Changed, true
		c.Action = "Read the new schema, and adapt what reads the result."
	case about == aboutRemoved:
		c.Kind, c.Breaking = IncompatibleOutput, true
		c.Action = "Stop reading it; it is no longer there."
	case about == aboutMay:
		c.Kind, c.Breaking = IncompatibleOutput, true
		c.Action = "Be ready for a result without it."
	case about == aboutAdded:
		c.Kind = AddedOutputField
	case about == aboutType && e&widens != 0, e == narrows|widens:
		c.Kind, c.Breaking = IncompatibleOutput, true
		c.Action = "Adapt what reads it."
	case e&widens != 0:
		c.Kind, c.Action = Widened, "Be ready for values that were not possible before."
	default:
		c.Kind = Narrowed
	}
}

// classifyNotes takes what admits and refuses nothing.
func (c *Change) classifyNotes(about aspect) bool {
	switch about {
	case aboutText:
		c.Kind = Text
	case aboutDefault:
		c.Kind = Detail
		c.Action = "Where you rely on the default, send the value."
	case aboutDeprecated:
		c.Kind = Deprecated
	default:
		return false
	}
	return true
}
