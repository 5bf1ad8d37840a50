// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

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
