// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestInfrastructureIsLeftOut by default, and taken where a glob names it.
func TestInfrastructureIsLeftOut(t *testing.T) {
	t.Parallel()
	files := func() *source.Loaded {
		return filesOf(rpcFile("a.proto", "a", "Cart/Add"),
			rpcFile("csds.proto", "envoy.service.status.v3", "ClientStatusDiscoveryService/FetchClientStatus"),
			rpcFile("channelz.proto", "grpc.channelz.v1", "Channelz/GetServers"), rpcFile("health.proto", "grpc.health.v1", "Health/Check"),
			rpcFile("reflection.proto", "grpc.reflection.v1alpha", "ServerReflection/ServerReflectionInfo"))
	}
	if got := namesOf(mustBuild(t, BuildOptions{}, files())); !slices.Equal(got, []string{"cart.add"}) {
		t.Errorf("tools %v", got)
	}
	named := BuildOptions{Selection: selection(t, []string{"envoy.service.status.v3.ClientStatusDiscoveryService"}, nil)}
	if got := namesOf(mustBuild(t, named, files())); !slices.Equal(got, []string{"client_status_discovery.fetch_client_status"}) {
		t.Errorf("tools that are named: %v", got)
	}
}

// TestOurOwnFilesBringNoTools: a set that was built with the whole of our tree has the user's services and not ours. A set
// of nothing but the demo has the demo's.
func TestOurOwnFilesBringNoTools(t *testing.T) {
	t.Parallel()
	tree := func(more ...*descriptorpb.FileDescriptorProto) *source.Loaded {
		return filesOf(append(more, rpcFile("outrigger/v1/tool_service.proto", "outrigger.v1", "ToolService/CallTool"),
			rpcFile("outrigger/demo/v1/lab.proto", "outrigger.demo.v1", "Lab/Echo", "Fleet/PlaceOrder"))...)
	}
	shop := rpcFile("shop.proto", "shop.v1", "Orders/Get")
	reflected := tree(shop)
	reflected.Services = []string{"outrigger.demo.v1.Lab", "shop.v1.Orders"}
	for name, tt := range map[string]struct {
		load  *source.Loaded
		named []string
		want  []string
	}{
		"beside others":                    {tree(shop), nil, []string{"orders.get"}},
		"a glob names nothing":             {tree(shop), []string{"*"}, []string{"orders.get"}},
		"named":                            {tree(shop), []string{"outrigger.demo.v1.Lab", "shop.v1.*"}, []string{"lab.echo", "orders.get"}},
		"alone, as the demo's own set is":  {tree(), nil, []string{"fleet.place_order", "lab.echo"}},
		"listed by the server that has it": {reflected, nil, []string{"lab.echo", "orders.get"}},
	} {
		o := BuildOptions{}
		if tt.named != nil {
			o.Selection = selection(t, tt.named, nil)
		}
		if diff := cmp.Diff(tt.want, namesOf(mustBuild(t, o, tt.load))); diff != "" {
			t.Errorf("%s: names (-want +got):\n%s", name, diff)
		}
	}
}

// TestOpenAPIDeprecates a tool as the descriptor's own option does.
func TestOpenAPIDeprecates(t *testing.T) {
	t.Parallel()
	f := rpcFile("a.proto", "a", "Cart/Add")
	f.Service[0].Method[0].Options = &descriptorpb.MethodOptions{}
	f.GetService()[0].GetMethod()[0].GetOptions().ProtoReflect().SetUnknown(appendBytes(nil, 1042, []byte{11 << 3, 1}))
	tool := toolOf(t, mustBuild(t, BuildOptions{}, filesOf(f)), "cart.add")
	if tool.Metadata.DeprecatedIn != "unknown" || !strings.HasPrefix(tool.Description, "Deprecated") {
		t.Errorf("deprecated in %q: %s", tool.Metadata.DeprecatedIn, tool.Description)
	}
}

// TestMethodsThatDifferInCaseAlone are left out, and the others are served.
func TestMethodsThatDifferInCaseAlone(t *testing.T) {
	t.Parallel()
	load := filesOf(rpcFile("a.proto", "a", "Cart/GetItem", "Cart/getItem", "Cart/Add"))
	named := []Override{{Match: "a.Cart/getItem", Options: &configv1.ToolOptions{Name: "cart.get_item_by_key"}}}
	for name, tt := range map[string]struct {
		o     BuildOptions
		want  []string
		warns int
	}{
		"both":             {BuildOptions{}, []string{"cart.add"}, 2},
		"one is named":     {BuildOptions{Overlay: named}, []string{"cart.add", "cart.get_item", "cart.get_item_by_key"}, 0},
		"one is excluded":  {BuildOptions{Selection: selection(t, nil, []string{"a.Cart/getItem"})}, []string{"cart.add", "cart.get_item"}, 0},
		"nothing is left ": {BuildOptions{Selection: selection(t, nil, []string{"a.Cart/Add"})}, nil, 0},
	} {
		c, err := Build([]*source.Loaded{load}, tt.o)
		if tt.want == nil {
			if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "a.Cart/GetItem and a.Cart/getItem differ in case alone") {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, namesOf(c)); diff != "" || len(c.Warnings()) != tt.warns {
			t.Errorf("%s: names (-want +got):\n%s\nwarnings %v", name, diff, c.Warnings())
		}
	}
}
