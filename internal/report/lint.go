// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// DefaultMaxFindings is more than anybody reads at once, and a megabyte or so of JSON.
const DefaultMaxFindings = 2_000

// DefaultServer is the name of the server in a client's configuration, if no one says another.
const DefaultServer = "outrigger"

// LintOptions say what to check. The zero value checks for every client.
type LintOptions struct {
	// Clients are names of clients; empty for all.
	Clients []string
	// Server is the name of the server in the client's configuration, which some clients put in front of names. Empty means
	// DefaultServer.
	Server string
	// Strict is set if the list was made with --schema-profile strict, so that no one is asked to set it.
	Strict bool
	// Behind are tools that the list does not have, because a few tools take their place (--catalog-mode). They are judged
	// by what holds for every client.
	Behind []*LintTool
	// MaxFindings is the largest number of findings in a report. 0 means DefaultMaxFindings.
	MaxFindings int
}

// unknownClientError is the error of Lint for a client that has no facts.
type unknownClientError struct{ Name string }

// Error names the client and those that are known.
func (e *unknownClientError) Error() string {
	return fmt.Sprintf("unknown client %q; the clients are %s", e.Name, strings.Join(ClientNames(), ", "))
}

// chosen are the clients of the options.
func (o LintOptions) chosen() ([]lintClient, error) {
	all := lintClients()
	if len(o.Clients) == 0 {
		return all, nil
	}
	var out []lintClient
	for _, name := range o.Clients {
		at := slices.IndexFunc(all, func(c lintClient) bool { return c.Name == name })
		if at < 0 {
			return nil, &unknownClientError{name}
		}
		if !slices.Contains(out, all[at]) {
			out = append(out, all[at])
		}
	}
	return out, nil
}

// Lint judges a list of tools. The only error is *unknownClientError.
func Lint(tools []*LintTool, o LintOptions) (*LintReport, error) {
	clients, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if o.Server == "" {
		o.Server = DefaultServer
	}
	defaults.Fill(&o.MaxFindings, DefaultMaxFindings)
	r := &LintReport{Tools: len(tools), Findings: []Finding{}, Clients: []string{}}
	for _, c := range clients {
		r.Clients = append(r.Clients, c.Name)
	}
	for _, t := range tools {
		r.Tokens += t.Tokens
	}
	given := namesOf(tools, o.Behind)
	applyFacts(r, append([]lintClient{{}}, clients...), tools, given, o, func(lintFact) bool { return true })
	if len(o.Behind) > 0 {
		applyFacts(r, []lintClient{{}}, o.Behind, given, o, func(f lintFact) bool { return f.Rule != "list-tokens" && f.Rule != "tool-tokens" })
	}
	r.summarize(o.MaxFindings)
	return r, nil
}

// applyFacts applies the facts of the clients, of which one without a name represents all.
func applyFacts(r *LintReport, clients []lintClient, tools []*LintTool, given names, o LintOptions, applies func(lintFact) bool) {
	rules := map[string]lintRule{}
	for _, rule := range lintRules() {
		rules[rule.ID] = rule
	}
	for _, f := range lintFacts() {
		at := slices.IndexFunc(clients, func(c lintClient) bool { return c.Name == f.Client })
		if at < 0 || !applies(f) {
			continue
		}
		c := &lintCheck{fact: f, client: clients[at], options: o, tools: tools, names: given, report: r}
		c.apply(rules[f.Rule])
	}
}

// apply makes the check of a rule.
func (c *lintCheck) apply(rule lintRule) {
	if rule.list != nil {
		rule.list(c)
		return
	}
	for _, t := range c.tools {
		switch {
		case rule.tool != nil:
			rule.tool(c, t)
		case rule.whole != nil:
			for _, s := range t.schemas(c.fact) {
				if at, what := rule.whole(c, s.root); what != "" {
					c.add(t, "/"+s.member+at, c.schemaFix(t, s), "%s", what)
				}
			}
		default:
			c.nodes(t, Fix{}, func(n node) string {
				switch {
				case rule.node != nil:
					return rule.node(c, n)
				case n.isRoot:
					return rule.root(c, n)
				}
				return ""
			})
		}
	}
}

// CheckSchemas judges the schemas of one tool alone, for some clients. It returns the findings of level Error. output may
// be nil.
func CheckSchemas(input, output json.RawMessage, clients ...string) ([]Finding, error) {
	o := LintOptions{Clients: clients}
	chosen, err := o.chosen()
	if err != nil {
		return nil, err
	}
	t, err := NewLintTool(Tool{Name: "schema.check", InputSchema: input, OutputSchema: output}, "schema.Check/Check")
	if err != nil {
		return nil, err
	}
	r := &LintReport{}
	applyFacts(r, chosen, []*LintTool{t}, namesOf(), o, func(f lintFact) bool { return f.isOfSchemas() && f.Level == Error })
	return r.Findings, nil
}

// lintCheck is the application of one fact. It belongs to one call of Lint.
type lintCheck struct {
	fact    lintFact
	client  lintClient
	options LintOptions
	tools   []*LintTool
	names   names
	report  *LintReport
}

// add adds a finding. t is nil for the list as a whole.
func (c *lintCheck) add(t *LintTool, path string, fix Fix, format string, args ...any) {
	f := Finding{Level: c.fact.Level, Rule: c.fact.Rule, Client: c.fact.Client, Path: path, Fix: fix}
	if t != nil {
		f.Tool = t.Name
	}
	f.Message = fmt.Sprintf(format, args...) + ": " + c.fact.Effect
	c.report.Findings = append(c.report.Findings, f)
	c.report.changes = append(c.report.changes, fix.change)
}

// limit is the limit of the fact, as messages name it.
func (c *lintCheck) limit(of string) string {
	if c.client.Title == "" {
		return fmt.Sprintf("the limit is %d %s", c.fact.Limit, of)
	}
	return fmt.Sprintf("the limit of %s is %d %s", c.client.Title, c.fact.Limit, of)
}

// lintRule is a property that a list of tools should have. Facts say which client asks for it.
type lintRule struct {
	// ID names the rule. About says what should hold; %d represents the limit of a fact.
	ID, About string
	// One of these is set. list checks all tools together, tool each one, and the others the schemas that the fact is about:
	// their roots, each subschema, or each as a whole. They return what is wrong, or nothing; at is the place to show.
	list       func(c *lintCheck)
	tool       func(c *lintCheck, t *LintTool)
	root, node func(c *lintCheck, n node) string
	whole      func(c *lintCheck, root any) (at, what string)
}

// lintRules lists all rules.
func lintRules() []lintRule {
	return []lintRule{
		{ID: "tool-count", About: "the list has at most so many tools", list: (*lintCheck).toolCount},
		{ID: "tool-count-advised", About: "the list has at most so many tools, as is advised", list: (*lintCheck).toolCount},
		{ID: "tool-tokens", About: "a tool costs at most so many tokens", tool: (*lintCheck).toolTokens},
		{ID: "list-tokens", About: "the list costs at most so many tokens", list: (*lintCheck).listTokens},

		{ID: "name-length", About: "the name has at most so many characters, with the prefix that the client adds", tool: (*lintCheck).nameLength},
		{ID: "name-pattern", About: "the name has no other characters than those of the pattern", tool: (*lintCheck).namePattern},
		{ID: "name-unique", About: "no two tools have one name in MCP's list", list: (*lintCheck).nameUnique},
		{ID: "name-similar", About: "names differ in more than case, separators and plural", list: (*lintCheck).nameSimilar},

		{ID: "title-missing", About: "the tool has a title", tool: (*lintCheck).titleMissing},
		{ID: "description-missing", About: "somebody describes the tool", tool: (*lintCheck).descriptionMissing},
		{ID: "description-short", About: "the description has at least so many characters, and says more than the name", tool: (*lintCheck).descriptionShort},
		{ID: "description-length", About: "the description has at most so many characters", tool: (*lintCheck).descriptionLength},
		{ID: "description-same", About: "no two tools have one description", list: (*lintCheck).descriptionSame},
		{ID: "property-description", About: "each property has a description", tool: (*lintCheck).propertyDescription},

		{ID: "hints-conflict", About: "a tool that only reads is not destructive", tool: (*lintCheck).hintsConflict},
		{ID: "hint-not-destructive", About: "a tool that deletes, by its name, is shown as destructive", tool: (*lintCheck).hintNotDestructive},
		{ID: "hint-not-read-only", About: "a tool that changes something, by its name, is not shown as read-only", tool: (*lintCheck).hintNotReadOnly},
		{ID: "hint-destructive", About: "a tool that reads, by its name, is not shown as destructive", tool: (*lintCheck).hintDestructive},
		{ID: "hint-missing", About: "a tool that reads, by its name, is shown as read-only", tool: (*lintCheck).hintMissing},

		{ID: "root-type", About: `the root of the schema has "type": "object"`, root: (*lintCheck).rootType},
		{ID: "root-properties", About: `the root of the schema has "properties"`, root: (*lintCheck).rootProperties},
		{ID: "root-combinator", About: "the root of the schema has none of the keywords", root: (*lintCheck).rootCombinator},
		{ID: "property-name", About: "names of arguments match the pattern", root: (*lintCheck).propertyName},
		{ID: "keyword", About: "the schema has none of the keywords", node: (*lintCheck).keyword},
		{ID: "bound-size", About: "bounds of lengths and numbers are at most 2^53-1", node: (*lintCheck).boundSize},
		{ID: "format", About: "strings have no other formats than these", node: (*lintCheck).format},
		{ID: "type-list", About: `"type" is one name, not a list`, node: (*lintCheck).typeList},
		{ID: "enum-type", About: "values of an enum are strings", node: (*lintCheck).enumType},
		{ID: "array-items", About: `an array has "items"`, node: (*lintCheck).arrayItems},
		{ID: "empty-object", About: "an object below the root has properties", node: (*lintCheck).emptyObject},
		{ID: "required-all", About: "each property is required", node: (*lintCheck).requiredAll},
		{ID: "closed-objects", About: `each object has "additionalProperties": false`, node: (*lintCheck).closedObjects},
		{ID: "ref", About: "the schema has no $ref", node: (*lintCheck).ref},
		{ID: "recursive-ref", About: "the schema does not contain itself by $ref", whole: (*lintCheck).recursiveRef},
		{ID: "dangling-ref", About: "each $ref leads to a place in the schema", whole: (*lintCheck).danglingRef},
		{ID: "depth", About: "objects and arrays are nested in at most so many levels", whole: (*lintCheck).depth},
		{ID: "property-count", About: "the schema has at most so many properties", whole: sumOf("properties", func(n node) int { return len(n.members("properties")) })},
		{ID: "enum-size", About: "all enums of the schema have at most so many values together", whole: sumOf("values of enums", func(n node) int { return len(n.list("enum")) })},
		{ID: "enum-text", About: "the values of an enum of more than 250 have at most so many characters together", node: (*lintCheck).enumText},
		{ID: "schema-text", About: "names of properties and values of enums have at most so many characters together", whole: sumOf("characters in names and enums", namedText)},
	}
}

// isOfSchemas reports whether the rule can be applied to schemas alone.
func (f lintFact) isOfSchemas() bool { return f.Where != 0 && f.Client != "" }

// Level is how bad a finding is.
type Level uint8

// The levels. Error: a client refuses or cuts something. Warning: something works worse than it could, or not with every
// version of a client. Note: worth knowing.
const (
	Note Level = iota
	Warning
	Error
)

// String returns "note", "warning" or "error".
func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Warning:
		return "warning"
	default:
		return "note"
	}
}

// MarshalText returns the text of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one thing that a client does not take well.
type Finding struct {
	Level Level  `json:"level"`
	Rule  string `json:"rule"`
	// Client is the name of the client; empty if it holds for every client.
	Client string `json:"client,omitempty"`
	// LintTool is the canonical name of the tool; empty if it is about the list.
	Tool string `json:"tool,omitempty"`
	// Path is a JSON Pointer into the tool's entry of the list, to the first place.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Fix     Fix    `json:"fix"`
}

// LintReport is what Lint found.
type LintReport struct {
	// OK is set if there is no finding of level Error.
	OK bool `json:"ok"`
	// Tools is the number of tools that clients list, and Tokens what the list costs, by an estimate of four bytes a token.
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
	// Clients are the names of those whose facts were applied.
	Clients []string `json:"clients"`
	// Counts are the numbers of findings, those that are omitted included.
	Counts Counts `json:"counts"`
	// Findings are sorted: errors first, then by tool, rule and client.
	Findings []Finding `json:"findings"`
	// Omitted is the number of findings beyond LintOptions.MaxFindings.
	Omitted int `json:"omitted"`

	changes []overlayChange // of all findings, those that are omitted included
}

// Counts are numbers of findings by level.
type Counts struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Note    int `json:"note"`
}

// String returns the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%s, %s, %s", counted(c.Error, "error"), counted(c.Warning, "warning"), counted(c.Note, "note"))
}

func counted(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func (c *Counts) add(l Level) {
	switch l {
	case Error:
		c.Error++
	case Warning:
		c.Warning++
	default:
		c.Note++
	}
}

// summarize sorts and counts the findings, and cuts them to the limit.
func (r *LintReport) summarize(most int) {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Path, b.Path))
	})
	for _, f := range r.Findings {
		r.Counts.add(f.Level)
	}
	r.OK = r.Counts.Error == 0
	if len(r.Findings) > most {
		r.Omitted = len(r.Findings) - most
		r.Findings = r.Findings[:most]
	}
}

// Fix is what to do about a finding.
type Fix struct {
	// Text says it in words.
	Text string `json:"text"`
	// Overlay are lines of the configuration file that do it, if such lines can. A text in them that begins with TODO has
	// to be written by a person.
	Overlay string `json:"overlay,omitempty"`

	change overlayChange
}

// overlayChange is what a fix changes in the configuration file.
type overlayChange struct {
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
	return Fix{Text: text, change: overlayChange{compact: true}}.rendered()
}

// entry is a fix that sets one value of the tool's entry.
func (c *lintCheck) entry(t *LintTool, text, name, value string) Fix {
	if t.Method == "" {
		return Fix{Text: text + ": " + name + " of the tool's entry in the configuration file"}
	}
	return Fix{Text: text, change: overlayChange{method: t.Method, members: []member{{name, value}}}}.rendered()
}

func (f Fix) rendered() Fix {
	f.Overlay = overlayOf([]overlayChange{f.change})
	return f
}

// Overlay returns the fixes of all findings as one configuration file, or an overlay of one; empty if no lines fix any.
// Findings beyond LintOptions.MaxFindings count too. Where two fixes differ, the shorter value is taken: it fits the narrower client.
func (r *LintReport) Overlay() string { return overlayOf(r.changes) }

func overlayOf(all []overlayChange) string {
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

// LintTool is one tool as clients list it. Make one with [NewLintTool].
type LintTool struct {
	// Name is the canonical name, or the only one that is known. MCPName is the one in MCP's list.
	Name, MCPName string
	// Method is "package.Service/Method", by which the configuration file names the tool; empty if that is not known.
	Method             string
	Title, Description string
	Hints              Annotations
	// OwnInput is set if the configuration file declares the input schema, so that its entry cannot describe properties too.
	OwnInput bool
	// Tokens is what the entry costs in a list, by an estimate.
	Tokens int

	// hasTitle is set if the tool has a title, which a list leaves out if it says no more than the name.
	hasTitle bool
	// listedTitle is the title in the list.
	listedTitle string

	input, output any // schemas as they are parsed; output is nil where there is none
	leftOut       any // the output schema that the list does not show
}

// NewLintTool makes a tool of an entry of a list. method is "package.Service/Method", or empty if no entry of the configuration
// file is for this tool. The error says that a schema is no JSON.
func NewLintTool(t Tool, method string) (*LintTool, error) {
	out := &LintTool{
		Name: t.Name, MCPName: listedName(t.Name), Method: method, Title: cmp.Or(t.Title, t.Listed.Title), Description: t.Description, Hints: t.Annotations,
	}
	out.hasTitle, out.listedTitle = strings.TrimSpace(out.Title) != "", out.Title
	switch {
	case t.Listed.Name != "":
		out.Name, out.MCPName, out.hasTitle = t.Listed.Name, t.Name, true
	case isOwn(t) && !(&catalog.Tool{Name: t.Name, Title: t.Title}).HasOwnTitle():
		out.listedTitle = ""
	}
	var err error
	if out.input, err = parsed(t.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
	}
	if out.output, err = parsed(t.OutputSchema); err != nil {
		return nil, fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	size, err := out.size()
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", t.Name, err)
	}
	out.Tokens = size / listcost.BytesPerToken
	return out, nil
}

// LeaveOut takes the output schema that the catalog has and the list does not show. It is judged by what holds for every client.
// The error says that it is no JSON.
func (t *LintTool) LeaveOut(output json.RawMessage) error {
	var err error
	if t.leftOut, err = parsed(output); err != nil {
		return fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	return nil
}

// isOwn reports whether an entry is a sidecar's in the canonical form, which has all titles.
func isOwn(t Tool) bool { return t.Metadata.Module != "" && catalog.IsCanonicalName(t.Name) }

// listedName is the name in MCP's list. Catalogs of the sidecar have canonical names, of which the list has another form. A name
// of another kind is from a list of another server, which no one shortens.
func listedName(name string) string {
	if catalog.IsCanonicalName(name) {
		return catalog.MCPName(name)
	}
	return name
}

// NewLintTools makes tools of a list that was saved. A list does not say what their methods are: the names of derived tools say
// it most often.
func NewLintTools(list []Tool) ([]*LintTool, error) {
	out := make([]*LintTool, 0, len(list))
	for _, t := range list {
		tool, err := NewLintTool(t, guessedMethod(cmp.Or(t.Listed.Module, t.Metadata.Module), cmp.Or(t.Listed.Name, t.Name)))
		if err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

// listEntry is the part of an entry of MCP's list that may reach a model.
type listEntry struct {
	Name         string      `json:"name"`
	Title        string      `json:"title,omitempty"`
	Description  string      `json:"description,omitempty"`
	InputSchema  any         `json:"inputSchema"`
	OutputSchema any         `json:"outputSchema,omitempty"`
	Annotations  Annotations `json:"annotations"`
}

// size is the number of bytes of the entry, whatever white space and escapes the list has.
func (t *LintTool) size() (int, error) {
	text, err := compactJSON(listEntry{t.MCPName, t.listedTitle, t.Description, t.input, t.output, t.Hints})
	return len(text), err
}

// guessedMethod is the method that a derived name most likely comes from; empty if the module is no service,
// or the name has no words.
func guessedMethod(module, name string) string {
	at := strings.LastIndexByte(name, '.')
	if at < 0 || !strings.Contains(module, ".") || !isIdentifier(module) || !isIdentifier(name) {
		return ""
	}
	var method strings.Builder
	for word := range strings.SplitSeq(name[at+1:], "_") {
		if word != "" {
			method.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	if method.Len() == 0 {
		return ""
	}
	return module + "/" + method.String()
}

// isIdentifier reports whether a text has no other characters than names of Protobuf with their packages.
func isIdentifier(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// words are the words of the method's name.
func (t *LintTool) words() []string {
	return strings.FieldsFunc(strings.ToLower(t.Name[strings.LastIndexByte(t.Name, '.')+1:]), func(r rune) bool { return r == '_' || r == '-' })
}

// length counts as clients in JavaScript do: in UTF-16 code units.
func length(text string) int {
	n := 0
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// schemaOf is one schema of a tool.
type schemaOf struct {
	member string // of the entry
	root   any
}

// schemas are the schemas that a fact is about.
func (t *LintTool) schemas(f lintFact) []schemaOf {
	var out []schemaOf
	w := f.Where
	if w&inputSchemas != 0 && t.input != nil {
		out = append(out, schemaOf{"inputSchema", t.input})
	}
	if w&outputSchemas != 0 && t.output != nil {
		out = append(out, schemaOf{"outputSchema", t.output})
	}
	if w&outputSchemas != 0 && t.leftOut != nil && f.Client == "" {
		out = append(out, schemaOf{"outputSchema", t.leftOut})
	}
	return out
}
