// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
)

func TestReadinessOfBackends(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		wanted []string
		// what a, b and c say of themselves: they answer, have no tools, or have not been asked.
		a, b, c string
		isReady bool
		why     string
	}{
		{"any, all there", []string{"any"}, "ok", "ok", "ok", true, "3 of 3 backends can be used"},
		{"any, one there", []string{"any"}, "away", "ok", "none", true, "1 of 3 backends can be used; not a (away), c (not asked yet)"},
		{"any, none there", []string{"any"}, "away", "away", "none", false, "0 of 3 backends can be used; not a (away), b (away), c (not asked yet)"},
		{"no setting is any", nil, "away", "ok", "away", true, "1 of 3"},
		{"all, one away", []string{"all"}, "ok", "away", "ok", false, "2 of 3 backends can be used; not b (away)"},
		{"all, all there", []string{"all"}, "ok", "ok", "ok", true, "3 of 3"},
		{"named, there", []string{"b"}, "away", "ok", "away", true, "1 of 3"},
		{"named, away", []string{"b", "c"}, "ok", "away", "ok", false, "2 of 3"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			machine := lifecycle.New(nil)
			r := &readiness{life: machine, wanted: tc.wanted}
			all := map[string]*partLife{}
			for _, name := range []string{"a", "b", "c"} {
				all[name] = r.of(name)
			}
			for name, said := range map[string]string{"a": tc.a, "b": tc.b, "c": tc.c} {
				switch said {
				case "ok":
					all[name].Set(needAnswer, false, "not yet")
					all[name].Set(needAnswer, true, "it answers")
				case "away":
					all[name].Set(needAnswer, true, "it answers")
					all[name].Set(needBackend, false, "away")
				}
			}
			now := machine.Status()
			if isReady := now.State == lifecycle.Ready; isReady != tc.isReady || len(now.Needs) != 1 || !strings.HasPrefix(now.Needs[0].Why, tc.why) {
				t.Errorf("%v: %v", now.State, now.Needs)
			}
			if needs := all["a"].Status().Needs; tc.a == "away" && (len(needs) != 2 || needs[1].OK) {
				t.Errorf("a says %v", needs)
			}
		})
	}
}
