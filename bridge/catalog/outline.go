// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"
)

// outline is what has to be known of a file to find the others.
type outline struct {
	name              string
	imports, services []string // services by their full names
}

func outlineOf(f *descriptorpb.FileDescriptorProto) outline {
	out := outline{name: f.GetName(), imports: f.GetDependency()}
	for _, s := range f.GetService() {
		out.services = append(out.services, joinName(f.GetPackage(), s.GetName()))
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
	err = eachField(raw, func(num protowire.Number, value []byte) error {
		switch num {
		case fileName:
			out.name = string(value)
		case filePackage:
			pkg = string(value)
		case fileDependency:
			out.imports = append(out.imports, string(value))
		case fileService:
			name := ""
			err := eachBytes(value, serviceOwnName, func(b []byte) error { name = string(b); return nil })
			out.services = append(out.services, name)
			return err
		}
		return nil
	})
	for i, s := range out.services {
		out.services[i] = joinName(pkg, s)
	}
	return out, err
}
