// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
)

const (
	// maxContents is the size in bytes of the text about what a catalog has: some clients cut descriptions at 2,048
	// characters without a word.
	maxContents = 1900
	// maxStrictContents is that of the strict profile, whose clients send descriptions to OpenAI's models: some deployments
	// refuse one of more than 1,024 characters.
	maxStrictContents = 1000
	// maxVerbs is how many verbs it names for each module.
	maxVerbs = 6
	// MaxSummary is the size of a tool's summary in characters.
	MaxSummary = 120
	// tail is what is left free for the last sentence.
	contentsTail = 60
)

// module is a part of a catalog, as its contents name it.
type module struct {
	name  string
	tools int
	verbs map[string]int
}

// contents describes the tools that callers see: how many there are, in which modules, and what those can do.
func (c *Catalog) contents() string {
	modules, limit := c.modules(), maxContents
	if c.isStrict {
		limit = maxStrictContents
	}
	text := fmt.Appendf(nil, "Finds tools of this server by what they do. It has %s; only the tools %s, %s and %s are listed. "+
		"Search with a few words such as \"%s\", then describe the tool, then call it. Modules, with the number of tools and their most frequent verbs:",
		counted(c.count(), "tool"), MCPName(SearchName), MCPName(DescribeName), MCPName(CallName), c.sampleQuery())
	for i, m := range modules {
		line := "\n" + m.String()
		if len(text)+len(line) > limit-contentsTail {
			text = fmt.Appendf(text, "\nand %s", counted(len(modules)-i, "more module"))
			break
		}
		text = append(text, line...)
	}
	return string(text)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// modules are the parts of the catalog, the largest first. A module is named by its last part, unless two have the same.
func (c *Catalog) modules() []*module {
	byName, short := map[string]*module{}, map[string]int{}
	var out []*module
	for _, t := range c.Tools() {
		name := t.Metadata.Module
		m := byName[name]
		if m == nil {
			m = &module{name: name, verbs: map[string]int{}}
			byName[name], out = m, append(out, m)
			short[lastPart(name)]++
		}
		m.tools++
		m.verbs[verbOf(t)]++
	}
	for _, m := range out {
		if short[lastPart(m.name)] == 1 {
			m.name = lastPart(m.name)
		}
	}
	slices.SortFunc(out, func(a, b *module) int { return cmp.Or(cmp.Compare(b.tools, a.tools), cmp.Compare(a.name, b.name)) })
	return out
}

// String is the line about a module.
func (m *module) String() string {
	verbs := shown.SortedKeys(m.verbs)
	slices.SortStableFunc(verbs, func(a, b string) int { return cmp.Compare(m.verbs[b], m.verbs[a]) })
	return fmt.Sprintf("%s (%d): %s", m.name, m.tools, strings.Join(verbs[:min(len(verbs), maxVerbs)], ", "))
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

// verbOf is the first word of what the tool is called.
func verbOf(t *Tool) string {
	verb, _, _ := strings.Cut(lastPart(t.Name), "_")
	return verb
}

// sampleQuery is a query that finds something here: the words of the shortest name that has a verb and an object.
func (c *Catalog) sampleQuery() string {
	best := ""
	for _, t := range c.Tools() {
		name := lastPart(t.Name)
		if strings.Contains(name, "_") && (best == "" || len(name) < len(best)) {
			best = name
		}
	}
	return cmp.Or(strings.ReplaceAll(best, "_", " "), "list items")
}

// Summary returns what the tool does in one line of at most MaxSummary characters.
func (t *Tool) Summary() string {
	text, prefix := t.Description, ""
	if d := deprecation(t.Metadata.DeprecatedIn); d != "" {
		text, prefix = strings.TrimPrefix(text, d), "Deprecated: "
	}
	line := prefix + cmp.Or(firstSentence(text), t.Title)
	if utf8.RuneCountInString(line) < MaxSummary && !strings.HasSuffix(line, "?") {
		line += "."
	}
	return cutRunes(line, MaxSummary)
}
