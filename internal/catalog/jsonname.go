// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// anyTypeMember is the member that ProtoJSON adds to a message in a google.protobuf.Any.
const anyTypeMember = "@type"

// distinctNames returns a file in which the fields of each message have distinct JSON names, and the full names of the fields
// that were renamed. Compilers warn of equal ones at most (proto2, editions, json_name), and then every JSON of the message
// has a member twice. Where two fields have one JSON name, the second goes by its name in the .proto file, and so does a field
// with the name of an Any's type. The file that was given stays as it is.
func distinctNames(file *descriptorpb.FileDescriptorProto) (distinct *descriptorpb.FileDescriptorProto, renamed []string) {
	n := namer{taken: map[string]int{}}
	if !slices.ContainsFunc(file.GetMessageType(), n.isAmbiguous) {
		return file, nil
	}
	file = proto.CloneOf(file)
	n.rename(file.GetPackage(), file.GetMessageType())
	return file, n.renamed
}

type namer struct {
	taken   map[string]int // JSON name to index of its field
	renamed []string
}

// isAmbiguous reports whether a message, or one in it, has a field to rename.
func (n *namer) isAmbiguous(m *descriptorpb.DescriptorProto) bool {
	return n.next(m) >= 0 || slices.ContainsFunc(m.GetNestedType(), n.isAmbiguous)
}

// next is the index of a field whose JSON name is not its own, -1 for none. A field that is called so in the .proto file
// keeps the name.
func (n *namer) next(m *descriptorpb.DescriptorProto) int {
	clear(n.taken)
	for i, f := range m.GetField() {
		name := jsonName(f)
		if name == anyTypeMember {
			return i
		}
		first, ok := n.taken[name]
		switch {
		case !ok:
			n.taken[name] = i
		case f.GetName() == name:
			return first
		default:
			return i
		}
	}
	return -1
}

// rename gives fields their own names. Each step names one field as the .proto file does, which is never undone, because
// those names are distinct.
func (n *namer) rename(scope string, messages []*descriptorpb.DescriptorProto) {
	for _, m := range messages {
		full := strings.TrimPrefix(scope+"."+m.GetName(), ".")
		for range m.GetField() {
			i := n.next(m)
			if i < 0 {
				break
			}
			f := m.GetField()[i]
			f.JsonName = new(f.GetName())
			n.renamed = append(n.renamed, full+"."+f.GetName())
		}
		n.rename(full, m.GetNestedType())
	}
}

// jsonName is the JSON name of a field. Compilers set it; where it is not set, it follows from the name.
func jsonName(f *descriptorpb.FieldDescriptorProto) string {
	if f.JsonName != nil {
		return f.GetJsonName()
	}
	name := f.GetName()
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		c := name[i]
		if c == '_' {
			continue
		}
		if i > 0 && name[i-1] == '_' && 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		out = append(out, c)
	}
	return string(out)
}
