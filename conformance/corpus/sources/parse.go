// SPDX-License-Identifier: Apache-2.0

package sources

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Root is a folder of .proto files.
type Root struct {
	// Prefix is what import paths of the files in the folder begin with, such as "k8s.io/api"; it may be empty.
	Prefix string
	// Folder is where they are.
	Folder string
}

// path is where the root would have an import; ok is false for imports that belong elsewhere.
func (r Root) path(imported string) (path string, ok bool) {
	if r.Prefix != "" {
		if imported, ok = strings.CutPrefix(imported, r.Prefix+"/"); !ok {
			return "", false
		}
	}
	return filepath.Join(r.Folder, filepath.FromSlash(imported)), true
}

// Parse compiles .proto files. Imports are looked for in the roots, then among the ready descriptors, then among those
// of Protobuf itself and of the binary's generated code. A path may also name a ready descriptor.
func Parse(ctx context.Context, roots []Root, ready map[string]*descriptorpb.FileDescriptorProto, paths ...string) (*Set, error) {
	open := func(imported string) (io.ReadCloser, error) {
		for _, root := range roots {
			path, ok := root.path(imported)
			if !ok {
				continue
			}
			f, err := os.Open(path)
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		return nil, fs.ErrNotExist
	}
	find := func(path string) (protocompile.SearchResult, error) {
		if file, ok := ready[path]; ok {
			return protocompile.SearchResult{Proto: file}, nil
		}
		return protocompile.SearchResult{}, fs.ErrNotExist
	}
	c := protocompile.Compiler{
		Resolver: protocompile.CompositeResolver{
			&protocompile.SourceResolver{Accessor: open},
			protocompile.ResolverFunc(find),
			protocompile.WithStandardImports(protocompile.ResolverFunc(registered)),
		},
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	compiled, err := c.Compile(ctx, paths...)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	files := &protoregistry.Files{}
	var problems []string
	for _, fd := range compiled {
		found, err := add(files, fd)
		if err != nil {
			return nil, fmt.Errorf("register: %w", err)
		}
		problems = append(problems, found...)
	}
	set := newSet(files)
	set.Problems = append(problems, set.Problems...)
	return set, nil
}

// add registers a file after its imports, linked by protodesc as a catalog links it.
func add(files *protoregistry.Files, fd protoreflect.FileDescriptor) (problems []string, err error) {
	if _, err := files.FindFileByPath(fd.Path()); err == nil {
		return nil, nil
	}
	for i := range fd.Imports().Len() {
		found, err := add(files, fd.Imports().Get(i).FileDescriptor)
		if err != nil {
			return nil, err
		}
		problems = append(problems, found...)
	}
	file := protodesc.ToFileDescriptorProto(fd)
	for _, name := range withoutMessageSets(file.GetMessageType()) {
		problems = append(problems, fmt.Sprintf("%s: %s is taken for an ordinary message, because message sets cannot be linked", fd.Path(), name))
	}
	linked, err := protodesc.NewFile(file, files)
	if err != nil {
		return nil, err
	}
	return problems, files.RegisterFile(linked)
}

// maxNumber is one above the highest number that a field of an ordinary message may have.
const maxNumber = 1 << 29

// withoutMessageSets turns message sets into messages with extensions and returns their names. protodesc refuses a file
// that has one, and with it all of protobuf's own test messages of proto2.
func withoutMessageSets(messages []*descriptorpb.DescriptorProto) []string {
	var out []string
	for _, m := range messages {
		if m.GetOptions().GetMessageSetWireFormat() {
			out = append(out, m.GetName())
			m.Options.MessageSetWireFormat = nil
			for _, r := range m.GetExtensionRange() {
				r.End = proto.Int32(min(r.GetEnd(), maxNumber))
			}
		}
		out = append(out, withoutMessageSets(m.GetNestedType())...)
	}
	return out
}

// registered finds an import among the files of the binary, as a copy: a compiler links its own.
func registered(path string) (protocompile.SearchResult, error) {
	fd, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{Proto: protodesc.ToFileDescriptorProto(fd)}, nil
}
