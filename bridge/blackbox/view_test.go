// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// partly hides who ordered, and masks what an order is worth.
func partly(c *configv1.Config) {
	c.Trust = proto.String("trusted")
	c.Access.Policy = &configv1.Policy{
		Classes: []*configv1.FieldClass{
			{Name: "pii", Groups: []string{"support"}},
			{Name: "state", Groups: []string{"support"}, Otherwise: "mask"},
		},
		Fields: map[string]string{
			"outrigger.demo.v1.Order.customer": "pii", "outrigger.demo.v1.Parcel.contents": "state", "outrigger.demo.v1.Parcel.weight_kg": "state",
		},
	}
}

// TestListsShowWhatTheCallerSees: the schemas in lists and descriptions are those of the results that the caller gets, on the client's
// side too.
func TestListsShowWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	g := newGated(t, func(c *configv1.Config) { partly(c); compacted(c) })
	id := g.order(t)
	number, _ := json.Marshal(id)
	list := replyTo(t.Context(), t, g.bridge, mcptest.Modern, "tools/list", modernParams)
	if !strings.Contains(string(list), `"cacheScope":"private"`) {
		t.Errorf("the list may be kept for all callers: %.300s", list)
	}
	read := replyTo(t.Context(), t, g.bridge, mcptest.Modern, "resources/read", `"uri":"lagoon://orders/`+string(number)+`",`+modernParams)
	if text := string(read); !strings.Contains(text, "weightKg") || strings.Contains(text, `customer`) || strings.Contains(text, "coconut") {
		t.Errorf("the resource shows %s", read)
	}
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
		meta, name := "", "fleet.get_order"
		if d != mcptest.Canonical {
			name = mcpName(name)
		}
		if d == mcptest.Modern {
			meta = "," + modernParams
		}
		ask := func(method, params string) []byte { return replyTo(t.Context(), t, g.bridge, d, method, params+meta) }
		described := ask("tools/call", `"name":"`+map[bool]string{true: describeName, false: mcpName(describeName)}[d == mcptest.Canonical]+`","arguments":{"name":"`+name+`"}`)
		output, ok := structured(described, "outputSchema")
		if !ok {
			t.Fatalf("%s: no output schema in %s", d, described)
		}
		if strings.Contains(string(output), `"customer"`) || strings.Contains(string(described), "Coconut") {
			t.Errorf("%s: the description has what the caller does not see: %s", d, described)
		}
		if !strings.Contains(string(output), "Masked for this caller.") {
			t.Errorf("%s: the description does not say what is masked: %s", d, output)
		}
		signature, ok := structured(ask("tools/call", `"name":"`+map[bool]string{true: describeName, false: mcpName(describeName)}[d == mcptest.Canonical]+`","arguments":{"names":["`+name+`"]}`), "signatures")
		if !ok || strings.Contains(string(signature), "customer:") || !strings.Contains(string(signature), "weight_kg: float # Its weight in kilograms; Masked for this caller") {
			t.Errorf("%s: the signature %s", d, signature)
		}
		called := ask("tools/call", `"name":"`+name+`","arguments":{"orderId":"`+string(number)+`"}`)
		result, ok := structured(called)
		if !ok || strings.Contains(string(result), `"customer"`) || strings.Contains(string(called), "coconut") || !strings.Contains(string(result), `"weightKg":0`) {
			t.Errorf("%s: the result %s", d, called)
		}
		if err := mcptest.Schema(t, output)(result); err != nil {
			t.Errorf("%s: the result %s breaks the schema that is shown: %v", d, result, err)
		}
		wanted := ask("tools/call", `"name":"`+map[bool]string{true: callName, false: mcpName(callName)}[d == mcptest.Canonical]+
			`","arguments":{"name":"`+name+`","arguments":{"orderId":"`+string(number)+`"},"fields":"id,customer"}`)
		unknown := ask("tools/call", `"name":"`+map[bool]string{true: callName, false: mcpName(callName)}[d == mcptest.Canonical]+
			`","arguments":{"name":"`+name+`","arguments":{"orderId":"`+string(number)+`"},"fields":"id,customex"}`)
		if strings.ReplaceAll(string(unknown), "customex", "customer") != string(wanted) {
			t.Errorf("%s: a hidden field is not as an unknown one:\n%s\n%s", d, wanted, unknown)
		}
	}
}

// structured is the structured content of a result, or a member of that.
func structured(reply []byte, names ...string) (value json.RawMessage, ok bool) {
	value = reply
	for _, name := range append([]string{"result", "structuredContent"}, names...) {
		if value, ok = lookup(value, name); !ok {
			return nil, false
		}
	}
	return value, true
}

// A declared schema of a stream holds for its items, before they are masked: of a caller who does not see all of them too.
func TestItemsOfAStreamKeepToTheDeclaredSchema(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		items   string
		isValid bool
	}{
		"an item that is right":   {`,"items":{"properties":{"round":{"maximum":3},"vehicleId":{"$ref":"#/$defs/id"}}}`, true},
		"a value that is shown":   {`,"items":{"properties":{"round":{"maximum":2}}}`, false},
		"a value that is not":     {`,"items":{"properties":{"vehicleId":{"allOf":[{"$ref":"#/$defs/id"},{"maxLength":3}]}}}`, false},
		"nothing about items":     {``, true},
		"as many as there are":    {`,"minItems":3,"maxItems":3,"uniqueItems":true`, true},
		"too few":                 {`,"minItems":4`, false},
		"too many":                {`,"maxItems":2`, false},
		"none with a value":       {`,"contains":{"properties":{"vehicleId":{"maxLength":3}},"required":["vehicleId"]}`, false},
		"one with a masked value": {`,"contains":{"properties":{"vehicleId":{"minLength":10}},"required":["vehicleId"]}`, true},
	} {
		output := `{"type":"object","$defs":{"id":{"type":"string","minLength":10}},"properties":{"items":{"type":"array"` + tc.items + `}}}`
		declared := &structpb.Struct{}
		if err := declared.UnmarshalJSON([]byte(output)); err != nil {
			t.Fatal(err)
		}
		s := &streaming{items: updates(t, 3)}
		rig := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source(), Backend: s.backend(), Configure: func(c *configv1.Config) {
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Fleet/WatchVehicles", OutputSchema: declared})
			c.Access.Policy = &configv1.Policy{
				Classes: []*configv1.FieldClass{{Name: "pii", Groups: []string{"support"}, Otherwise: "mask"}},
				Fields:  map[string]string{"outrigger.demo.v1.VehicleUpdate.vehicle_id": "pii"},
			}
		}})
		got := rig.Handle(t.Context(), toolCall(rig, "fleet.watch_vehicles", `{}`))
		if strings.Contains(all(got), "9007199254740993") {
			t.Errorf("%s: a masked value leaves: %s", name, all(got))
		}
		switch {
		case tc.isValid && (got.Err != nil || strings.Count(string(got.Result), `"round"`) != 3):
			t.Errorf("%s: %s", name, all(got))
		case !tc.isValid && (got.Err == nil || got.Err.Code != errmap.InvalidToolOutput || len(got.Result) > 0):
			t.Errorf("%s: %s", name, all(got))
		}
	}
}
