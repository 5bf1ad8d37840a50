// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "google.golang.org/genproto/googleapis/rpc/status" // imported by .proto files

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// protoFiles are the catalogs whose .proto files Go modules carry. The files have comments.
func protoFiles() []sources.Origin {
	return []sources.Origin{
		{
			Name:  "more/containerd",
			Roots: []sources.ModuleRoot{{Module: "github.com/containerd/containerd/api"}},
			Files: []string{
				"services/containers/...", "services/content/...", "services/diff/...", "services/events/...", "services/images/...", "services/introspection/...",
				"services/leases/...", "services/mounts/...", "services/namespaces/...", "services/sandbox/...", "services/snapshots/...", "services/tasks/...",
				"services/transfer/...", "services/version/...",
			},
		},
		{
			Name:  "unseen/qdrant",
			Roots: []sources.ModuleRoot{{Module: "github.com/qdrant/go-client", Below: "internal/proto"}},
			Files: []string{"*.proto"},
		},
		{
			Name:  "unseen/gobgp",
			Roots: []sources.ModuleRoot{{Module: "github.com/osrg/gobgp/v4", Below: "proto"}},
			Files: []string{"api/gobgp.proto"},
		},
		{
			Name:  "unseen/livekit",
			Roots: []sources.ModuleRoot{{Module: "github.com/livekit/protocol", Below: "protobufs"}},
			Files: []string{"*.proto"},
		},
	}
}

// catalogOfFiles is the catalog of all services of an origin. Without comments, the descriptors are as reflection has them.
func catalogOfFiles(t *testing.T, o sources.Origin, hasComments bool) *catalog.Catalog {
	t.Helper()
	loaded, err := o.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set, services, seen := &descriptorpb.FileDescriptorSet{}, []string(nil), map[string]bool{}
	var add func(fd protoreflect.FileDescriptor)
	add = func(fd protoreflect.FileDescriptor) {
		if seen[fd.Path()] {
			return
		}
		seen[fd.Path()] = true
		for i := range fd.Imports().Len() {
			add(fd.Imports().Get(i).FileDescriptor)
		}
		file := protodesc.ToFileDescriptorProto(fd)
		if !hasComments {
			file.SourceCodeInfo = nil
		}
		set.File = append(set.File, proto.CloneOf(file))
		for i := range fd.Services().Len() {
			services = append(services, string(fd.Services().Get(i).FullName()))
		}
	}
	loaded.Files.RangeFiles(func(fd protoreflect.FileDescriptor) bool { add(fd); return true })
	live := catalog.NewLive([]source.Source{source.NewDescriptors("corpus", set, services...)}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live.Current()
}

// TestRecallOfProtoFiles measures containerd, which has queries for tuning, and catalogs that the ranking was not tuned on. Of those only sums are
// logged: what is missed would teach the ranking.
func TestRecallOfProtoFiles(t *testing.T) {
	for _, form := range []struct {
		name                         string
		hasComments                  bool
		unseenAt1, unseenAt3         float64
		containerdAt1, containerdAt3 float64
	}{
		{"reflection", false, 40, 61, 73, 83},
		{"with comments", true, 50, 66, 80, 90},
	} {
		t.Run(form.name, func(t *testing.T) {
			var unseen, containerd, theirs figure
			for _, o := range protoFiles() {
				cat := catalogOfFiles(t, o, form.hasComments)
				x, bleve, here := compact.NewIndex(cat), oracleOf(t, cat), figure{}
				isUnseen := strings.HasPrefix(o.Name, "unseen/")
				for _, q := range queriesOf(t, o.Name) {
					found := x.Search(q.Query, 10, nil)
					r := rank(q, found)
					here.add(r)
					if !isUnseen {
						containerd.add(r)
						if r != 1 {
							t.Logf("%s: %q is at %d; first is %s", o.Name, q.Query, r, first(found))
						}
						continue
					}
					unseen.add(r)
					theirs.add(rank(q, bleve.search(t, q.Query)))
				}
				t.Logf("%s (%d tools): %v", o.Name, len(cat.Tools()), here)
			}
			t.Logf("unseen: %v; bleve: %v", unseen, theirs)
			if unseen.at1() < form.unseenAt1 || unseen.at3() < form.unseenAt3 {
				t.Errorf("unseen: %v; it was at least %.0f %% and %.0f %%", unseen, form.unseenAt1, form.unseenAt3)
			}
			if containerd.at1() < form.containerdAt1 || containerd.at3() < form.containerdAt3 {
				t.Errorf("containerd: %v; it was at least %.0f %% and %.0f %%", containerd, form.containerdAt1, form.containerdAt3)
			}
			if unseen.first < theirs.first || unseen.third < theirs.third {
				t.Errorf("unseen: %v; bleve has %v", unseen, theirs)
			}
		})
	}
}
