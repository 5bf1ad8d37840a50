// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// pruner copies JSON that protojson wrote, without the members of INPUT_ONLY fields. Clearing such a field is not
// enough: without presence its default would still be written. The copy needs no checks, because protojson wrote the JSON.
type pruner struct {
	jsontext.Rewriter
	hidden map[protoreflect.FullName]schema.Behavior
}

func (t traits) prune(dst, doc []byte, md protoreflect.MessageDescriptor) []byte {
	p := pruner{hidden: t.hidden}
	p.In, p.Out = doc, dst
	p.message(md)
	return p.Out
}

// message copies a value that is a message. What lies inside a well-known type has no fields of ours.
func (p *pruner) message(md protoreflect.MessageDescriptor) {
	if md == nil || schema.IsWellKnown(md) || p.Next() != '{' {
		p.Copy()
		return
	}
	p.Members(func(quoted []byte) ([]byte, func()) {
		return quoted, p.field(md.Fields().ByJSONName(jsontext.PlainName(quoted)))
	})
}

// field is how to copy the value of a field, nil for one that is left out. An extension has no descriptor here.
func (p *pruner) field(fd protoreflect.FieldDescriptor) func() {
	switch {
	case fd == nil:
		return p.Copy
	case p.hidden[fd.FullName()].InputOnly:
		return nil
	case fd.IsMap():
		below := func() { p.message(fd.MapValue().Message()) }
		return func() { p.Members(func(key []byte) ([]byte, func()) { return key, below }) }
	case fd.IsList() && fd.Message() != nil:
		return func() { p.Items(func(int) { p.message(fd.Message()) }) }
	default:
		return func() { p.message(fd.Message()) }
	}
}
