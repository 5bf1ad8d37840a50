// SPDX-License-Identifier: Apache-2.0

package glob_test

import (
	"path"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/glob"
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

// FuzzMatch compares with path.Match, which agrees where neither slashes nor its
// other signs occur.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{{"a*b*c", "aXbYc"}, {"*", ""}, {"**", "x"}, {"a*", "b"}, {"*a*a", "aa"}, {"a.b", "a.b"}, {"", ""}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern+name, `/?[]\`) {
			return
		}
		want, err := path.Match(pattern, name)
		if got := glob.Match(pattern, name); err == nil && got != want {
			t.Errorf("Match(%q, %q) is %v", pattern, name, got)
		}
	})
}
