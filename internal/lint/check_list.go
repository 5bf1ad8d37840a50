// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/listcost"
)

func (c *check) toolCount() {
	if n := len(c.tools); n > c.fact.Limit {
		c.add(nil, "", compactFix("list three tools that stand for all, or leave tools out with catalog.exclude"), "%d tools; %s", n, c.limit("tools of all servers"))
	}
}

func (c *check) listTokens() {
	sum := 0
	for _, t := range c.tools {
		sum += t.Tokens
	}
	if sum > c.fact.Limit {
		c.add(nil, "", compactFix("list three tools that stand for all, or leave tools out with catalog.exclude"), "the list costs about %d tokens; %s", sum, c.limit("tokens"))
	}
}

func (c *check) toolTokens(t *Tool) {
	if t.Tokens <= c.fact.Limit {
		return
	}
	fix := Fix{Text: "declare a smaller input_schema for the tool in the configuration file, or use catalog.mode compact"}
	if output, err := compactJSON(t.output); err == nil && t.output != nil && len(output)/listcost.BytesPerToken > t.Tokens/2 {
		fix = c.entry(t, "show less of the result: it is most of the schema", "output_schema", anyObject)
	}
	c.add(t, "", fix, "it costs about %d tokens; %s", t.Tokens, c.limit("tokens"))
}

func (c *check) nameLength(t *Tool) {
	name := c.client.NameOf(c.options.Server, t.MCPName)
	if len(name) <= c.fact.Limit {
		return
	}
	most := c.fact.Limit - (len(name) - len(t.MCPName))
	fix := Fix{Text: "give the server a shorter name in the configuration of the client"}
	if shorter := c.shorter(t, most); shorter != "" {
		fix = c.entry(t, "give the tool a shorter name, or the server", "name", shorter)
	}
	c.add(t, "/name", fix, "the name %s has %d characters; %s", name, len(name), c.limit("characters"))
}

// shorter is a name of at most so many bytes that no other tool has or is to have; empty if there is none. The module is cut
// first: what tells tools apart is most often their method.
func (c *check) shorter(t *Tool, most int) string {
	at := strings.LastIndexByte(t.Name, '.')
	if at < 1 || most < minShortName {
		return ""
	}
	module, method := t.Name[:at], t.Name[at+1:]
	if len(method) > most-2 {
		method = strings.TrimRight(method[:most-2], "_")
	}
	module = strings.TrimRight(module[:min(len(module), most-1-len(method))], "_.")
	short := module + "." + method
	if c.names.claim(short, most, t) {
		return short
	}
	suffixes := []string{"_2", "_3", "_4", "_5", "_6", "_7", "_8", "_9"}
	sum := sha256.Sum256([]byte(t.Name))
	for _, suffix := range append(suffixes, "_"+hex.EncodeToString(sum[:shortHash])) { // a hash, where there are many alike
		out := strings.TrimRight(short[:min(len(short), max(most-len(suffix), 0))], "_.") + suffix
		if c.names.claim(out, most, t) {
			return out
		}
	}
	return ""
}

// shortHash is the number of bytes of a hash that tells names apart.
const shortHash = 4

// names are those that tools have and those that fixes give them, in MCP's form. It belongs to one call of Run: what one
// client asks for must not be what another one gives to somebody else.
type names map[string]*Tool

func namesOf(lists ...[]*Tool) names {
	out := names{}
	for _, list := range lists {
		for _, t := range list {
			out[t.MCPName] = t
		}
	}
	return out
}

// claim takes a name for a tool. It is false if the name is none, is too long, or belongs to a tool by now. A name that was
// claimed for a tool is its own, for other clients too.
func (n names) claim(name string, most int, t *Tool) bool {
	if len(name) > most || !catalog.IsCanonicalName(name) {
		return false
	}
	key := catalog.MCPName(name)
	if owner := n[key]; owner != nil && owner != t {
		return false
	}
	n[key] = t
	return true
}

// minShortName is the shortest name that is proposed: a shorter one says nothing.
const minShortName = 8

func (c *check) namePattern(t *Tool) {
	if ok, err := regexp.MatchString(c.fact.Pattern, t.MCPName); err != nil || !ok {
		c.add(t, "/name", Fix{Text: "give the tool a name of letters, digits and underscores"}, "the name %s does not match %s", quoted(t.MCPName), c.fact.Pattern)
	}
}

// groups are the tools that have something in common, each group by name; only those of two and more.
func (c *check) groups(of func(t *Tool) string) [][]*Tool {
	found := map[string][]*Tool{}
	for _, t := range c.tools {
		if key := of(t); key != "" {
			found[key] = append(found[key], t)
		}
	}
	var out [][]*Tool
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if group := found[key]; len(group) > 1 {
			slices.SortStableFunc(group, func(a, b *Tool) int { return cmp.Compare(a.Name, b.Name) })
			out = append(out, group)
		}
	}
	return out
}

// maxNamed is how many tools a message names.
const maxNamed = 5

// others names the tools of a group but one. It looks at no more than it names: each tool of a group asks.
func others(group []*Tool, but *Tool) string {
	var names []string
	for _, t := range group[:min(len(group), maxNamed+1)] {
		if t != but && len(names) < maxNamed {
			names = append(names, t.Name)
		}
	}
	if more := len(group) - 1 - len(names); more > 0 {
		names = append(names, plural(more, "more tool"))
	}
	return strings.Join(names, ", ")
}

func (c *check) nameUnique() {
	for _, group := range c.groups(func(t *Tool) string { return t.MCPName }) {
		for _, t := range group[1:] {
			c.add(t, "/name", Fix{Text: "give one of them another name"}, "the name %s is that of %s too", quoted(t.MCPName), others(group, t))
		}
	}
}

func (c *check) nameSimilar() {
	for _, group := range c.groups(func(t *Tool) string { return folded(t.MCPName) }) {
		for _, t := range group[1:] {
			if t.MCPName == group[0].MCPName {
				continue // name-unique
			}
			c.add(t, "/name", Fix{Text: "give one of them a name that says how they differ: tool.name in the configuration file"},
				"the name is nearly that of %s", others(group, t))
		}
	}
}

// folded is what remains of a name without case, separators and the plural.
func folded(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return strings.ContainsRune("_-./", r) })
	for i, w := range words {
		if len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") {
			words[i] = w[:len(w)-1]
		}
	}
	return strings.Join(words, "")
}

func (c *check) titleMissing(t *Tool) {
	if !t.hasTitle {
		c.add(t, "/title", c.entry(t, "write a title", "title", unwritten+"a name for people."), "it has no title")
	}
}

// unwritten begins texts of fixes that a person has to write. A text that begins with it is none.
const unwritten = "TODO: "

// generatedText is the form of descriptions that the sidecar generates from names and messages. A title that is the
// method's name tells them from a summary that somebody wrote.
var generatedText = regexp.MustCompile(`(?s)^(Deprecated[^\n]*\n\n)?[^\n]+?\. (Takes|Requires) .+?\. (Returns|Starts) `)

func (c *check) descriptionMissing(t *Tool) {
	text := strings.TrimSpace(t.Description)
	isGenerated := generatedText.MatchString(text) && (saysNoMore(t.Title, t) || t.hasTitle && t.Title == "")
	if text != "" && !strings.HasPrefix(text, unwritten) && !isGenerated {
		return
	}
	message := "it has no description"
	if isGenerated {
		message = "nobody describes it: the description is made of the method's name and its messages"
	}
	c.add(t, "/description", c.entry(t, "write a comment on the RPC, or a description here", "description", unwritten+"what it does, and when to use it."), "%s", message)
}

// saysNoMore reports whether a text has no words but those of the tool's name.
func saysNoMore(text string, t *Tool) bool {
	return folded(strings.ReplaceAll(strings.TrimRight(text, ". "), " ", "_")) == folded(strings.Join(t.words(), "_"))
}

func (c *check) descriptionShort(t *Tool) {
	text := strings.TrimSpace(t.Description)
	if text == "" || strings.HasPrefix(text, unwritten) || length(text) >= c.fact.Limit && !saysNoMore(text, t) {
		return
	}
	c.add(t, "/description", c.entry(t, "say what it does and when to use it", "description", unwritten+"what it does, and when to use it."),
		"the description %s is short, or repeats the name", quoted(text))
}

func (c *check) descriptionLength(t *Tool) {
	if n := length(t.Description); n > c.fact.Limit {
		c.add(t, "/description", c.entry(t, "shorten the description; what matters most goes first", "description", cutText(t.Description, c.fact.Limit)),
			"the description has %d characters; %s", n, c.limit("characters"))
	}
}

// cutText cuts a text at the end of a sentence, or else of a word.
func cutText(text string, most int) string {
	kept, n := 0, 0
	for i, r := range text {
		if n += length(string(r)); n > most-1 {
			break
		}
		kept = i + len(string(r))
	}
	text = text[:kept]
	if at := max(strings.LastIndex(text, ". "), strings.LastIndex(text, ".\n")); at > kept/2 {
		return text[:at+1]
	}
	if at := strings.LastIndexAny(text, " \n"); at > kept/2 {
		text = text[:at]
	}
	return strings.TrimSpace(text) + "…"
}

func (c *check) descriptionSame() {
	for _, group := range c.groups(func(t *Tool) string { return strings.TrimSpace(t.Description) }) {
		for _, t := range group[1:] {
			c.add(t, "/description", c.entry(t, "say how it differs", "description", unwritten+"what it does, and how it differs from "+group[0].Name+"."),
				"the description is that of %s", others(group, t))
		}
	}
}

func (c *check) propertyDescription(t *Tool) {
	isMissing := func(n node) bool {
		text, _ := n.schema["description"].(string)
		text = strings.TrimSpace(text)
		return n.property && n.schema["$ref"] == nil && (text == "" || strings.HasPrefix(text, unwritten))
	}
	fix := Fix{Text: "write comments on the fields in the .proto file, or declare an input_schema for the tool in the configuration file"}
	if found := c.describable(t, isMissing); len(found) > 0 {
		fix = Fix{
			Text:   "write comments on the fields in the .proto file, or descriptions here",
			change: change{method: t.Method, members: found},
		}.rendered()
	}
	c.nodes(t, fix, func(n node) string {
		if isMissing(n) {
			return "a property has no description"
		}
		return ""
	})
}

// maxDescribed is how many properties of a tool a fix has lines for: as many as a person writes in one sitting.
const maxDescribed = 20

// describable are lines for the first properties of a tool that have no description, those nearest to the root first.
func (c *check) describable(t *Tool, isMissing func(node) bool) []member {
	if t.Method == "" || t.OwnInput {
		return nil
	}
	var paths []string
	isThere := map[string]bool{}
	walk(t.input, "", func(n node) {
		if n.path != "" && !(n.isEntry && c.options.Strict) && !isThere[n.path] && isMissing(n) {
			isThere[n.path], paths = true, append(paths, n.path)
		}
	})
	slices.SortStableFunc(paths, func(a, b string) int { return cmp.Compare(strings.Count(a, "."), strings.Count(b, ".")) })
	var out []member
	for _, path := range paths[:min(len(paths), maxDescribed)] {
		out = append(out, member{ofProperty + path, unwritten + "what it means, and which values it takes."})
	}
	return out
}

// quoted is a text in quotes, cut to what a message has room for.
func quoted(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return `"` + strings.ReplaceAll(text, "\n", " ") + `"`
}
