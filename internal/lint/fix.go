// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Fix is what to do about a finding.
type Fix struct {
	// Text says it in words.
	Text string `json:"text"`
	// Overlay are lines of the configuration file that do it, if such lines can. A text in them that begins with TODO has
	// to be written by a person.
	Overlay string `json:"overlay,omitempty"`

	change change
}

// change is what a fix changes in the configuration file.
type change struct {
	strict, compact bool
	// method is the method of an entry of tools, and members what the entry sets.
	method  string
	members []member
}

// member is one value of an entry of tools, as a text: JSON for schemas and booleans, and otherwise plain. The names of
// descriptions of properties begin with ofProperty.
type member struct{ name, value string }

const ofProperty = "properties/"

func compactFix(text string) Fix {
	return Fix{Text: text, change: change{compact: true}}.rendered()
}

// entry is a fix that sets one value of the tool's entry.
func (c *check) entry(t *Tool, text, name, value string) Fix {
	if t.Method == "" {
		return Fix{Text: text + ": " + name + " of the tool's entry in the configuration file"}
	}
	return Fix{Text: text, change: change{method: t.Method, members: []member{{name, value}}}}.rendered()
}

func (f Fix) rendered() Fix {
	f.Overlay = overlayOf([]change{f.change})
	return f
}

// Overlay returns the fixes of all findings as one configuration file, or an overlay of one; empty if no lines fix any.
// Findings beyond Options.MaxFindings count too. Where two fixes differ, the shorter value is taken: it fits the narrower client.
func (r *Report) Overlay() string { return overlayOf(r.changes) }

func overlayOf(all []change) string {
	var isStrict, isCompact bool
	entries := map[string]map[string]string{}
	for _, c := range all {
		isStrict, isCompact = isStrict || c.strict, isCompact || c.compact
		for _, m := range c.members {
			if entries[c.method] == nil {
				entries[c.method] = map[string]string{}
			}
			if was, ok := entries[c.method][m.name]; !ok || isBetter(m.value, was) {
				entries[c.method][m.name] = m.value
			}
		}
	}
	var out strings.Builder
	if isStrict {
		out.WriteString("schema_profile: strict\n")
	}
	if isCompact {
		out.WriteString("catalog:\n  mode: compact\n")
	}
	if len(entries) > 0 {
		out.WriteString("tools:\n")
	}
	for _, method := range slices.Sorted(maps.Keys(entries)) {
		out.WriteString("  - method: " + method + "\n")
		writeEntry(&out, entries[method])
	}
	return out.String()
}

// isBetter prefers what somebody wrote to what has to be written, and then the shorter.
func isBetter(a, b string) bool {
	isTodo := func(text string) int {
		if strings.HasPrefix(text, unwritten) {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(isTodo(a), isTodo(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) < 0
}

// writeEntry writes what an entry sets: what belongs to the tool first, then descriptions of properties, then schemas.
func writeEntry(out *strings.Builder, members map[string]string) {
	var ofTool, ofProperties, ofEntry []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if path, ok := strings.CutPrefix(name, ofProperty); ok {
			ofProperties = append(ofProperties, "      "+keyOf(path)+": "+yamlOf(name, members[name])+"\n")
			continue
		}
		line := name + ": " + yamlOf(name, members[name]) + "\n"
		if strings.HasSuffix(name, "_schema") {
			ofEntry = append(ofEntry, "    "+line)
		} else {
			ofTool = append(ofTool, "      "+line)
		}
	}
	if len(ofTool) > 0 {
		out.WriteString("    tool:\n" + strings.Join(ofTool, ""))
	}
	if len(ofProperties) > 0 {
		out.WriteString("    properties:\n" + strings.Join(ofProperties, ""))
	}
	out.WriteString(strings.Join(ofEntry, ""))
}

// keyOf is a path as a key in YAML. Names of Protobuf need no quotes, except for words that stand for other values.
func keyOf(path string) string {
	if isIdentifier(path) && (path[0] < '0' || path[0] > '9') {
		switch strings.ToLower(path) {
		case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		default:
			return path
		}
	}
	return printable(string(jsontext.AppendString(nil, path)))
}

// yamlOf is a value in YAML: schemas and booleans are JSON already, and texts go into quotes.
func yamlOf(name, value string) string {
	switch name {
	case "read_only", "destructive":
		return value
	case "input_schema", "output_schema":
		return printable(value)
	default:
		return printable(string(jsontext.AppendString(nil, value)))
	}
}

// printable is JSON in which characters that YAML does not allow are escaped. They stand in strings alone.
func printable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if r >= 0x7f && r < 0xa0 || r == '\ufeff' || r == '\ufffe' || r == '\uffff' || r == '\u2028' || r == '\u2029' {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
