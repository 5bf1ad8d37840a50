// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"strings"
	"testing"
)

// What is remembered of names is bounded, and the verdict is the same before and
// behind the bound, the first time and the second.
func TestNamesAreRememberedUpToABound(t *testing.T) {
	t.Parallel()
	rules, err := NewMetadataRules([]string{"x-ok-*"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for i := range 3 * maxKnownNames {
			name := fmt.Sprintf("X-Ok-%d", i)
			if i%2 == 1 {
				name = fmt.Sprintf("X-No-%d", i)
			}
			if got := rules.in.admits(name); got != (i%2 == 0) {
				t.Fatalf("%s: %v", name, got)
			}
		}
	}
	if kept := len(*rules.in.names.Load()); kept != maxKnownNames {
		t.Errorf("%d names are kept", kept)
	}
}

func TestRulesAreCheckedBeforehand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		pattern string
		fault   string
	}{
		{"a name", "x-tenant", ""},
		{"a name in capitals", " X-Tenant ", ""},
		{"a glob", "x-*-id", ""},
		{"everything", "*", ""},
		{"binary metadata", "trace-bin", ""},
		{"a vendor's key, named in full", "x-api-key", ""},
		{"a token's characters", "a.b_c~d", ""},
		{"empty", "", "pattern"},
		{"a space", "x tenant", "pattern"},
		{"a colon", ":authority", "pattern"},
		{"a class", "x-[ab]", "pattern"},
		{"a question mark", "x-?", "pattern"},
		{"a line end", "x\r\ny", "pattern"},
		{"not ASCII", "x-ä", "pattern"},
		{"authorization", "Authorization", "is never forwarded"},
		{"cookie", "cookie", "is never forwarded"},
		{"host", "host", "is never forwarded"},
		{"hop by hop", "connection", "is never forwarded"},
		{"proxy credentials", "proxy-authorization", "is never forwarded"},
		{"the protocol's", "grpc-timeout", "is never forwarded"},
		{"MCP's", "mcp-session-id", "is never forwarded"},
		{"CORS", "access-control-allow-origin", "is never forwarded"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for side, lists := range map[string][2][]string{"inbound": {{tc.pattern}, nil}, "outbound": {nil, {tc.pattern}}} {
				_, err := NewMetadataRules(lists[0], lists[1])
				if (err == nil) != (tc.fault == "") || (err != nil && !(strings.Contains(err.Error(), tc.fault) && strings.Contains(err.Error(), side))) {
					t.Errorf("%s: %v, want %q", side, err, tc.fault)
				}
			}
		})
	}
}
