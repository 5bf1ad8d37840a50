// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestLimitsOfTheCatalog starts with a catalog over a limit, and raises it.
func TestLimitsOfTheCatalog(t *testing.T) {
	t.Parallel()
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("shop.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Empty")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Open"), InputType: proto.String(".shop.v1.Empty"), OutputType: proto.String(".shop.v1.Empty")},
			{Name: proto.String("Close"), InputType: proto.String(".shop.v1.Empty"), OutputType: proto.String(".shop.v1.Empty")},
		}}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{6, 0}, Span: []int32{0, 0, 0}, LeadingComments: proto.String(strings.Repeat("open. ", 200_000))},
		}},
	}}}
	raw, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "shop.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, low, high, want string }{
		{"--max-tools", "1", "2", "it would have 2 tools; the limit is 1 (limits.max_tools)"},
		{"--max-descriptor-bytes", "1MiB", "2MiB", "it has more than 1048576 bytes, the limit for one source (limits.max_descriptor_bytes)"},
	} {
		t.Run(tt.flag, func(t *testing.T) {
			t.Parallel()
			tools := func(value string) (int, string) {
				var stdout, stderr bytes.Buffer
				code := run(t.Context(), []string{"tools", "--descriptors", path, tt.flag, value}, strings.NewReader(""), &stdout, &stderr, nil)
				return code, stderr.String()
			}
			if code, text := tools(tt.low); code == 0 || !strings.Contains(text, tt.want) {
				t.Errorf("exit code %d: %s", code, text)
			}
			if code, text := tools(tt.high); code != 0 {
				t.Errorf("exit code %d: %s", code, text)
			}
		})
	}
}
