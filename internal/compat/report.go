// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Report is the result of `sidecar diff` for two lists of tools.
type Report struct {
	// Breaking is set if any of the changes is breaking.
	Breaking bool     `json:"breaking"`
	Changes  []Change `json:"changes"`
	// Versions are the tools with breaking changes that their version does not indicate.
	Versions []Finding `json:"versions"`

	// versions are the old and new version of the tools that are in both lists.
	versions map[string][2]string
}

// Compare compares two lists of tools and returns a report.
func Compare(before, after []Tool, l Limits) Report {
	before, renames := align(before, after)
	changes := diff(before, after, renames, l)
	r := Report{
		Breaking: HasBreaking(changes), Changes: changes, Versions: checkVersions(changes, before, after),
		versions: map[string][2]string{},
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
func (r Report) WriteJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

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

// split parts the changes into those that break and the others.
func (r Report) split() (breaking, others []Change) {
	n := slices.IndexFunc(r.Changes, func(c Change) bool { return !c.Breaking })
	if n < 0 {
		n = len(r.Changes)
	}
	return r.Changes[:n], r.Changes[n:]
}

// WriteText writes the report for a terminal: breaking changes first, one per line, then a summary. Text differences
// are only counted.
func (r Report) WriteText(out io.Writer) error {
	w := bufio.NewWriter(out)
	breaking, others := r.split()
	for _, part := range [...]struct {
		title   string
		changes []Change
	}{{"Breaking", breaking}, {"Compatible", others}} {
		if len(part.changes) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s:\n", part.title)
		tools, of := byTool(part.changes)
		for _, name := range tools {
			fmt.Fprintf(w, "  %s\n", readable(name))
			texts := 0
			for _, c := range of[name] {
				if c.Kind == Text {
					texts++
					continue
				}
				fmt.Fprintf(w, "    %s\n", line(c))
			}
			if texts > 0 {
				fmt.Fprintf(w, "    texts: %d %s\n", texts, plural(texts, "differs", "differ"))
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
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// line is a change on one line.
func line(c Change) string {
	kind := "[" + string(c.Kind) + "]"
	if where := c.Where(); where != "" {
		return fmt.Sprintf("%s: %s %s", where, c.Message, kind)
	}
	return c.Message + " " + kind
}

// WriteMarkdown writes the report as a migration note: for each tool, what changed and what a caller has to do.
func (r Report) WriteMarkdown(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# Migration note\n\n%s.\n", capital(summary(r.Changes)))
	breaking, others := r.split()
	if len(breaking) > 0 {
		fmt.Fprint(w, "\n## Breaking changes\n")
		r.writeTables(w, breaking, "What to do")
	}
	if len(others) > 0 {
		fmt.Fprint(w, "\n## Compatible changes\n\nCalls that worked go on working.\n")
		r.writeTables(w, others, "Note")
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

func (r Report) writeTables(w io.Writer, changes []Change, last string) {
	tools, of := byTool(changes)
	for _, name := range tools {
		fmt.Fprintf(w, "\n### %s%s\n\n", code(name), r.versionText(name))
		if f := r.finding(name); f != nil && of[name][0].Breaking {
			fmt.Fprintf(w, "The major version did not change, although the tool breaks its callers; %s would say so.\n\n", f.Wanted)
		}
		fmt.Fprintf(w, "| Where | What changed | %s |\n|---|---|---|\n", last)
		texts := 0
		for _, c := range of[name] {
			if c.Kind == Text {
				texts++
				continue
			}
			fmt.Fprintf(w, "| %s | %s | %s |\n", cellWhere(c), cell(capital(c.Message)), cell(c.Action))
		}
		if texts > 0 {
			fmt.Fprintf(w, "| texts | %d %s | |\n", texts, plural(texts, "differs", "differ"))
		}
	}
}

func (r Report) finding(tool string) *Finding {
	for i := range r.Versions {
		if r.Versions[i].Tool == tool {
			return &r.Versions[i]
		}
	}
	return nil
}

// versionText is the versions of a tool behind its name.
func (r Report) versionText(tool string) string {
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
	return c.side() + " " + code(c.Field)
}

// code is a name as code. Names come from descriptors and files, so they may hold anything.
func code(s string) string {
	return "`" + strings.NewReplacer("`", "'", "|", `\|`, "\n", " ").Replace(readable(s)) + "`"
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
