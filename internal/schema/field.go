// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Names returns the names that ProtoJSON accepts for a field, the one that it writes first: the JSON name, the name
// in the .proto file, and for a group also the name of its type. An extension has one name, in brackets.
func Names(fd protoreflect.FieldDescriptor) []string {
	if fd.IsExtension() {
		return []string{"[" + string(fd.FullName()) + "]"}
	}
	names := append(make([]string, 0, 2), fd.JSONName())
	if !utf8.ValidString(names[0]) {
		// Nothing keeps a corrupt descriptor from having such a name, and no
		// JSON text can have it.
		names = []string{string(fd.Name())}
	}
	candidates := []string{fd.TextName(), string(fd.Name())}
	if fd.Kind() == protoreflect.GroupKind {
		candidates = append(candidates, strings.ToLower(fd.JSONName()), strings.ToLower(fd.TextName()))
	}
	for _, name := range candidates {
		if !slices.Contains(names, name) && byName(fd.ContainingMessage().Fields(), name) == fd {
			names = append(names, name)
		}
	}
	return names
}

// byName resolves a member name as ProtoJSON does: the JSON name goes first.
func byName(fields protoreflect.FieldDescriptors, name string) protoreflect.FieldDescriptor {
	if fd := fields.ByJSONName(name); fd != nil {
		return fd
	}
	return fields.ByTextName(name)
}

// fieldsOf lists the fields that a message has in one direction: those declared, in the order of the file, then the
// known extensions by number.
func (d *deriver) fieldsOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	declared := md.Fields()
	fields := make([]protoreflect.FieldDescriptor, 0, declared.Len())
	for i := range declared.Len() {
		fd := declared.Get(i)
		if !BehaviorOf(fd).Hides(d.dir) {
			fields = append(fields, fd)
		}
	}
	if d.opts.Extensions == nil || md.ExtensionRanges().Len() == 0 {
		return fields
	}
	var more []protoreflect.FieldDescriptor
	d.opts.Extensions.RangeExtensionsByMessage(md.FullName(), func(t protoreflect.ExtensionType) bool {
		more = append(more, t.TypeDescriptor())
		return true
	})
	slices.SortFunc(more, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	return append(fields, more...)
}

// TakesNull reports whether JSON null is a value of a field, and not its absence.
func TakesNull(fd protoreflect.FieldDescriptor) bool { return takesNull(fd) }

// takesNull holds for the two types for which a JSON null is a value and not the absence of one.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if md := fd.Message(); md != nil {
		return md.FullName() == "google.protobuf.Value"
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}
