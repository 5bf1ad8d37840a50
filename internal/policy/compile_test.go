// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// TestFaults: what is found without a tool, and where.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		when, want string
		column     int
	}{
		{`args.a ==`, "Syntax error", 10},
		{``, "Syntax error", 1},
		{`"a`, "Syntax error", 1},
		{`caller.nmae == ""`, "undefined field 'nmae'", 7},
		{`args.a == 1 && caller.nmae == ""`, "undefined field 'nmae'", 22},
		{`tool.name == 1`, "found no matching overload", 11},
		{`clr.name == ""`, "undeclared reference to 'clr'", 1},
		{`caller.name`, "must be of type bool, is of type string", 0},
		{`caller.name.matches("(")`, "error parsing regexp", 0},
		{strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), "recursion", 0},
		{`"` + strings.Repeat("a", 4100) + `" == ""`, "has 4108 bytes; the limit is 4096", 0},
	}
	for _, tt := range tests {
		set, faults := policy.Compile([]policy.Rule{allow("a", tt.when, "*")}, policy.Limits{})
		if set != nil || len(faults) == 0 {
			t.Errorf("%.60s: %v", tt.when, faults)
			continue
		}
		f := faults[0]
		if !strings.Contains(f.Message, tt.want) || f.Index != 0 || f.Field != "when" || tt.column > 0 && (f.Line != 1 || f.Column != tt.column) {
			t.Errorf("%.60s: %+v", tt.when, f)
		}
	}
}

// TestBoundsOfASet: the number of rules, their names and effects.
func TestBoundsOfASet(t *testing.T) {
	t.Parallel()
	var many []policy.Rule
	for i := range 1001 {
		many = append(many, allow(fmt.Sprintf("r%d", i), "true", "a.b"))
	}
	if _, faults := policy.Compile(many, policy.Limits{}); len(faults) != 1 || faults[0].Index != -1 {
		t.Errorf("1,001 rules: %v", faults)
	}
	if set, faults := policy.Compile(many[:1000], policy.Limits{}); len(faults) != 0 || set.Len() != 1000 {
		t.Errorf("1,000 rules: %v", faults)
	}
	if _, faults := policy.Compile(many[:3], policy.Limits{MaxRules: 2}); len(faults) != 1 {
		t.Errorf("three of two: %v", faults)
	}
	for _, r := range []policy.Rule{{Name: "A", Effect: "allow", When: "true"}, {Name: "a", Effect: "maybe", When: "true"}, {Effect: "deny", When: "true"}} {
		if _, faults := policy.Compile([]policy.Rule{r}, policy.Limits{}); len(faults) != 1 {
			t.Errorf("%+v: %v", r, faults)
		}
	}
	if _, faults := policy.Compile([]policy.Rule{allow("a", "true"), allow("a", "true")}, policy.Limits{}); len(faults) != 1 || faults[0].Index != 1 {
		t.Errorf("equal names: %v", faults)
	}
}

// TestRulesThatDoNotFit: type faults against the descriptor of a tool, one for each tool.
func TestRulesThatDoNotFit(t *testing.T) {
	t.Parallel()
	cat := newBank(t)
	for when, want := range map[string]int{
		`args.amount.units < 5`:                1, // Show takes Money, which has no amount
		`args.amount.units == "5"`:             3,
		`args.account < 5`:                     1,
		`args.speed == bank.v1.Speed.SPEED_GO`: 4,
		`args.lines.units == 1`:                3,
		`args.nothing == 1`:                    3,
		`args.currency == ""`:                  2,
		`true || has(args.amount)`:             1,
	} {
		faults := compile(t, allow("a", when, "*")).Fit(cat)
		if len(faults) != want {
			t.Errorf("%s: %v, want %d", when, faults, want)
		}
		for _, f := range faults {
			if f.Line != 1 || f.Column == 0 || f.Tool == "" {
				t.Errorf("%s: no place: %+v", when, f)
			}
		}
	}
}

// TestACatalogsToolsAreForgotten: what was compiled for a catalog that is gone is not kept, and what is decided about its
// tools stays the same.
func TestACatalogsToolsAreForgotten(t *testing.T) {
	t.Parallel()
	set := compile(t, allow("a", `args.count == 0`, "bank.send", "bank.simulate"))
	engine := policy.NewEngine(set)
	var olds []func() error
	for range 5 {
		cat := newBank(t)
		if faults := engine.Fit(cat); len(faults) > 0 {
			t.Fatal(faults)
		}
		tool := lookup(t, cat, "bank.send")
		olds = append(olds, func() error {
			if _, _, err := engine.MayCall(nil, tool, wire(t, tool, "count: 1")); err == nil {
				return fmt.Errorf("the old tool may be called")
			}
			return nil
		})
		if tools, inputs, programs := set.Kept(); tools != 3 || inputs != 2 || programs != 1 {
			t.Errorf("%d tools, %d inputs, %d programs are kept", tools, inputs, programs)
		}
	}
	for _, old := range olds {
		if err := old(); err != nil {
			t.Error(err)
		}
	}
}

// FuzzCompile: no expression makes the compiler or an evaluation panic, and nothing that fails lets a call pass.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`args.amount.units < 1000 && "refunds" in caller.groups`, `args.lines.all(l, l.units < 3)`, `has(args.card)`,
		`args == bank.v1.Transfer{}`, `tool.name.matches("^a")`, `[1, 2].map(x, x * 2)[5] == 1`, `caller.claims.a.b.c`,
		`.args.count == 0`, `args.free["x"] == {"a": [1u, b"x", null]}`, `type(caller) == type(tool)`, `caller == caller`, `"\ud800"`, `#`,
	} {
		f.Add(seed)
	}
	cat := newBank(f)
	tool := lookup(f, cat, "bank.send")
	arguments, who := wire(f, tool, someTransfer), somebody()
	f.Fuzz(func(t *testing.T, when string) {
		for _, effect := range []policy.Effect{policy.Allow, policy.Deny} {
			set, faults := policy.Compile([]policy.Rule{{Name: "r", Tools: []string{"*"}, Effect: effect, When: when}}, policy.Limits{MaxCost: 10_000})
			if (set == nil) != (len(faults) > 0) {
				t.Fatalf("%v, %v", set, faults)
			}
			if set == nil {
				return
			}
			engine := policy.NewEngine(set)
			broken := len(engine.Fit(cat)) > 0
			_ = engine.Key(who, nil)
			_ = engine.MayUse(who, tool)
			if _, _, err := engine.MayCall(who, tool, arguments); err == nil && broken && engine.MayUse(who, tool) != nil {
				t.Fatal("a tool that is disabled may be called")
			}
			if _, _, err := engine.MayCall(who, tool, arguments); err == nil && engine.Counts()[0].Failed > 0 {
				t.Fatal("a rule that fails lets the call pass")
			}
		}
	})
}
