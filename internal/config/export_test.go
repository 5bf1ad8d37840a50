// SPDX-License-Identifier: Apache-2.0

package config

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// What the tests of the reference need to see.

type Binding struct{ Flag, Env, Path, Group, Placeholder, Help string }

func Bindings() []Binding {
	var out []Binding
	for _, b := range bindings() {
		out = append(out, Binding{b.flag, envName(b.flag), b.path, b.group, b.value, b.help})
	}
	return out
}

func FieldAt(md protoreflect.MessageDescriptor, path string) (protoreflect.FieldDescriptor, bool) {
	return fieldAt(md, path)
}

func HasFields(fd protoreflect.FieldDescriptor) bool { return isMessage(fd) }

func TypeName(fd protoreflect.FieldDescriptor) string { return typeName(fd) }

func Nearest(wrong string, known ...string) string {
	return nearest(wrong, func(yield func(string) bool) {
		for _, k := range known {
			if !yield(k) {
				return
			}
		}
	})
}

// DefaultTexts are the default of a field for `sidecar serve`.
func DefaultTexts(fd protoreflect.FieldDescriptor) []string {
	if text := option[string](fd, configv1.E_ServeDefault); text != "" {
		return []string{text}
	}
	return option[[]string](fd, configv1.E_Default)
}

func Reloads(fd protoreflect.FieldDescriptor) bool { return option[bool](fd, configv1.E_Reload) }

func EachField(visit func(fd protoreflect.FieldDescriptor, path string)) {
	eachField(configDescriptor(), "", visit)
}

// DefaultOf is the default of a field that is no list; false if it has none.
func DefaultOf(fd protoreflect.FieldDescriptor) (protoreflect.Value, bool) {
	texts := option[[]string](fd, configv1.E_Default)
	if len(texts) != 1 {
		return protoreflect.Value{}, false
	}
	v, err := scalarFromText(fd, texts[0])
	return v, err == nil
}

// ValueText is a value as help texts show it; empty if the text is none.
func ValueText(fd protoreflect.FieldDescriptor, text string) string {
	v, err := scalarFromText(fd, text)
	switch {
	case err != nil:
		return ""
	case fd.IsList():
		return v.String()
	}
	return valueText(fd, v)
}
