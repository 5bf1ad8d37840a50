// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/json"
	"fmt"
)

// diff says what changed from one list of tools to another, breaking changes first, then by tool and place. The lists
// are aligned, and changes has what aligning them found. The same lists give the same changes. Names must be unique in
// each list, as they are in what ReadTools and FromCatalog return.
func diff(before, after []Tool, changes []Change, l Limits) []Change {
	l = l.withDefaults()
	was := make(map[string]Tool, len(before))
	for _, t := range before {
		was[t.Name] = t
	}
	is := make(map[string]bool, len(after))
	for _, t := range after {
		is[t.Name] = true
		old, ok := was[t.Name]
		if !ok {
			changes = append(changes, Change{Tool: t.Name, Kind: AddedTool, Message: "the tool is new"})
			continue
		}
		changes = append(changes, cut(diffTool(old, t, l), t.Name, l.MaxChanges)...)
	}
	for _, t := range before {
		if !is[t.Name] {
			changes = append(changes, Change{
				Tool: t.Name, Kind: RemovedTool, Breaking: true, Message: "the tool was removed", Action: "Stop calling it.",
			})
		}
	}
	sortChanges(changes)
	return changes
}

// cut shortens the changes of one tool, and says so.
func cut(changes []Change, tool string, most int) []Change {
	if len(changes) <= most {
		return changes
	}
	sortChanges(changes)
	rest := changes[most:]
	more := Change{Tool: tool, Kind: Changed, Breaking: HasBreaking(rest), Message: "there are more changes than are listed"}
	if more.Breaking {
		more.Action = "Read both versions of the tool."
	}
	return append(changes[:most:most], more)
}

// diffTool compares the two versions of a tool.
func diffTool(before, after Tool, l Limits) []Change {
	d := &toolDiff{tool: after.Name}
	d.facts(before, after)
	inputs, input := [2]json.RawMessage{before.CanonicalInputSchema, after.CanonicalInputSchema}, "canonicalInputSchema"
	if inputs[0] == nil || inputs[1] == nil {
		inputs, input = [2]json.RawMessage{before.InputSchema, after.InputSchema}, "inputSchema"
	}
	outputs, output := [2]json.RawMessage{before.CanonicalOutputSchema, after.CanonicalOutputSchema}, "canonicalOutputSchema"
	if outputs[0] == nil || outputs[1] == nil {
		outputs, output = [2]json.RawMessage{before.OutputSchema, after.OutputSchema}, "outputSchema"
	}
	d.changes = append(d.changes, compareSchemas(after.Name, input, false, inputs[0], inputs[1], l)...)
	return append(d.changes, d.outputs(output, outputs[0], outputs[1], l)...)
}

// toolDiff gathers the changes of one tool outside of its schemas.
type toolDiff struct {
	tool    string
	changes []Change
}

func (d *toolDiff) add(path string, kind Kind, breaking bool, action, format string, args ...any) {
	d.changes = append(d.changes, Change{
		Tool: d.tool, Path: path, Kind: kind, Breaking: breaking, Action: action, Message: fmt.Sprintf(format, args...),
	})
}

// outputs compares output schemas, which a tool need not have.
func (d *toolDiff) outputs(member string, before, after json.RawMessage, l Limits) []Change {
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		return []Change{{Tool: d.tool, Path: "/" + member, Kind: AddedOutputField, Message: "the output has a schema now"}}
	case after == nil:
		return []Change{{
			Tool: d.tool, Path: "/" + member, Kind: IncompatibleOutput, Breaking: true,
			Message: "the output has no schema any more", Action: "Do not rely on the form of the result.",
		}}
	}
	return compareSchemas(d.tool, member, true, before, after, l)
}

// facts compares what is said of a tool beside its schemas.
func (d *toolDiff) facts(before, after Tool) {
	if before.Title != after.Title {
		d.add("/title", Text, false, "", "the title was %q, and is %q", readable(before.Title), readable(after.Title))
	}
	if before.Description != after.Description {
		d.add("/description", Text, false, "", "the description differs")
	}
	if before.Version != after.Version {
		d.add("/version", Version, false, "", "the version was %s, and is %s", orNone(before.Version), orNone(after.Version))
	}
	switch {
	case !before.Metadata.Destructive && after.Metadata.Destructive:
		d.add("/metadata/destructive", Destructive, true, "Only trusted callers can call it; ask the operator.", "the tool is marked destructive")
	case before.Metadata.Destructive && !after.Metadata.Destructive:
		d.add("/metadata/destructive", Destructive, false, "", "the tool is no longer marked destructive")
	}
	d.deprecation(before.Metadata.DeprecatedIn, after.Metadata.DeprecatedIn)
	if before.Metadata.Module != after.Metadata.Module {
		d.add("/metadata/module", Detail, false, "", "the module was %s, and is %s", orNone(before.Metadata.Module), orNone(after.Metadata.Module))
	}
	if before.Metadata.CacheTTL != after.Metadata.CacheTTL {
		d.add("/metadata/cache_ttl", Detail, false, "", "cache_ttl was %d s, and is %d s", before.Metadata.CacheTTL, after.Metadata.CacheTTL)
	}
	d.hints(before.Annotations, after.Annotations)
}

func (d *toolDiff) deprecation(before, after *string) {
	switch {
	case before == nil && after == nil:
	case after == nil:
		d.add("/metadata/deprecated_in", Deprecated, false, "", "the tool is no longer deprecated")
	case before == nil:
		d.add("/metadata/deprecated_in", Deprecated, false, "Plan to do without it.", "the tool is deprecated%s", since(*after))
	case *before != *after:
		d.add("/metadata/deprecated_in", Deprecated, false, "", "the tool is deprecated%s", since(*after))
	}
}

func since(version string) string {
	if version == "" || version == "unknown" {
		return ""
	}
	return " since " + readable(version)
}

// hints compares MCP's annotations. They are hints, so none is breaking; the ones that made a call look harmless and
// are gone say what to check.
func (d *toolDiff) hints(before, after Annotations) {
	for _, h := range [...]struct {
		name          string
		before, after *bool
		lost          string
	}{
		{"readOnlyHint", before.ReadOnly, after.ReadOnly, "Check whether it may run unasked."},
		{"destructiveHint", before.Destructive, after.Destructive, ""},
		{"idempotentHint", before.Idempotent, after.Idempotent, "Check whether you repeat it after an error."},
		{"openWorldHint", before.OpenWorld, after.OpenWorld, ""},
	} {
		was, is := shownHint(h.before), shownHint(h.after)
		if was == is {
			continue
		}
		action := ""
		if was == "true" {
			action = h.lost
		}
		d.add("/annotations/"+h.name, Hint, false, action, "the hint %s was %s, and is %s", h.name, was, is)
	}
}

func shownHint(b *bool) string {
	if b == nil {
		return "not said"
	}
	return fmt.Sprint(*b)
}

// summary counts changes for people.
func summary(changes []Change) string {
	tools, breaking := map[string]bool{}, 0
	for _, c := range changes {
		tools[c.Tool] = true
		breaking += boolRank(c.Breaking)
	}
	if len(changes) == 0 {
		return "no differences"
	}
	return fmt.Sprintf("%d %s in %d %s, %d breaking", len(changes), plural(len(changes), "change", "changes"),
		len(tools), plural(len(tools), "tool", "tools"), breaking)
}
