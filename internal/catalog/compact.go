// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Compact returns the catalog that offers a few tools in the place of all: one to search them, one to describe and one to
// call any of them, and where there are programs one to run those. Everything else is that of c. It is the same one each time.
func (c *Catalog) Compact() (*Catalog, error) {
	c.compact.once.Do(func() { c.compact.catalog, c.compact.err = c.compacted() })
	return c.compact.catalog, c.compact.err
}

// Programs keeps what fresh makes of the catalog for programs. It is made when it is first asked for, and goes with the catalog.
func (c *Catalog) Programs(fresh func() any) any {
	c.compact.programs.Do(func() { c.compact.known = fresh() })
	return c.compact.known
}

func (c *Catalog) compacted() (*Catalog, error) {
	out := *c
	out.own, out.growth, out.byName, out.compact = &lists{}, nil, map[string]*Tool{}, &compacted{}
	own := []ownTool{callTool(c.isStrict), describeTool(c.reserved.programs, c.isStrict)} // by name
	if c.reserved.programs {
		own = append(own, c.runTool())
	}
	own = append(own, searchTool(c.contents(), c.isStrict))
	for _, made := range own {
		t, err := c.newCompactTool(made)
		if err != nil {
			return nil, err
		}
		out.add(t)
	}
	out.digests = digests{}.with(out.own.visible)
	out.fingerprint = out.digests.sum()
	return &out, nil
}

// add adds a tool of the sidecar's own to a copy of a catalog.
func (c *Catalog) add(t *Tool) {
	for _, name := range t.names() {
		c.byName[name] = t
	}
	c.own.visible, c.own.all = append(c.own.visible, t), append(c.own.all, t)
}

// WithPrograms returns the catalog with the tool that runs programs beside all others, where there are programs; else c. It is the same
// one each time.
func (c *Catalog) WithPrograms() (*Catalog, error) {
	if !c.reserved.programs {
		return c, nil
	}
	c.compact.besides.Do(func() { c.compact.full, c.compact.fullErr = c.withPrograms() })
	return c.compact.full, c.compact.fullErr
}

func (c *Catalog) withPrograms() (*Catalog, error) {
	t, err := c.newCompactTool(c.runTool())
	if err != nil {
		return nil, err
	}
	out, all := *c, c.lists()
	out.own = &lists{visible: slices.Clone(all.visible), all: slices.Clone(all.all), services: all.services}
	out.growth, out.compact, out.byName = nil, &compacted{}, make(map[string]*Tool, 2*len(all.all))
	for _, one := range all.all {
		if one.Hidden {
			continue
		}
		for _, name := range one.names() {
			out.byName[name] = one
		}
	}
	out.add(t)
	slices.SortFunc(out.own.visible, inOrder)
	slices.SortFunc(out.own.all, inOrder)
	out.digests = digests{}.with(out.own.visible)
	out.fingerprint = out.digests.sum()
	return &out, nil
}

// ownTool is a tool of the sidecar's own, and the input schema that lists show in the place of the declared one: without limits that
// models keep anyway, because each conversation has all four.
type ownTool struct {
	kind  Compact
	tool  *outriggerv1.Tool
	shown string
	// output is the output schema in lists; empty for the declared one.
	output string
}

// What the profile strict shows: every property is required, no object is open, and limits are words. The arguments of a tool that no
// one knows have no schema in that form, so they are text, as such fields of messages are. The declared schemas check what comes.
const (
	nameText  = `"As search returns it."`
	namesText = `"Tools of a program."`
	plainName = `"name":{"type":"string","description":` + nameText + `}`

	strictCall = `{"type":"object","properties":{` + plainName + `,"arguments":{"type":"string","description":` +
		`"One JSON object in a string, such as {\"id\":\"7\"}; {} for none."},"fields":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` + fieldsText + `},` +
		`"stream_time":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` + streamTimeText + `}},` +
		`"required":["name","arguments","fields","stream_time"],"additionalProperties":false}`
	shownCall = `{"type":"object","properties":{` + plainName + `,"arguments":{"type":"object"},"fields":{"type":"string","description":` + fieldsText + `},` +
		`"stream_time":{"type":"string","description":` + streamTimeText + `}},"required":["name"],"additionalProperties":false}`

	fieldsText     = `"The wanted fields of the result, such as orders.id,nextPageToken."`
	streamTimeText = `"How long to read a stream, such as 5s."`

	describeOne = `{"type":"object","properties":{` + plainName + `},"required":["name"],"additionalProperties":false}`

	strictDescribe = `{"type":"object","properties":{"name":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` + nameText + `},` +
		`"names":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}],"description":` + namesText + `}},"required":["name","names"],"additionalProperties":false}`
	shownDescribe = `{"type":"object","properties":{` + plainName + `,"names":{"type":"array","items":{"type":"string"},"description":` + namesText + `}},"additionalProperties":false}`

	shownFound = `{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"summary":{"type":"string"}}}}}}`
)

func shownSearch(isStrict bool) string {
	if !isStrict {
		return fmt.Sprintf(`{"type":"object","properties":{"query":{"type":"string"},"limit":{"type":"integer","minimum":1,"maximum":%d,"default":%d}},`+
			`"required":["query"],"additionalProperties":false}`, maxSearchResults, DefaultSearchResults)
	}
	return fmt.Sprintf(`{"type":"object","properties":{"query":{"type":"string","description":"At most %d characters."},`+
		`"limit":{"anyOf":[{"type":"integer"},{"type":"null"}],"description":"How many tools to return: 1 to %d; null for %d."}},"required":["query","limit"],"additionalProperties":false}`,
		maxQuery, maxSearchResults, DefaultSearchResults)
}

// TakesArgumentsAsText reports whether catalog.call of the compact form shows its arguments as text that holds an object. It takes
// an object too.
func (c *Catalog) TakesArgumentsAsText() bool { return c.isStrict }

// newCompactTool makes a tool of the sidecar's own.
func (c *Catalog) newCompactTool(of ownTool) (*Tool, error) {
	kind, declared := of.kind, of.tool
	hints := declared.GetAnnotations()
	t := &Tool{
		Name: declared.GetName(), MCPName: MCPName(declared.GetName()), NativeName: declared.GetName(), Native: true, Compact: kind,
		Method: nativeMethod("sidecar"), id: declared.GetName(),
		Title: declared.GetTitle(), Description: declared.GetDescription(), Version: defaultVersion, TaskSupport: "forbidden",
		Metadata:    Metadata{Module: "catalog", Destructive: hints.GetDestructiveHint(), CacheTTL: defaultCacheTTL},
		Annotations: hintsOf(hints),
	}
	if err := t.declareNative(declared, nil); err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name, err)
	}
	t.Input = schema.Fixed(&schema.Schema{Canonical: t.Input.Canonical(), Advertised: json.RawMessage(of.shown)})
	if of.output != "" {
		t.Output = schema.Fixed(&schema.Schema{Canonical: t.Output.Canonical(), Advertised: json.RawMessage(of.output)})
	}
	return t, t.seal()
}

func callTool(isStrict bool) ownTool {
	form, text, shown := "", `"string"`, shownCall
	if isStrict {
		form, text, shown = ", as JSON in a string", `["string","null"]`, strictCall // what is not required may be null
	}
	return ownTool{CompactCall, &outriggerv1.Tool{
		Name: CallName, Title: "Call a tool",
		Description: "Calls a tool that " + MCPName(SearchName) + " found, with the arguments that " + MCPName(DescribeName) + " shows" + form + ". " +
			"A destructive tool may ask the user first.",
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":%[1]d},"arguments":{"type":"object"},`+
				`"fields":{"type":%[2]s,"minLength":1,"description":`+fieldsText+`},`+
				`"stream_time":{"type":%[2]s,"pattern":"^(0\\.0{0,7}[1-9][0-9]{0,7}|[1-9][0-9]{0,4}(\\.[0-9]{1,9})?)s$","description":`+streamTimeText+`}},`+
				`"required":["name"],"additionalProperties":false}`, maxName, text)},
		Annotations: &outriggerv1.ToolAnnotations{DestructiveHint: proto.Bool(true), OpenWorldHint: proto.Bool(true)},
	}, shown, ""}
}

// describeTool is the tool that describes others: one at a time, and where there are programs those of a program.
func describeTool(hasPrograms, isStrict bool) ownTool {
	if !hasPrograms {
		return ownTool{CompactDescribe, &outriggerv1.Tool{
			Name: DescribeName, Title: "Describe a tool",
			Description: "Describes a tool by its input schema and examples. Call it before the first call of a tool.",
			InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
				`{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":%d}},"required":["name"],"additionalProperties":false}`, maxName)},
			Annotations: readOnlyHints(),
		}, describeOne, ""}
	}
	name, names, shown := `"string"`, `"array"`, shownDescribe
	if isStrict {
		name, names, shown = `["string","null"]`, `["array","null"]`, strictDescribe // what is not required may be null
	}
	return ownTool{CompactDescribe, &outriggerv1.Tool{
		Name: DescribeName, Title: "Describe tools",
		Description: "Describes tools before their first call: one by its input schema (name), or all tools of a program by signatures, which are shorter (names).",
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"name":{"type":%[1]s,"minLength":1,"maxLength":%[3]d},`+
				`"names":{"type":%[2]s,"minItems":1,"maxItems":%[4]d,"items":{"type":"string","minLength":1,"maxLength":%[5]d}}},"additionalProperties":false}`,
			name, names, maxName, maxNames, 2*maxName)},
		Annotations: readOnlyHints(),
	}, shown, ""}
}

func searchTool(contents string, isStrict bool) ownTool {
	limit := `"integer"`
	if isStrict {
		limit = `["integer","null"]` // what is not required may be null
	}
	return ownTool{CompactSearch, &outriggerv1.Tool{
		Name: SearchName, Title: "Search the tools", Description: contents,
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":%d},`+
				`"limit":{"type":%s,"minimum":1,"maximum":%d,"default":%d}},"required":["query"],"additionalProperties":false}`, maxQuery, limit, maxSearchResults, DefaultSearchResults)},
		OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(
			`{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"summary":{"type":"string"}},` +
				`"required":["name","summary"]}}},"required":["tools"]}`)},
		Annotations: readOnlyHints(),
	}, shownSearch(isStrict), shownFound}
}

func readOnlyHints() *outriggerv1.ToolAnnotations {
	return &outriggerv1.ToolAnnotations{
		ReadOnlyHint: proto.Bool(true), DestructiveHint: proto.Bool(false), IdempotentHint: proto.Bool(true), OpenWorldHint: proto.Bool(false),
	}
}

// entryBytes is what an entry of a list has besides its texts and schemas: names of members, hints, fingerprint, metadata.
const entryBytes = 340

// ListExceeds reports whether the list of all tools is larger than a number of bytes, by an estimate. It derives schemas only
// until it knows, and remembers the last answer.
func (c *Catalog) ListExceeds(limit int) bool {
	m := c.compact
	m.measured.Lock()
	defer m.measured.Unlock()
	if !m.isKnown || m.limit != limit {
		m.limit, m.isKnown, m.isLarger = limit, true, c.listBytes(limit) > limit
	}
	return m.isLarger
}

// listBytes is the estimated size of the list, or one above most.
func (c *Catalog) listBytes(most int) int {
	n := 0
	for _, t := range c.Tools() {
		n += entryBytes + 2*len(t.Name) + 2*len(t.Title) + len(t.Description) + len(c.listed.Input(t)) + len(c.listed.Output(t))
		if n > most {
			break
		}
	}
	return n
}

// Compact is what one of the tools does that stand for a whole catalog.
type Compact uint8

const (
	// NotCompact is that of all other tools.
	NotCompact Compact = iota
	// CompactSearch finds tools by words.
	CompactSearch
	// CompactDescribe returns the description of one tool.
	CompactDescribe
	// CompactCall calls a tool.
	CompactCall
	// CompactRun runs a program.
	CompactRun
)

// Names of these tools, and of their arguments.
const (
	SearchName   = "catalog.search"
	DescribeName = "catalog.describe"
	CallName     = "catalog.call"
	RunName      = "catalog.run"

	QueryArgument      = "query"
	LimitArgument      = "limit"
	NameArgument       = "name"
	NamesArgument      = "names"
	ArgumentsArgument  = "arguments"
	FieldsArgument     = "fields"
	StreamTimeArgument = "stream_time"
	ProgramArgument    = "program"
	InputsArgument     = "inputs"
	DryRunArgument     = "dry_run"
)

const (
	// maxSearchResults is the maximum number of tools that a search returns, DefaultSearchResults that of one without a limit.
	maxSearchResults     = 10
	DefaultSearchResults = 5
	// maxQuery and maxName bound the arguments, in characters; the name of a type behind that of its tool may be as long again.
	maxQuery = 256
	maxName  = 256
	// maxNames is how many tools are described at once.
	maxNames = 20
)

// CompactOf returns what the tool of a name does in a compact catalog. It accepts canonical names and those of MCP.
func CompactOf(name string) Compact {
	switch name {
	case SearchName, "catalog_search":
		return CompactSearch
	case DescribeName, "catalog_describe":
		return CompactDescribe
	case CallName, "catalog_call":
		return CompactCall
	case RunName, "catalog_run":
		return CompactRun
	}
	return NotCompact
}

// reserved are the names that a catalog keeps for the sidecar's own tools: those of its compact form, and that of the tool that runs
// programs.
type reserved struct{ compact, programs bool }

// name says that one of a tool's names is kept; empty if none is.
func (r reserved) name(names []string) string {
	at := slices.IndexFunc(names, func(name string) bool {
		kind := CompactOf(name)
		return r.programs && kind == CompactRun || r.compact && kind != NotCompact && kind != CompactRun
	})
	switch {
	case at < 0:
		return ""
	case CompactOf(names[at]) == CompactRun:
		return fmt.Sprintf("the name %q is that of the sidecar's own tool that runs programs; set (outrigger.v1.tool).name or name it in the overlay, "+
			"omit it with --exclude, or use --programs off", names[at])
	}
	return fmt.Sprintf("the name %q is that of a tool of the sidecar's own in compact mode; set (outrigger.v1.tool).name or name it in the overlay, "+
		"omit it with --exclude, or use --catalog-mode full", names[at])
}

const (
	inputsText = `"The global inputs."`
	dryRunText = `"Only checks: returns findings and plan."`

	programProperty = `"program":{"type":"string","description":"Its source."}`
	// shownRan is the output schema in lists.
	shownRan = `{"type":"object","properties":{"ran":{"type":"array","items":{"type":"object"}},"findings":{"type":"array","items":{"type":"object"}},` +
		`"plan":{"type":"array","items":{"type":"object"}}}}`

	strictRun = `{"type":"object","properties":{` + programProperty + `,"inputs":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` +
		`"The global inputs: one JSON object in a string."},"dry_run":{"anyOf":[{"type":"boolean"},{"type":"null"}],"description":` + dryRunText + `}},` +
		`"required":["program","inputs","dry_run"],"additionalProperties":false}`

	place = `"line":{"type":"integer"},"column":{"type":"integer"}`
	// runOutput is the output schema. The result is of any type, which some clients refuse to see said.
	runOutput = `{"type":"object","properties":{"ran":{"type":"array","description":"What was called.","items":{"type":"object","properties":{` +
		`"tool":{"type":"string"},"calls":{"type":"integer"},"failed":{"type":"integer"}}}},` +
		`"findings":{"type":"array","description":"With dry_run: faults.","items":{"type":"object","properties":{` + place + `,"rule":{"type":"string"},"message":{"type":"string"},"instead":{"type":"string"}}}},` +
		`"plan":{"type":"array","description":"With dry_run: what may be called, and how often at most.","items":{"type":"object","properties":{` +
		`"tool":{"type":"string"},"atMost":{"type":"integer"},"destructive":{"type":"boolean"},"places":{"type":"array","items":{"type":"string"}}}}}},"additionalProperties":true}`
)

// runTool is the tool that runs programs.
func (c *Catalog) runTool() ownTool {
	inputs, dry := `"object"`, `"boolean"`
	form := func() string {
		return fmt.Sprintf(`{"type":"object","properties":{`+programProperty+`,"inputs":{"type":%s,"description":`+inputsText+`},"dry_run":{"type":%s,"description":`+dryRunText+`}},`+
			`"required":["program"],"additionalProperties":false}`, inputs, dry)
	}
	shown := form()
	if c.isStrict {
		inputs, dry, shown = `["object","string","null"]`, `["boolean","null"]`, strictRun // what is not required may be null
	}
	return ownTool{CompactRun, &outriggerv1.Tool{
		Name: RunName, Title: "Run a program", Description: c.programText(),
		InputSchemaForm:  &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(form())},
		OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(runOutput)},
		Annotations:      &outriggerv1.ToolAnnotations{DestructiveHint: proto.Bool(true), OpenWorldHint: proto.Bool(true)},
	}, shown, shownRan}
}

// programText teaches the tool that runs programs: its language, three examples of this catalog, and what happens to faults.
func (c *Catalog) programText() string {
	text := "Runs a Starlark program (Python without import, while, try, classes and f-strings) that calls several tools in one round trip; " +
		"only its global result comes back. " + c.describeFirst() + "Tools are functions of their dotted names with keyword arguments; results have attributes. " +
		"parallel([...]) runs calls at once, paginate(tool, ...) reads all pages, fail(\"...\") ends. " +
		"The program is checked before anything is called: each fault comes with line, column and what to write. A destructive tool may ask the user first."
	if examples := c.programExamples(); len(examples) > 0 {
		text += " Examples:\n\n" + strings.Join(examples, "\n\n")
	}
	return text
}

// describeFirst says how a program gets its signatures. Full lists have schemas, and no tool that describes.
func (c *Catalog) describeFirst() string {
	if !c.reserved.compact {
		return ""
	}
	return "First get the signatures of its tools: names of " + MCPName(DescribeName) + ". "
}

// The bounds of the examples: how many tools are looked at, and how long an example is.
const (
	maxSampled = 200
	maxExample = 260
)

// sampled is a tool that an example may call.
type sampled struct {
	tool *Tool
	// name is that of the tool, and arguments are those that each call needs.
	name, arguments string
	// argument is what a call may have, and value a literal for it; empty for none.
	argument, value string
	// list is a list of messages in the result, and in each of them the text field; where there is no list, field is one of the result.
	list, field string
	// key is the field of the messages in the list that may be the argument of another call.
	key string
}

// programExamples are programs that a check finds right: one call, a list, and one call for each of a list.
func (c *Catalog) programExamples() (out []string) {
	var gets, lists []*sampled
	for i, t := range c.Tools() {
		if i == maxSampled {
			break
		}
		if s := sample(t); s != nil && s.list != "" {
			lists = append(lists, s)
		} else if s != nil && s.field != "" {
			gets = append(gets, s)
		}
	}
	slices.SortStableFunc(gets, func(a, b *sampled) int { return a.rank("get") - b.rank("get") })
	slices.SortStableFunc(lists, func(a, b *sampled) int { return a.rank("list") - b.rank("list") })
	get, list := pair(gets, lists)
	add := func(format string, a ...any) {
		if text := fmt.Sprintf(format, a...); len(text) <= maxExample {
			out = append(out, text)
		}
	}
	if get != nil {
		add("one = %s\nresult = one.%s", get.call(), get.field)
	}
	if list != nil {
		add("found = %s(%s)\nresult = [x.%s for x in found.%s]", list.name, list.arguments, list.field, list.list)
	}
	switch {
	case get == nil || get.argument == "":
	case list != nil && list.key != "" && list.tool.Metadata.Module == get.tool.Metadata.Module:
		add("found = %s(%s)\ngot = parallel([%s for x in found.%s])\nresult = [g.%s for g in got]", list.name, list.arguments, get.given("x."+list.key), list.list, get.field)
	default:
		add("got = parallel([%s for i in inputs.ids])\nresult = [g.%s for g in got]", get.given("i"), get.field)
	}
	return out
}

// rank is lower for a tool that shows more: one with the verb, and with an argument or a key.
func (s *sampled) rank(verb string) int {
	n := 0
	if verbOf(s.tool) != verb {
		n += 2
	}
	if s.argument == "" && s.key == "" {
		n++
	}
	return n
}

// call is a call with a value for the argument.
func (s *sampled) call() string {
	if s.argument == "" {
		return s.name + "(" + s.arguments + ")"
	}
	return s.given(s.value)
}

// given is a call with an expression for the argument.
func (s *sampled) given(expression string) string {
	parts := make([]string, 0, 2)
	if s.arguments != "" {
		parts = append(parts, s.arguments)
	}
	return s.name + "(" + strings.Join(append(parts, s.argument+"="+expression), ", ") + ")"
}

// pair is a tool for one thing and one for a list of them, of the same module where there are such.
func pair(gets, lists []*sampled) (get, list *sampled) {
	for _, l := range lists {
		for _, g := range gets {
			if l.key != "" && g.argument != "" && l.tool.Metadata.Module == g.tool.Metadata.Module && verbOf(g.tool) == "get" && g.takes(l) {
				return g, l
			}
		}
	}
	if len(gets) > 0 {
		get = gets[0]
	}
	if len(lists) > 0 {
		list = lists[0]
		list.key = "" // of other things
	}
	return get, list
}

// takes reports whether the key of a list is what a tool takes: order_id is the id of list_orders.
func (s *sampled) takes(l *sampled) bool {
	noun := strings.TrimPrefix(lastPart(s.tool.Name), "get_")
	return strings.HasPrefix(strings.TrimPrefix(lastPart(l.tool.Name), "list_"), strings.TrimSuffix(noun, "y")) &&
		(l.key == s.argument || noun+"_"+l.key == s.argument) && s.kindOf(s.tool.Method.Descriptor.Input(), s.argument) == l.kindOf(l.element(), l.key)
}

// element is the message of which there is a list.
func (s *sampled) element() protoreflect.MessageDescriptor {
	return s.tool.Method.Descriptor.Output().Fields().ByName(protoreflect.Name(s.list)).Message()
}

func (*sampled) kindOf(md protoreflect.MessageDescriptor, name string) protoreflect.Kind {
	return md.Fields().ByName(protoreflect.Name(name)).Kind()
}

// mayBeSampled holds for a tool that changes nothing and has plain messages.
func mayBeSampled(t *Tool) bool {
	hint := t.Annotations.ReadOnly
	return !t.Native && !t.Metadata.Destructive && (hint == nil || *hint) && !t.Streams() && !t.TakesStream() && t.Operation == nil && !t.IsDocument() && !t.OutputNotObject &&
		!t.Input.Wrapped && t.HasOutput() && t.Method.Descriptor != nil && Callable(t.Name) && (verbOf(t) == "get" || verbOf(t) == "list")
}

// sample is a tool as examples may call it; nil for one that they do not: it may change something, or its messages are no plain ones.
func sample(t *Tool) *sampled {
	if !mayBeSampled(t) {
		return nil
	}
	s := &sampled{tool: t, name: t.Name}
	in := schema.ViewOf(t.Input.Canonical())
	properties, required := in.Properties(), in.Required()
	md := t.Method.Descriptor.Input()
	for _, name := range required {
		fd := md.Fields().ByJSONName(name)
		if fd == nil || !isPlain(fd) || len(required) > 1 {
			return nil
		}
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := string(fd.Name())
		if _, ok := properties[fd.JSONName()]; !ok || !isPlain(fd) || !IsName(name) || len(required) > 0 && required[0] != fd.JSONName() {
			continue
		}
		if len(required) > 0 || isID(name) {
			s.argument, s.value = name, sampleValue(t, fd)
			break
		}
	}
	if len(required) > 0 && s.argument == "" {
		return nil
	}
	s.choose(t)
	if s.list != "" && len(required) > 0 {
		s.arguments, s.argument = s.argument+"="+s.value, ""
	}
	return s
}

// choose finds what an example may read of the result.
func (s *sampled) choose(t *Tool) {
	out := schema.ViewOf(t.Output.Canonical())
	properties := out.Properties()
	fields := t.Method.Descriptor.Output().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		at, ok := properties[fd.JSONName()]
		if !ok || !IsName(string(fd.Name())) {
			continue
		}
		if fd.IsList() && fd.Message() != nil && !strings.HasPrefix(string(fd.Message().FullName()), "google.protobuf.") {
			s.readList(fd, at.Elements().Properties())
			if s.list != "" {
				return
			}
		}
		if isPlain(fd) && (s.field == "" || isID(s.field) && !isID(string(fd.Name()))) {
			s.field = string(fd.Name())
		}
	}
}

func (s *sampled) readList(fd protoreflect.FieldDescriptor, properties map[string]schema.View) {
	elem := fd.Message().Fields()
	field, key := "", ""
	for i := range elem.Len() {
		one := elem.Get(i)
		name := string(one.Name())
		if _, ok := properties[one.JSONName()]; !ok || !isPlain(one) || !IsName(name) {
			continue
		}
		if field == "" || isID(field) && !isID(name) {
			field = name
		}
		if key == "" && isID(name) {
			key = name
		}
	}
	if field != "" {
		s.list, s.field, s.key = string(fd.Name()), field, key
	}
}

// isID holds for the name of a field that identifies a thing.
func isID(name string) bool { return strings.HasSuffix(name, "id") || name == "name" }

// isPlain holds for a field with one text or one whole number.
func isPlain(fd protoreflect.FieldDescriptor) bool {
	if fd.IsList() || fd.IsMap() {
		return false
	}
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.Int32Kind, protoreflect.Int64Kind, protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return true
	default:
		return false
	}
}

// sampleValue is a literal for an argument: that of the tool's own example, where it has one.
func sampleValue(t *Tool, fd protoreflect.FieldDescriptor) string {
	isText, value := fd.Kind() == protoreflect.StringKind, "1"
	for _, e := range t.Examples {
		for _, name := range [...]string{fd.JSONName(), string(fd.Name())} {
			raw, ok := jsontext.Lookup(bytes.TrimSpace(e.Arguments), name)
			if text, isQuoted := jsontext.Text(raw); ok && isQuoted {
				raw = []byte(text)
			}
			if _, err := strconv.ParseUint(string(raw), 10, 31); ok && len(raw) > 0 && len(raw) < maxValue && (isText || err == nil) {
				value = string(raw)
			}
		}
	}
	if isText {
		return strconv.Quote(value)
	}
	return value
}

// maxValue bounds the value of an argument in an example.
const maxValue = 60

// Callable reports whether a program can call a tool by a name as it is, and not only through tools["…"].
func Callable(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if !IsName(part) {
			return false
		}
	}
	first, _, _ := strings.Cut(name, ".")
	return !strings.Contains(globals, " "+first+" ")
}

// IsName reports whether a program can use a name as that of an attribute or an argument.
func IsName(s string) bool {
	for i, r := range s {
		if r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && !strings.Contains(keywords, " "+s+" ")
}

// keywords are words that are no names in Starlark. globals are names that a program should not hide.
const (
	keywords = " and as assert async await break class continue def del elif else except finally for from global if import in is lambda load nonlocal not or " +
		"pass raise return try while with yield "
	globals = " fail inputs paginate parallel result tools "
)
