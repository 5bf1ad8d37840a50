// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"pgregory.net/rapid"
)

// TestDenyWins holds decisions against the definition: some deny rule holds, or there are allow rules and none holds. What
// is listed is never less than what may be called with some arguments, and order does not matter.
func TestDenyWins(t *testing.T) {
	t.Parallel()
	cat := newBank(t)
	tool := lookup(t, cat, "bank.send")
	// Conditions by what becomes of them: true, false or a failure, with args and without.
	conditions := map[string][]string{
		"true":  {`true`, `caller.name == ""`, `args.count == 0`, `tool.name == "bank.send"`},
		"false": {`false`, `caller.name == "x"`, `args.count == 1`, `tool.destructive`},
		"fails": {`caller.claims.x == 1`, `args.labels["x"] == ""`, `1 / args.count == 1`},
	}
	rapid.Check(t, func(t *rapid.T) {
		var list []policy.Rule
		denied, allowed, hasAllow := false, false, false
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			outcome := rapid.SampledFrom([]string{"true", "false", "fails"}).Draw(t, "outcome")
			r := policy.Rule{
				Name: fmt.Sprintf("r%d", i), Effect: rapid.SampledFrom([]policy.Effect{policy.Allow, policy.Deny}).Draw(t, "effect"),
				When:  rapid.SampledFrom(conditions[outcome]).Draw(t, "when"),
				Tools: []string{rapid.SampledFrom([]string{"*", "bank.*", "bank.send", "other.*"}).Draw(t, "tools")},
			}
			list = append(list, r)
			if r.Tools[0] == "other.*" {
				continue
			}
			if r.Effect == policy.Allow {
				hasAllow, allowed = true, allowed || outcome == "true"
			} else {
				denied = denied || outcome != "false"
			}
		}
		want := !denied && (!hasAllow || allowed)
		set, faults := policy.Compile(list, policy.Limits{})
		if len(faults) > 0 {
			t.Fatalf("%v", faults)
		}
		engine := policy.NewEngine(set)
		rule, effect, err := engine.MayCall(nil, tool, nil)
		if (err == nil) != want {
			t.Fatalf("%+v: %v, want %v", list, err, want)
		}
		if (effect == "deny") != (err != nil) || err != nil && rule == "" || hasAllow && rule == "" {
			t.Fatalf("decided by %q, %q; %v", rule, effect, err)
		}
		if want && engine.MayUse(nil, tool) != nil {
			t.Fatalf("%+v: the call is allowed, and the tool hidden", list)
		}
		shuffled, _ := policy.Compile(rapid.Permutation(list).Draw(t, "order"), policy.Limits{})
		if _, _, other := policy.NewEngine(shuffled).MayCall(nil, tool, nil); (other == nil) != want {
			t.Fatalf("%+v: another order decides otherwise", list)
		}
	})
}
