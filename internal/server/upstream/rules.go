// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// Rules returns the policy rules that a configuration describes, nil if it describes
// none. They fit the tools that it describes. The error has all faults.
func Rules(cfg *configv1.Config) (*policy.Set, error) {
	a := cfg.GetAccess()
	if path := a.GetPolicyFile(); path != "" {
		return fileRules(cfg, path)
	}
	if a.GetPolicy() == nil && !haveRules(cfg) {
		return nil, nil
	}
	var faults []error
	set := compileRules(cfg, a.GetPolicy(), func(path, message string) {
		faults = append(faults, fmt.Errorf("%s: %s", inPolicy(path), message))
	})
	return set, errors.Join(faults...)
}

// haveRules reports whether one of several backends has its own rules.
func haveRules(cfg *configv1.Config) bool {
	return slices.ContainsFunc(cfg.GetBackends(), func(b *configv1.Backend) bool {
		p := b.GetPolicy()
		return len(p.GetRules())+len(p.GetClasses())+len(p.GetFields()) > 0
	})
}

// inPolicy is the path in the configuration of what [compileRules] reports.
func inPolicy(path string) string {
	if strings.HasPrefix(path, "backends[") {
		return path
	}
	return "access.policy." + path
}

// fileRules reads the policy file.
func fileRules(cfg *configv1.Config, path string) (*policy.Set, error) {
	var set *policy.Set
	_, err := config.LoadPolicy(path, func(p *configv1.Policy, report func(path, message string)) {
		set = compileRules(cfg, p, report)
	})
	return set, err
}

// compileRules compiles the rules of a policy, and reports what is wrong with them by
// the paths of their fields.
func compileRules(cfg *configv1.Config, p *configv1.Policy, report func(path, message string)) *policy.Set {
	list, at := make([]policy.Rule, 0, len(p.GetRules())), make([]string, 0, len(p.GetRules()))
	for _, r := range p.GetRules() {
		list, at = append(list, ruleOf(r, "")), append(at, fmt.Sprintf("rules[%d]", len(at)))
	}
	for i, b := range cfg.GetBackends() {
		for j, r := range b.GetPolicy().GetRules() {
			list, at = append(list, ruleOf(r, b.GetName())), append(at, fmt.Sprintf("backends[%d].policy.rules[%d]", i, j))
		}
	}
	set, faults := policy.Compile(list, policy.Limits{MaxCost: p.GetMaxCost()})
	if len(faults) == 0 {
		faults = set.Classify(classesOf(cfg, p))
	}
	if len(faults) == 0 {
		faults = append(set.CheckApprovers(approversOf(cfg)), set.Fit(described(cfg))...)
	}
	for _, f := range firstOfRule(faults) {
		path := "rules"
		switch {
		case f.Path != "":
			path = f.Path
		case f.Index >= 0:
			path = at[f.Index] + "." + f.Field
		}
		report(path, f.String())
	}
	return set
}

// classesOf are the classes of a policy, and of those of several backends.
func classesOf(cfg *configv1.Config, p *configv1.Policy) (classes []policy.Class, fields []policy.FieldName) {
	add := func(p *configv1.Policy, at, backend string) {
		for i, c := range p.GetClasses() {
			classes = append(classes, policy.Class{
				Path: fmt.Sprintf("%sclasses[%d]", at, i), Name: c.GetName(),
				Callers: c.GetCallers(), Groups: c.GetGroups(), Scopes: c.GetScopes(),
				Otherwise: c.GetOtherwise(), Mask: c.GetMask(), Recorded: c.GetRecorded(),
			})
		}
		for _, name := range slices.Sorted(maps.Keys(p.GetFields())) {
			fields = append(fields, policy.FieldName{
				Path: at + "fields[" + strconv.Quote(name) + "]", Name: protoreflect.FullName(name), Class: p.GetFields()[name], Backend: backend,
			})
		}
	}
	add(p, "", "")
	for i, b := range cfg.GetBackends() {
		add(b.GetPolicy(), fmt.Sprintf("backends[%d].policy.", i), b.GetName())
	}
	return classes, fields
}

// ruleOf is a rule about the tools of one of several backends, or of all.
func ruleOf(r *configv1.PolicyRule, backend string) policy.Rule {
	out := policy.Rule{
		Name: r.GetName(), Tools: r.GetTools(), Effect: policy.Effect(r.GetEffect()), When: r.GetWhen(), Backend: backend,
		OnResult: r.GetOn() == "result", Fields: r.GetFields(), Classes: r.GetClasses(), Mask: r.GetMask(),
	}
	if a := r.GetApprove(); a != nil {
		out.Approve = &policy.Approval{
			Callers: a.GetCallers(), Groups: a.GetGroups(), Count: int(a.GetCount()), Within: a.GetWithin().AsDuration(), Bound: a.GetBound(),
		}
	}
	return out
}

// roleOperate is the role of operators that may decide.
const roleOperate = "operate"

// approversOf are the operators that rules may name as approvers. A file that cannot be read is reported elsewhere.
func approversOf(cfg *configv1.Config) policy.Approvers {
	if !config.HasOperators(cfg) {
		return policy.LocalApprover()
	}
	out := policy.Approvers{Groups: map[string][]string{}}
	file, err := config.OperatorsOf(cfg)
	if err != nil {
		return out
	}
	for _, o := range file.GetOperators() {
		if o.GetRole() == roleOperate {
			out.Groups[o.GetName()] = o.GetGroups()
		}
	}
	return out
}

// firstOfRule returns one fault for each field of each rule, with the number of others:
// a rule about many tools may fit none of them.
func firstOfRule(faults []policy.Fault) []policy.Fault {
	var out []policy.Fault
	at := map[string]int{}
	more := map[int]int{}
	for _, f := range faults {
		key := fmt.Sprint(f.Index, f.Field, f.Path)
		if i, ok := at[key]; ok {
			more[i]++
			continue
		}
		at[key] = len(out)
		out = append(out, f)
	}
	for i, n := range more {
		out[i].Message += fmt.Sprintf(", and %d more", n)
	}
	return out
}

// CheckRules checks the policy rules before a port opens.
func CheckRules(cfg *configv1.Config, report func(path, message string)) {
	a := cfg.GetAccess()
	if path := a.GetPolicyFile(); path != "" {
		var faults *config.Error
		switch _, err := fileRules(cfg, path); {
		case errors.As(err, &faults):
			report("access.policy_file", strings.ReplaceAll(faults.Error(), "\n", "; "))
		case err != nil:
			report("access.policy_file", err.Error())
		}
		return
	}
	if p := a.GetPolicy(); p != nil || haveRules(cfg) {
		compileRules(cfg, p, func(path, message string) { report(inPolicy(path), message) })
	}
}
