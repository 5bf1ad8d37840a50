// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/pb"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// registryOf returns a registry of the types of a file and of everything that it
// imports.
func registryOf(file protoreflect.FileDescriptor) (*types.Registry, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, err
	}
	return registry, register(registry, file, map[string]bool{})
}

func register(registry *types.Registry, file protoreflect.FileDescriptor, seen map[string]bool) error {
	if seen[file.Path()] {
		return nil
	}
	seen[file.Path()] = true
	imports := file.Imports()
	for i := range imports.Len() {
		if err := register(registry, imports.Get(i).FileDescriptor, seen); err != nil {
			return err
		}
	}
	if isKnown(file) || file.IsPlaceholder() {
		return nil
	}
	if err := registry.RegisterDescriptor(backendFile{file}); err != nil {
		return fmt.Errorf("types of %s: %w", file.Path(), err)
	}
	return nil
}

// isKnown holds for the well-known types, which every registry has.
func isKnown(file protoreflect.FileDescriptor) bool {
	messages := file.Messages()
	if file.Package() != "google.protobuf" || messages.Len() == 0 {
		return false
	}
	_, known := pb.DefaultDb.DescribeType(string(messages.Get(0).FullName()))
	return known
}

// backendFile is a file of the backend. A registry takes a file that is linked into
// the process in place of one with the same path, and the backend's may be another
// version of it; so the path is one that no linked file has.
type backendFile struct{ protoreflect.FileDescriptor }

// Path implements [protoreflect.FileDescriptor].
func (f backendFile) Path() string { return "backend:" + f.FileDescriptor.Path() }
