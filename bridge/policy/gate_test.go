// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/policy"
	"github.com/outrigger-mcp/outrigger/errmap"
)

func TestParseTrust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want policy.Trust
		ok   bool
	}{
		{"untrusted", policy.Untrusted, true},
		{"trusted", policy.Trusted, true},
		{"", policy.Untrusted, false},
		{"Trusted", policy.Untrusted, false},
		{"yes", policy.Untrusted, false},
	} {
		got, err := policy.ParseTrust(tc.text)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %v, %v", tc.text, got, err)
		}
		if tc.ok && got.String() != tc.text {
			t.Errorf("%q is printed as %q", tc.text, got)
		}
	}
}

func TestGateHoldsBackWhatIsMarked(t *testing.T) {
	t.Parallel()
	yes := true
	marked := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	hinted := &catalog.Tool{Name: "shop.edit", Annotations: catalog.Annotations{Destructive: &yes}}
	silent := &catalog.Tool{Name: "shop.look"}
	var zero policy.Gate
	for _, tc := range []struct {
		name string
		gate *policy.Gate
		tool *catalog.Tool
		held bool
	}{
		{"the zero gate", &zero, marked, true},
		{"an untrusting gate", policy.NewGate(policy.Untrusted), marked, true},
		{"a trusting gate", policy.NewGate(policy.Trusted), marked, false},
		{"only a hint", policy.NewGate(policy.Untrusted), hinted, false},
		{"nothing said", policy.NewGate(policy.Untrusted), silent, false},
	} {
		err := tc.gate.Check(tc.tool)
		if (err != nil) != tc.held || (err != nil && (err.Code != errmap.DestructiveBlocked || err.Tool != tc.tool.Name)) {
			t.Errorf("%s: got %v, held back: want %v", tc.name, err, tc.held)
		}
	}
}
