// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/outrigger-mcp/outrigger/internal/source"
)

// rig is a registry on loopback.
type rig struct {
	t    *testing.T
	host string

	mu    sync.Mutex
	asked int
	// before handles a request, unless it returns false.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func start(t *testing.T) *rig {
	t.Helper()
	g := &rig{t: t}
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.asked++
		before := g.before
		g.mu.Unlock()
		if before == nil || !before(w, r) {
			store.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	g.host = strings.TrimPrefix(server.URL, "http://")
	return g
}

// interpose has a handler see all requests first.
func (g *rig) interpose(before func(w http.ResponseWriter, r *http.Request) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before = before
}

func (g *rig) requests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked
}

// layer is a file as it is pushed.
type layer struct {
	name, mediaType string
	body            []byte
	annotations     map[string]string
}

// push pushes files as an artifact with this tag, and returns what pins it.
func (g *rig) push(tag string, layers ...layer) string {
	g.t.Helper()
	to := g.repository()
	var described []ocispec.Descriptor
	for _, l := range layers {
		if l.mediaType == "" {
			l.mediaType = ocispec.MediaTypeImageLayer // as `oras push` has it for any file
		}
		d, err := oras.PushBytes(g.t.Context(), to.Blobs(), l.mediaType, l.body)
		if err != nil {
			g.t.Fatal(err)
		}
		d.Annotations = l.annotations
		if l.name != "" {
			d.Annotations = map[string]string{ocispec.AnnotationTitle: l.name}
			maps.Copy(d.Annotations, l.annotations)
		}
		described = append(described, d)
	}
	manifest, err := oras.PackManifest(g.t.Context(), to, oras.PackManifestVersion1_1, "application/vnd.outrigger.descriptors", oras.PackManifestOptions{Layers: described})
	if err != nil {
		g.t.Fatal(err)
	}
	if err := to.Tag(g.t.Context(), manifest, tag); err != nil {
		g.t.Fatal(err)
	}
	return g.reference(tag, manifest)
}

// index pushes an index of one manifest.
func (g *rig) index() string {
	g.t.Helper()
	to := g.repository()
	d, err := oras.PushBytes(g.t.Context(), to.Manifests(), ocispec.MediaTypeImageIndex,
		[]byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`))
	if err != nil {
		g.t.Fatal(err)
	}
	return g.reference("index", d)
}

func (g *rig) repository() *remote.Repository {
	g.t.Helper()
	to, err := remote.NewRepository(g.host + "/team/shop")
	if err != nil {
		g.t.Fatal(err)
	}
	to.PlainHTTP = true
	return to
}

func (g *rig) reference(tag string, d ocispec.Descriptor) string {
	return "oci://" + g.host + "/team/shop:" + tag + "@" + d.Digest.String()
}

// source is the source for a reference.
func (g *rig) source(ref string, o source.FetchOptions, l source.Limits) source.Conditional {
	g.t.Helper()
	if o.DockerConfig == "" {
		o.DockerConfig = g.t.TempDir() + "/none.json"
	}
	from, err := source.ParseFetcher(ref, o)
	if err != nil {
		g.t.Fatal(err)
	}
	return source.NewRemote(from, l).(source.Conditional)
}

// shop is a descriptor set with a service of one method, and a file beside it.
func shop(t *testing.T, method string, more ...*descriptorpb.FileDescriptorProto) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: append([]*descriptorpb.FileDescriptorProto{{
		Name: new("shop.proto"), Package: new("shop.v1"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/empty.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: &method, InputType: new(".google.protobuf.Empty"), OutputType: new(".google.protobuf.Empty")},
		}}},
	}}, more...)})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// file is a descriptor set with one empty file.
func file(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: &name}}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
