// SPDX-License-Identifier: Apache-2.0

package types

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Members of arguments and results that no message has.
const (
	valueMember     = "value"
	truncatedMember = "truncated"
)

// Input returns the type of the arguments of a tool: a Message, unless nothing is known of them. Each call makes a new one.
//
// The arguments of a tool that takes a stream have the fields items and, where the tool has one, header. A request that is no object in
// JSON is the field value.
func Input(t *catalog.Tool) *Type {
	m := newMaker(t.Input.Canonical(), schema.Input)
	m.given = t.Words
	if t.Native {
		return m.bySchema(m.root, 0)
	}
	md := t.Method.Descriptor.Input()
	switch {
	case t.TakesStream():
		items, _ := m.root.Member(schema.ItemsMember)
		own := []*Field{{
			Name: schema.ItemsMember, JSONName: schema.ItemsMember, Required: true, Type: listOf(m.message(md, items.Elements())),
		}}
		if header, ok := m.root.Member(schema.HeaderMember); ok {
			own = append(own, &Field{Name: schema.HeaderMember, JSONName: schema.HeaderMember, Required: true, Type: m.bySchema(header, 0)})
		}
		return messageOf(own...)
	case t.Input.Wrapped:
		return messageOf(&Field{Name: valueMember, JSONName: valueMember, Required: true, Type: m.message(md, schema.View{})})
	}
	return m.message(md, m.root)
}

// Output returns the type of the result of a tool, as its caller sees it; Any for documents and where nothing is known. Each call makes a
// new one.
//
// The result of a stream has the fields items and truncated. A response that is no object in JSON is the field value, as in the output
// schema. A tool that starts an operation has the type of what that ends with, and the field outrigger_operation for one that still runs.
func Output(t *catalog.Tool) *Type {
	switch {
	case t.IsDocument(), !t.HasOutput():
		return nil
	case t.Native, t.Whole() != t && t.Declared != nil && t.Declared.Output != nil:
		m := newMaker(t.Output.Canonical(), schema.Output)
		return m.bySchema(m.root, 0)
	}
	m := newMaker(t.Output.Canonical(), schema.Output)
	md := t.Method.Descriptor.Output()
	switch {
	case t.Operation != nil:
		return m.operation(t.Operation.Response)
	case t.Streams():
		items, _ := m.root.Member(schema.ItemsMember)
		return messageOf(
			&Field{Name: schema.ItemsMember, JSONName: schema.ItemsMember, Type: listOf(m.message(md, items.Elements()))},
			&Field{Name: truncatedMember, JSONName: truncatedMember, Type: &Type{Kind: Bool}})
	case t.OutputNotObject:
		return messageOf(&Field{Name: valueMember, JSONName: valueMember, Type: m.message(md, schema.View{})})
	}
	return m.message(md, m.root)
}

// maker makes the types of one document. It makes each message once for each place in the schema, so that types are not more than the
// schema has parts.
type maker struct {
	dir  schema.Direction
	root schema.View
	// given are the descriptions of fields that the configuration gives.
	given map[protoreflect.FullName]string

	mu    sync.Mutex
	known map[place]*Type
}

// place is a message at a position in the schema.
type place struct {
	name protoreflect.FullName
	at   *byte
}

func newMaker(text []byte, dir schema.Direction) *maker {
	return &maker{dir: dir, root: schema.ViewOf(text), known: map[place]*Type{}}
}

// once makes what is at a place, unless that was done before.
func (m *maker) once(at place, create func() *Type) *Type {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.known[at]
	if t == nil {
		t = create()
		m.known[at] = t
	}
	return t
}

func (m *maker) operation(response *catalog.OperationValue) *Type {
	if response == nil || schema.IsWellKnown(response.Out.Descriptor()) {
		return nil
	}
	ends := m.message(response.Out.Descriptor(), m.root)
	return &Type{Kind: Message, Name: ends.Name, Open: ends.Open, fields: sync.OnceValue(func() *fields {
		return fieldsOf(append(slices.Clone(ends.Fields()), &Field{
			Name: catalog.OperationProperty, JSONName: catalog.OperationProperty, Type: &Type{Nullable: true},
		}))
	})}
}

// message is the type of a message at a place of the schema, which says what of the message there is.
func (m *maker) message(md protoreflect.MessageDescriptor, at schema.View) *Type {
	if t, ok := wellKnown(md); ok {
		return t
	}
	return m.once(place{md.FullName(), at.At()}, func() *Type {
		return &Type{
			Kind: Message, Name: md.FullName(), Open: md.IsPlaceholder() || md.ExtensionRanges().Len() > 0,
			fields: sync.OnceValue(func() *fields { return fieldsOf(m.fieldsOf(md, at)) }),
		}
	})
}

func (m *maker) fieldsOf(md protoreflect.MessageDescriptor, at schema.View) []*Field {
	at = behindNull(at)
	properties, required := at.Properties(), required(at)
	isClosed, oneofs := at.IsClosed(), requiredOneofs(at)
	out := make([]*Field, 0, md.Fields().Len())
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := schema.Names(fd)[0]
		view, isShown := properties[name]
		if isClosed && !isShown || schema.BehaviorOf(fd).Hides(m.dir) {
			continue
		}
		f := &Field{Name: string(fd.Name()), JSONName: name, Type: m.field(fd, view), Required: slices.Contains(required, name), at: view, given: m.given[fd.FullName()]}
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() {
			f.Oneof = string(od.Name())
			f.mustOneof = slices.Contains(oneofs, f.Oneof)
		}
		out = append(out, f)
	}
	return out
}

// behindNull is the place of an object that may be null too.
func behindNull(at schema.View) schema.View {
	branches := at.Branches("anyOf")
	if _, isObject := at.Keyword("properties"); isObject || len(branches) != 2 {
		return at
	}
	if kind, ok := branches[1].Keyword("type"); ok && jsontext.IsText(kind, "null") {
		return branches[0]
	}
	return at
}

// required are the members that an object has to have, under the first of their names. A member with several names is required by a
// clause of allOf with a branch for each.
func required(at schema.View) []string {
	out := at.Required()
	for _, clause := range at.Branches("allOf") {
		for i, branch := range clause.Branches("anyOf") {
			names := branch.Required()
			if len(names) != 1 {
				break
			}
			if i == 0 {
				out = append(out, names[0])
			}
		}
	}
	return out
}

// requiredOneofs are the oneofs of which a member has to be set. A clause of allOf says so in words that end with the name.
func requiredOneofs(at schema.View) (out []string) {
	for _, clause := range at.Branches("allOf") {
		raw, _ := clause.Keyword("description")
		text, _ := jsontext.Text(raw)
		if at := strings.LastIndexByte(text, '('); at >= 0 && strings.HasPrefix(text, "Exactly one of ") {
			out = append(out, strings.TrimSuffix(text[at+1:], ")."))
		}
	}
	return out
}

func (m *maker) field(fd protoreflect.FieldDescriptor, at schema.View) *Type {
	switch {
	case fd.IsMap():
		key := m.single(fd.MapKey(), schema.View{})
		values, _ := at.Member("")
		return &Type{Kind: Map, key: key, elem: m.single(fd.MapValue(), values)}
	case fd.IsList():
		return listOf(m.single(fd, at.Elements()))
	}
	t := m.single(fd, at)
	if fd.HasPresence() && t != nil && !t.Nullable {
		own := *t
		own.Nullable = true
		t = &own
	}
	return t
}

// single is the type of one value of a field.
func (m *maker) single(fd protoreflect.FieldDescriptor, at schema.View) *Type {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return m.message(fd.Message(), at)
	case protoreflect.EnumKind:
		return enumType(fd.Enum())
	}
	return scalar(fd.Kind())
}

func enumType(ed protoreflect.EnumDescriptor) *Type {
	if ed.FullName() == "google.protobuf.NullValue" {
		return &Type{Kind: Null, Nullable: true}
	}
	t := &Type{Kind: Enum, Name: ed.FullName(), Open: !ed.IsClosed() || ed.IsPlaceholder()}
	for i := range ed.Values().Len() {
		t.Values = append(t.Values, string(ed.Values().Get(i).Name()))
	}
	return t
}

func scalar(kind protoreflect.Kind) *Type {
	switch kind { //nolint:exhaustive // the kinds that are no scalars are not asked for
	case protoreflect.BoolKind:
		return &Type{Kind: Bool}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return &Type{Kind: Int, Bits: 32}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return &Type{Kind: Int, Bits: 32, Unsigned: true}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return &Type{Kind: Int, Bits: 64}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return &Type{Kind: Int, Bits: 64, Unsigned: true}
	case protoreflect.FloatKind:
		return &Type{Kind: Float, Bits: 32}
	case protoreflect.DoubleKind:
		return &Type{Kind: Float, Bits: 64}
	case protoreflect.StringKind:
		return &Type{Kind: String}
	case protoreflect.BytesKind:
		return &Type{Kind: Bytes}
	}
	return nil
}

// wellKnown is the type of a message whose JSON is not that of its fields. Struct and Any are Messages that are open. A FieldMask is a String.
func wellKnown(md protoreflect.MessageDescriptor) (t *Type, ok bool) {
	if !schema.IsWellKnown(md) {
		return nil, false
	}
	switch name := md.FullName(); name {
	case "google.protobuf.Timestamp":
		return &Type{Kind: Timestamp, Name: name}, true
	case "google.protobuf.Duration":
		return &Type{Kind: Duration, Name: name}, true
	case "google.protobuf.FieldMask":
		return &Type{Kind: String, Name: name}, true
	case "google.protobuf.ListValue":
		return &Type{Kind: List, Name: name}, true
	case "google.protobuf.Value":
		return nil, true
	case "google.protobuf.Struct", "google.protobuf.Any":
		return &Type{Kind: Message, Name: name, Open: true}, true
	case "google.protobuf.Empty":
		return &Type{Kind: Message, Name: name, fields: func() *fields { return &fields{} }}, true
	}
	if fd := md.Fields().ByName(valueMember); fd != nil && md.Fields().Len() == 1 { // the wrappers
		if t = scalar(fd.Kind()); t != nil {
			t.Nullable = true
		}
		return t, true
	}
	return nil, true
}

// maxDepth bounds how far a value may be nested in schemas that are read at once. Objects count from 0 again, because their fields
// wait until they are asked for.
const maxDepth = 32

// bySchema is the type of a value that only a JSON schema describes. What is not plain is Any.
func (m *maker) bySchema(at schema.View, depth int) *Type {
	if !at.IsKnown() || depth > maxDepth {
		return nil
	}
	if at, ok := orNull(at); ok {
		return nullable(m.bySchema(at, depth+1))
	}
	kind, isNullable := kindOf(at)
	t := m.plain(at, kind, depth)
	if isNullable {
		t = nullable(t)
	}
	return t
}

func (m *maker) plain(at schema.View, kind string, depth int) *Type {
	switch kind {
	case "boolean":
		return &Type{Kind: Bool, Schema: true}
	case "integer":
		return &Type{Kind: Int, Schema: true}
	case "number":
		return &Type{Kind: Float, Schema: true}
	case "string":
		if values := names(at); len(values) > 0 {
			return &Type{Kind: Enum, Values: values, Schema: true}
		}
		return &Type{Kind: String, Schema: true}
	case "array":
		return &Type{Kind: List, Schema: true, elem: m.elements(at, depth)}
	case "object":
		return m.once(place{at: at.At()}, func() *Type {
			return &Type{Kind: Message, Open: !at.IsClosed() || hasPatterns(at), Schema: true, fields: sync.OnceValue(func() *fields { return m.members(at) })}
		})
	}
	return nil
}

func (m *maker) elements(at schema.View, depth int) *Type {
	if _, isTuple := at.Keyword("prefixItems"); isTuple {
		return nil
	}
	return m.bySchema(at.Elements(), depth+1)
}

func hasPatterns(at schema.View) bool {
	_, ok := at.Keyword("patternProperties")
	return ok
}

func (m *maker) members(at schema.View) *fields {
	var list []*Field
	properties, required := at.Properties(), required(at)
	for _, name := range at.Names() {
		if view, isNew := properties[name]; isNew {
			list = append(list, &Field{Name: name, JSONName: name, Type: m.bySchema(view, 0), Required: slices.Contains(required, name), at: view})
			delete(properties, name)
		}
	}
	return fieldsOf(list)
}

// orNull is the place of the values that are not null, where a list of two says that a value may be null too.
func orNull(at schema.View) (schema.View, bool) {
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		branches := at.Branches(keyword)
		if len(branches) != 2 {
			continue
		}
		for i, branch := range branches {
			if kind, ok := branch.Keyword("type"); ok && jsontext.IsText(kind, "null") {
				return branches[1-i], true
			}
		}
	}
	return at, false
}

func nullable(t *Type) *Type {
	if t == nil || t.Nullable {
		return t
	}
	own := *t
	own.Nullable = true
	return &own
}

// kindOf is the type that a schema names, and whether it may be null instead; empty for several.
func kindOf(at schema.View) (kind string, isNullable bool) {
	raw, _ := at.Keyword("type")
	if text, ok := jsontext.Text(raw); ok {
		return text, false
	}
	var kinds []string
	for one := range jsontext.Elements(raw) {
		text, _ := jsontext.Text(one)
		if text == "null" {
			isNullable = true
			continue
		}
		kinds = append(kinds, text)
	}
	if len(kinds) == 1 {
		return kinds[0], isNullable
	}
	return "", isNullable
}

// names are the texts of an enum; nil if it has other values too.
func names(at schema.View) []string {
	raw, _ := at.Keyword("enum")
	var out []string
	for one := range jsontext.Elements(raw) {
		text, ok := jsontext.Text(one)
		switch {
		case ok:
			out = append(out, text)
		case string(one) != "null":
			return nil
		}
	}
	return out
}
