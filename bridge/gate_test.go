// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// cancelForms are all the ways to ask for the one destructive tool.
func cancelForms() map[string]bridge.Request {
	return map[string]bridge.Request{
		"canonical name":        {Tool: "fleet.cancel_order"},
		"MCP name":              {Tool: "fleet_cancel_order", Names: bridge.NamesMCP},
		"canonical name in MCP": {Tool: "fleet.cancel_order", Names: bridge.NamesMCP},
		"MCP name elsewhere":    {Tool: "fleet_cancel_order"},
		"message form":          {Tool: "fleet.cancel_order", Names: bridge.NamesCanonicalOnly},
		"with a version":        {Tool: "fleet.cancel_order", Version: "^1"},
		"procedure":             {Procedure: "/outrigger.demo.v1.Fleet/CancelOrder"},
		"procedure and a harmless name": {
			Procedure: "/outrigger.demo.v1.Fleet/CancelOrder", Tool: "lab.echo",
		},
	}
}

func TestTheGateHoldsBackEveryFormOfADestructiveCall(t *testing.T) {
	t.Parallel()
	wire, err := proto.Marshal(&demov1.CancelOrderRequest{OrderId: 1001})
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]bridge.Payload{
		"JSON":          {Bytes: []byte(`{"orderId":"1001"}`)},
		"wire":          {Encoding: bridge.EncodingProtobuf, Bytes: wire},
		"invalid input": {Bytes: []byte(`{"orderId":"x"}`)}, // the gate comes first
	}
	for _, trust := range []policy.Trust{policy.Untrusted, policy.Trusted} {
		t.Run(trust.String(), func(t *testing.T) {
			t.Parallel()
			b := fake(t, mcptest.Echo, bridge.Options{Gate: policy.NewGate(trust)})
			for form, req := range cancelForms() {
				for kind, payload := range arguments {
					req.Op, req.Origin, req.Arguments = bridge.OpCall, b.Flights().NewOrigin(), payload
					want := errmap.DestructiveBlocked
					if trust == policy.Trusted {
						want = map[string]errmap.Code{"invalid input": errmap.InvalidToolInput}[kind]
					}
					if resp := b.Handle(t.Context(), &req); codeOf(resp) != want {
						t.Errorf("%s, %s: got %v, want %q", form, kind, resp.Err, want)
					}
				}
			}
		})
	}
}

func TestAToolThatOnlyMayBeDestructiveRuns(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source("UpdateVehicle")}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`)); resp.Err != nil {
		t.Errorf("got %v", resp.Err)
	}
	// Without its options fleet.update_vehicle says that it is idempotent, and nothing about harm.
	resp := b.Handle(t.Context(), toolCall(b, "fleet.update_vehicle",
		`{"vehicleId":"101","patch":{"driver":"Ann"},"updateMask":"driver"}`))
	if codeOf(resp) == errmap.DestructiveBlocked {
		t.Errorf("a tool that says nothing is held back: %v", resp.Err)
	}
}

func TestTheGateSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	got := answer(t, b, dialect.Modern,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet_cancel_order","arguments":{"orderId":"1"},`+modernMeta+`}}`)
	if got.code() != errmap.DestructiveBlocked || got.Result == nil || !containsAll(got.Result.Content[0].Text, "trusted") {
		t.Errorf("got %+v, want a tool error that names the way out", got)
	}
}
