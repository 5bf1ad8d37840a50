// SPDX-License-Identifier: Apache-2.0

package source

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Field numbers by which the path of a comment names what it is about: those of FileDescriptorProto, DescriptorProto,
// EnumDescriptorProto and ServiceDescriptorProto.
const (
	fileMessages     = 4
	fileEnums        = 5
	fileExtensions   = 7
	messageFields    = 2
	messageMessages  = 3
	messageEnums     = 4
	messageExtension = 6
	messageOneofs    = 8
	enumValues       = 2
	serviceMethods   = 2
)

// symbol is what a comment can be about.
type symbol struct {
	// name is the full name. A value is named below its enum.
	name string
	// parent is the name of the message, enum or service around it; empty in a file.
	parent string
	// shape is what two descriptions of it have to have in common, in words.
	shape string
	path  []int32
}

// symbolsOf calls visit for all symbols of a file, parents first.
func symbolsOf(f *descriptorpb.FileDescriptorProto, visit func(symbol)) {
	w := symbolWalk{visit}
	pkg := f.GetPackage()
	for i, m := range f.GetMessageType() {
		w.message(m, pkg, "", []int32{fileMessages, int32(i)})
	}
	for i, e := range f.GetEnumType() {
		w.enum(e, pkg, "", []int32{fileEnums, int32(i)})
	}
	for i, x := range f.GetExtension() {
		w.field(x, pkg, "", []int32{fileExtensions, int32(i)})
	}
	for i, s := range f.GetService() {
		name := within(pkg, s.GetName())
		path := []int32{fileService, int32(i)}
		visit(symbol{name, "", "service", path})
		for j, m := range s.GetMethod() {
			visit(symbol{within(name, m.GetName()), name, methodShape(m), below(path, serviceMethods, j)})
		}
	}
}

type symbolWalk struct{ visit func(symbol) }

func (w symbolWalk) message(m *descriptorpb.DescriptorProto, scope, parent string, path []int32) {
	if m.GetOptions().GetMapEntry() {
		return // nobody writes these
	}
	name := within(scope, m.GetName())
	w.visit(symbol{name, parent, "message", path})
	for i, f := range m.GetField() {
		w.field(f, name, name, below(path, messageFields, i))
	}
	for i, o := range m.GetOneofDecl() {
		if !isSynthetic(m, i) {
			w.visit(symbol{within(name, o.GetName()), name, "oneof", below(path, messageOneofs, i)})
		}
	}
	for i, e := range m.GetEnumType() {
		w.enum(e, name, name, below(path, messageEnums, i))
	}
	for i, x := range m.GetExtension() {
		w.field(x, name, name, below(path, messageExtension, i))
	}
	for i, n := range m.GetNestedType() {
		w.message(n, name, name, below(path, messageMessages, i))
	}
}

func (w symbolWalk) enum(e *descriptorpb.EnumDescriptorProto, scope, parent string, path []int32) {
	name := within(scope, e.GetName())
	w.visit(symbol{name, parent, "enum", path})
	for i, v := range e.GetValue() {
		w.visit(symbol{within(name, v.GetName()), name, fmt.Sprintf("value %d", v.GetNumber()), below(path, enumValues, i)})
	}
}

func (w symbolWalk) field(f *descriptorpb.FieldDescriptorProto, scope, parent string, path []int32) {
	w.visit(symbol{within(scope, f.GetName()), parent, fieldShape(f), path})
}

// isSynthetic reports whether a oneof stands for an optional field, and was written by nobody.
func isSynthetic(m *descriptorpb.DescriptorProto, oneof int) bool {
	return slices.ContainsFunc(m.GetField(), func(f *descriptorpb.FieldDescriptorProto) bool {
		return f.GetProto3Optional() && f.OneofIndex != nil && int(f.GetOneofIndex()) == oneof
	})
}

// fieldShape is a field's type and number, as they are written in a file.
func fieldShape(f *descriptorpb.FieldDescriptorProto) string {
	kind := strings.TrimPrefix(f.GetTypeName(), ".")
	if kind == "" {
		kind = strings.ToLower(strings.TrimPrefix(f.GetType().String(), "TYPE_"))
	}
	if f.GetLabel() == descriptorpb.FieldDescriptorProto_LABEL_REPEATED {
		kind = "repeated " + kind
	}
	return fmt.Sprintf("%s = %d", kind, f.GetNumber())
}

func methodShape(m *descriptorpb.MethodDescriptorProto) string {
	of := func(name string, streams bool) string {
		name = strings.TrimPrefix(name, ".")
		if streams {
			return "stream " + name
		}
		return name
	}
	return fmt.Sprintf("rpc (%s) returns (%s)", of(m.GetInputType(), m.GetClientStreaming()), of(m.GetOutputType(), m.GetServerStreaming()))
}

func within(scope, name string) string {
	return string(protoreflect.FullName(scope).Append(protoreflect.Name(name)))
}

func below(path []int32, field int32, index int) []int32 {
	return append(slices.Clip(path), field, int32(index))
}
