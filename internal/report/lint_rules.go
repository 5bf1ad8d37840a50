// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
)

// verbKind is what a tool does, by the verbs of its name.
type verbKind uint8

const (
	unknownKind verbKind = iota
	reads
	changes
	deletes
)

// kindOf reads the name of a method. A method that reads has a verb of reading first, and none of changing anywhere:
// read_modify_write_row changes. Words behind the verb are objects: list_deleted_items only lists.
func kindOf(t *LintTool) verbKind {
	words := t.words()
	isDestroying := catalog.DestroyingVerb(strings.Join(words, "_")) != ""
	for len(words) > 0 && slices.Contains([]string{"batch", "bulk", "stream", "multi"}, words[0]) {
		words = words[1:]
	}
	switch {
	case isDestroying:
		return deletes
	case len(words) == 0:
		return unknownKind
	case slices.Contains(changingVerbs(), words[0]):
		return changes
	case slices.Contains(readingVerbs(), words[0]) && !slices.ContainsFunc(words[1:], func(w string) bool {
		return catalog.IsDestroying(w) || slices.Contains(changingVerbs(), w)
	}):
		return reads
	default:
		return unknownKind
	}
}

func changingVerbs() []string {
	return []string{"add", "append", "assign", "cancel", "create", "disable", "enable", "import", "insert", "modify", "move", "mutate", "patch",
		"pause", "place", "put", "register", "rename", "replace", "restore", "resume", "send", "set", "start", "stop", "update", "upsert", "write"}
}

func readingVerbs() []string {
	return []string{"count", "describe", "download", "expand", "explain", "export", "fetch", "find", "get", "list", "lookup", "poll", "query", "range",
		"read", "search", "show", "status", "tail", "view", "watch"}
}

func is(hint *bool) bool { return hint != nil && *hint }

func isNot(hint *bool) bool { return hint != nil && !*hint }

func (c *lintCheck) hintsConflict(t *LintTool) {
	if is(t.Hints.ReadOnly) && is(t.Hints.Destructive) {
		c.add(t, "/annotations", c.entry(t, "say which of the two holds", "read_only", "false"), "it is shown as read-only and as destructive")
	}
}

func (c *lintCheck) hintNotDestructive(t *LintTool) {
	if kindOf(t) != deletes || is(t.Hints.Destructive) {
		return
	}
	said := "it is not shown as destructive"
	if isNot(t.Hints.Destructive) {
		said = "it is shown as not destructive"
	}
	c.add(t, "/annotations/destructiveHint", c.entry(t, "mark it, unless it can be undone; the gate then blocks it for untrusted callers", "destructive", "true"), "its name says that it deletes, and %s", said)
}

func (c *lintCheck) hintNotReadOnly(t *LintTool) {
	if k := kindOf(t); k != deletes && k != changes || !is(t.Hints.ReadOnly) {
		return
	}
	c.add(t, "/annotations/readOnlyHint", c.entry(t, "take the hint back, unless the name misleads", "read_only", "false"), "its name says that it changes something, and it is shown as read-only")
}

func (c *lintCheck) hintDestructive(t *LintTool) {
	if kindOf(t) == reads && is(t.Hints.Destructive) {
		c.add(t, "/annotations/destructiveHint", c.entry(t, "take the mark back, unless the name misleads", "destructive", "false"), "its name says that it reads, and it is shown as destructive")
	}
}

func (c *lintCheck) hintMissing(t *LintTool) {
	if kindOf(t) == reads && t.Hints.ReadOnly == nil && !is(t.Hints.Destructive) {
		c.add(t, "/annotations/readOnlyHint", c.entry(t, "mark it if it changes nothing (option idempotency_level = NO_SIDE_EFFECTS, or here)", "read_only", "true"),
			"its name says that it reads, and it is not shown as read-only")
	}
}

func (c *lintCheck) toolCount() {
	if n := len(c.tools); n > c.fact.Limit {
		c.add(nil, "", compactFix("list a few tools that stand for all, or leave tools out with catalog.exclude"), "%d tools; %s", n, c.limit("tools of all servers"))
	}
}

func (c *lintCheck) listTokens() {
	sum := 0
	for _, t := range c.tools {
		sum += t.Tokens
	}
	if sum > c.fact.Limit {
		c.add(nil, "", compactFix("list a few tools that stand for all, or leave tools out with catalog.exclude"), "the list costs about %d tokens; %s", sum, c.limit("tokens"))
	}
}

func (c *lintCheck) toolTokens(t *LintTool) {
	if t.Tokens <= c.fact.Limit {
		return
	}
	fix := Fix{Text: "declare a smaller input_schema for the tool in the configuration file, or use catalog.mode compact"}
	if output, err := compactJSON(t.output); err == nil && t.output != nil && len(output)/listcost.BytesPerToken > t.Tokens/2 {
		fix = c.entry(t, "show less of the result: it is most of the schema", "output_schema", anyObject)
	}
	c.add(t, "", fix, "it costs about %d tokens; %s", t.Tokens, c.limit("tokens"))
}

func (c *lintCheck) nameLength(t *LintTool) {
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
func (c *lintCheck) shorter(t *LintTool, most int) string {
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

// names are those that tools have and those that fixes give them, in MCP's form. It belongs to one call of Lint: what one
// client asks for must not be what another one gives to somebody else.
type names map[string]*LintTool

func namesOf(lists ...[]*LintTool) names {
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
func (n names) claim(name string, most int, t *LintTool) bool {
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

func (c *lintCheck) namePattern(t *LintTool) {
	if ok, err := regexp.MatchString(c.fact.Pattern, t.MCPName); err != nil || !ok {
		c.add(t, "/name", Fix{Text: "give the tool a name of letters, digits and underscores"}, "the name %s does not match %s", quoted(t.MCPName), c.fact.Pattern)
	}
}

// groups are the tools that have something in common, each group by name; only those of two and more.
func (c *lintCheck) groups(of func(t *LintTool) string) [][]*LintTool {
	found := map[string][]*LintTool{}
	for _, t := range c.tools {
		if key := of(t); key != "" {
			found[key] = append(found[key], t)
		}
	}
	var out [][]*LintTool
	for _, key := range slices.Sorted(maps.Keys(found)) {
		if group := found[key]; len(group) > 1 {
			slices.SortStableFunc(group, func(a, b *LintTool) int { return cmp.Compare(a.Name, b.Name) })
			out = append(out, group)
		}
	}
	return out
}

// maxNamed is how many tools a message names.
const maxNamed = 5

// others names the tools of a group but one. It looks at no more than it names: each tool of a group asks.
func others(group []*LintTool, but *LintTool) string {
	var names []string
	for _, t := range group[:min(len(group), maxNamed+1)] {
		if t != but && len(names) < maxNamed {
			names = append(names, t.Name)
		}
	}
	if more := len(group) - 1 - len(names); more > 0 {
		names = append(names, counted(more, "more tool"))
	}
	return strings.Join(names, ", ")
}

func (c *lintCheck) nameUnique() {
	for _, group := range c.groups(func(t *LintTool) string { return t.MCPName }) {
		for _, t := range group[1:] {
			c.add(t, "/name", Fix{Text: "give one of them another name"}, "the name %s is that of %s too", quoted(t.MCPName), others(group, t))
		}
	}
}

func (c *lintCheck) nameSimilar() {
	for _, group := range c.groups(func(t *LintTool) string { return folded(t.MCPName) }) {
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

func (c *lintCheck) titleMissing(t *LintTool) {
	if !t.hasTitle {
		c.add(t, "/title", c.entry(t, "write a title", "title", unwritten+"a name for people."), "it has no title")
	}
}

// unwritten begins texts of fixes that a person has to write. A text that begins with it is none.
const unwritten = "TODO: "

// generatedText is the form of descriptions that the sidecar generates from names and messages. A title that is the
// method's name tells them from a summary that somebody wrote.
var generatedText = regexp.MustCompile(`(?s)^(Deprecated[^\n]*\n\n)?[^\n]+?\. (Takes|Requires) .+?\. (Returns|Starts) `)

func (c *lintCheck) descriptionMissing(t *LintTool) {
	text := strings.TrimSpace(t.Description)
	isGenerated := generatedText.MatchString(text) && (saysNoMore(t.Title, t) || t.hasTitle && t.Title == "")
	if text != "" && !strings.HasPrefix(text, unwritten) && !isGenerated {
		return
	}
	message := "it has no description"
	if isGenerated {
		message = "it is not described: the description is made of the method's name and its messages"
	}
	c.add(t, "/description", c.entry(t, "write a comment on the RPC, or a description here", "description", unwritten+"what it does, and when to use it."), "%s", message)
}

// saysNoMore reports whether a text has no words but those of the tool's name.
func saysNoMore(text string, t *LintTool) bool {
	return folded(strings.ReplaceAll(strings.TrimRight(text, ". "), " ", "_")) == folded(strings.Join(t.words(), "_"))
}

func (c *lintCheck) descriptionShort(t *LintTool) {
	text := strings.TrimSpace(t.Description)
	if text == "" || strings.HasPrefix(text, unwritten) || length(text) >= c.fact.Limit && !saysNoMore(text, t) {
		return
	}
	c.add(t, "/description", c.entry(t, "say what it does and when to use it", "description", unwritten+"what it does, and when to use it."),
		"the description %s is short, or repeats the name", quoted(text))
}

func (c *lintCheck) descriptionLength(t *LintTool) {
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

func (c *lintCheck) descriptionSame() {
	for _, group := range c.groups(func(t *LintTool) string { return strings.TrimSpace(t.Description) }) {
		for _, t := range group[1:] {
			c.add(t, "/description", c.entry(t, "say how it differs", "description", unwritten+"what it does, and how it differs from "+group[0].Name+"."),
				"the description is that of %s", others(group, t))
		}
	}
}

func (c *lintCheck) propertyDescription(t *LintTool) {
	isMissing := func(n node) bool {
		text, _ := n.schema["description"].(string)
		text = strings.TrimSpace(text)
		return n.property && n.schema["$ref"] == nil && (text == "" || strings.HasPrefix(text, unwritten))
	}
	fix := Fix{Text: "write comments on the fields in the .proto file, or declare an input_schema for the tool in the configuration file"}
	if found := c.describable(t, isMissing); len(found) > 0 {
		fix = Fix{
			Text:   "write comments on the fields in the .proto file, or descriptions here",
			change: overlayChange{method: t.Method, members: found},
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
func (c *lintCheck) describable(t *LintTool, isMissing func(node) bool) []member {
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

// nodes asks each subschema of the fact's schemas what is wrong with it; empty for nothing. A finding names the first
// place and counts the others. Without a fix, the one for schemas is taken.
func (c *lintCheck) nodes(t *LintTool, fix Fix, wrong func(n node) string) {
	for _, s := range t.schemas(c.fact) {
		var at, what string
		more := -1
		walk(s.root, "/"+s.member, func(n node) {
			text := wrong(n)
			if text == "" {
				return
			}
			if more++; more == 0 {
				at, what = n.at, text
			}
		})
		if more < 0 {
			continue
		}
		if more > 0 {
			what += ", and " + counted(more, "more place")
		}
		if fix.Text == "" {
			c.add(t, at, c.schemaFix(t, s), "%s", what)
		} else {
			c.add(t, at, fix, "%s", what)
		}
	}
}

// schemaFix is what to do about a schema that a client does not take.
func (c *lintCheck) schemaFix(t *LintTool, s schemaOf) Fix {
	switch {
	case c.fact.Rule == "bound-size":
		return Fix{Text: "leave the bound out: no value comes near it"}
	case s.member == "outputSchema" && c.fact.Rule == "recursive-ref":
		return c.entry(t, "show the result without what contains itself", "output_schema", opened(s.root))
	case !c.options.Strict:
		return Fix{Text: "advertise schemas in the subset that all providers take", change: overlayChange{strict: true}}.rendered()
	case s.member == "outputSchema":
		return c.entry(t, "show less of the result", "output_schema", anyObject)
	default:
		return Fix{Text: "declare an input_schema for the tool in the configuration file"}
	}
}

func (c *lintCheck) rootType(n node) string {
	if n.schema["type"] == "object" {
		return ""
	}
	return `the root of the schema has no "type": "object"`
}

func (c *lintCheck) rootProperties(n node) string {
	if n.members("properties") != nil {
		return ""
	}
	return `the root of the schema has no "properties"`
}

func (c *lintCheck) rootCombinator(n node) string {
	if found := c.wordsIn(n); found != "" {
		return "the root of the schema has " + found
	}
	return ""
}

// wordsIn names those words of the fact that are keywords of a schema.
func (c *lintCheck) wordsIn(n node) string {
	var found []string
	for _, word := range c.fact.Words {
		if _, ok := n.schema[word]; ok {
			found = append(found, word)
		}
	}
	return strings.Join(found, ", ")
}

func (c *lintCheck) keyword(n node) string {
	if found := c.wordsIn(n); found != "" {
		return "the schema has " + found
	}
	return ""
}

// propertyName looks at the arguments alone: providers do not look at what is in them.
func (c *lintCheck) propertyName(n node) string {
	pattern := regexp.MustCompile(c.fact.Pattern) // a test compiles the patterns of all facts
	for _, name := range slices.Sorted(maps.Keys(n.members("properties"))) {
		if !pattern.MatchString(name) {
			return fmt.Sprintf("the argument %s does not match %s", quoted(name), c.fact.Pattern)
		}
	}
	return ""
}

// maxSafeBound is the largest integer that every reader of JSON holds exactly.
const maxSafeBound = 1<<53 - 1

// boundSize looks for bounds of lengths and numbers that are written as integers which many readers cannot hold.
func (c *lintCheck) boundSize(n node) string {
	for _, word := range c.fact.Words {
		bound, ok := n.schema[word].(json.Number)
		if !ok || strings.ContainsAny(bound.String(), ".eE") {
			continue
		}
		if value, err := strconv.ParseInt(bound.String(), 10, 64); err != nil || value > maxSafeBound || value < -maxSafeBound {
			return "the schema has " + word + " " + quoted(bound.String())
		}
	}
	return ""
}

func (c *lintCheck) format(n node) string {
	format, ok := n.schema["format"].(string)
	if !ok || !slices.Contains(n.types(), "string") || slices.Contains(c.fact.Words, format) {
		return ""
	}
	return "a string has the format " + quoted(format)
}

func (c *lintCheck) typeList(n node) string {
	if n.list("type") == nil {
		return ""
	}
	return "a schema has a list of types"
}

func (c *lintCheck) enumType(n node) string {
	if !areTexts(n.list("enum")) {
		return "an enum has values that are no strings"
	}
	return ""
}

func (c *lintCheck) arrayItems(n node) string {
	if _, ok := n.schema["items"]; ok || !slices.Contains(n.types(), "array") {
		return ""
	}
	return `an array has no "items"`
}

func (c *lintCheck) emptyObject(n node) string {
	if n.isRoot || !slices.Contains(n.types(), "object") || len(n.members("properties")) > 0 {
		return ""
	}
	return "an object has no properties"
}

func (c *lintCheck) requiredAll(n node) string {
	required := map[string]bool{}
	for _, name := range n.list("required") {
		if text, ok := name.(string); ok {
			required[text] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.members("properties"))) {
		if !required[name] {
			return "the property " + quoted(name) + " is not required"
		}
	}
	return ""
}

func (c *lintCheck) closedObjects(n node) string {
	if !slices.Contains(n.types(), "object") || n.schema["additionalProperties"] == false {
		return ""
	}
	return `an object has no "additionalProperties": false`
}

func (c *lintCheck) ref(n node) string {
	if ref, ok := n.schema["$ref"].(string); ok {
		return "the schema has $ref " + quoted(ref)
	}
	return ""
}

func (c *lintCheck) recursiveRef(root any) (at, what string) {
	if at, ok := recursive(root); ok {
		return at + "/$ref", "the schema contains itself by $ref"
	}
	return "", ""
}

func (c *lintCheck) danglingRef(root any) (at, what string) {
	for _, r := range references(root) {
		if _, ok := pointed(root, r.target); !ok {
			return r.at + "/$ref", "the reference " + quoted(r.target) + " leads nowhere in the schema"
		}
	}
	return "", ""
}

func (c *lintCheck) depth(root any) (at, what string) {
	deepest := 0
	walk(root, "", func(n node) {
		if level := n.level + 1; n.isContainer() && level > deepest {
			deepest, at = level, n.at
		}
	})
	return at, c.above(deepest, "levels of objects and arrays")
}

// above says that a number is above the limit of the fact; empty if it is not.
func (c *lintCheck) above(n int, of string) string {
	if n <= c.fact.Limit {
		return ""
	}
	return fmt.Sprintf("the schema has %d %s; %s", n, of, c.limit(of))
}

// sumOf is a check of what all subschemas have together.
func sumOf(of string, count func(n node) int) func(c *lintCheck, root any) (at, what string) {
	return func(c *lintCheck, root any) (at, what string) {
		sum := 0
		walk(root, "", func(n node) { sum += count(n) })
		return "", c.above(sum, of)
	}
}

// manyValues is the number of values of an enum above which the length of their text counts.
const manyValues = 250

func (c *lintCheck) enumText(n node) string {
	values := n.list("enum")
	if len(values) <= manyValues {
		return ""
	}
	return c.above(textOf(values), "characters in an enum")
}

// textOf is the length of all texts among some values.
func textOf(values []any) int {
	sum := 0
	for _, v := range values {
		if text, ok := v.(string); ok {
			sum += length(text)
		}
	}
	return sum
}

// namedText is the length of the names of properties and the values of enums.
func namedText(n node) int {
	sum := textOf(n.list("enum"))
	for _, keyword := range [...]string{"properties", "$defs"} {
		for name := range n.members(keyword) {
			sum += length(name)
		}
	}
	if text, ok := n.schema["const"].(string); ok {
		sum += length(text)
	}
	return sum
}

// anyObject is the schema of a result that says nothing.
const anyObject = `{"type":"object"}`

// maxOpened is the largest schema that a fix proposes, in bytes.
const maxOpened = 16 << 10

// opened is a schema that all clients take and that allows everything that another one does: a reference becomes any object,
// and of the keywords those remain that every provider knows.
func opened(root any) string {
	text, err := compactJSON(openedSchema(root))
	if err != nil || len(text) > maxOpened {
		return anyObject
	}
	return string(text)
}

func openedSchema(value any) any {
	from, ok := value.(map[string]any)
	if !ok {
		return value // true or false
	}
	out := map[string]any{}
	if text, ok := from["description"]; ok {
		out["description"] = text
	}
	if _, ok := from["$ref"]; ok {
		out["type"] = "object"
		return out
	}
	for name, member := range from {
		switch m := member.(type) {
		case string:
			if name == "type" {
				out[name] = m
			}
		case map[string]any:
			switch name {
			case "properties":
				properties := make(map[string]any, len(m))
				for property, one := range m {
					properties[property] = openedSchema(one)
				}
				out[name] = properties
			case "items", "additionalProperties":
				out[name] = openedSchema(m)
			}
		case []any:
			switch {
			case name == "required", name == "enum" && areTexts(m):
				out[name] = m
			case name == "anyOf":
				choices := make([]any, len(m))
				for i, one := range m {
					choices[i] = openedSchema(one)
				}
				out[name] = choices
			}
		case bool:
			if name == "additionalProperties" {
				out[name] = m
			}
		}
	}
	return out
}

func areTexts(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool { _, isText := v.(string); return !isText })
}
