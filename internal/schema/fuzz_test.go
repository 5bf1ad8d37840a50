// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// FuzzDerive: whatever file a backend reflects, its messages have schemas that compile, within the bounds.
func FuzzDerive(f *testing.F) { fuzzDerive(f, shapes(f), "shapes.v1") }

// FuzzDeriveAnnotated is FuzzDerive for files with annotations of other tools.
func FuzzDeriveAnnotated(f *testing.F) { fuzzDerive(f, annotated(f, false), "relations.v1") }

func fuzzDerive(f *testing.F, files *protoregistry.Files, seeds protoreflect.FullName) {
	files.RangeFilesByPackage(seeds, func(fd protoreflect.FileDescriptor) bool {
		file := protodesc.ToFileDescriptorProto(fd)
		file.SourceCodeInfo = nil
		raw, err := proto.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		return true
	})
	opts := schema.Options{MaxBytes: 64 << 10, MaxSchemas: 2000}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := &descriptorpb.FileDescriptorProto{}
		if proto.Unmarshal(raw, file) != nil {
			return
		}
		fd, err := protodesc.FileOptions{AllowUnresolvable: true}.New(file, files)
		if err != nil {
			return
		}
		for _, md := range messagesBelow(fd.Messages()) {
			for _, dir := range []schema.Direction{schema.Input, schema.Output} {
				s, err := schema.Derive(md, dir, opts)
				if err != nil {
					t.Fatalf("%s: %v", md.FullName(), err)
				}
				for _, one := range [][]byte{s.Canonical, s.Advertised} {
					if len(one) > opts.MaxBytes {
						t.Fatalf("%s: %d bytes", md.FullName(), len(one))
					}
					if _, err := schema.Compile(one); err != nil {
						t.Fatalf("%s: %v\n%s", md.FullName(), err, one)
					}
				}
			}
		}
	})
}
