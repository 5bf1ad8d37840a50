// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// BenchmarkDerive is what one tool's input costs when a catalog is built.
func BenchmarkDerive(b *testing.B) {
	files := shapes(b)
	for _, md := range []protoreflect.MessageDescriptor{
		shape(b, files, "shapes.v1.Scalars"), shape(b, files, "shapes.v1.Choices"), (&descriptorpb.FileDescriptorProto{}).ProtoReflect().Descriptor(),
	} {
		b.Run(string(md.Name()), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := schema.Derive(md, schema.Input, schema.Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
