// SPDX-License-Identifier: Apache-2.0

package schema

import "google.golang.org/protobuf/reflect/protoreflect"

// The members of the arguments of a tool that takes a stream of messages.
const (
	// ItemsMember holds the messages, in their order.
	ItemsMember = "items"
	// HeaderMember holds the value of Stream.Header, which is sent before the items in a message of its own.
	HeaderMember = "header"
)

// NoItems are arguments that send no message.
const NoItems = `{"` + ItemsMember + `":[]}`

// itemRef is the reference to the schema of an item.
const itemRef = "#/properties/" + ItemsMember + "/items"

// Stream describes the arguments of a tool that takes a stream of messages: {"items": [...]}. The items are required and
// may be empty.
type Stream struct {
	// Header is the field of the message whose value comes as "header" beside the items; nil for none. It is then required.
	Header protoreflect.FieldDescriptor
}

// DeriveStream is Derive for the arguments of a tool that takes a stream of messages.
func DeriveStream(md protoreflect.MessageDescriptor, of Stream, opts Options) (*Schema, error) {
	return derive(md, Input, &of, opts, partBoth)
}

// The descriptions of the two members.
const (
	itemsText  = "The messages to send, in order. An empty list sends none."
	headerText = "Sent first, in a message of its own."
)

// required are the members that the arguments must have.
func (s *Stream) required() []string {
	if s.Header != nil {
		return []string{HeaderMember, ItemsMember}
	}
	return []string{ItemsMember}
}

// RootSchema is the schema of the arguments as a whole. It says nothing about the messages in them.
func (s *Stream) RootSchema() []byte {
	properties := newObject(ItemsMember, newObject("type", "array"))
	if s.Header != nil {
		properties.set(HeaderMember, &object{})
	}
	return appendJSON(nil, s.closed(properties))
}

func (s *Stream) closed(properties *object) *object {
	return closed(properties, s.required())
}

// streamDocument writes the arguments around the root message.
func (d *deriver) streamDocument(md protoreflect.MessageDescriptor) *object {
	properties := &object{}
	if fd := d.stream.Header; fd != nil {
		f := d.newField(fd)
		f.must = true // so that null does not do
		doc := d.property(f, d.pointerTo("#", "properties", HeaderMember), 1)
		properties.set(HeaderMember, d.headerText(doc))
	}
	properties.set(ItemsMember, newObject("type", "array", "description", itemsText, "items", d.rootSchema(md)))
	return d.stream.closed(properties)
}

// headerText adds to the description of the header what makes it one.
func (d *deriver) headerText(doc *object) *object {
	if own, _ := doc.get("description").(string); own != "" {
		doc.remove("description")
		d.describe(doc, own, headerText)
	} else {
		d.describe(doc, headerText)
	}
	return doc
}

// streamDocument is the same in the strict profile.
func (s *strict) streamDocument(md protoreflect.MessageDescriptor) *object {
	properties := &object{}
	if fd := s.d.stream.Header; fd != nil {
		f := s.d.newField(fd)
		f.must = true
		properties.set(HeaderMember, s.d.headerText(s.property(f, nil)))
	}
	s.depth = 2 // the arguments and their items
	item := s.single(md, nil, value{}, nil)
	s.depth = 0
	properties.set(ItemsMember, newObject("type", "array", "items", item, "description", itemsText))
	s.properties += properties.size()
	return s.d.stream.closed(properties)
}
