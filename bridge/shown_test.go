// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// deleting is a catalog of shop.get, shop.add and shop.delete, which google.api.http says by its verbs, and shop.touch,
// without any annotation.
func deleting(t *testing.T, o catalog.BuildOptions) *catalog.Live {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop")}},
	}
	for name, verb := range map[string]protowire.Number{"Get": 2, "Add": 4, "Delete": 5, "Touch": 0, "Kill": 0, "MemberRemove": 4, "PurgeView": 2, "ListDeleted": 0} {
		options := &descriptorpb.MethodOptions{}
		if verb > 0 {
			rule := protowire.AppendString(protowire.AppendTag(nil, verb, protowire.BytesType), "/v1/things")
			options.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 72295728, protowire.BytesType), rule))
		}
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".a.v1.M"), OutputType: proto.String(".a.v1.M"), Options: options,
		})
	}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
	live := catalog.NewLive([]source.Source{source.NewDescriptors("test", set)}, catalog.LiveOptions{Build: o})
	if err := live.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return live
}

// TestWhatIsShownAsDestructiveIsGated by every scope of the gate, in every dialect and for callers by procedure, and is
// marked in the metadata, also under a second name.
func TestWhatIsShownAsDestructiveIsGated(t *testing.T) {
	t.Parallel()
	not := false
	all := map[string]bool{"delete": true, "add": true, "touch": true, "kill": true, "member_remove": true, "list_deleted": true}
	for name, tt := range map[string]struct {
		scope policy.Scope
		build catalog.BuildOptions
		held  map[string]bool
	}{
		"verbs": {policy.Verbs, catalog.BuildOptions{}, map[string]bool{"delete": true, "kill": true, "member_remove": true}},
		"verbs, and the overlay takes one back": {policy.Verbs, catalog.BuildOptions{
			Overlay: []catalog.Override{{Match: "*/Kill", Options: &configv1.ToolOptions{Destructive: &not}}},
		}, map[string]bool{"delete": true, "member_remove": true}},
		"verbs, under a name that hides one": {policy.Verbs, catalog.BuildOptions{
			Overlay: []catalog.Override{{Match: "*/Kill", Options: &configv1.ToolOptions{Name: "shop.end"}}},
		}, map[string]bool{"delete": true, "end": true, "member_remove": true}},
		"verbs, under a name that has one": {policy.Verbs, catalog.BuildOptions{
			Overlay: []catalog.Override{{Match: "*/Touch", Options: &configv1.ToolOptions{Name: "shop.wipe"}}},
		}, map[string]bool{"delete": true, "kill": true, "member_remove": true, "wipe": true}},
		"marked":   {policy.Marked, catalog.BuildOptions{DeclaredOnly: true}, map[string]bool{"delete": true}},
		"unproven": {policy.Unproven, catalog.BuildOptions{}, all},
		"writes":   {policy.Writes, catalog.BuildOptions{}, all},
		"marked, and the overlay takes the verb back": {policy.Marked, catalog.BuildOptions{
			DeclaredOnly: true,
			Overlay:      []catalog.Override{{Match: "*/Delete", Options: &configv1.ToolOptions{Destructive: &not}}},
		}, map[string]bool{}},
		"writes, and the overlay says that nothing is destroyed": {policy.Writes, catalog.BuildOptions{
			Overlay: []catalog.Override{{Match: "*/Add", Options: &configv1.ToolOptions{Destructive: &not}}},
		}, all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := deleting(t, tt.build)
			registered, _, err := live.Register(t.Context(), catalog.Registration{
				Name: "other.delete", Description: "Deletes.", InputSchema: []byte(`{"type":"object"}`), Annotations: catalog.Annotations{Destructive: &not},
				Binding: catalog.Binding{Service: "a.v1.Shop", Method: "Delete"},
			})
			if err != nil || registered.Metadata.Destructive != tt.held["delete"] {
				t.Errorf("the second name: %+v, %v", registered, err)
			}
			ran := false
			b := dialect.New(bridge.New(live, mcptest.Upstream(func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
				ran = true
				return &bridge.Answer{}, nil
			}), correlate.New(correlate.Options{}), bridge.Options{
				Gate: policy.NewScopedGate(policy.Untrusted, tt.scope), Compact: compact.Options{Mode: compact.Always},
			}), dialect.Options{})
			for _, tool := range live.Current().Tools() {
				_, method, _ := strings.Cut(tool.Name, ".")
				if shown := tool.Annotations.Destructive; shown != nil && *shown != tool.Metadata.Destructive {
					t.Errorf("%s is shown as %v and marked %v", tool.Name, *shown, tool.Metadata.Destructive)
				}
				if held := tt.scope.Holds(tool); held != tt.held[method] {
					t.Errorf("%s: held %v", tool.Name, held)
				}
				for _, raw := range []struct {
					dialect dialect.Dialect
					text    string
				}{
					{dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`},
					{dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"NAME","arguments":{}}}`},
					{dialect.Modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME",` + modernMeta + `}}`},
					{dialect.Legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME"}}`},
					{dialect.Legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"catalog_call","arguments":{"name":"NAME"}}}`},
				} {
					ran = false
					reply := b.HandleMessage(t.Context(), inbound(t, b.Flights().NewOrigin(), raw.dialect, strings.Replace(raw.text, "NAME", tool.Name, 1)))
					blocked := strings.Contains(string(reply.Bytes()), string(errmap.DestructiveBlocked))
					if blocked != tt.held[method] || ran == tt.held[method] {
						t.Errorf("%v, %s: ran %v: %s", raw.dialect, tool.Name, ran, reply.Bytes())
					}
				}
				ran = false
				resp := b.Handle(t.Context(), &bridge.Request{Op: bridge.OpCall, Origin: b.Flights().NewOrigin(), Procedure: tool.Method.Procedure})
				if (codeOf(resp) == errmap.DestructiveBlocked) != tt.held[method] || ran == tt.held[method] {
					t.Errorf("by procedure, %s: ran %v, %v", tool.Name, ran, resp.Err)
				}
			}
		})
	}
}
