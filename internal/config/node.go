// SPDX-License-Identifier: Apache-2.0

package config

import (
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// isMessage reports whether a field has fields of its own, from the reader's
// point of view.
func isMessage(fd protoreflect.FieldDescriptor) bool {
	return fd.Kind() == protoreflect.MessageKind && !isDuration(fd) && !isTimestamp(fd) && !isStruct(fd)
}

// tagFits reports whether YAML took the scalar for the type that the field has.
func tagFits(n *yaml.Node, fd protoreflect.FieldDescriptor) bool {
	tag := n.ShortTag()
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return tag == "!!bool"
	case protoreflect.DoubleKind:
		return tag == "!!int" || tag == "!!float"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		// A fraction is refused by its text, like a duration without a unit.
		return tag == "!!int" || tag == "!!float" || (isSize(fd) && tag == "!!str")
	case protoreflect.MessageKind:
		return tag == "!!str" || tag == "!!timestamp" || tag == "!!int" || tag == "!!float"
	default:
		return tag == "!!str" || tag == "!!timestamp"
	}
}

// typeName names a field's type in words, for messages and the reference.
func typeName(fd protoreflect.FieldDescriptor) string {
	switch {
	case fd.IsMap():
		return "a mapping"
	case isDuration(fd):
		return "a duration"
	case isTimestamp(fd):
		return "a time"
	case isSize(fd):
		return "a size"
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "a whole number"
	case protoreflect.EnumKind:
		return "a name"
	default:
		return "a mapping"
	}
}

// hint helps with a scalar that YAML took for another type than was meant.
func (w *walker) hint(n *yaml.Node, fd protoreflect.FieldDescriptor) string {
	switch {
	case w.secret && fd.Kind() == protoreflect.StringKind:
		return "; put it in quotes"
	case w.secret:
		return ""
	case fd.Kind() == protoreflect.StringKind:
		return "; put it in quotes: " + quote(n.Value)
	case n.ShortTag() == "!!str":
		return ": " + quote(n.Value)
	default:
		return ""
	}
}

func kindName(k yaml.Kind) string {
	switch k {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "one value"
	}
}

// nodeName names what is in the file.
func (w *walker) nodeName(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return kindName(n.Kind)
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return "a string"
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!null":
		return "null"
	default:
		return "of the type " + quote(w.shown(n.ShortTag()))
	}
}
