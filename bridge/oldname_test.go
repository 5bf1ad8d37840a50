// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// suffixed is a catalog of schema.read and schema.drop, which SchemaService has.
func suffixed(t *testing.T) *catalog.Live {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("SchemaService")}},
	}
	for _, name := range []string{"Read", "Drop"} {
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".a.v1.M"), OutputType: proto.String(".a.v1.M"),
		})
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
	live := catalog.NewLive([]source.Source{source.NewDescriptors("test", set)}, catalog.LiveOptions{})
	if err := live.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return live
}

// TestTheNameWithTheServiceSuffixIsUnderstood in every dialect, in both forms and by grants.
func TestTheNameWithTheServiceSuffixIsUnderstood(t *testing.T) {
	t.Parallel()
	b := dialect.New(bridge.New(suffixed(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	for _, name := range []string{"schema.read", "schema_read", "schema_service.read", "schema_service_read"} {
		for _, pattern := range []string{"schema.read", "schema_service.read", "schema_service.*", "schema*"} {
			ctx := as(t, access.Grant{Name: "planner", Tools: []string{pattern}})
			for spoken, raw := range map[dialect.Dialect]string{
				dialect.Canonical: `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`,
				dialect.Modern:    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME",` + modernMeta + `}}`,
				dialect.Legacy:    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME"}}`,
			} {
				reply := say(ctx, t, b, spoken, strings.Replace(raw, "NAME", name, 1))
				if !strings.Contains(string(reply.Bytes()), `"isError":false`) {
					t.Errorf("%v, %s for a caller of %s: %s", spoken, name, pattern, reply.Bytes())
				}
			}
		}
	}
	for name, want := range map[string]errmap.Code{"schema.read": "", "schema_service.read": "", "schema_service_read": errmap.InvalidParams} {
		got := answer(t, b, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"`+name+`","arguments":{}}}`)
		if got.code() != want {
			t.Errorf("the message form with %s: %+v, want %q", name, got, want)
		}
	}
	// A grant of one tool by its old name is no grant of its neighbour.
	ctx := as(t, access.Grant{Name: "planner", Tools: []string{"schema_service.read"}})
	if got := codeOf(b.Handle(ctx, toolCall(b, "schema_service.drop", `{}`))); got != errmap.PermissionDenied {
		t.Errorf("the other tool: %q", got)
	}
}
