// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Compact returns the catalog that offers a few tools in the place of all: one to search them, one to describe and one to
// call any of them, and where there are programs one to run those. Everything else is that of c. It is the same one each time.
func (c *Catalog) Compact() (*Catalog, error) {
	c.compact.once.Do(func() { c.compact.catalog, c.compact.err = c.compacted() })
	return c.compact.catalog, c.compact.err
}

func (c *Catalog) compacted() (*Catalog, error) {
	out := *c
	out.own, out.growth, out.byName, out.compact = &lists{}, nil, map[string]*Tool{}, &compacted{}
	own := []ownTool{{CompactCall, callTool(c.isStrict), strictCall}, {CompactDescribe, describeTool(), strictDescribe}} // by name
	if c.reserved.programs {
		own = append(own, c.runTool())
	}
	own = append(own, ownTool{CompactSearch, searchTool(c.contents(), c.isStrict), strictSearch()})
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

// ownTool is a tool of the sidecar's own, and its input schema in lists of the profile strict.
type ownTool struct {
	kind   Compact
	tool   *outriggerv1.Tool
	strict string
}

// What the profile strict shows in the place of the input schemas: every property is required, no object is open, and limits are
// words. The arguments of a tool that no one knows have no schema in that form, so they are text, as such fields of messages are.
// The declared schemas check what comes.
const (
	strictName = `"name":{"type":"string","description":"Name of the tool, as search returns it."}`

	strictCall = `{"type":"object","properties":{` + strictName + `,"arguments":{"type":"string","description":"Arguments of the tool, by its own input schema: ` +
		`one JSON object in a string, such as {\"id\":\"7\"}; {} for none."},"fields":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` + fieldsText + `},` +
		`"stream_time":{"anyOf":[{"type":"string"},{"type":"null"}],"description":` + streamTimeText + `}},` +
		`"required":["name","arguments","fields","stream_time"],"additionalProperties":false}`

	fieldsText     = `"Fields of the result that are wanted, such as orders.id,nextPageToken. Absent: all."`
	streamTimeText = `"How long to read a result that is a stream, such as 5s, if less than the tool allows."`

	strictDescribe = `{"type":"object","properties":{` + strictName + `},"required":["name"],"additionalProperties":false}`
)

func strictSearch() string {
	return fmt.Sprintf(`{"type":"object","properties":{"query":{"type":"string","description":"What the tool does, in a few words: a verb and an object. At most %d characters."},`+
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
	if c.isStrict {
		t.Input = schema.Fixed(&schema.Schema{Canonical: t.Input.Canonical(), Advertised: json.RawMessage(of.strict)})
	}
	return t, t.seal()
}

func callTool(isStrict bool) *outriggerv1.Tool {
	form, text := "", `"string"`
	if isStrict {
		form, text = ", as JSON in a string", `["string","null"]` // what is not required may be null
	}
	return &outriggerv1.Tool{
		Name: CallName, Title: "Call a tool",
		Description: "Calls a tool that " + MCPName(SearchName) + " found. Its arguments are those that " + MCPName(DescribeName) + " shows" + form + ". " +
			"Returns what the tool returns. The user may be asked first, if the tool is destructive.",
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":%[1]d,"description":"Name of the tool, as search returns it."},`+
				`"arguments":{"type":"object","description":"Arguments of the tool, by its own input schema."},`+
				`"fields":{"type":%[2]s,"minLength":1,"description":`+fieldsText+`},`+
				`"stream_time":{"type":%[2]s,"pattern":"^(0\\.0{0,7}[1-9][0-9]{0,7}|[1-9][0-9]{0,4}(\\.[0-9]{1,9})?)s$","description":`+streamTimeText+`}},`+
				`"required":["name"],"additionalProperties":false}`, maxName, text)},
		Annotations: &outriggerv1.ToolAnnotations{DestructiveHint: proto.Bool(true), OpenWorldHint: proto.Bool(true)},
	}
}

func describeTool() *outriggerv1.Tool {
	return &outriggerv1.Tool{
		Name: DescribeName, Title: "Describe a tool",
		Description: "Returns the description, the input schema and examples of one tool. Call it before the first call of a tool.",
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":%d,"description":"Name of the tool, as search returns it."}},`+
				`"required":["name"],"additionalProperties":false}`, maxName)},
		Annotations: readOnlyHints(),
	}
}

func searchTool(contents string, isStrict bool) *outriggerv1.Tool {
	limit := `"integer"`
	if isStrict {
		limit = `["integer","null"]` // what is not required may be null
	}
	return &outriggerv1.Tool{
		Name: SearchName, Title: "Search the tools", Description: contents,
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: fmt.Appendf(nil,
			`{"type":"object","properties":{"query":{"type":"string","minLength":1,"maxLength":%d,"description":"What the tool does, in a few words: a verb and an object."},`+
				`"limit":{"type":%s,"minimum":1,"maximum":%d,"default":%d}},"required":["query"],"additionalProperties":false}`, maxQuery, limit, maxSearchResults, DefaultSearchResults)},
		OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(
			`{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"summary":{"type":"string"}},` +
				`"required":["name","summary"]}}},"required":["tools"]}`)},
		Annotations: readOnlyHints(),
	}
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
	// maxQuery and maxName bound the arguments, in characters.
	maxQuery = 256
	maxName  = 256
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
