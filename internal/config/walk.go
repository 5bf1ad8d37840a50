// SPDX-License-Identifier: Apache-2.0

package config

import (
	"iter"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
)

// walker fills the draft's message from the nodes of a YAML file, led by the
// message's descriptor. It goes on after every fault.
type walker struct {
	*draft
	file string
}

func (w *walker) origin(n *yaml.Node) origin {
	return origin{source: w.file, line: max(n.Line, 1), column: max(n.Column, 1)}
}

func (w *walker) fault(n *yaml.Node, path, format string, args ...any) {
	w.draft.fault(w.origin(n), path, format, args...)
}

// isNode checks the kind of a node, and what no node may be.
func (w *walker) isNode(n *yaml.Node, kind yaml.Kind, path string, depth int) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		w.fault(n, path, "aliases (%s) are not supported; write the value out", w.shown("*"+n.Value))
	case depth > maxFileDepth:
		w.fault(n, path, "is nested deeper than %d levels", maxFileDepth)
	case n.Kind != kind:
		w.fault(n, path, "must be %s, is %s", kindName(kind), w.nodeName(n))
	default:
		return true
	}
	return false
}

func (w *walker) message(n *yaml.Node, m protoreflect.Message, path string, depth int) {
	// "limits:" with everything below it commented out is null, and says nothing.
	if isNull(n) || !w.isNode(n, yaml.MappingNode, path, depth) {
		return
	}
	fields := m.Descriptor().Fields()
	members := make(map[protoreflect.FullName]string) // oneof to the member that was given
	for key, value := range w.pairs(n, path) {
		at := join(path, key.Value)
		fd := fields.ByName(protoreflect.Name(key.Value))
		if fd == nil {
			w.unknown(key, fields, path)
			continue
		}
		if group := fd.ContainingOneof(); group != nil && !group.IsSynthetic() {
			if other, taken := members[group.FullName()]; taken {
				w.fault(key, at, "cannot be together with %s", other)
				continue
			}
			members[group.FullName()] = key.Value
		}
		w.field(key, value, m, fd, at, depth+1)
	}
}

// pairs yields the entries of a mapping whose keys are plain and not repeated.
func (w *walker) pairs(n *yaml.Node, path string) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		seen := make(map[string]int)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
				w.fault(key, path, "keys must be plain names")
				continue
			case seen[key.Value] > 0:
				w.fault(key, join(path, w.shown(key.Value)), "is here already in line %d", seen[key.Value])
				continue
			}
			seen[key.Value] = max(key.Line, 1)
			if !yield(key, value) {
				return
			}
		}
	}
}

func (w *walker) unknown(key *yaml.Node, fields protoreflect.FieldDescriptors, path string) {
	at, meant := join(path, w.shownKey(key.Value)), ""
	if len(w.faults) < maxFaults { // further advice is not read, and it takes time
		meant = nearest(key.Value, fieldNames(fields))
	}
	if meant == "" {
		w.fault(key, at, "unknown key")
		return
	}
	w.fault(key, at, "unknown key; did you mean %s?", meant)
	w.misspelt[join(path, meant)] = true
}

// shown is what of a file's text may stand in a message.
func (w *walker) shown(text string) string {
	if w.secret {
		return "?"
	}
	return text
}

// shownKey is what of a key may stand in a message. In a file with credentials
// only a short lower-case word is shown: it is a misspelt key, not a token in
// the wrong place.
func (w *walker) shownKey(text string) string {
	if keyLike.MatchString(text) {
		return text
	}
	return w.shown(text)
}

// keyLike has no digits and no upper case, which tokens and digests have.
var keyLike = regexp.MustCompile(`^[a-z_]{1,20}$`)

func fieldNames(fields protoreflect.FieldDescriptors) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range fields.Len() {
			if !yield(string(fields.Get(i).Name())) {
				return
			}
		}
	}
}

func (w *walker) field(key, value *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if isNull(value) {
		return
	}
	w.origins[path] = w.origin(key)
	switch {
	case fd.IsMap():
		w.mapping(value, m, fd, path, depth)
	case fd.IsList():
		w.list(value, m, fd, path, depth)
	case isMessage(fd):
		w.message(value, m.Mutable(fd).Message(), path, depth)
	default:
		if v, ok := w.value(value, fd, path, depth); ok {
			m.Set(fd, v)
		}
	}
}

func (w *walker) list(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if !w.isNode(n, yaml.SequenceNode, path, depth) {
		return
	}
	m.Clear(fd)
	list := m.Mutable(fd).List()
	for i, item := range n.Content {
		at := path + "[" + strconv.Itoa(i) + "]"
		w.origins[at] = w.origin(item)
		if isMessage(fd) {
			// Also a faulty item takes its place, so that later checks count as the reader does.
			w.message(item, list.AppendMutable().Message(), at, depth+1)
			continue
		}
		v, ok := w.value(item, fd, at, depth+1)
		if !ok {
			v = list.NewElement()
		}
		list.Append(v)
	}
}

func (w *walker) mapping(n *yaml.Node, m protoreflect.Message, fd protoreflect.FieldDescriptor, path string, depth int) {
	if !w.isNode(n, yaml.MappingNode, path, depth) {
		return
	}
	if isSecret(path) {
		defer func(was bool) { w.secret = was }(w.secret)
		w.secret = true
	}
	m.Clear(fd)
	entries := m.Mutable(fd).Map()
	for key, value := range w.pairs(n, path) {
		if w.secret && !isHeaderName(key.Value) {
			w.fault(key, path, "a name has lower-case letters, digits, dash, underscore and dot only") // it may be the secret
			continue
		}
		at := path + "[" + strconv.Quote(key.Value) + "]"
		w.origins[at] = w.origin(key)
		name, err := scalarFromText(fd.MapKey(), key.Value)
		if err != nil {
			w.fault(key, at, "key %s", err)
			continue
		}
		if isMessage(fd.MapValue()) {
			w.message(value, entries.Mutable(name.MapKey()).Message(), at, depth+1)
			continue
		}
		if v, ok := w.value(value, fd.MapValue(), at, depth+1); ok {
			entries.Set(name.MapKey(), v)
		}
	}
}

// value reads what is not made of further fields.
func (w *walker) value(n *yaml.Node, fd protoreflect.FieldDescriptor, path string, depth int) (protoreflect.Value, bool) {
	if isStruct(fd) {
		if !w.isNode(n, yaml.MappingNode, path, depth) {
			return protoreflect.Value{}, false
		}
		return protoreflect.ValueOfMessage(w.object(n, path, depth).ProtoReflect()), true
	}
	if n.Kind != yaml.ScalarNode && n.Kind != yaml.AliasNode {
		w.fault(n, path, "must be %s, is %s", typeName(fd), w.nodeName(n))
		return protoreflect.Value{}, false
	}
	if !w.isNode(n, yaml.ScalarNode, path, depth) {
		return protoreflect.Value{}, false
	}
	if !tagFits(n, fd) {
		w.fault(n, path, "must be %s, is %s%s", typeName(fd), w.nodeName(n), w.hint(n, fd))
		return protoreflect.Value{}, false
	}
	v, err := scalarFromText(fd, n.Value)
	if err != nil {
		w.fault(n, path, "%s", err)
		return protoreflect.Value{}, false
	}
	w.origins[path] = w.origin(n) // rather than of its key, which field noted
	return v, true
}

// object reads free-form YAML, as far as JSON can say it.
func (w *walker) object(n *yaml.Node, path string, depth int) *structpb.Struct {
	s := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for key, value := range w.pairs(n, path) {
		s.Fields[key.Value] = w.free(value, path+"["+strconv.Quote(key.Value)+"]", depth+1)
	}
	return s
}

func (w *walker) free(n *yaml.Node, path string, depth int) *structpb.Value {
	switch {
	case n.Kind == yaml.MappingNode && depth <= maxFileDepth:
		return structpb.NewStructValue(w.object(n, path, depth))
	case n.Kind == yaml.SequenceNode && depth <= maxFileDepth:
		list := &structpb.ListValue{}
		for i, item := range n.Content {
			list.Values = append(list.Values, w.free(item, path+"["+strconv.Itoa(i)+"]", depth+1))
		}
		return structpb.NewListValue(list)
	case !w.isNode(n, yaml.ScalarNode, path, depth):
		return structpb.NewNullValue()
	}
	switch n.ShortTag() {
	case "!!null":
		return structpb.NewNullValue()
	case "!!bool":
		return structpb.NewBoolValue(n.Value[0] == 't' || n.Value[0] == 'T')
	case "!!int", "!!float":
		return w.number(n, path)
	default:
		return structpb.NewStringValue(n.Value)
	}
}

// number accepts what JSON calls a number. An integer that a double could turn
// into another one is a fault.
func (w *walker) number(n *yaml.Node, path string) *structpb.Value {
	const mostExact = 1 << 53 // of IEEE 754 doubles
	v, err := doubleFromText(n.Value)
	switch {
	case err != nil:
		w.fault(n, path, "%s", err)
	case n.ShortTag() == "!!int" && !isWithinBounds(n.Value, mostExact):
		w.fault(n, path, "is too large to be kept exactly; write it as a string")
	default:
		return structpb.NewNumberValue(v.Float())
	}
	return structpb.NewNullValue()
}

func isWithinBounds(digits string, most int64) bool {
	i, err := strconv.ParseInt(digits, 10, 64)
	return err == nil && -most <= i && i <= most
}

// secretPath is the field of the configuration whose values are credentials.
const secretPath = "backend.metadata.static"

// isSecret reports whether the value at a path must not be repeated.
func isSecret(path string) bool {
	return isWithin(path, secretPath) && !isWithin(path, secretPath+"_file")
}

// isHeaderName holds for the names that metadata of a backend may have.
func isHeaderName(s string) bool {
	return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
