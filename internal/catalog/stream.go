// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Items collects the responses of a stream into the JSON that the tool's output schema describes: {"items": [...],
// "truncated": ...}. Create it with NewItems.
type Items struct {
	text  []byte
	count int
}

// The two ends of the JSON around the items.
const (
	itemsHead     = `{"items":[`
	wholeTail     = `],"truncated":false}`
	truncatedTail = `],"truncated":true}`
)

// NewItems returns an empty Items.
func NewItems() *Items { return &Items{text: []byte(itemsHead)} }

// Len returns the number of items.
func (i *Items) Len() int { return i.count }

// Next returns the text to which the next item is to be appended.
func (i *Items) Next() []byte {
	if i.count > 0 {
		return append(i.text, ',')
	}
	return i.text
}

// Size returns the size of the whole JSON if the items ended with text.
func (i *Items) Size(text []byte) int { return len(text) + len(wholeTail) }

// Keep stores text, the result of Next with an item appended.
func (i *Items) Keep(text []byte) { i.text, i.count = text, i.count+1 }

// Close returns the whole JSON. Do not add items afterwards.
func (i *Items) Close(truncated bool) []byte {
	if truncated {
		return append(i.text, truncatedTail...)
	}
	return append(i.text, wholeTail...)
}

// MarkTruncated says in the JSON that Items makes that there were more of them. It may change the bytes.
func MarkTruncated(items []byte) []byte {
	if head, ok := bytes.CutSuffix(items, []byte(wholeTail)); ok {
		return append(head, truncatedTail...)
	}
	return items
}

// streamHeader is the field that the option stream_header names: a member of a oneof of the request of a method that takes a
// stream. It is nil for no name.
func streamHeader(md protoreflect.MethodDescriptor, name string) (protoreflect.FieldDescriptor, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // no name is no header
	}
	if !md.IsStreamingClient() {
		return nil, errors.New("the RPC does not take a stream of requests")
	}
	in := md.Input()
	field := in.Fields().ByName(protoreflect.Name(name))
	if field == nil {
		field = in.Fields().ByJSONName(name)
	}
	if field == nil || field.ContainingOneof() == nil || field.ContainingOneof().IsSynthetic() {
		return nil, fmt.Errorf("%s has no field %s in a oneof", in.FullName(), name)
	}
	return field, nil
}

// gathered is the schema of what a stream's answers are gathered to: {"items": [...], "truncated": ...}, where each item
// is one answer, in the form that the transcoder writes.
func gathered(answer *schema.Lazy, md protoreflect.MessageDescriptor, digest [sha256.Size]byte, room *schema.Room) *schema.Lazy {
	return schema.DeferAs(func(part schema.Part) *schema.Schema {
		if part == schema.PartAdvertised && !answer.Wrapped {
			return &schema.Schema{Advertised: gatheredSchema(answer.Advertised(), md.FullName())}
		}
		if part == schema.PartShared {
			if answer.Wrapped {
				return &schema.Schema{}
			}
			return &schema.Schema{Shared: gatheredSchema(answer.Shared(), md.FullName())}
		}
		canonical := answer.Canonical()
		advertised := canonical // Items need not be objects, so none is wrapped.
		if !answer.Wrapped {
			advertised = answer.Advertised()
		}
		return &schema.Schema{
			Canonical:  gatheredSchema(canonical, md.FullName()),
			Advertised: gatheredSchema(advertised, md.FullName()),
			Warnings:   answer.Warnings(),
		}
	}, false, digest, room)
}

// rootReference is how a derived schema refers to itself as a whole. Derived schemas are compact, and inside of a string
// the quotes are escaped, so the text means nothing else.
const rootReference = `"$ref":"#"`

// gatheredSchema moves a derived schema below the root of another one. References count from the root, so definitions
// move up, and a message that contains itself becomes one of them.
func gatheredSchema(answer []byte, name protoreflect.FullName) []byte {
	own := `"#/$defs/` + string(name) + `"` // full names need no escape
	answer = bytes.ReplaceAll(answer, []byte(rootReference), []byte(`"$ref":`+own))
	var item, defs []byte
	for keyword, value := range jsontext.Members(answer) {
		if keyword == "$defs" {
			for message, definition := range jsontext.Members(value) {
				defs = appendMember(defs, message, definition)
			}
			continue
		}
		item = appendMember(item, keyword, value)
	}
	item = append(append([]byte{'{'}, item...), '}')
	if bytes.Contains(answer, []byte(`"$ref":`+own)) {
		defs = appendMember(defs, string(name), item)
		item = []byte(`{"$ref":` + own + `}`)
	}
	out := []byte(`{"type":"object","properties":{"items":{"type":"array","items":`)
	out = append(out, item...)
	out = append(out, `},"truncated":{"type":"boolean"}},"required":["items","truncated"]`...)
	if len(defs) > 0 {
		out = append(append(append(out, `,"$defs":{`...), defs...), '}')
	}
	return append(out, '}')
}

// appendMember appends a member of an object, after a comma where it is not the first.
func appendMember(dst []byte, name string, value []byte) []byte {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	return append(append(jsontext.AppendString(dst, name), ':'), value...)
}
