// SPDX-License-Identifier: Apache-2.0

// Package compact is what the tools of a compact catalog do: it finds tools by words, describes one, and reads
// the call of another, or a program. Package catalog makes the tools, package bridge runs them.
//
// It decides nothing about permissions: its caller says which tools may be found, and runs the call that it has read as
// any other. Everything is safe for concurrent use.
package compact

import (
	"encoding/json"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxOutputSchema is the size in bytes up to which a description has the output schema of its tool. tools/get of the
// canonical dialect has it in any case.
const maxOutputSchema = 4096

// Query is the query of a search and its limit. The arguments are valid by the input schema.
func Query(arguments []byte) (query string, limit int) {
	limit = catalog.DefaultSearchResults
	for name, raw := range jsontext.Members(arguments) {
		switch name {
		case catalog.QueryArgument:
			query, _ = jsontext.Text(raw)
		case catalog.LimitArgument:
			if n, err := strconv.ParseFloat(string(raw), 64); err == nil { // a schema also takes 5.0
				limit = int(n)
			}
		}
	}
	return query, limit
}

// AppendFound appends the result of a search. named returns the name of a tool as the caller knows it.
func AppendFound(dst []byte, tools []*catalog.Tool, named func(*catalog.Tool) string) []byte {
	dst = append(dst, `{"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = jsontext.AppendString(dst, named(t))
		dst = append(dst, `,"summary":`...)
		dst = append(jsontext.AppendString(dst, t.Summary()), '}')
	}
	return append(dst, `]}`...)
}

// AppendDescription appends what a caller has to know of a tool to call it.
func AppendDescription(dst []byte, t *catalog.Tool, name string) ([]byte, error) {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"description":`...)
	dst = jsontext.AppendString(dst, t.Description)
	dst = append(dst, `,"inputSchema":`...)
	dst = append(dst, t.Input.Advertised()...)
	if output := t.Output.Advertised(); len(output) > 0 && len(output) <= maxOutputSchema {
		dst = append(dst, `,"outputSchema":`...)
		dst = append(dst, output...)
	}
	dst = append(dst, `,"annotations":`...)
	dst = t.AppendAnnotations(dst)
	if len(t.Examples) > 0 {
		examples, err := json.Marshal(t.Examples)
		if err != nil {
			return nil, err
		}
		dst = append(dst, `,"examples":`...)
		dst = append(dst, examples...)
	}
	return jsontext.Compact(nil, append(dst, '}')), nil
}

// AppendSignatures appends the result of a description of the tools of a program.
func AppendSignatures(dst []byte, text string) []byte {
	return append(jsontext.AppendString(append(dst, `{"signatures":`...), text), '}')
}

// Called are the arguments of a call: the tool, its arguments (nil for none), and how much of the result is wanted, where the
// caller says so.
type Called struct {
	Name               string
	Arguments          []byte
	Fields, StreamTime string
}

// Call reads the arguments of a call. It is false if they are not what the input schema asks for; then the schema says what is
// wrong. Strings that hold arguments are left to the caller, as are the values of the last two members.
func Call(arguments []byte) (called Called, ok bool) {
	for member, raw := range jsontext.Members(arguments) {
		var text *string
		switch member {
		case catalog.NameArgument:
			text = &called.Name
		case catalog.ArgumentsArgument:
			called.Arguments = raw
			continue
		case catalog.FieldsArgument:
			text = &called.Fields
		case catalog.StreamTimeArgument:
			text = &called.StreamTime
		default:
			return Called{}, false
		}
		if jsontext.IsNull(raw) && text != &called.Name {
			continue // absent, as strict clients say it
		}
		if *text, ok = jsontext.Text(raw); !ok || *text == "" {
			return Called{}, false
		}
	}
	return called, called.Name != ""
}

// Run are the arguments of a run of a program. Inputs are an object, or what came in its place; nil for none.
type Run struct {
	Program  string
	Inputs   []byte
	IsDryRun bool
}

// ReadRun reads the arguments of a run, which are valid by the input schema.
func ReadRun(arguments []byte) (out Run) {
	for member, raw := range jsontext.Members(arguments) {
		if jsontext.IsNull(raw) {
			continue // absent, as strict clients say it
		}
		switch member {
		case catalog.ProgramArgument:
			out.Program, _ = jsontext.Text(raw)
		case catalog.InputsArgument:
			out.Inputs = raw
		case catalog.DryRunArgument:
			out.IsDryRun = string(raw) == "true"
		}
	}
	return out
}

// IsObject reports whether arguments are an object, and not one in a string, or something else.
func IsObject(arguments []byte) bool { return len(arguments) > 0 && arguments[0] == '{' }

// Asked is what a description is asked for: one tool, or in Names the tools of a program. The arguments are valid by the input schema.
func Asked(arguments []byte) (name string, names []string) {
	for member, raw := range jsontext.Members(arguments) {
		switch member {
		case catalog.NameArgument:
			name, _ = jsontext.Text(raw) // null is absent, as strict clients say it
		case catalog.NamesArgument:
			for one := range jsontext.Elements(raw) {
				text, _ := jsontext.Text(one)
				names = append(names, text)
			}
		}
	}
	return name, names
}

const (
	// maxDepth is how deep the fields of a message are read, maxFields how many of them, and maxNote how many bytes of a
	// comment: what is beyond says little about a tool, and the index holds all of them.
	maxDepth  = 3
	maxFields = 120
	maxNote   = 200
	maxText   = 2000
)

// document is what a tool can be found by.
func document(t *catalog.Tool) search.Document {
	summary, description := t.Summary(), t.Description
	if t.Undescribed {
		summary, description = "", ""
	}
	if t.Native {
		d := Described(t.Name, t.Title, summary, description, t.Input.Advertised(), t.Output.Advertised())
		d.Group += " " + strings.Join(t.Tags, " ")
		return d
	}
	d := named(t.Name, summary, description)
	d.Group += " " + strings.Join(t.Tags, " ")
	input, output := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	d.Types = []string{string(input.Name()), string(output.Name())}
	reader := fieldReader{names: &d.Inputs, notes: &d.Notes, values: &d.Values, words: t.Words}
	reader.message(input, maxDepth)
	reader = fieldReader{names: &d.Outputs, notes: &d.Remarks, words: t.Words}
	reader.message(output, 1)
	return d
}

// Described is what a tool can be found by of which only the description is known, as clients see it.
func Described(name, title, summary, description string, input, output []byte) search.Document {
	d := named(name, summary, description)
	d.Text += " " + title
	schemaFields(&d.Inputs, &d.Notes, input)
	schemaFields(&d.Outputs, &d.Remarks, output)
	return d
}

// named is a document with the words of a tool's name: what it is of, and what it does. A group in front of the method's name
// that the method's name begins with is no part of it: LeaseGrant of Lease grants.
func named(name, summary, description string) search.Document {
	at := strings.LastIndexByte(name, '.')
	return search.Document{Name: name[at+1:], Group: name[:max(at, 0)], Summary: summary, Text: clip(description, maxText)}
}

func clip(text string, most int) string {
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// fieldReader gathers the names of fields, what is said of them, and the values of enums.
type fieldReader struct {
	names, notes, values *[]string
	// words are descriptions that take the place of comments.
	words map[protoreflect.FullName]string
	read  int
}

func (r *fieldReader) message(m protoreflect.MessageDescriptor, depth int) {
	fields := m.Fields()
	for i := range fields.Len() {
		if r.read++; r.read > maxFields {
			return
		}
		f := fields.Get(i)
		*r.names = append(*r.names, string(f.Name()))
		if r.notes != nil {
			note := r.words[f.FullName()]
			if note == "" {
				note = f.ParentFile().SourceLocations().ByDescriptor(f).LeadingComments
			}
			if note != "" {
				*r.notes = append(*r.notes, clip(note, maxNote))
			}
		}
		switch {
		case f.Enum() != nil && r.values != nil:
			values := f.Enum().Values()
			for j := range min(values.Len(), maxFields) {
				*r.values = append(*r.values, string(values.Get(j).Name()))
			}
		case f.Message() != nil && !f.IsMap() && depth > 1 && !strings.HasPrefix(string(f.Message().FullName()), "google.protobuf."):
			r.message(f.Message(), depth-1)
		}
	}
}

// schemaFields gathers the names of the properties of a JSON schema, and what is said of them.
func schemaFields(names, notes *[]string, raw []byte) {
	var schema struct {
		Properties map[string]struct {
			Description string `json:"description"`
		} `json:"properties"`
	}
	if json.Unmarshal(raw, &schema) != nil {
		return // it was compiled before; what has no properties has no words
	}
	for name, property := range schema.Properties {
		if len(*names) >= maxFields {
			return
		}
		*names = append(*names, name)
		*notes = append(*notes, clip(property.Description, maxNote))
	}
}

// Index finds the tools of one catalog by words. It is immutable.
type Index struct {
	tools []*catalog.Tool
	words *search.Index
}

// NewIndex returns an index of the tools that the catalog offers.
func NewIndex(cat *catalog.Catalog) *Index {
	tools := cat.Tools()
	docs := make([]search.Document, len(tools))
	for i, t := range tools {
		docs[i] = document(t)
	}
	return &Index{tools: tools, words: search.New(docs)}
}

// Newest is the index of the newest catalog, made when it is first asked for. All callers share it. The zero value is ready.
type Newest struct {
	mu      sync.Mutex
	catalog *catalog.Catalog
	index   *Index
}

// Of returns the index of a catalog. Callers that come while it is made wait for it.
func (n *Newest) Of(cat *catalog.Catalog) *Index {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.catalog != cat {
		n.index, n.catalog = NewIndex(cat), cat
	}
	return n.index
}

// Search returns the tools that match a query best, the best one first, at most limit of them. seen returns a tool as the caller may
// see it, nil for one that it may not; without seen it may see all. A tool that it sees in part is not found by its results.
func (x *Index) Search(query string, limit int, seen func(*catalog.Tool) *catalog.Tool) []*catalog.Tool {
	var visible, partial func(int) bool
	if seen != nil {
		visible = func(doc int) bool { return seen(x.tools[doc]) != nil }
		partial = func(doc int) bool { t := seen(x.tools[doc]); return t != nil && t != x.tools[doc] }
	}
	hits := x.words.Search(query, limit, visible, partial)
	out := make([]*catalog.Tool, len(hits))
	for i, hit := range hits {
		out[i] = x.tools[hit.Doc]
	}
	return out
}

// Mode says when a few tools stand for all: one that searches the catalog, one that describes a tool, one that calls a
// tool, and where there are programs one that runs those.
type Mode uint8

// The modes. Never is the zero value: all tools are listed, and these do not exist. With Always they are what is
// listed; all others can still be called by their names. With Auto that holds if the list of all tools that a caller sees is
// larger than a budget. They can be called in both.
const (
	never Mode = iota
	Always
	Auto
)

// Options configure the compact form of catalogs.
type Options struct {
	Mode Mode
	// AboveBytes is the size of a list above which Auto makes it compact.
	AboveBytes int
	// HasPrograms is set where the tool that runs programs can be called, and ListsPrograms where it is also in a full list.
	HasPrograms, ListsPrograms bool
}

// OptionsOf are the options that a configuration describes.
func OptionsOf(c *configv1.Catalog) Options {
	o := Options{AboveBytes: int(c.GetCompactAboveBytes())}
	o.HasPrograms, o.ListsPrograms = catalog.RunsPrograms(c)
	switch c.GetMode() {
	case "compact":
		o.Mode = Always
	case "auto":
		o.Mode = Auto
	}
	return o
}

// Listed is a catalog as it is listed to a caller who may see all of it.
func (o Options) Listed(cat *catalog.Catalog) (*catalog.Catalog, error) {
	if o.Mode == Always || o.Mode == Auto && cat.ListExceeds(o.AboveBytes) {
		return cat.Compact()
	}
	return o.Full(cat)
}

// Full is a catalog as a full list has it.
func (o Options) Full(cat *catalog.Catalog) (*catalog.Catalog, error) {
	if o.ListsPrograms {
		return cat.WithPrograms()
	}
	return cat, nil
}

// IsOffered reports whether the tools exist that stand for all.
func (o Options) IsOffered() bool { return o.Mode != never }

// Offers reports whether a tool of the sidecar's own exists.
func (o Options) Offers(kind catalog.Compact) bool {
	if kind == catalog.CompactRun {
		return o.HasPrograms
	}
	return kind != catalog.NotCompact && o.Mode != never
}

// List is which tools a list has.
type List uint8

// The lists. ListByMode is what [Options] say.
const (
	ListAll List = iota
	ListByMode
	ListCompact
)
