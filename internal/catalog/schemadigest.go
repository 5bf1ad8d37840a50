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

// facts are what is known of a file from its definitions alone.
type facts struct {
	pkg   protoreflect.FullName
	units []namedUnit
	// extends tells that it defines extensions, ruled that it defines rules for validation. sum is of all of it then.
	extends, ruled bool
	sum            [sha256.Size]byte
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

func newSchemaDigests(linked *linker) *schemaDigests {
	d := &schemaDigests{linked: linked, files: map[string]bool{}, units: map[protoreflect.FullName]*unit{}}
	extended, ruled := sha256.New(), sha256.New()
	for _, path := range linked.paths() {
		f := linked.factsOf(path)
		if f.ruled {
			_, _ = ruled.Write(f.sum[:])
		}
		if f.extends && path != "google/protobuf/descriptor.proto" {
			_, _ = extended.Write(f.sum[:])
		}
	}
	extended.Sum(d.extensions[:0])
	ruled.Sum(d.rules[:0])
	return d
}

// newFacts takes the facts of a file.
func newFacts(file *descriptorpb.FileDescriptorProto) *facts {
	f := &facts{
		pkg: protoreflect.FullName(file.GetPackage()), extends: definesExtensions(file, ""), ruled: definesExtensions(file, ".buf.validate."),
		units: make([]namedUnit, 0, len(file.GetMessageType())+len(file.GetEnumType())),
	}
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

func marshalled(m proto.Message) []byte { return appendMarshalled(nil, m) }

func appendMarshalled(dst []byte, m proto.Message) []byte {
	out, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.MarshalAppend(dst, m)
	if err != nil {
		return dst // text that is not UTF-8 is refused earlier
	}
	return out
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
	f := d.linked.factsOf(fd.Path())
	for _, u := range f.units {
		d.units[f.pkg.Append(protoreflect.Name(u.name))] = u.unit
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
