// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
)

// unit is a message or an enum of a file, with what is defined in it.
type unit struct {
	digest [sha256.Size]byte
	refs   []protoreflect.FullName // of the units that its fields hold
	open   bool                    // it can be extended
}

// facts are what is known of a file from its definitions alone.
type facts struct {
	pkg   protoreflect.FullName
	units []namedUnit
	// extends tells that it defines extensions, ruled that it defines rules for validation. sum is of all of it then.
	extends, ruled bool
	sum            [sha256.Size]byte
	// resources are the declarations of google.api.resource, whose patterns schemas of this file and of those that import it
	// show.
	resources []byte
}

type namedUnit struct {
	name string
	*unit
}

// commentKinds are the numbers of messages and enums in a file, by which comments name them.
const (
	messagesInFile = 4
	enumsInFile    = 5
)

// newFacts takes the facts of a file.
func newFacts(file *descriptorpb.FileDescriptorProto) *facts {
	f := &facts{
		pkg: protoreflect.FullName(file.GetPackage()), extends: definesExtensions(file, ""), ruled: definesExtensions(file, ".buf.validate."),
		units: make([]namedUnit, 0, len(file.GetMessageType())+len(file.GetEnumType())),
	}
	f.resources = resourcesOf(file.GetMessageType(), appendResources(nil, file.GetOptions()))
	if f.extends {
		f.sum = sha256.Sum256(marshalled(file))
	}
	head := marshalled(&descriptorpb.FileDescriptorProto{Syntax: file.Syntax, Edition: file.Edition, Package: file.Package, Options: file.GetOptions()}) //nolint:protogetter // pointers are wanted
	said := commentsOf(file)
	hash := sha256.New()
	var size [binary.MaxVarintLen64]byte
	var raw []byte
	add := func(kind, at int32, name string, m proto.Message) {
		hash.Reset()
		raw = appendMarshalled(raw[:0], m)
		for _, part := range [][]byte{head, raw, said[[2]int32{kind, at}]} {
			_, _ = hash.Write(binary.AppendUvarint(size[:0], uint64(len(part))))
			_, _ = hash.Write(part)
		}
		u := &unit{}
		hash.Sum(u.digest[:0])
		f.units = append(f.units, namedUnit{name, u})
	}
	for i, m := range file.GetMessageType() {
		add(messagesInFile, int32(i), m.GetName(), m)
	}
	for i, e := range file.GetEnumType() {
		add(enumsInFile, int32(i), e.GetName(), e)
	}
	return f
}

// definesExtensions reports whether a file extends messages whose names begin so.
func definesExtensions(file *descriptorpb.FileDescriptorProto, prefix string) bool {
	is := func(x *descriptorpb.FieldDescriptorProto) bool {
		return strings.HasPrefix(x.GetExtendee(), prefix)
	}
	var within func(m *descriptorpb.DescriptorProto) bool
	within = func(m *descriptorpb.DescriptorProto) bool {
		return slices.ContainsFunc(m.GetExtension(), is) || slices.ContainsFunc(m.GetNestedType(), within)
	}
	return slices.ContainsFunc(file.GetExtension(), is) || slices.ContainsFunc(file.GetMessageType(), within)
}

// resourceOption is the number of google.api.resource in the options of a message, and of resource_definition in a file's.
const resourceOption = 1053

// resourcesOf appends what messages, and those within them, declare.
func resourcesOf(messages []*descriptorpb.DescriptorProto, dst []byte) []byte {
	for _, m := range messages {
		dst = resourcesOf(m.GetNestedType(), appendResources(dst, m.GetOptions()))
	}
	return dst
}

func appendResources[M proto.Message](dst []byte, options M) []byte {
	if !options.ProtoReflect().IsValid() {
		return dst
	}
	_ = wire.EachBytes(marshalled(options), resourceOption, func(declared []byte) error {
		dst = append(binary.AppendUvarint(dst, uint64(len(declared))), declared...)
		return nil
	}) // what cannot be read declares nothing
	return dst
}

func marshalled(m proto.Message) []byte { return appendMarshalled(nil, m) }

func appendMarshalled(dst []byte, m proto.Message) []byte {
	out, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst // text that is not UTF-8 is refused earlier
	}
	return out
}

// learn takes from the descriptor what a unit holds, unless that is known already.
func (u *unit) learn(md protoreflect.MessageDescriptor) {
	if u.refs != nil {
		return
	}
	u.open, u.refs = isOpen(md), []protoreflect.FullName{}
	each(md, func(ref protoreflect.Descriptor) { u.refs = append(u.refs, ref.FullName()) })
}

// isOpen reports whether a message, or one within it, can be extended.
func isOpen(md protoreflect.MessageDescriptor) bool {
	if md.ExtensionRanges().Len() > 0 {
		return true
	}
	for i := range md.Messages().Len() {
		if isOpen(md.Messages().Get(i)) {
			return true
		}
	}
	return false
}

// each calls fn with the units that the fields of a message and of those within it hold.
func each(md protoreflect.MessageDescriptor, fn func(protoreflect.Descriptor)) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if m := fd.Message(); m != nil && !m.IsPlaceholder() {
			fn(top(m))
		}
		if e := fd.Enum(); e != nil && !e.IsPlaceholder() {
			fn(top(e))
		}
	}
	for i := range md.Messages().Len() {
		each(md.Messages().Get(i), fn)
	}
}

// top is the definition of a file that holds another one.
func top(d protoreflect.Descriptor) protoreflect.Descriptor {
	for {
		parent := d.Parent()
		if _, isFile := parent.(protoreflect.FileDescriptor); isFile || parent == nil {
			return d
		}
		d = parent
	}
}

// commentsOf are the comments of a file's units, by their places.
func commentsOf(file *descriptorpb.FileDescriptorProto) map[[2]int32][]byte {
	out := map[[2]int32][]byte{}
	for _, l := range file.GetSourceCodeInfo().GetLocation() {
		path := l.GetPath()
		if len(path) < 2 || path[0] != messagesInFile && path[0] != enumsInFile || l.LeadingComments == nil && l.TrailingComments == nil {
			continue
		}
		at := [2]int32{path[0], path[1]}
		text := out[at]
		for _, n := range path[2:] {
			text = binary.AppendVarint(text, int64(n))
		}
		text = append(append(text, 0), l.GetLeadingComments()...)
		out[at] = append(append(append(text, 0), l.GetTrailingComments()...), 0)
	}
	return out
}
