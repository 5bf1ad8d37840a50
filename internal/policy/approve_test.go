// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// approve is a rule that has the group risk approve.
func approve(name, when string, tools ...string) policy.Rule {
	return policy.Rule{Name: name, Tools: tools, Effect: policy.Approve, When: when, Approve: &policy.Approval{Groups: []string{"risk"}}}
}

// TestOrderOfApproval: deny wins, then approve, then allow; a tool with a rule that asks is shown.
func TestOrderOfApproval(t *testing.T) {
	t.Parallel()
	cat := newBank(t)
	tool := cat.All()[0]
	for name, tt := range map[string]struct {
		rules  []policy.Rule
		effect policy.Effect
		hidden bool
	}{
		"asks":                   {rules: []policy.Rule{approve("a", "true", "*")}, effect: policy.Approve},
		"does not hold":          {rules: []policy.Rule{approve("a", "false", "*")}},
		"fails":                  {rules: []policy.Rule{approve("a", `caller.groups[5] == "x"`, "*")}, effect: policy.Approve},
		"deny wins":              {rules: []policy.Rule{approve("a", "true", "*"), deny("d", "true", "*")}, effect: policy.Deny, hidden: true},
		"before allow":           {rules: []policy.Rule{allow("y", "true", "*"), approve("a", "true", "*")}, effect: policy.Approve},
		"where none allows":      {rules: []policy.Rule{allow("n", "false", "*"), approve("a", "true", "*")}, effect: policy.Approve},
		"neither":                {rules: []policy.Rule{allow("n", "false", "*"), approve("a", "false", "*")}, effect: policy.Deny, hidden: true},
		"allowed without asking": {rules: []policy.Rule{allow("y", "true", "*"), approve("a", "false", "*")}, effect: policy.Allow},
	} {
		engine := policy.NewEngine(compile(t, tt.rules...))
		_, effect, err := engine.MayCall(nil, tool, nil)
		if effect != string(tt.effect) || (err != nil) != (tt.effect == policy.Deny) {
			t.Errorf("%s: %q, %v", name, effect, err)
		}
		if shown := engine.MayUse(nil, tool) == nil; shown == tt.hidden {
			t.Errorf("%s: shown %t", name, shown)
		}
	}
	engine := policy.NewEngine(compile(t, approve("a", "true", "*")))
	asks, ok := engine.Asks("a")
	if other, _ := policy.NewEngine(compile(t, approve("a", "1 == 1", "*"))).Asks("a"); !ok || asks.Count != 1 || asks.Within == 0 || other.Digest == asks.Digest {
		t.Errorf("%+v, %+v", asks, other)
	}
	if _, ok := engine.Asks("b"); ok || !engine.HasApprovals() {
		t.Error("a rule that is not there")
	}
}

// TestApproversThatCannot: what is refused at load.
func TestApproversThatCannot(t *testing.T) {
	t.Parallel()
	office := policy.Approvers{Groups: map[string][]string{"otto": {"risk"}, "olga": {"risk", "law"}, "kim": nil}}
	for name, tt := range map[string]struct {
		approval policy.Approval
		who      policy.Approvers
		field    string
	}{
		"a group":               {policy.Approval{Groups: []string{"risk"}, Count: 2}, office, ""},
		"a group and a name":    {policy.Approval{Groups: []string{"risk"}, Callers: []string{"kim", "otto"}, Count: 3}, office, ""},
		"an empty group":        {policy.Approval{Groups: []string{"board"}}, office, "approve.groups[0]"},
		"an unknown name":       {policy.Approval{Callers: []string{"otto", "max"}}, office, "approve.callers[1]"},
		"too few":               {policy.Approval{Groups: []string{"risk"}, Callers: []string{"otto"}, Count: 3}, office, "approve.count"},
		"the local one":         {policy.Approval{Callers: []string{"local"}}, policy.LocalApprover(), ""},
		"a name without a file": {policy.Approval{Callers: []string{"otto"}}, policy.LocalApprover(), "approve.callers[0]"},
	} {
		r := approve("a", "true", "*")
		r.Approve = &tt.approval
		faults := compile(t, r).CheckApprovers(tt.who)
		if tt.field == "" && len(faults) > 0 || tt.field != "" && (len(faults) != 1 || faults[0].Field != tt.field) {
			t.Errorf("%s: %v", name, faults)
		}
	}
	for effect, a := range map[policy.Effect]*policy.Approval{policy.Approve: nil, policy.Allow: {Groups: []string{"risk"}}} {
		if _, faults := policy.Compile([]policy.Rule{{Name: "a", Effect: effect, When: "true", Approve: a}}, policy.Limits{}); len(faults) != 1 || faults[0].Field != "approve" {
			t.Errorf("%s: %v", effect, faults)
		}
	}
}

// TestBoundPaths: those that a tool's arguments do not have disable it.
func TestBoundPaths(t *testing.T) {
	t.Parallel()
	cat := newBank(t)
	for path, broken := range map[string]bool{"amount.units": false, "amount": false, "account": false, "amount.unit": true, "amount.units.x": true, "none": true} {
		r := approve("a", "true", "bank.send")
		r.Approve.Bound = []string{path}
		faults := compile(t, r).Fit(cat)
		if (len(faults) > 0) != broken || broken && (faults[0].Field != "approve.bound[0]" || !strings.Contains(faults[0].Message, path)) {
			t.Errorf("%s: %v", path, faults)
		}
	}
}

// TestWhatAnApprovalIsForIsRead: arguments are checked here where an approval is for some of them.
func TestWhatAnApprovalIsForIsRead(t *testing.T) {
	t.Parallel()
	tool := newBank(t).All()[0]
	bound := approve("a", "true", "*")
	if policy.NewEngine(compile(t, bound)).ReadsArguments(tool) {
		t.Error("arguments are read for all of them")
	}
	bound.Approve.Bound = []string{"amount"}
	if !policy.NewEngine(compile(t, bound)).ReadsArguments(tool) {
		t.Error("arguments are not read")
	}
}
