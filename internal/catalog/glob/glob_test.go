// SPDX-License-Identifier: Apache-2.0

package glob_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
)

func TestMatchAny(t *testing.T) {
	t.Parallel()
	patterns := []string{"fleet.get_*", "lab.echo"}
	for name, want := range map[string]bool{"fleet.get_order": true, "lab.echo": true, "lab.echoes": false, "": false} {
		if glob.MatchAny(patterns, name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
	if glob.MatchAny(nil, "x") || !glob.MatchAny([]string{glob.Anything}, "") {
		t.Error("no pattern, or the one for everything")
	}
}

// FuzzMatch compares with trying everything.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{{"*", "x"}, {"x-*-id", "x-a-id"}, {"a**b", "ab"}, {"*a*b*", "xaybz"}, {"ab*ba", "aba"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 12 || len(name) > 24 {
			return
		}
		if got, want := glob.Match(pattern, name), naive(pattern, name); got != want {
			t.Errorf("Match(%q, %q) = %v, want %v", pattern, name, got, want)
		}
	})
}

// naive tries every length for every wildcard.
func naive(pattern, name string) bool {
	if pattern == "" {
		return name == ""
	}
	if pattern[0] == '*' {
		return naive(pattern[1:], name) || (name != "" && naive(pattern, name[1:]))
	}
	return name != "" && name[0] == pattern[0] && naive(pattern[1:], name[1:])
}
