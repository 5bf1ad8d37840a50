// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"slices"

	_ "go.etcd.io/etcd/api/v3/etcdserverpb"
	_ "go.temporal.io/api/operatorservice/v1"
	_ "go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// api is an API whose generated code is linked in.
type api struct {
	name     string
	packages []string
}

func apis() []api {
	return []api{
		{"temporal", []string{"temporal.api.workflowservice.v1", "temporal.api.operatorservice.v1"}},
		{"etcd", []string{"etcdserverpb"}},
	}
}

// catalogOf is the catalog of an API.
func catalogOf(ctx context.Context, of api, listed catalog.ListForm) (*catalog.Catalog, error) {
	set, services, err := descriptors(of.packages)
	if err != nil {
		return nil, err
	}
	live := catalog.NewLive([]source.Source{source.NewDescriptors(of.name, set, services...)}, catalog.LiveOptions{
		Build: catalog.BuildOptions{Listed: listed},
	})
	if err := live.Refresh(ctx); err != nil {
		return nil, err
	}
	return live.Current(), nil
}

// descriptors are the files of some packages and all that they import, and the services.
func descriptors(packages []string) (set *descriptorpb.FileDescriptorSet, services []string, err error) {
	set = &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(fd protoreflect.FileDescriptor) error
	add = func(fd protoreflect.FileDescriptor) error {
		if seen[fd.Path()] {
			return nil
		}
		seen[fd.Path()] = true
		file := protodesc.ToFileDescriptorProto(fd)
		for i := range fd.Imports().Len() {
			imported := fd.Imports().Get(i).FileDescriptor
			if imported.IsPlaceholder() { // etcd registers its files under other paths than it imports them by
				other, err := protoregistry.GlobalFiles.FindFileByPath(filepath.Base(imported.Path()))
				if err != nil {
					return err
				}
				imported, file.Dependency[i] = other, other.Path()
			}
			if err := add(imported); err != nil {
				return err
			}
		}
		set.File = append(set.File, file)
		return nil
	}
	protoregistry.GlobalFiles.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		if !slices.Contains(packages, string(fd.Package())) || fd.Services().Len() == 0 {
			return true
		}
		if err = add(fd); err != nil {
			return false
		}
		for i := range fd.Services().Len() {
			services = append(services, string(fd.Services().Get(i).FullName()))
		}
		return true
	})
	slices.Sort(services)
	return set, services, err
}
