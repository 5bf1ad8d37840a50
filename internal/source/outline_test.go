// SPDX-License-Identifier: Apache-2.0

package source

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// FuzzOutline reads outlines from bytes and from the decoded file: they are the
// same of everything that can be decoded.
func FuzzOutline(f *testing.F) {
	b := fileWith("b.proto", "", "S/M", "T/N")
	b.Dependency = []string{"a.proto", "c.proto"}
	for _, file := range []*descriptorpb.FileDescriptorProto{fileWith("a.proto", "a.b", "S/M"), b, {}} {
		raw, err := proto.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		f.Add(append(raw, raw...)) // the package comes after services, too
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		file, err := decodeFile(raw)
		if err != nil {
			return
		}
		got, err := readOutline(raw)
		if err != nil {
			t.Fatalf("%x decodes, but has no outline: %v", raw, err)
		}
		if diff := cmp.Diff(outlineOf(file), got, cmp.AllowUnexported(outline{})); diff != "" {
			t.Errorf("%x (-decoded +read):\n%s", raw, diff)
		}
	})
}

// fileWith is a file with the given services, written "Service/Method".
func fileWith(path, pkg string, methods ...string) *descriptorpb.FileDescriptorProto {
	f := &descriptorpb.FileDescriptorProto{Name: new(path), Package: new(pkg)}
	for _, m := range methods {
		service, method, _ := strings.Cut(m, "/")
		f.Service = append(f.Service, &descriptorpb.ServiceDescriptorProto{
			Name: new(service), Method: []*descriptorpb.MethodDescriptorProto{{Name: new(method)}},
		})
	}
	return f
}
