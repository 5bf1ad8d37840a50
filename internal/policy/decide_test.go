// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

const someTransfer = `
amount { currency: "EUR" units: 250 } count: -3 account: 18446744073709551615 speed: SPEED_FAST
lines { units: 1 } lines { units: 2 } labels { key: "team" value: "a" } card: "4111"
at { seconds: 1000 } wait { seconds: 90 } limit { value: 0 }
extra { [type.googleapis.com/google.protobuf.Duration] { seconds: 5 } }
free { fields { key: "n" value { number_value: 1.5 } } } rate: 0.5 key: "\001\377" dry_run: true`

// TestExpressions: what a rule reads of arguments of every type, of the caller and of the tool.
func TestExpressions(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newBank(t), "bank.send")
	set, empty := wire(t, tool, someTransfer), wire(t, tool, "")
	tests := []struct {
		when      string
		set, none bool // with the arguments above, and without any
	}{
		{`args.amount.units < 1000`, true, true},
		{`args.amount.units < 1000 && "refunds" in caller.groups`, true, true},
		{`args.amount.units == 250 && args.amount.currency == "EUR"`, true, false},
		{`has(args.amount)`, true, false},
		{`args.count < 0`, true, false},
		{`args.account == 18446744073709551615u`, true, false},
		{`args.account > 9223372036854775807u`, true, false},
		{`args.speed == 2`, true, false},
		{`args.speed == bank.v1.Speed.SPEED_FAST`, true, false},
		{`args.lines.all(l, l.units < 3)`, true, true},
		{`args.lines.exists(l, l.units == 2)`, true, false},
		{`args.lines.map(l, l.units) == [1, 2]`, true, false},
		{`size(args.lines) == 2`, true, false},
		{`args.labels["team"] == "a"`, true, false}, // no such key fails
		{`"team" in args.labels && args.labels.team == "a"`, true, false},
		{`has(args.card) && !has(args.iban)`, true, false},
		{`args.iban == ""`, true, true},
		{`args.at < timestamp("2001-01-01T00:00:00Z")`, true, true},
		{`args.at == timestamp("1970-01-01T00:16:40Z")`, true, false},
		{`args.wait > duration("1m")`, true, false},
		{`args.limit == 0`, true, false},
		{`args.limit == null`, false, true},
		{`has(args.limit)`, true, false},
		{`args.extra == duration("5s")`, true, false},
		{`args.free.n == 1.5`, true, false},
		{`args.rate < 1`, true, true},
		{`args.key == b"\001\377"`, true, false},
		{`args.dry_run`, true, false},
		{`args == bank.v1.Transfer{}`, false, true},

		{`caller.name == "https://issuer.example#u-1" && caller.source == "oauth"`, true, true},
		{`caller.issuer == "https://issuer.example" && caller.subject == "u-1" && caller.client_id == "app"`, true, true},
		{`caller.scopes.exists(s, s.startsWith("tools:"))`, true, true},
		{`caller.claims.department == "finance" && caller.claims["level"] >= 3`, true, true},
		{`"x" in caller.claims.nested.a`, true, true},
		{`caller.claims.missing == "x"`, false, false}, // fails
		{`has(caller.claims.missing)`, false, false},
		{`tool.name == "bank.send" && tool.module == "bank.v1.Bank" && tool.version == "1.0.0"`, true, true},
		{`tool.destructive || tool.read_only`, false, false},
		{`size(tool.tags) == 0`, true, true},
		{`args.amount.units / args.amount.units == 1`, true, false}, // division by zero fails
	}
	for _, tt := range tests {
		engine := policy.NewEngine(compile(t, allow("r", tt.when, "bank.send")))
		for arguments, want := range map[*[]byte]bool{&set: tt.set, &empty: tt.none} {
			rule, effect, err := engine.MayCall(somebody(), tool, *arguments)
			if (err == nil) != want || rule != "r" || (effect == "allow") != want {
				t.Errorf("%s: %v, %s %s; want %v", tt.when, err, rule, effect, want)
			}
		}
	}
}

// TestFailuresCountAgainstTheCaller: an error and the cost limit are false in an allow rule and true in a deny rule.
func TestFailuresCountAgainstTheCaller(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newBank(t), "bank.send")
	for name, when := range map[string]string{
		"missing key": `args.labels["x"] == "y"`,
		"claim":       `caller.claims.x.y`,
		"no bool":     `caller.claims.level`,
		"cost":        `[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a+b+c+d+e < 1000)))))`,
	} {
		for effect, rule := range map[policy.Effect]policy.Rule{policy.Allow: allow("a", when, "*"), policy.Deny: deny("a", when, "*")} {
			engine := policy.NewEngine(compile(t, rule))
			if _, _, err := engine.MayCall(somebody(), tool, nil); err == nil {
				t.Errorf("%s: a rule with %s lets the call pass", name, effect)
			}
			if counts := engine.Counts(); len(counts) != 1 || counts[0].Failed != 1 {
				t.Errorf("%s: %v", name, counts)
			}
		}
	}
}

// TestCostLimit: the limit is the one that is set.
func TestCostLimit(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newBank(t), "bank.send")
	list := []policy.Rule{allow("a", `[1,2,3,4,5,6,7,8,9,10].all(a, a < 11)`, "*")}
	for most, want := range map[int64]bool{0: true, 1000: true, 20: false} {
		set, faults := policy.Compile(list, policy.Limits{MaxCost: most})
		if faults != nil {
			t.Fatal(faults)
		}
		if _, _, err := policy.NewEngine(set).MayCall(nil, tool, nil); (err == nil) != want {
			t.Errorf("at most %d: %v", most, err)
		}
	}
}

// TestCombination: how rules about one tool work together, at a call and in a list.
func TestCombination(t *testing.T) {
	t.Parallel()
	cat := newBank(t)
	tool := lookup(t, cat, "bank.send")
	yes, no := `caller.name != "x"`, `caller.name == "x"`
	argsYes, argsNo := `args.count == 0`, `args.count == 1`
	tests := []struct {
		name   string
		rules  []policy.Rule
		rule   string
		listed bool
		called bool
	}{
		{"no rule", nil, "", true, true},
		{"no rule about the tool", []policy.Rule{allow("a", no, "other.*")}, "", true, true},
		{"allowed", []policy.Rule{allow("a", yes, "bank.*")}, "a", true, true},
		{"not allowed", []policy.Rule{allow("a", no, "bank.*")}, "a", false, false},
		{"one of two", []policy.Rule{allow("a", no, "bank.*"), allow("b", yes, "*")}, "b", true, true},
		{"none of two", []policy.Rule{allow("a", no, "bank.*"), allow("b", no, "*")}, "a", false, false},
		{"denied", []policy.Rule{deny("a", yes, "bank.send")}, "a", false, false},
		{"not denied", []policy.Rule{deny("a", no, "bank.send")}, "", true, true},
		{"deny wins", []policy.Rule{allow("a", yes, "*"), deny("b", yes, "*")}, "b", false, false},
		{"args: allowed", []policy.Rule{allow("a", argsYes, "*")}, "a", true, true},
		{"args: not allowed, and listed", []policy.Rule{allow("a", argsNo, "*")}, "a", true, false},
		{"args: denied, and listed", []policy.Rule{deny("a", argsYes, "*")}, "a", true, false},
		{"both: the one with args may hold", []policy.Rule{allow("a", no, "*"), allow("b", argsYes, "*")}, "b", true, true},
		{"both: deny without args", []policy.Rule{deny("a", yes, "*"), allow("b", argsYes, "*")}, "a", false, false},
		{"does not fit", []policy.Rule{allow("a", `args.nothing == 1`, "bank.send")}, "a", false, false},
	}
	for _, tt := range tests {
		engine := policy.NewEngine(compile(t, tt.rules...))
		if err := engine.MayUse(nil, tool); (err == nil) != tt.listed {
			t.Errorf("%s: listed: %v", tt.name, err)
		}
		rule, _, err := engine.MayCall(nil, tool, nil)
		if (err == nil) != tt.called || rule != tt.rule {
			t.Errorf("%s: called: %q, %v", tt.name, rule, err)
		}
		if err != nil && err.Rule != rule {
			t.Errorf("%s: the error names %q", tt.name, err.Rule)
		}
		engine.Fit(cat)
		if engine.Key(nil, nil) == "" && !tt.listed {
			t.Errorf("%s: a hidden tool, and no key", tt.name)
		}
	}
}

// TestGroupsElsewhere: groups that are not in the token are unknown, so that no rule on them helps the caller.
func TestGroupsElsewhere(t *testing.T) {
	t.Parallel()
	tool := lookup(t, newBank(t), "bank.send")
	who := identity.NewIdentityOf(identity.Grant{Name: "a"}, identity.Facts{
		Source: identity.SourceOAuth, Claims: map[string]any{"_claim_names": map[string]any{"groups": "src1"}},
	})
	for _, rule := range []policy.Rule{
		allow("a", `!("blocked" in caller.groups)`, "*"), deny("a", `"blocked" in caller.groups`, "*"), allow("a", `size(caller.groups) == 0`, "*"),
	} {
		if _, _, err := policy.NewEngine(compile(t, rule)).MayCall(who, tool, nil); err == nil {
			t.Errorf("%s %s lets the caller pass", rule.Effect, rule.When)
		}
	}
}
