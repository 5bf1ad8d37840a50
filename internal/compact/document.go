// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/search"
)

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
	group, name := nameParts(t)
	d := search.Document{Name: name, Group: group + " " + strings.Join(t.Tags, " ")}
	if !t.Undescribed {
		d.Summary, d.Text = t.Summary(), clip(t.Description, maxText)
	}
	if t.Native {
		d.Text += " " + t.Title
		schemaFields(&d.Inputs, &d.Notes, t.Input.Advertised())
		schemaFields(&d.Outputs, &d.Remarks, t.Output.Advertised())
		return d
	}
	input, output := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	d.Types = []string{string(input.Name()), string(output.Name())}
	reader := fieldReader{names: &d.Inputs, notes: &d.Notes, values: &d.Values, words: t.Words}
	reader.message(input, maxDepth)
	reader = fieldReader{names: &d.Outputs, notes: &d.Remarks, words: t.Words}
	reader.message(output, 1)
	return d
}

// nameParts are the words of a tool's name: what it is of, and what it does. A group in front of the method's name that
// the method's name begins with is no part of it: LeaseGrant of Lease grants.
func nameParts(t *catalog.Tool) (group, name string) {
	at := strings.LastIndexByte(t.Name, '.')
	return t.Name[:max(at, 0)], t.Name[at+1:]
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
