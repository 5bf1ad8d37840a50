// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Diff is the result of `sidecar diff` for two lists of tools.
type Diff struct {
	// Breaking is set if any of the changes breaks, and Unclear if any may break.
	Breaking bool     `json:"breaking"`
	Unclear  bool     `json:"unclear"`
	Changes  []Change `json:"changes"`
	// Versions are the tools with breaking changes and those that may break, which their version does not indicate.
	Versions []VersionFinding `json:"versions"`

	// versions are the old and new version of the tools that are in both lists.
	versions map[string][2]string
}

// Compare compares two lists of tools and returns a report.
func Compare(before, after []Tool, l DiffLimits) Diff {
	before, renames := align(before, after)
	changes := diffTools(before, after, renames, l)
	r := Diff{
		Changes: changes, Versions: checkVersions(changes, before, after), versions: map[string][2]string{},
	}
	for _, c := range changes {
		r.Breaking, r.Unclear = r.Breaking || c.Breaking, r.Unclear || c.Unclear
	}
	for _, t := range before {
		r.versions[t.Name] = [2]string{t.Version, ""}
	}
	for _, t := range after {
		r.versions[t.Name] = [2]string{r.versions[t.Name][0], t.Version}
	}
	return r
}

// WriteJSON writes the report as indented JSON.
func (r Diff) WriteJSON(out io.Writer) error { return writeIndented(out, r) }

// byTool groups changes by tool, in their order.
func byTool(changes []Change) (tools []string, of map[string][]Change) {
	of = map[string][]Change{}
	for _, c := range changes {
		if of[c.Tool] == nil {
			tools = append(tools, c.Tool)
		}
		of[c.Tool] = append(of[c.Tool], c)
	}
	return tools, of
}

// part is a part of a report.
type part struct {
	title, note, last string
	changes           []Change
}

// parts are the changes that break, those that may break, and the others; none is empty.
func (r Diff) parts() []part {
	all := []part{
		{title: "Compatible", note: "Calls that worked go on working.", last: "Note"},
		{title: "May break", note: "Whether calls that worked go on working is not plain.", last: "What to do"},
		{title: "Breaking", last: "What to do"},
	}
	for _, c := range r.Changes {
		all[c.alarm()].changes = append(all[c.alarm()].changes, c)
	}
	slices.Reverse(all)
	return slices.DeleteFunc(all, func(p part) bool { return len(p.changes) == 0 })
}

// WriteText writes the report for a terminal: breaking changes first and those that may break next, one per line, then a summary. Text differences
// are only counted.
func (r Diff) WriteText(out io.Writer) error {
	w := bufio.NewWriter(out)
	for _, part := range r.parts() {
		fmt.Fprintf(w, "%s:\n", part.title)
		tools, of := byTool(part.changes)
		for _, name := range tools {
			fmt.Fprintf(w, "  %s\n", readable(name))
			texts := 0
			for _, c := range of[name] {
				if c.Kind == kindText {
					texts++
					continue
				}
				fmt.Fprintf(w, "    %s\n", changeLine(c))
			}
			if texts > 0 {
				fmt.Fprintf(w, "    texts: %d %s\n", texts, oneOrMany(texts, "differs", "differ"))
			}
		}
		fmt.Fprintln(w)
	}
	if len(r.Versions) > 0 {
		fmt.Fprintln(w, "Versions that should have a new major number:")
		for _, f := range r.Versions {
			fmt.Fprintf(w, "  %s: %s, want %s\n", readable(f.Tool), orNone(f.NewVersion), f.Wanted)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, summary(r.Changes))
	return w.Flush()
}

// changeLine is a change on one line.
func changeLine(c Change) string {
	kind := "[" + string(c.Kind) + "]"
	if where := c.Where(); where != "" {
		return fmt.Sprintf("%s: %s %s", where, c.Message, kind)
	}
	return c.Message + " " + kind
}

// WriteMarkdown writes the report as a migration note: for each tool, what changed and what a caller has to do.
func (r Diff) WriteMarkdown(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# Migration note\n\n%s.\n", capital(summary(r.Changes)))
	for _, part := range r.parts() {
		fmt.Fprintf(w, "\n## %s%s\n", part.title, map[bool]string{true: " changes"}[part.title != "May break"])
		if part.note != "" {
			fmt.Fprintf(w, "\n%s\n", part.note)
		}
		r.writeTables(w, part.changes, part.last)
	}
	return w.Flush()
}

func (r Diff) writeTables(w io.Writer, changes []Change, last string) {
	tools, of := byTool(changes)
	for _, name := range tools {
		fmt.Fprintf(w, "\n### %s%s\n\n", code(readable(name)), r.versionText(name))
		if f := r.finding(name); f != nil && of[name][0].alarm() > 0 {
			fmt.Fprintf(w, "The major version did not change, although the tool %s its callers; %s would say so.\n\n",
				map[bool]string{true: "breaks", false: "may break"}[of[name][0].Breaking], f.Wanted)
		}
		fmt.Fprintf(w, "| Where | What changed | %s |\n|---|---|---|\n", last)
		texts := 0
		for _, c := range of[name] {
			if c.Kind == kindText {
				texts++
				continue
			}
			fmt.Fprintf(w, "| %s | %s | %s |\n", cellWhere(c), cell(capital(c.Message)), cell(c.Action))
		}
		if texts > 0 {
			fmt.Fprintf(w, "| texts | %d %s | |\n", texts, oneOrMany(texts, "differs", "differ"))
		}
	}
}

func (r Diff) finding(tool string) *VersionFinding {
	if i := slices.IndexFunc(r.Versions, func(f VersionFinding) bool { return f.Tool == tool }); i >= 0 {
		return &r.Versions[i]
	}
	return nil
}

// versionText is the versions of a tool behind its name.
func (r Diff) versionText(tool string) string {
	v := r.versions[tool]
	switch {
	case v[0] == "" && v[1] == "":
		return ""
	case v[0] == "":
		return " (" + cell(readable(v[1])) + ")"
	case v[1] == "" || v[0] == v[1]:
		return " (" + cell(readable(v[0])) + ")"
	}
	return " (" + cell(readable(v[0])) + " to " + cell(readable(v[1])) + ")"
}

func cellWhere(c Change) string {
	if c.Field == "" {
		if side := c.side(); side != "" {
			return side
		}
		return "tool"
	}
	return c.side() + " " + code(readable(c.Field))
}

// cell keeps a text within its cell of a table, and free of markup.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'", "[", `\[`, "*", `\*`, "_", `\_`, "\\", `\\`).Replace(s)
}

// capital begins a sentence with a capital letter.
func capital(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
