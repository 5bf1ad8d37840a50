// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	_ "google.golang.org/genproto/googleapis/api/annotations" // google/api/annotations.proto
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// protoRoot is a module with .proto files, and what their import paths begin with.
type protoRoot struct{ module, prefix, folder string }

// protoRoots are the modules that etcd's files import from. etcd's repository has its modules in
// folders with the names that the prefixes have.
func protoRoots(ctx context.Context) ([]protoRoot, error) {
	roots := []protoRoot{
		{module: "go.etcd.io/etcd/api/v3", prefix: "etcd/api/"},
		{module: "go.etcd.io/etcd/server/v3", prefix: "etcd/server/"},
		{module: "github.com/gogo/protobuf"},
		{module: "github.com/grpc-ecosystem/grpc-gateway/v2"},
	}
	for i, r := range roots {
		out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", r.module).Output()
		if err != nil {
			return nil, fmt.Errorf("where is %s: %w", r.module, err)
		}
		roots[i].folder = strings.TrimSpace(string(out))
	}
	return roots, nil
}

// writeDescriptors compiles the files of etcd's services and writes them, and all that they
// import, into a file, as `protoc --include_imports -o` does. The descriptors that etcd's
// generated code registers would not do: they lack their imports.
func writeDescriptors(ctx context.Context, path string) error {
	roots, err := protoRoots(ctx)
	if err != nil {
		return err
	}
	open := func(imported string) (io.ReadCloser, error) {
		for _, r := range roots {
			rest, isBelow := strings.CutPrefix(imported, r.prefix)
			if !isBelow {
				continue
			}
			if f, err := os.Open(filepath.Join(r.folder, filepath.FromSlash(rest))); !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		return nil, fs.ErrNotExist
	}
	compiler := protocompile.Compiler{Resolver: protocompile.CompositeResolver{
		&protocompile.SourceResolver{Accessor: open},
		protocompile.WithStandardImports(protocompile.ResolverFunc(registered)),
	}, SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(ctx, "etcd/api/etcdserverpb/rpc.proto",
		"etcd/server/etcdserver/api/v3election/v3electionpb/v3election.proto",
		"etcd/server/etcdserver/api/v3lock/v3lockpb/v3lock.proto")
	if err != nil {
		return fmt.Errorf("compile etcd's files: %w", err)
	}
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	for _, f := range files {
		collect(set, seen, f)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// registered finds google/api's files, which no module has as such, among those of the binary.
func registered(path string) (protocompile.SearchResult, error) {
	fd, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil || !strings.HasPrefix(path, "google/api/") {
		return protocompile.SearchResult{}, errors.Join(err, fs.ErrNotExist)
	}
	return protocompile.SearchResult{Proto: protodesc.ToFileDescriptorProto(fd)}, nil
}

// collect adds a file after those that it imports.
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
