// SPDX-License-Identifier: Apache-2.0

package source

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/wire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// outline is what has to be known of a file to find the others.
type outline struct {
	name              string
	imports, services []string // services by their full names
}

func outlineOf(f *descriptorpb.FileDescriptorProto) outline {
	out := outline{name: f.GetName(), imports: f.GetDependency()}
	for _, s := range f.GetService() {
		out.services = append(out.services, string(protoreflect.FullName(f.GetPackage()).Append(protoreflect.Name(s.GetName()))))
	}
	return out
}

// Field numbers of FileDescriptorProto and ServiceDescriptorProto.
const (
	fileName       = 1
	filePackage    = 2
	fileDependency = 3
	fileService    = 6
	serviceOwnName = 1
)

// readOutline reads the outline of a file from its bytes. They are known to be a file.
func readOutline(raw []byte) (out outline, err error) {
	pkg := ""
	err = wire.EachField(raw, func(num protowire.Number, value []byte) error {
		switch num {
		case fileName:
			out.name = string(value)
		case filePackage:
			pkg = string(value)
		case fileDependency:
			out.imports = append(out.imports, string(value))
		case fileService:
			name := ""
			err := wire.EachBytes(value, serviceOwnName, func(b []byte) error { name = string(b); return nil })
			out.services = append(out.services, name)
			return err
		}
		return nil
	})
	for i, s := range out.services {
		out.services[i] = string(protoreflect.FullName(pkg).Append(protoreflect.Name(s)))
	}
	return out, err
}
