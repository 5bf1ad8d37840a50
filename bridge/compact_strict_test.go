// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestTheCompactCatalogOfTheStrictProfile: what its schemas show can be sent, also where strings are not repaired. The other
// forms can be sent too, and limits that only the descriptions name hold.
func TestTheCompactCatalogOfTheStrictProfile(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{Profile: schema.ProfileStrict}})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, repairs := range []bool{false, true} {
		b := dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{
			Gate: policy.NewGate(policy.Trusted), Compact: compact.Options{Mode: compact.Always}, RepairArguments: repairs,
		}), dialect.Options{})
		for _, tc := range []struct {
			tool, arguments string
			want            errmap.Code
			path            string
		}{
			{catalog.SearchName, `{"query":"cancel an order","limit":null}`, "", ""},
			{catalog.SearchName, `{"query":"cancel an order","limit":2}`, "", ""},
			{catalog.SearchName, `{"query":"cancel an order"}`, "", ""},
			{catalog.SearchName, `{"query":"x","limit":11}`, errmap.InvalidToolInput, "/limit"},
			{catalog.SearchName, `{"query":"","limit":null}`, errmap.InvalidToolInput, "/query"},
			{catalog.DescribeName, `{"name":"lab.echo"}`, "", ""},
			{catalog.CallName, `{"name":"lab.echo","arguments":"{\"signed\":\"5\"}"}`, "", ""},
			{catalog.CallName, `{"name":"lab.echo","arguments":" {} "}`, "", ""},
			{catalog.CallName, `{"name":"lab.echo","arguments":{"signed":"5"}}`, "", ""},
			{catalog.CallName, `{"name":"lab.echo"}`, "", ""},
			{catalog.CallName, `{"name":"lab.echo","arguments":""}`, errmap.InvalidToolInput, "/arguments"},
			{catalog.CallName, `{"name":"lab.echo","arguments":"{"}`, errmap.InvalidToolInput, "/arguments"},
			{catalog.CallName, `{"name":"lab.echo","arguments":"[]"}`, errmap.InvalidToolInput, "/arguments"},
			{catalog.CallName, `{"name":"lab.echo","arguments":null}`, errmap.InvalidToolInput, "/arguments"},
			{catalog.CallName, `{"name":"lab.echo","arguments":"{\"nothing\":1}"}`, errmap.InvalidToolInput, "/nothing"},
			{catalog.CallName, `{"name":"catalog.call","arguments":"{}"}`, errmap.InvalidToolInput, "/name"},
		} {
			resp := b.Handle(t.Context(), toolCall(b, tc.tool, tc.arguments))
			if codeOf(resp) != tc.want {
				t.Errorf("repairs %t: %s %s: %v, want %q", repairs, tc.tool, tc.arguments, resp.Err, tc.want)
				continue
			}
			if tc.path != "" && (len(resp.Err.Violations) == 0 || resp.Err.Violations[0].Path != tc.path) {
				t.Errorf("repairs %t: %s %s: %+v, want %s", repairs, tc.tool, tc.arguments, resp.Err.Violations, tc.path)
			}
		}
		if n := b.Repaired(); n != 0 {
			t.Errorf("repairs %t: what the schema asks for counts as repaired %d times", repairs, n)
		}
	}
}
