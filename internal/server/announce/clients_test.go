// SPDX-License-Identifier: Apache-2.0

package announce_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/server/announce"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestArgumentsThatCostTools: the log of the start says which tools Claude Code loses for the names of their arguments, and in
// which versions.
func TestArgumentsThatCostTools(t *testing.T) {
	t.Parallel()
	field := func(name, jsonName string) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, JsonName: &jsonName, Number: proto.Int32(1),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	method := func(name, in string) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: &in, OutputType: proto.String(".p.Plain")}
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("p.proto"), Package: proto.String("p"), Syntax: proto.String("proto3"), Dependency: []string{"google/protobuf/any.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Plain"), Field: []*descriptorpb.FieldDescriptorProto{field("plain", "plain")}},
			{Name: proto.String("Reference"), Field: []*descriptorpb.FieldDescriptorProto{field("ref", "$ref")}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Things"), Method: []*descriptorpb.MethodDescriptorProto{
			method("TakePlain", ".p.Plain"), method("TakeReference", ".p.Reference"), method("TakeAny", ".google.protobuf.Any"),
		}}},
	}
	cat, err := catalog.Build([]*source.Loaded{{
		Source: "test", Files: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto), file},
	}}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zapcore.WarnLevel)
	announce.New(announce.Options{Log: zap.New(core), Milestones: zap.NewNop(), Config: configtest.Filled(t, &configv1.Config{}), Embedded: true}).Catalog(nil, cat, time.Now())
	for _, line := range logged.All() {
		if !strings.Contains(line.Message, "sidecar lint --client claude-code") {
			continue
		}
		got := fmt.Sprint(line.ContextMap())
		for _, want := range []string{"things.take_reference", "things.take_any", `"$ref"`, `"@type"`, "2.1.263 drops the tool"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s is not in %s", want, got)
			}
		}
		if strings.Contains(got, "take_plain") {
			t.Errorf("a plain tool is warned of: %s", got)
		}
		return
	}
	t.Errorf("no warning: %v", logged.All())
}
