// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Set is a set of linked files. It is immutable.
type Set struct {
	Files *protoregistry.Files
	Types *Types
	// Problems say which files could not be used, and why.
	Problems []string
}

// Types finds messages and extensions by name, as dynamic types, and lists the extensions of a message.
type Types struct {
	*dynamicpb.Types
	extensions *protoregistry.Types
}

// RangeExtensionsByMessage calls f with every extension of the message until f returns false.
func (t *Types) RangeExtensionsByMessage(message protoreflect.FullName, f func(protoreflect.ExtensionType) bool) {
	t.extensions.RangeExtensionsByMessage(message, f)
}

func newSet(files *protoregistry.Files) *Set {
	s := &Set{Files: files, Types: &Types{Types: dynamicpb.NewTypes(files), extensions: &protoregistry.Types{}}}
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		s.register(fd)
		return true
	})
	return s
}

// scope is what may declare extensions: a file or a message.
type scope interface {
	Extensions() protoreflect.ExtensionDescriptors
	Messages() protoreflect.MessageDescriptors
}

func (s *Set) register(in scope) {
	for i := range in.Extensions().Len() {
		if err := s.Types.extensions.RegisterExtension(dynamicpb.NewExtensionType(in.Extensions().Get(i))); err != nil {
			s.Problems = append(s.Problems, err.Error())
		}
	}
	for i := range in.Messages().Len() {
		s.register(in.Messages().Get(i))
	}
}

// Linked is everything that the binary's generated code registered.
func Linked() *Set { return newSet(protoregistry.GlobalFiles) }

// Message finds a message by its full name.
func (s *Set) Message(name protoreflect.FullName) (protoreflect.MessageDescriptor, error) {
	d, err := s.Files.FindDescriptorByName(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	md, ok := d.(protoreflect.MessageDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is no message", name)
	}
	return md, nil
}

// Messages are all messages, nested ones too, sorted by name. The entries of maps are none.
func (s *Set) Messages() []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	var add func(mds protoreflect.MessageDescriptors)
	add = func(mds protoreflect.MessageDescriptors) {
		for i := range mds.Len() {
			if md := mds.Get(i); !md.IsMapEntry() {
				out = append(out, md)
				add(md.Messages())
			}
		}
	}
	s.Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		add(fd.Messages())
		return true
	})
	slices.SortFunc(out, func(a, b protoreflect.MessageDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return out
}
