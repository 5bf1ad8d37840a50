// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// diffTools says what changed from one list of tools to another, breaking changes first, then by tool and place. The lists
// are aligned, and changes has what aligning them found. The same lists give the same changes. Names must be unique in
// each list, as they are in what ReadTools and FromCatalog return.
func diffTools(before, after []Tool, changes []Change, l DiffLimits) []Change {
	l = l.withDefaults()
	was, is := byName(before), byName(after)
	for _, t := range after {
		old, ok := was[t.Name]
		if !ok {
			changes = append(changes, Change{Tool: t.Name, Kind: kindAddedTool, Message: "the tool is new"})
			continue
		}
		changes = append(changes, cut(diffTool(old, t, l), t.Name, l.MaxChanges)...)
	}
	for _, t := range before {
		if _, ok := is[t.Name]; !ok {
			changes = append(changes, Change{
				Tool: t.Name, Kind: kindRemovedTool, Breaking: true, Message: "the tool was removed", Action: "Stop calling it.",
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
	// The worst comes first, so the first that is left out says what the rest may be.
	more := Change{
		Tool: tool, Kind: kindChanged, Breaking: changes[most].Breaking, Unclear: changes[most].Unclear,
		Message: "there are more changes than are listed",
	}
	if more.alarm() > 0 {
		more.Action = "Read both versions of the tool."
	}
	return append(changes[:most:most], more)
}

// diffTool compares the two versions of a tool.
func diffTool(before, after Tool, l DiffLimits) []Change {
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

func (d *toolDiff) add(path string, what changeKind, breaking bool, action, format string, args ...any) {
	d.changes = append(d.changes, Change{
		Tool: d.tool, Path: path, Kind: what, Breaking: breaking, Action: action, Message: fmt.Sprintf(format, args...),
	})
}

// outputs compares output schemas, which a tool need not have.
func (d *toolDiff) outputs(member string, before, after json.RawMessage, l DiffLimits) []Change {
	switch {
	case before == nil && after == nil:
		return nil
	case before == nil:
		return []Change{{Tool: d.tool, Path: "/" + member, Kind: kindAddedOutputField, Message: "the output has a schema now"}}
	case after == nil:
		return []Change{{
			Tool: d.tool, Path: "/" + member, Kind: kindIncompatibleOutput, Breaking: true,
			Message: "the output has no schema any more", Action: "Do not rely on the form of the result.",
		}}
	}
	return compareSchemas(d.tool, member, true, before, after, l)
}

// facts compares what is said of a tool beside its schemas.
func (d *toolDiff) facts(before, after Tool) {
	if before.Title != after.Title {
		d.add("/title", kindText, false, "", "the title was %q, and is %q", readable(before.Title), readable(after.Title))
	}
	if before.Description != after.Description {
		d.add("/description", kindText, false, "", "the description differs")
	}
	if before.Version != after.Version {
		d.add("/version", kindVersion, false, "", "the version was %s, and is %s", orNone(before.Version), orNone(after.Version))
	}
	switch {
	case !before.Metadata.Destructive && after.Metadata.Destructive:
		d.add("/metadata/destructive", kindDestructive, true, "Only trusted callers can call it; ask the operator.", "the tool is marked destructive")
	case before.Metadata.Destructive && !after.Metadata.Destructive:
		d.add("/metadata/destructive", kindDestructive, false, "", "the tool is no longer marked destructive")
	}
	d.deprecation(before.Metadata.DeprecatedIn, after.Metadata.DeprecatedIn)
	if before.Metadata.Module != after.Metadata.Module {
		d.add("/metadata/module", kindDetail, false, "", "the module was %s, and is %s", orNone(before.Metadata.Module), orNone(after.Metadata.Module))
	}
	if before.Metadata.CacheTTL != after.Metadata.CacheTTL {
		d.add("/metadata/cache_ttl", kindDetail, false, "", "cache_ttl was %d s, and is %d s", before.Metadata.CacheTTL, after.Metadata.CacheTTL)
	}
	d.hints(before.Annotations, after.Annotations)
}

func (d *toolDiff) deprecation(before, after *string) {
	switch {
	case before == nil && after == nil:
	case after == nil:
		d.add("/metadata/deprecated_in", kindDeprecated, false, "", "the tool is no longer deprecated")
	case before == nil:
		d.add("/metadata/deprecated_in", kindDeprecated, false, "Plan to do without it.", "the tool is deprecated%s", since(*after))
	case *before != *after:
		d.add("/metadata/deprecated_in", kindDeprecated, false, "", "the tool is deprecated%s", since(*after))
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
		d.add("/annotations/"+h.name, kindHint, false, action, "the hint %s was %s, and is %s", h.name, was, is)
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
	tools, breaking, unclear := map[string]bool{}, 0, 0
	for _, c := range changes {
		tools[c.Tool] = true
		switch {
		case c.Breaking:
			breaking++
		case c.Unclear:
			unclear++
		}
	}
	if len(changes) == 0 {
		return "no differences"
	}
	out := fmt.Sprintf("%s in %s, %d breaking", counted(len(changes), "change"), counted(len(tools), "tool"), breaking)
	if unclear > 0 {
		out += fmt.Sprintf(", %d that may break", unclear)
	}
	return out
}

// VersionFinding is a tool whose schema breaks callers, or may break them, although its major version is unchanged.
type VersionFinding struct {
	Tool string `json:"tool"`
	// OldVersion and NewVersion are the versions before and after. Wanted is the next version that would indicate the break.
	OldVersion string `json:"old_version"`
	NewVersion string `json:"new_version"`
	Wanted     string `json:"wanted"`
	// Breaking are the changes that break or may break, the former first; at least one.
	Breaking []Change `json:"breaking"`
}

// String returns one line for a log: the tool, the versions, and the first breaking change.
func (f VersionFinding) String() string {
	first := f.Breaking[0]
	breaks := "breaks"
	if !first.Breaking {
		breaks = "may break"
	}
	text := fmt.Sprintf("tool %s %s its callers under the same major version (%s, was %s; want %s): ",
		readable(f.Tool), breaks, orNone(f.NewVersion), orNone(f.OldVersion), f.Wanted)
	if where := first.Where(); where != "" {
		text += where + ": "
	}
	text += first.Message
	if more := len(f.Breaking) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// VersionFindings compares the tools of a catalog with those that an older one has under the same names. It derives the schemas of
// those that differ, and returns none if ctx ends before it is done.
func VersionFindings(ctx context.Context, before, after *catalog.Catalog, l DiffLimits) []VersionFinding {
	var olds, changed []Tool
	for _, t := range after.Since(before).Changed {
		if ctx.Err() != nil {
			return nil
		}
		if old, ok := before.Lookup(t.Name); ok {
			olds, changed = append(olds, fromTool(old)), append(changed, fromTool(t))
		}
	}
	return checkVersions(diffTools(olds, changed, nil, l), olds, changed)
}

// checkVersions finds the tools with a breaking change under an unchanged major version, sorted by name. It skips
// removed tools, which have no version to change, and changes of the destructive mark, which do not affect the schema.
// It applies the rules literally: 0.x versions have the major version 0, a lower major version than before has not been
// raised, and a tool without a version has 1.0.0, as the contract says.
func checkVersions(changes []Change, before, after []Tool) []VersionFinding {
	breaking := map[string][]Change{}
	for _, c := range changes {
		if c.alarm() > 0 && c.side() != "" {
			breaking[c.Tool] = append(breaking[c.Tool], c)
		}
	}
	was := byName(before)
	findings := []VersionFinding{}
	for _, t := range after {
		old := was[t.Name].Version
		if list := breaking[t.Name]; len(list) > 0 && major(t.Version) <= major(old) {
			findings = append(findings, VersionFinding{
				Tool: t.Name, OldVersion: old, NewVersion: t.Version, Breaking: list, Wanted: strconv.FormatUint(major(old)+1, 10) + ".0.0",
			})
		}
	}
	return findings
}

// major is the first number of a semantic version; what is none counts as 1.0.0.
func major(version string) uint64 {
	number, _, _ := strings.Cut(version, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 1
	}
	return n
}

// serviceSuffix is what the service in a canonical name may end in or lack, and so is a version, by which it differs from
// other versions of itself: see decision 25.
const serviceSuffix = "_service"

// versionEnd is a version at the end of a service.
var versionEnd = regexp.MustCompile(`_v\d+(?:p\d+)?(?:(?:test|eap|alpha|beta)\d*)?$`)

// stem is a canonical name without what its service may lack, and how many versions that was.
func stem(name string) (short string, versions int) {
	service, method, ok := strings.Cut(name, ".")
	for ok {
		shorter := strings.TrimSuffix(service, serviceSuffix)
		if at := versionEnd.FindStringIndex(service); at != nil {
			shorter, versions = service[:at[0]], versions+1
		}
		if shorter == service || strings.Trim(shorter, "_") == "" {
			return service + "." + method, versions
		}
		service = shorter
	}
	return name, 0
}

// align gives tools of the older list the names that they have in the newer one, where only an addition differs, and says
// so. The module tells which tool is which, or by its fingerprint where the module is not known. A tool whose name
// another one has taken and that has none itself now is left out, and told to be gone.
func align(before, after []Tool) ([]Tool, []Change) {
	was, is := byName(before), byName(after)
	news := newNames(before, was, after, is)
	if len(news) == 0 {
		return before, nil
	}
	taken := map[string]bool{}
	for _, to := range news {
		taken[to] = true
	}
	var out []Tool
	var changes []Change
	for _, t := range before {
		to, isRenamed := news[t.Name]
		switch {
		case isRenamed:
			changes = append(changes, renaming(t, to, is))
			t.Name = to
			out = append(out, t)
		case taken[t.Name]:
			changes = append(changes, Change{
				Tool: t.Name, Path: "/name", Kind: kindRemovedTool, Breaking: true,
				Message: "the tool was removed, and another tool has its name", Action: "Stop calling it.",
			})
		default:
			out = append(out, t)
		}
	}
	sortTools(out)
	return out, changes
}

// newNames are the new names of the tools that have one, by their old names.
func newNames(before []Tool, was map[string]Tool, after []Tool, is map[string]Tool) map[string]string {
	stems := map[string][]Tool{}
	for _, t := range after {
		short, _ := stem(t.Name)
		stems[short] = append(stems[short], t)
	}
	out := map[string]string{}
	for _, t := range before {
		if same, ok := is[t.Name]; ok && isSameTool(t, same) {
			continue
		}
		short, _ := stem(t.Name)
		for _, to := range stems[short] {
			holder, wasThere := was[to.Name]
			if to.Name == t.Name || !isSameTool(t, to) || wasThere && isSameTool(holder, to) {
				continue
			}
			out[t.Name] = to.Name
			break
		}
	}
	return out
}

// renaming is the change of a tool's name to another. It breaks where the old name means another tool now.
func renaming(t Tool, to string, is map[string]Tool) Change {
	change := Change{Tool: to, Path: "/name", Kind: kindRenamed}
	if _, isTaken := is[t.Name]; isTaken {
		change.Breaking = true
		change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is another tool now", readable(t.Name))
		change.Action = "Call it by its new name; the old one calls another tool."
		return change
	}
	_, had := stem(t.Name)
	if _, has := stem(to); had <= has {
		change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is still accepted", readable(t.Name))
		return change
	}
	change.Breaking = true
	change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is no longer accepted", readable(t.Name))
	change.Action = "Call it by its new name."
	return change
}

// isSameTool reports whether two entries are of one tool, as far as that can be told.
func isSameTool(a, b Tool) bool {
	if a.Metadata.Module != "" && b.Metadata.Module != "" {
		return a.Metadata.Module == b.Metadata.Module
	}
	return a.Fingerprint != "" && a.Fingerprint == b.Fingerprint
}

func byName(tools []Tool) map[string]Tool {
	out := make(map[string]Tool, len(tools))
	for _, t := range tools {
		out[t.Name] = t
	}
	return out
}
