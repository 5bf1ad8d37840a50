// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// DescriptorSet writes files and everything that they import into a file, as
// `buf build -o` and `protoc --include_imports -o` do, and returns its path.
func DescriptorSet(tb testing.TB, files ...protoreflect.FileDescriptor) string {
	tb.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	for _, f := range files {
		collect(set, seen, f)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "descriptors.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// collect adds imports before the file that needs them.
func collect(set *descriptorpb.FileDescriptorSet, seen map[string]bool, f protoreflect.FileDescriptor) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	imports := f.Imports()
	for i := range imports.Len() {
		collect(set, seen, imports.Get(i).FileDescriptor)
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
}
