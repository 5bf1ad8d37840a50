// SPDX-License-Identifier: Apache-2.0

package apis_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bench/internal/apis"
)

// TestTheSetLinks counts the methods of a set that was written.
func TestTheSetLinks(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "set.binpb")
	for more, want := range map[string]int{"": 3 * apis.PerService, "More": 3*apis.PerService + 1} {
		if err := apis.Write(path, 3, more); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := &descriptorpb.FileDescriptorSet{}
		if err := proto.Unmarshal(raw, set); err != nil {
			t.Fatal(err)
		}
		files, err := protodesc.NewFiles(set)
		if err != nil {
			t.Fatal(err)
		}
		methods := 0
		files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
			for i := range fd.Services().Len() {
				methods += fd.Services().Get(i).Methods().Len()
			}
			return true
		})
		if methods != want {
			t.Errorf("%d methods, want %d", methods, want)
		}
	}
}
