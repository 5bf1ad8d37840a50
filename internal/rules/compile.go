// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// variables are those of a rule's expression.
const (
	varArgs   = "args"
	varCaller = "caller"
	varTool   = "tool"
)

// compiled is a rule that was read.
type compiled struct {
	Rule
	index int
	// parsed is the expression without types, for rules with args.
	parsed *cel.Ast
	// program is the rule's program, for rules without args.
	program cel.Program
	// args, caller and tool tell which variables the rule may read.
	args, caller, tool bool
}

// matches reports whether a rule is about a tool. A registered tool is a second name for
// an RPC: what is said of the RPC's own tool is said of it too.
func (r *compiled) matches(t *catalog.Tool) bool {
	for ; t != nil; t = t.Base {
		if glob.MatchAny(r.Tools, t.Name) || t.Alias != "" && glob.MatchAny(r.Tools, t.Alias) {
			return true
		}
	}
	return false
}

// ruleName is what a name may be; config/v1.PolicyRule says the same.
var ruleName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)

// newEnv returns the environment of rules without args, and its types.
func newEnv(o Limits) (*cel.Env, *provider, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, nil, err
	}
	known := &provider{Registry: registry, objects: map[string]*object{callerName: callerObject(), toolName: toolObject()}}
	env, err := cel.NewEnv(
		cel.CustomTypeProvider(known), cel.CustomTypeAdapter(known),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(o.MaxExpressionBytes), cel.ParserRecursionLimit(maxNesting),
		cel.Variable(varCaller, cel.ObjectType(callerName)), cel.Variable(varTool, cel.ObjectType(toolName)),
	)
	return env, known, err
}

// Compile makes a set of rules. The faults are all that is wrong with them; there is a
// set only if there are none. Rules with args are checked as far as that goes without a
// tool.
func Compile(rules []Rule, o Limits) (*Set, []Fault) {
	o = o.withDefaults()
	if len(rules) > o.MaxRules {
		return nil, []Fault{{Index: -1, Message: fmt.Sprintf("has %d rules; the limit is %d", len(rules), o.MaxRules)}}
	}
	env, known, err := newEnv(o)
	if err != nil {
		return nil, []Fault{{Index: -1, Message: err.Error()}}
	}
	s := &Set{limits: o, env: env, known: known, inputs: map[any]*input{}, programs: map[programKey]programOrFault{}}
	var faults []Fault
	names := map[string]int{}
	for i, rule := range rules {
		r := &compiled{Rule: rule, index: i}
		found := r.check(names)
		if len(found) == 0 {
			found = s.read(r)
		}
		faults = append(faults, found...)
		s.rules = append(s.rules, r)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	s.sortListing()
	return s, nil
}

// check looks at everything but the expression.
func (r *compiled) check(names map[string]int) []Fault {
	var out []Fault
	fault := func(field, format string, args ...any) {
		out = append(out, Fault{Index: r.index, Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if !ruleName.MatchString(r.Name) {
		fault("name", "must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	} else if first, ok := names[r.Name]; ok {
		fault("name", "is the name of rule %d too", first+1)
	}
	names[r.Name] = r.index
	if r.Effect != Allow && r.Effect != Deny {
		fault("effect", "must be allow or deny")
	}
	return out
}

// read parses the expression, and compiles it where it has no args.
func (s *Set) read(r *compiled) []Fault {
	if len(r.When) > s.limits.MaxExpressionBytes {
		return []Fault{{Index: r.index, Field: "when", Message: fmt.Sprintf("has %d bytes; the limit is %d", len(r.When), s.limits.MaxExpressionBytes)}}
	}
	parsed, issues := s.env.Parse(r.When)
	if issues.Err() != nil {
		return r.faults(issues, "")
	}
	r.parsed = parsed
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.IdentKind {
			return
		}
		// A variable of a macro may have such a name too. Then the rule counts as one that
		// reads it, which is only less than it could be.
		switch strings.TrimPrefix(e.AsIdent(), ".") {
		case varArgs:
			r.args = true
		case varCaller:
			r.caller = true
		case varTool:
			r.tool = true
		}
	}))
	if r.args {
		return s.checkOpen(r)
	}
	var faults []Fault
	r.program, faults = s.program(s.env, r, "")
	return faults
}

// checkOpen checks a rule with args of any type. Names that are unknown may be those of
// the tool's messages and enums.
func (s *Set) checkOpen(r *compiled) []Fault {
	env, err := s.env.Extend(cel.Variable(varArgs, cel.DynType))
	if err != nil {
		return []Fault{{Index: r.index, Field: "when", Message: err.Error()}}
	}
	_, issues := env.Check(r.parsed)
	if issues.Err() == nil {
		return nil
	}
	return slices.DeleteFunc(r.faults(issues, ""), func(f Fault) bool { return strings.HasPrefix(f.Message, "undeclared reference") })
}

// program checks a rule in an environment and makes its program.
func (s *Set) program(env *cel.Env, r *compiled, tool string) (cel.Program, []Fault) {
	checked, issues := env.Check(r.parsed)
	if issues.Err() != nil {
		return nil, r.faults(issues, tool)
	}
	if kind := checked.OutputType(); kind != cel.BoolType && kind != cel.DynType {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: tool, Message: "must be of type bool, is of type " + kind.String()}}
	}
	program, err := env.Program(checked, cel.CostLimit(uint64(s.limits.MaxCost)), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, []Fault{{Index: r.index, Field: "when", Tool: tool, Message: err.Error()}}
	}
	return program, nil
}

// maxFaults bounds the faults of one expression.
const maxFaults = 5

// faults are what CEL found, each with its place.
func (r *compiled) faults(issues *cel.Issues, tool string) []Fault {
	var out []Fault
	for _, e := range issues.Errors() {
		if len(out) == maxFaults {
			break
		}
		text := e.Message
		if container, ok := strings.CutSuffix(text, " (in container '')"); ok {
			text = container
		}
		out = append(out, Fault{Index: r.index, Field: "when", Line: e.Location.Line(), Column: max(e.Location.Column()+1, 1), Tool: tool, Message: text})
	}
	return out
}
