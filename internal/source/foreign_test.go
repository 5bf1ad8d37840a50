// SPDX-License-Identifier: Apache-2.0

package source_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry is a source as another module would write it: descriptors out of a schema registry, which serves them as one
// blob. It uses exported names only.
type registry struct {
	mu      sync.Mutex
	blob    []byte
	decoded int // how often the blob was taken apart
}

var _ source.Conditional = (*registry)(nil)

func (r *registry) Name() string { return "registry of the team" }

func (r *registry) Load(ctx context.Context) (*source.Loaded, error) { return r.LoadUnless(ctx, nil) }

func (r *registry) LoadUnless(ctx context.Context, before *source.Revision) (*source.Loaded, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	digest := sha256.Sum256(r.blob)
	if before.Is(digest) {
		return nil, nil
	}
	r.decoded++
	loaded, err := source.ParseDescriptorSet(r.Name(), r.blob, source.Limits{})
	if err != nil {
		return nil, &source.Error{Source: r.Name(), Step: "decode", Cause: err}
	}
	loaded.Static = false // the registry may bring something else the next time
	loaded.Revision = &source.Revision{Digest: digest}
	return loaded, nil
}

// publish replaces what the registry serves.
func (r *registry) publish(files ...*descriptorpb.FileDescriptorProto) error {
	blob, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: files})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blob = blob
	return err
}

// shop is a file with one service and these methods.
func shop(methods ...string) *descriptorpb.FileDescriptorProto {
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Orders")}
	for _, m := range methods {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m), InputType: proto.String(".shop.v1.Order"), OutputType: proto.String(".shop.v1.Order"),
		})
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/orders.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Order")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{service},
	}
}

// TestAForeignSource has a source of another module's take the fast path: while it serves the same, nothing is decoded,
// nothing is built, and the catalog stays the same one.
func TestAForeignSource(t *testing.T) {
	t.Parallel()
	r := &registry{}
	if err := r.publish(shop("Get")); err != nil {
		t.Fatal(err)
	}
	live := catalog.NewLive([]source.Source{r}, catalog.LiveOptions{})
	refresh := func() *catalog.Catalog {
		t.Helper()
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return live.Current()
	}
	first := refresh()
	for range 3 {
		if again := refresh(); again != first || r.decoded != 1 {
			t.Fatalf("the registry was decoded %d times, the catalog is the same: %t", r.decoded, again == first)
		}
	}
	if s := live.Status(); s.Loads != 4 || s.Sources[0].Files != 1 || s.Sources[0].Name != r.Name() {
		t.Errorf("status %+v", s)
	}
	if err := r.publish(shop("Get", "List")); err != nil {
		t.Fatal(err)
	}
	if changed := refresh(); changed == first || len(changed.Tools()) != 2 || r.decoded != 2 {
		t.Errorf("%d tools, decoded %d times", len(changed.Tools()), r.decoded)
	}
}

// A source of descriptors needs two methods, and a third one to be asked often at no cost.
func Example() {
	r := &registry{}
	if err := r.publish(shop("Get", "List")); err != nil {
		log.Fatal(err)
	}
	live := catalog.NewLive([]source.Source{r}, catalog.LiveOptions{})
	if err := live.Refresh(context.Background()); err != nil {
		log.Fatal(err)
	}
	for _, tool := range live.Current().Tools() {
		fmt.Println(tool.Name)
	}
	// Output:
	// orders.get
	// orders.list
}
