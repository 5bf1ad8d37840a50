// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestMain(m *testing.M) {
	KeepRules()
	m.Run()
}

// What the tests of the reference need to see.

type Binding struct{ Flag, Env, Path, Group, Placeholder, Help string }

func Bindings() []Binding {
	var out []Binding
	for _, b := range bindings() {
		out = append(out, Binding{b.flag, envName(b.flag), b.path, b.group, b.value, b.usage()})
	}
	return out
}

func FieldAt(md protoreflect.MessageDescriptor, path string) (protoreflect.FieldDescriptor, bool) {
	return fieldAt(md, path)
}

func DefaultText(m protoreflect.Message, path string) string { return defaultText(m, path) }

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
