// SPDX-License-Identifier: Apache-2.0

// Package rig has what the tests of replicas share: the descriptors of their backend, the key of a deployment,
// and files that last as long as a test.
package rig

import (
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Method is an RPC of the service fleet.v1.Shop. Its request and its response have the wire form of a string in a
// wrapper; the field is "name".
type Method struct {
	Name string
	// Idempotent says that it may run again.
	Idempotent bool
	// Streams says that it answers with a stream.
	Streams bool
}

// Describe writes the descriptors of fleet.v1.Shop with these methods, and returns the file.
func Describe(tb testing.TB, methods ...Method) string {
	tb.Helper()
	message := func(name string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("name"), Number: proto.Int32(1), JsonName: proto.String("name"),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}}}
	}
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("Shop")}
	for _, m := range methods {
		method := &descriptorpb.MethodDescriptorProto{
			Name: proto.String(m.Name), InputType: proto.String(".fleet.v1.Ask"), OutputType: proto.String(".fleet.v1.Answer"),
			ServerStreaming: &m.Streams,
		}
		if m.Idempotent {
			method.Options = &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()}
		}
		service.Method = append(service.Method, method)
	}
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("fleet/v1/shop.proto"), Package: proto.String("fleet.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{message("Ask"), message("Answer")},
		Service:     []*descriptorpb.ServiceDescriptorProto{service},
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	return Write(tb, "shop.binpb", raw)
}

// Write writes a file that lasts as long as the test.
func Write(tb testing.TB, name string, text []byte) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// KeyFile holds one key that all replicas share.
func KeyFile(tb testing.TB) string {
	tb.Helper()
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		tb.Fatal(err)
	}
	return Write(tb, "state.key", []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
}
