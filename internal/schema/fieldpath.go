// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// PathError is the error of InputField.
type PathError struct {
	// Message is the one that lacks Name, or whose field has no members, and Name the part of the path that leads nowhere.
	Message protoreflect.FullName
	Name    string
	// Known are the names that the message has in an input, in its order; empty if it has none.
	Known []string
}

// Error says what is missing, and what there is: at most 20 names.
func (e *PathError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("there is no %s: %s has no members to describe", quote(e.Name), e.Message)
	}
	const most = 20
	known, more := e.Known, ""
	if len(known) > most {
		known, more = known[:most], fmt.Sprintf(" and %d more", len(known)-most)
	}
	return fmt.Sprintf("%s has no %s; it has %s%s", e.Message, quote(e.Name), strings.Join(known, ", "), more)
}

// InputField returns the full name of the field that a path leads to in the input of a message, for Options.Words: names of
// fields, in JSON or as in the .proto file, with dots between them, through lists and maps to the messages in them. Of an
// input that is wrapped, the only path is "value". Extensions have no path. The error is a *PathError.
func InputField(md protoreflect.MessageDescriptor, path string) (protoreflect.FullName, error) {
	d := &deriver{dir: Input, needs: new(Needs)}
	if isWrapped(md, Input) {
		if path != wrappedMember {
			return "", &PathError{Message: md.FullName(), Name: path, Known: []string{wrappedMember}}
		}
		return wrappedName(md), nil
	}
	names := strings.Split(path, ".")
	for i, name := range names {
		var fields []protoreflect.FieldDescriptor
		if !isWellKnown(md) {
			fields = d.fieldsOf(md)
		}
		at := slices.IndexFunc(fields, func(fd protoreflect.FieldDescriptor) bool { return slices.Contains(Names(fd), name) })
		if at < 0 {
			return "", &PathError{Message: md.FullName(), Name: name, Known: firstNames(fields)}
		}
		fd := fields[at]
		if i == len(names)-1 {
			return fd.FullName(), nil
		}
		of := fd
		if fd.IsMap() {
			of = fd.MapValue()
		}
		if of.Message() == nil {
			return "", &PathError{Message: fd.FullName(), Name: names[i+1]}
		}
		md = of.Message()
	}
	return "", &PathError{Message: md.FullName()} // a path has at least one name
}

func firstNames(fields []protoreflect.FieldDescriptor) []string {
	var out []string
	for _, fd := range fields {
		out = append(out, Names(fd)[0])
	}
	return out
}

// wrappedName is what Options.Words call the one member of an input that is wrapped.
func wrappedName(md protoreflect.MessageDescriptor) protoreflect.FullName {
	return md.FullName().Append(wrappedMember)
}
