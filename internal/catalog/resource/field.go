// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// variable is a variable of a template and the field that it stands for.
type variable struct {
	name  string
	field *field
}

// field is a field below a message, and the way there. Requests and items have the same.
type field struct {
	// names are the members of the JSON that lead there.
	names []string
	way   []protoreflect.FieldDescriptor
}

// last is the field itself.
func (f *field) last() protoreflect.FieldDescriptor { return f.way[len(f.way)-1] }

// in finds the field's value in the JSON of a message. Null counts as absent.
func (f *field) in(message []byte) (json.RawMessage, bool) {
	for _, name := range f.names {
		value, ok := jsontext.Lookup(message, name)
		if !ok || jsontext.IsNull(value) {
			return nil, false
		}
		message = value
	}
	return message, true
}

// fieldAt finds a field by its path: names of fields joined by dots, each within a message that the one before holds.
func fieldAt(md protoreflect.MessageDescriptor, path string) (*field, error) {
	out := &field{}
	for name := range strings.SplitSeq(path, ".") {
		if len(out.way) > 0 {
			before := out.last()
			if before.Message() == nil || before.Cardinality() == protoreflect.Repeated {
				return nil, fmt.Errorf("%s of %s is no single message, so nothing in it has a path", before.Name(), md.FullName())
			}
			md = before.Message()
		}
		if schema.IsWellKnown(md) {
			return nil, fmt.Errorf("the JSON of %s has no fields", md.FullName())
		}
		fd := md.Fields().ByName(protoreflect.Name(name))
		if fd == nil {
			fd = md.Fields().ByJSONName(name)
		}
		if fd == nil {
			return nil, fmt.Errorf("%s has no field %s; it has %s", md.FullName(), shown.Clip(name), fieldNames(md))
		}
		out.way = append(out.way, fd)
		out.names = append(out.names, schema.Names(fd)[0])
	}
	return out, nil
}

// fieldNames lists the fields of a message for an error.
func fieldNames(md protoreflect.MessageDescriptor) string {
	var names []string
	for i := range md.Fields().Len() {
		names = append(names, string(md.Fields().Get(i).Name()))
	}
	if len(names) == 0 {
		return "none"
	}
	return shown.ClipList(names)
}

// responseText finds a field of a response, or of an item of it, that holds one text, or bytes where they will do.
func responseText(md protoreflect.MessageDescriptor, path string, bytesToo bool) (*field, error) {
	f, err := fieldAt(md, path)
	if err != nil {
		return nil, err
	}
	kind := f.last().Kind()
	isFine := kind == protoreflect.StringKind || bytesToo && kind == protoreflect.BytesKind
	if !isFine || f.last().Cardinality() == protoreflect.Repeated {
		wanted := "a single string"
		if bytesToo {
			wanted += " or bytes"
		}
		return nil, fmt.Errorf("%s of %s is not %s", f.last().Name(), f.last().Parent().FullName(), wanted)
	}
	return f, f.isWritten()
}

// isWritten says why a field is never in a response.
func (f *field) isWritten() error {
	for _, fd := range f.way {
		if schema.BehaviorOf(fd).InputOnly {
			return fmt.Errorf("%s of %s is never in a response", fd.Name(), fd.Parent().FullName())
		}
	}
	return nil
}

// isRead says why a field is never taken in a request.
func (f *field) isRead() error {
	for _, fd := range f.way {
		if schema.BehaviorOf(fd).OutputOnly {
			return fmt.Errorf("%s of %s is never taken in a request", fd.Name(), fd.Parent().FullName())
		}
	}
	return nil
}

// variablesOf finds the fields of the variables.
func variablesOf(md protoreflect.MessageDescriptor, names []string) ([]variable, error) {
	var out []variable
	for _, name := range names {
		f, err := fieldAt(md, name)
		if err == nil {
			err = isVariable(f.last())
		}
		if err != nil {
			return nil, fmt.Errorf("uri_template: variable {%s}: %w", name, err)
		}
		out = append(out, variable{name, f})
	}
	return out, nil
}

// isVariable says why the field cannot be a part of a URI.
func isVariable(fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.Cardinality() == protoreflect.Repeated:
		return fmt.Errorf("%s of %s is repeated, and a variable has one value", fd.Name(), fd.Parent().FullName())
	case fd.Kind() == protoreflect.EnumKind && fd.Enum().FullName() != "google.protobuf.NullValue":
		return nil
	}
	switch fd.Kind() {
	case protoreflect.StringKind, protoreflect.BoolKind,
		protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Uint32Kind, protoreflect.Fixed32Kind,
		protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return nil
	}
	return fmt.Errorf("%s of %s is no string, integer, bool or enum", fd.Name(), fd.Parent().FullName())
}

// argument is a member of a request's JSON: a variable's value, or an object with further members.
type argument struct {
	name     string
	field    protoreflect.FieldDescriptor
	variable string
	members  []*argument
}

// requestArguments puts the variables together to the members of a request. Two of one field, or of one oneof, would
// contradict each other.
func requestArguments(variables []variable) ([]*argument, error) {
	root := &argument{}
	for _, v := range variables {
		if err := v.field.isRead(); err != nil {
			return nil, fmt.Errorf("uri_template: variable {%s}: %w", v.name, err)
		}
		at := root
		for i, fd := range v.field.way {
			next, err := at.member(fd, v.field.names[i])
			if err != nil {
				return nil, fmt.Errorf("uri_template: variable {%s}: %w", v.name, err)
			}
			at = next
		}
		if at.variable != "" {
			return nil, fmt.Errorf("uri_template: {%s} and {%s} are one field", at.variable, v.name)
		}
		at.variable = v.name
	}
	return root.members, nil
}

// member finds or adds the member of a field.
func (a *argument) member(fd protoreflect.FieldDescriptor, name string) (*argument, error) {
	for _, m := range a.members {
		if m.field == fd {
			return m, nil
		}
		if one := fd.ContainingOneof(); one != nil && one == m.field.ContainingOneof() {
			return nil, errors.New(string(fd.Name()) + " and " + string(m.field.Name()) + " exclude each other")
		}
	}
	next := &argument{name: name, field: fd}
	a.members = append(a.members, next)
	return next, nil
}
