// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"strings"
	"unicode"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// echoes answers with the message that the request has, as a method that creates or changes one does.
func (v *inventor) echoes(m protoreflect.Message) bool {
	if v.request == nil || v.attempt > 1 {
		return false
	}
	if fd := v.fieldOf(func(fd protoreflect.FieldDescriptor) bool {
		return fd.Message() != nil && !fd.IsList() && !fd.IsMap() && fd.Message().FullName() == m.Descriptor().FullName()
	}); fd != nil {
		merge(m, v.request.Get(fd).Message())
		about := m.Descriptor()
		for i := range about.Fields().Len() {
			if one := about.Fields().Get(i); !m.Has(one) && one.ContainingOneof() == nil {
				v.field(m, one, 1, false)
			}
		}
		return true
	}
	return false
}

// fieldOf returns a field that the request has.
func (v *inventor) fieldOf(is func(protoreflect.FieldDescriptor) bool) (out protoreflect.FieldDescriptor) {
	v.request.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if is(fd) && (out == nil || fd.Number() < out.Number()) {
			out = fd
		}
		return true
	})
	return out
}

// echo sets a field to what the request has: of the same name and type, or an id or name that the request has under the name of the
// message, such as vehicle_id for the id of a Vehicle.
func (v *inventor) echo(m protoreflect.Message, fd protoreflect.FieldDescriptor) bool {
	if v.request == nil || v.attempt > 3 || fd.ContainingOneof() != nil && !fd.ContainingOneof().IsSynthetic() {
		return false
	}
	names := []protoreflect.Name{fd.Name()}
	if fd.Name() == "id" || fd.Name() == "name" || fd.Name() == "uid" {
		names = append(names, protoreflect.Name(snake(string(m.Descriptor().Name())))+"_"+fd.Name())
	}
	for _, name := range names {
		from := v.request.Descriptor().Fields().ByName(name)
		if from == nil || !v.request.Has(from) || !isSame(from, fd) {
			continue
		}
		if fd.IsList() || fd.IsMap() {
			one := m.NewField(fd)
			copyInto(one, v.request.Get(from), fd)
			m.Set(fd, one)
			return true
		}
		m.Set(fd, v.request.Get(from))
		return true
	}
	return false
}

// copyInto copies a list or map.
func copyInto(to, from protoreflect.Value, fd protoreflect.FieldDescriptor) {
	if fd.IsMap() {
		from.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			to.Map().Set(k, v)
			return true
		})
		return
	}
	for i := range from.List().Len() {
		to.List().Append(from.List().Get(i))
	}
}

// merge copies the fields of a message of the same type.
func merge(to, from protoreflect.Message) {
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		to.Set(fd, v)
		return true
	})
}

// isSame reports whether the values of two fields are of the same type.
func isSame(a, b protoreflect.FieldDescriptor) bool {
	if a.Kind() != b.Kind() || a.IsList() != b.IsList() || a.IsMap() != b.IsMap() {
		return false
	}
	switch {
	case a.IsMap():
		return isSame(a.MapKey(), b.MapKey()) && isSame(a.MapValue(), b.MapValue())
	case a.Message() != nil:
		return a.Message() == b.Message()
	case a.Enum() != nil:
		return a.Enum() == b.Enum()
	}
	return true
}

// snake is a name in snake case.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}

// quoted is a text as JSON.
func quoted(text string) string {
	return string(jsontext.AppendString(nil, text))
}
