// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// View is a place in an output schema. It tells which parts of a result may be left out, and reads no more of the schema than it
// is asked about. The zero View knows nothing: everything may be left out. Views are values, and safe for concurrent use.
type View struct {
	root, node []byte
	// isOpaque is set where the schema says something that a View cannot read.
	isOpaque bool
}

// ViewOf returns the View of a whole document. The schema is checked JSON; nil for none.
func ViewOf(schema []byte) View { return viewAt(schema, schema) }

// maxRefs bounds the references that are followed to one place.
const maxRefs = 32

// viewAt is the place of a node of a schema, behind its references.
func viewAt(root, node []byte) View {
	for range maxRefs {
		ref, ok := jsontext.Lookup(node, "$ref")
		if !ok {
			return View{root: root, node: node, isOpaque: hasAny(node, otherReferences[:])}
		}
		text, _ := jsontext.Text(ref)
		target, found := resolve(root, text)
		if !found {
			break
		}
		node = target
	}
	return View{root: root, isOpaque: true}
}

// otherReferences are keywords that name other places than "$ref" with a pointer does.
var otherReferences = [...]string{"$dynamicRef", "$recursiveRef"} //nolint:gochecknoglobals // a list that is never changed

// resolve finds what a reference with a JSON Pointer names.
func resolve(root []byte, ref string) (node []byte, found bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil, false
	}
	if pointer == "" {
		return root, true
	}
	pointer, err := url.PathUnescape(pointer)
	if err != nil || !strings.HasPrefix(pointer, "/") {
		return nil, false
	}
	node = root
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if node, found = jsontext.Lookup(node, UnescapeToken(token)); !found {
			return nil, false
		}
	}
	return node, true
}

func hasAny(node []byte, names []string) bool {
	for name := range jsontext.Fields(node) {
		if slices.Contains(names, string(name)) {
			return true
		}
	}
	return false
}

// IsKnown reports whether the schema says anything about the place.
func (v View) IsKnown() bool { return jsontext.IsObject(v.node) && !v.isOpaque }

// IsScalar reports whether only values without members or elements are valid here.
func (v View) IsScalar() bool {
	kind, _ := jsontext.Lookup(v.node, "type")
	text, ok := jsontext.Text(kind)
	return v.IsKnown() && ok && text != "object" && text != "array"
}

// IsArray reports whether arrays are the values here.
func (v View) IsArray() bool {
	kind, _ := jsontext.Lookup(v.node, "type")
	return v.IsKnown() && jsontext.IsText(kind, "array")
}

// IsMap reports whether the members of an object are entries of one kind.
func (v View) IsMap() bool {
	values, ok := jsontext.Lookup(v.node, "additionalProperties")
	_, hasNames := jsontext.Lookup(v.node, "properties")
	return v.IsKnown() && ok && jsontext.IsObject(values) && !hasNames
}

// IsClosed reports whether an object has no other members than Names.
func (v View) IsClosed() bool {
	values, ok := jsontext.Lookup(v.node, "additionalProperties")
	return v.IsKnown() && ok && string(values) == "false"
}

// Names returns the names of the members that the schema describes, in its order.
func (v View) Names() []string {
	var out []string
	properties, _ := jsontext.Lookup(v.node, "properties")
	for name := range jsontext.Members(properties) {
		out = append(out, name)
	}
	return out
}

// Member returns the place of a member, and whether the schema describes it.
func (v View) Member(name string) (View, bool) {
	properties, _ := jsontext.Lookup(v.node, "properties")
	if node, ok := jsontext.Lookup(properties, name); ok {
		return viewAt(v.root, node), true
	}
	if node, ok := jsontext.Lookup(v.node, "additionalProperties"); ok && jsontext.IsObject(node) {
		return viewAt(v.root, node), v.IsMap()
	}
	return View{isOpaque: v.isOpaque}, false
}

// Properties returns the places of the members that Names has, by name, and reads the schema once for all of them.
func (v View) Properties() map[string]View {
	out := map[string]View{}
	properties, _ := jsontext.Lookup(v.node, "properties")
	for name, node := range jsontext.Members(properties) {
		if _, isRepeated := out[name]; !isRepeated {
			out[name] = viewAt(v.root, node)
		}
	}
	return out
}

// At is where in the document the place is written: the same for all references to it, and another for each other place. It is nil
// for a place of which the schema says nothing.
func (v View) At() *byte {
	if len(v.node) == 0 {
		return nil
	}
	return &v.node[0]
}

// Elements returns the place of the elements of an array.
func (v View) Elements() View {
	if node, ok := jsontext.Lookup(v.node, "items"); ok {
		return viewAt(v.root, node)
	}
	return View{isOpaque: v.isOpaque}
}

// Required returns the members that the schema requires.
func (v View) Required() []string {
	var out []string
	names, _ := jsontext.Lookup(v.node, "required")
	for raw := range jsontext.Elements(names) {
		if name, ok := jsontext.Text(raw); ok {
			out = append(out, name)
		}
	}
	return out
}

// Keyword returns the value of a keyword, and whether the schema has it here.
func (v View) Keyword(name string) (value []byte, ok bool) { return jsontext.Lookup(v.node, name) }

// Branches returns the places of the schemas in a list, such as that of anyOf.
func (v View) Branches(keyword string) []View {
	var out []View
	list, _ := jsontext.Lookup(v.node, keyword)
	for node := range jsontext.Elements(list) {
		out = append(out, viewAt(v.root, node))
	}
	return out
}

// IsFixed reports whether nothing here may be left out, apart from members that are not required: the schema has rules about
// members or elements that a View does not weigh.
func (v View) IsFixed() bool {
	return v.isOpaque || string(v.node) == "false" || hasAny(v.node, weighing[:])
}

// weighing are the keywords that make the validity of a value depend on more than the members that are required.
//
//nolint:gochecknoglobals // a list that is never changed
var weighing = [...]string{
	"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "const", "enum", "dependentSchemas", "dependentRequired", "dependencies",
	"patternProperties", "unevaluatedProperties", "unevaluatedItems", "minProperties", "minItems", "contains", "prefixItems",
	"additionalItems",
}

// The members of the arguments of a tool that takes a stream of messages.
const (
	// ItemsMember holds the messages, in their order.
	ItemsMember = "items"
	// HeaderMember holds the value of Stream.Header, which is sent before the items in its own message.
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
	own := doc.words()
	doc.remove("description") // so that the new one is last
	d.describe(doc, own, headerText)
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

// ConsentForm returns the schema of a form with nothing to fill in, in the subset of JSON Schema for forms (MCP,
// elicitation): a user accepts or declines it.
func ConsentForm() []byte { return []byte(`{"type":"object","properties":{}}`) }
