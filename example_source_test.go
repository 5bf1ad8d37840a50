// SPDX-License-Identifier: Apache-2.0

package outrigger_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger"
)

// blobs is a source that receives descriptors as one blob, and decodes it only when it
// has changed.
type blobs struct {
	fetch func(context.Context) ([]byte, error)
}

// Name implements [outrigger.Source].
func (blobs) Name() string { return "descriptor blobs" }

// Load implements [outrigger.Source].
func (b blobs) Load(ctx context.Context) (*outrigger.Loaded, error) { return b.LoadUnless(ctx, nil) }

// LoadUnless implements [outrigger.Conditional].
func (b blobs) LoadUnless(ctx context.Context, before *outrigger.Revision) (*outrigger.Loaded, error) {
	blob, err := b.fetch(ctx)
	if err != nil {
		return nil, &outrigger.SourceError{Source: b.Name(), Step: "fetch", Cause: err}
	}
	digest := sha256.Sum256(blob)
	if before.Is(digest) {
		return nil, nil
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(blob, &set); err != nil {
		return nil, &outrigger.SourceError{Source: b.Name(), Step: "decode", Permanent: true, Cause: err}
	}
	return &outrigger.Loaded{Source: b.Name(), Files: set.GetFile(), Revision: &outrigger.Revision{Digest: digest}}, nil
}

// A source that is asked often costs little while nothing has changed.
func ExampleConditional() {
	note, file, pkg, add := "Note", "notes.proto", "notes.v1", "Add"
	notes, noteType := "Notes", ".notes.v1.Note"
	blob, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: &file, Package: &pkg, MessageType: []*descriptorpb.DescriptorProto{{Name: &note}},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: &notes, Method: []*descriptorpb.MethodDescriptorProto{{Name: &add, InputType: &noteType, OutputType: &noteType}},
		}},
	}}})
	if err != nil {
		log.Fatal(err)
	}
	var source outrigger.Conditional = blobs{func(context.Context) ([]byte, error) { return blob, nil }}

	first, err := source.Load(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	again, err := source.LoadUnless(context.Background(), first.Revision)
	fmt.Println(len(first.Files), again == nil, err)

	sidecar, err := outrigger.New(context.Background(), outrigger.Options{
		Backend: "grpc://127.0.0.1:50051", Sources: []outrigger.Source{source},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer run(sidecar)()
	fmt.Println(sidecar.Tools()[0].Name)
	// Output:
	// 1 true <nil>
	// notes.add
}
