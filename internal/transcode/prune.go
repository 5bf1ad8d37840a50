// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// pruner copies JSON that protojson wrote, without the members of INPUT_ONLY fields and of those that its caller does not see. Clearing such a field is not
// enough: without presence its default would still be written. The copy needs no checks, because protojson wrote the JSON.
type pruner struct {
	jsontext.Rewriter
	hidden map[protoreflect.FullName]schema.Behavior
	sight  *schema.Sight
}

func (m *Message) prune(dst, doc []byte) []byte {
	p := pruner{hidden: m.traits.hidden, sight: m.planner.sight}
	p.In, p.Out = doc, dst
	p.message(m.md, p.sight.Root())
	return p.Out
}

// message copies a value that is a message. What lies inside a well-known type has no fields of ours.
func (p *pruner) message(md protoreflect.MessageDescriptor, at *schema.Place) {
	if md == nil || schema.IsWellKnown(md) || p.Next() != '{' {
		p.Copy()
		return
	}
	p.Members(func(quoted []byte) ([]byte, func()) {
		return quoted, p.field(md.Fields().ByJSONName(jsontext.PlainName(quoted)), at)
	})
}

// field is how to copy the value of a field, nil for one that is left out. An extension has no descriptor here.
func (p *pruner) field(fd protoreflect.FieldDescriptor, at *schema.Place) func() {
	if fd == nil {
		return p.Copy
	}
	below := at.Below(fd)
	switch {
	case p.hidden[fd.FullName()].InputOnly, p.sight.Hides(at, fd):
		return nil
	case fd.IsMap():
		value := func() { p.message(fd.MapValue().Message(), below) }
		return func() { p.Members(func(key []byte) ([]byte, func()) { return key, value }) }
	case fd.IsList() && fd.Message() != nil:
		return func() { p.Items(func(int) { p.message(fd.Message(), below) }) }
	default:
		return func() { p.message(fd.Message(), below) }
	}
}
