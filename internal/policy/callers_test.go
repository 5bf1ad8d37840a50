// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

func TestGateTrustsSomeCallers(t *testing.T) {
	t.Parallel()
	destructive := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	tests := []struct {
		name    string
		trusted []string
		caller  string
		passes  bool
	}{
		{name: "no one", caller: "10.1.2.3"},
		{name: "an address", trusted: []string{"10.1.2.3"}, caller: "10.1.2.3", passes: true},
		{name: "another address", trusted: []string{"10.1.2.3"}, caller: "10.1.2.4"},
		{name: "a network", trusted: []string{"10.1.0.0/16"}, caller: "10.1.255.4", passes: true},
		{name: "a network with host bits", trusted: []string{"10.1.2.3/16"}, caller: "10.1.255.4", passes: true},
		{name: "outside of the network", trusted: []string{"10.1.0.0/16"}, caller: "10.2.0.1"},
		{name: "IPv4 inside IPv6", trusted: []string{"10.1.2.3"}, caller: "::ffff:10.1.2.3", passes: true},
		{name: "IPv6 with a zone", trusted: []string{"fe80::/10"}, caller: "fe80::1%eth0", passes: true},
		{name: "stdio", trusted: []string{"stdio"}, caller: "stdio", passes: true},
		{name: "stdio is no address", trusted: []string{"0.0.0.0/0", "::/0"}, caller: "stdio"},
		{name: "an address is not stdio", trusted: []string{"stdio"}, caller: "127.0.0.1"},
		{name: "no caller at all", trusted: []string{"0.0.0.0/0", "stdio"}, caller: ""},
	}
	for _, tt := range tests {
		g := NewGate(Untrusted)
		if err := g.TrustCallers(tt.trusted); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if passes := g.Check(destructive, tt.caller) == nil; passes != tt.passes {
			t.Errorf("%s: passes is %v, want %v", tt.name, passes, tt.passes)
		}
	}
}

func TestTrustCallersRefusesWhatIsNoCaller(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "everyone", "10.1.2", "10.1.2.3/33", "10.1.2.3:80", "STDIO", "*"} {
		if err := NewGate(Untrusted).TrustCallers([]string{name}); err == nil {
			t.Errorf("%q is taken for a caller", name)
		}
	}
}
