// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// schemaDigests tell what the schemas of a message depend on, without deriving them: the definitions of the message and of
// all messages and enums below it, with their comments. They are of one build.
type schemaDigests struct {
	linked *linker
	mu     sync.Mutex
	files  map[string]bool // whose units are known
	units  map[protoreflect.FullName]*unit
	// extensions is of all extensions but those of options, for messages that can be extended.
	extensions [sha256.Size]byte
	// rules is of all files that define rules of their own for validation.
	rules [sha256.Size]byte
}

// unit is a message or an enum of a file, with what is defined in it.
type unit struct {
	digest [sha256.Size]byte
	refs   []protoreflect.FullName // of the units that its fields hold
	open   bool                    // it can be extended
}

// commentKinds are the numbers of messages and enums in a file, by which comments name them.
const (
	messagesInFile = 4
	enumsInFile    = 5
)

func newSchemaDigests(linked *linker) *schemaDigests {
	d := &schemaDigests{linked: linked, files: map[string]bool{}, units: map[protoreflect.FullName]*unit{}}
	extended, ruled := sha256.New(), sha256.New()
	for _, path := range linked.paths() {
		file := linked.proto(path)
		if definesExtensions(file, ".buf.validate.") {
			_, _ = ruled.Write(marshalled(file))
		}
		if definesExtensions(file, "") && path != "google/protobuf/descriptor.proto" {
			_, _ = extended.Write(marshalled(file))
		}
	}
	extended.Sum(d.extensions[:0])
	ruled.Sum(d.rules[:0])
	return d
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

func marshalled(m proto.Message) []byte {
	raw, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
	if err != nil {
		return nil // text that is not UTF-8 is refused earlier
	}
	return raw
}

// proto is a linked file as it was read.
func (l *linker) proto(path string) *descriptorpb.FileDescriptorProto {
	if file := l.merged.files[path]; file != nil {
		return file
	}
	return source.Builtin(path)
}

// of is the digest for a message and what it is derived with.
func (d *schemaDigests) of(md protoreflect.MessageDescriptor, with ...byte) [sha256.Size]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	root := top(md)
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	names := []protoreflect.FullName{root.FullName()}
	d.learn(root)
	hash := sha256.New()
	_, _ = hash.Write(append(with, md.FullName()...))
	_, _ = hash.Write(d.rules[:])
	open := false
	for i := 0; i < len(names); i++ {
		u := d.units[names[i]]
		if u == nil {
			continue // it is in no file, which the field's own definition says
		}
		open = open || u.open
		for _, ref := range u.refs {
			if !seen[ref] {
				seen[ref] = true
				names = append(names, ref)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if u := d.units[name]; u != nil {
			_, _ = hash.Write(u.digest[:])
		}
	}
	if open {
		_, _ = hash.Write(d.extensions[:])
	}
	return [sha256.Size]byte(hash.Sum(nil))
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

// learn makes the units of a definition and all below it known.
func (d *schemaDigests) learn(of protoreflect.Descriptor) {
	todo := []protoreflect.Descriptor{of}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		d.learnFile(next.ParentFile())
		u := d.units[next.FullName()]
		md, isMessage := next.(protoreflect.MessageDescriptor)
		if u == nil || !isMessage || u.refs != nil {
			continue
		}
		u.refs = []protoreflect.FullName{}
		u.each(md, func(ref protoreflect.Descriptor) {
			u.refs = append(u.refs, ref.FullName())
			todo = append(todo, ref)
		})
	}
}

// each calls fn with the units that the fields of a message and of those within it hold.
func (u *unit) each(md protoreflect.MessageDescriptor, fn func(protoreflect.Descriptor)) {
	u.open = u.open || md.ExtensionRanges().Len() > 0
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
		u.each(md.Messages().Get(i), fn)
	}
}

// learnFile takes the digests of all units of a file.
func (d *schemaDigests) learnFile(fd protoreflect.FileDescriptor) {
	if fd == nil || d.files[fd.Path()] {
		return
	}
	d.files[fd.Path()] = true
	file := d.linked.proto(fd.Path())
	if file == nil {
		return
	}
	head := marshalled(&descriptorpb.FileDescriptorProto{Syntax: file.Syntax, Edition: file.Edition, Package: file.Package, Options: file.GetOptions()}) //nolint:protogetter // pointers are wanted
	said := commentsOf(file)
	add := func(kind, at int32, name string, m proto.Message) {
		hash := sha256.New()
		for _, part := range [][]byte{head, marshalled(m), said[[2]int32{kind, at}]} {
			_, _ = hash.Write(binary.AppendUvarint(nil, uint64(len(part))))
			_, _ = hash.Write(part)
		}
		d.units[protoreflect.FullName(file.GetPackage()).Append(protoreflect.Name(name))] = &unit{digest: [sha256.Size]byte(hash.Sum(nil))}
	}
	for i, m := range file.GetMessageType() {
		add(messagesInFile, int32(i), m.GetName(), m)
	}
	for i, e := range file.GetEnumType() {
		add(enumsInFile, int32(i), e.GetName(), e)
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
