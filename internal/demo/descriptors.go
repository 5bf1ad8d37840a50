// SPDX-License-Identifier: Apache-2.0

package demo

import (
	_ "embed"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// describedSet holds the descriptors of the demo's own .proto files with their comments. Generated Go code drops comments,
// and they are what callers read as descriptions. Imports are left out: they are linked in, and theirs are not read.
//
//go:embed demo.binpb
var describedSet []byte

// describedFiles returns a registry of the demo's files with comments, and of what they import, and of nothing else, so that
// reflection does not show what else is linked into the process.
func describedFiles() (*protoregistry.Files, error) {
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(describedSet, &set); err != nil {
		return nil, fmt.Errorf("demo: embedded descriptors: %w", err)
	}
	own := make(map[string]*descriptorpb.FileDescriptorProto, len(set.GetFile()))
	for _, file := range set.GetFile() {
		own[file.GetName()] = file
	}
	files := new(protoregistry.Files)
	for _, file := range set.GetFile() {
		if err := addFile(files, own, file.GetName()); err != nil {
			return nil, fmt.Errorf("demo: embedded descriptors: %w", err)
		}
	}
	return files, nil
}

// addFile registers a file after the files that it imports.
func addFile(files *protoregistry.Files, own map[string]*descriptorpb.FileDescriptorProto, path string) error {
	if _, err := files.FindFileByPath(path); err == nil {
		return nil
	}
	described, isOwn := own[path]
	if !isOwn {
		linked, err := protoregistry.GlobalFiles.FindFileByPath(path)
		if err != nil {
			return fmt.Errorf("import %s: %w", path, err)
		}
		imports := linked.Imports()
		for i := range imports.Len() {
			if err := addFile(files, own, imports.Get(i).Path()); err != nil {
				return err
			}
		}
		return files.RegisterFile(linked)
	}
	for _, dependency := range described.GetDependency() {
		if err := addFile(files, own, dependency); err != nil {
			return err
		}
	}
	file, err := protodesc.NewFile(described, files)
	if err != nil {
		return err
	}
	return files.RegisterFile(file)
}
