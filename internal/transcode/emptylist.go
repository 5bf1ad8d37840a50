// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// emptied returns a document in which each null that represents a list of google.protobuf.Value or NullValue is an empty
// list. null means an empty list for every other field, but protojson takes it for an element there and refuses it. The
// document has to be valid. Its length stays the same, so that places in it do.
func (m *Message) emptied(doc []byte) []byte {
	if !m.traits.nullLists && !m.traits.holdsAny || !bytes.Contains(doc, []byte("null")) {
		return doc
	}
	out := bytes.Clone(doc)
	m.emptyLists(m.md, jsontext.Trim(out), false)
	return out
}

func (m *Message) emptyLists(md protoreflect.MessageDescriptor, object []byte, inAny bool) {
	if md.FullName() == anyName {
		m.emptyInAny(object)
		return
	}
	if schema.IsWellKnown(md) {
		return
	}
	for name, value := range jsontext.Members(object) {
		fd := namedField(m.resolver, md, name)
		if fd == nil {
			continue
		}
		if fd.IsMap() {
			if below := fd.MapValue().Message(); below != nil {
				for _, v := range jsontext.Members(value) {
					m.emptyLists(below, v, inAny)
				}
			}
			continue
		}
		below := fd.Message()
		switch {
		case fd.IsList() && takesNull(fd):
			if jsontext.IsNull(value) && (inAny || !mustBeThere(fd)) {
				copy(value, "[  ]")
			}
		case below == nil:
		case fd.IsList():
			for v := range jsontext.Elements(value) {
				m.emptyLists(below, v, inAny)
			}
		default:
			m.emptyLists(below, value, inAny)
		}
	}
}

// emptyInAny is emptyLists for the message in an Any, if its type is known.
func (m *Message) emptyInAny(object []byte) {
	for name, value := range jsontext.Members(object) {
		url, isText := jsontext.Text(value)
		if name != typeMember || !isText {
			continue
		}
		mt, err := m.resolver.FindMessageByURL(url)
		if err != nil {
			return
		}
		if mt.Descriptor().FullName() != anyName {
			m.emptyLists(mt.Descriptor(), object, true)
			return
		}
		for name, inner := range jsontext.Members(object) {
			if name == "value" {
				m.emptyInAny(inner)
			}
		}
		return
	}
}

func mustBeThere(fd protoreflect.FieldDescriptor) bool {
	return schema.BehaviorOf(fd).Required || fd.Cardinality() == protoreflect.Required
}

// namedField is the field of a member's name, nil where there is none.
func namedField(resolver Resolver, md protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if n := len(name); n > 2 && name[0] == '[' && name[n-1] == ']' {
		if x, err := resolver.FindExtensionByName(protoreflect.FullName(name[1 : n-1])); err == nil {
			return x.TypeDescriptor()
		}
		return nil
	}
	if fd := md.Fields().ByJSONName(name); fd != nil {
		return fd
	}
	return md.Fields().ByTextName(name)
}
