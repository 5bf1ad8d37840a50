// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestTheToolAPIListsAllToolsUnlessAsked: so a sidecar in front of one in compact mode has all of its tools.
func TestTheToolAPIListsAllToolsUnlessAsked(t *testing.T) {
	t.Parallel()
	compact := []string{"catalog.call", "catalog.describe", "catalog.run", "catalog.search"}
	for mode, isOffered := range map[string]bool{"full": false, "compact": true, "auto": true} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Catalog.Mode = proto.String(mode) }})
			client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), mount(t, ofRig(rig), connectapi.Options{}))
			list, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
			if err != nil || len(list.Msg.GetTools()) != len(rig.Live.Current().Tools()) {
				t.Fatalf("%d tools, %v", len(list.Msg.GetTools()), err)
			}
			list, err = client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{Compact: true}))
			if !isOffered {
				if connect.CodeOf(err) != connect.CodeUnimplemented {
					t.Errorf("a compact list where there is none: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Msg.GetTools() {
				names = append(names, tool.GetName())
			}
			if !slices.Equal(names, compact) {
				t.Errorf("listed %v", names)
			}
			stream, err := client.WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{Compact: true}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = stream.Close() }()
			if step := nextStep(t, stream); !slices.Equal(step.Added, compact) {
				t.Errorf("watched %v", step.Added)
			}
			got, err := client.CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{
				ToolName: "catalog.call", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"lab.echo","arguments":{"nonce":"n"}}`)},
			}))
			if err != nil || !strings.Contains(string(got.Msg.GetResult().GetDataJson()), `"nonce":"n"`) {
				t.Errorf("called through the catalog: %v, %v", got, err)
			}
		})
	}
}
