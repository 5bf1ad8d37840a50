// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Registered returns the files of some packages that generated code registers, with all that they import, imports first, and the
// full names of the packages' services in their order. As with reflection, the files have no comments.
func Registered(packages ...string) (set *descriptorpb.FileDescriptorSet, services []string, err error) {
	set = &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if !slices.Contains(packages, string(fd.Package())) || fd.Services().Len() == 0 {
			return true
		}
		if err = addRegistered(set, seen, fd); err != nil {
			return false
		}
		for i := range fd.Services().Len() {
			services = append(services, string(fd.Services().Get(i).FullName()))
		}
		return true
	})
	slices.Sort(services)
	return set, services, err
}

func addRegistered(set *descriptorpb.FileDescriptorSet, seen map[string]bool, fd protoreflect.FileDescriptor) error {
	if seen[fd.Path()] {
		return nil
	}
	seen[fd.Path()] = true
	file := protodesc.ToFileDescriptorProto(fd)
	for i := range fd.Imports().Len() {
		imported := fd.Imports().Get(i).FileDescriptor
		if imported.IsPlaceholder() { // etcd registers its files under other paths than it imports them by
			other, err := protoregistry.GlobalFiles.FindFileByPath(filepath.Base(imported.Path()))
			if err != nil {
				return err
			}
			imported, file.Dependency[i] = other, other.Path()
		}
		if err := addRegistered(set, seen, imported); err != nil {
			return err
		}
	}
	set.File = append(set.File, file)
	return nil
}
