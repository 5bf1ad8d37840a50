// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Decision is what a set says about a call.
type Decision struct {
	// Rule is the rule that decided; empty if none did. Effect is what it did.
	Rule   string
	Effect Effect
	// Others are the other allow rules, none of which held, if that was the reason.
	Others []string
	// Broken is set if the rule does not fit the tool.
	Broken bool
}

// IsAllowed reports whether the call may be made.
func (d Decision) IsAllowed() bool { return d.Effect != Deny }

// variables are the values of one evaluation.
type activation struct {
	args   any
	caller *caller
	tool   *tool
}

// ResolveName implements [cel.Activation].
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case varArgs:
		return a.args, true
	case varCaller:
		return a.caller, true
	case varTool:
		return a.tool, true
	}
	return nil, false
}

// Parent implements [cel.Activation].
func (a *activation) Parent() cel.Activation { return nil }

// outcome is that of one evaluation.
type outcome uint8

const (
	isFalse outcome = iota
	isTrue
	failed
)

func evaluate(program cel.Program, with *activation) outcome {
	value, _, err := program.Eval(with)
	switch {
	case err != nil:
		return failed
	case value == types.True:
		return isTrue
	case value == types.False:
		return isFalse
	}
	return failed // dyn, and no bool
}

// holds evaluates a rule. What fails counts against the caller.
func (s *Set) holds(r boundRule, with *activation, count *counts) bool {
	got := evaluate(r.program, with)
	if got == failed {
		count.failed(r.Name)
		return r.Effect == Deny
	}
	return got == isTrue
}

// mayList decides whether a caller sees a tool, by the rules without args.
func (s *Set) mayList(b *bound, who *caller, count *counts) Decision {
	if b == nil {
		return Decision{}
	}
	if b.broken != "" {
		return Decision{Rule: b.broken, Effect: Deny, Broken: true}
	}
	with := &activation{caller: who, tool: b.tool}
	for _, r := range b.deny {
		if !r.args && s.holds(r, with, count) {
			return Decision{Rule: r.Name, Effect: Deny}
		}
	}
	for _, r := range b.allow {
		if r.args {
			return Decision{} // its arguments will tell
		}
	}
	return s.firstAllowed(b, with, count)
}

// mayCall decides about a call by all rules. arguments are read if a rule needs them: wire
// bytes, or JSON for a native tool.
func (s *Set) mayCall(b *bound, who *caller, arguments []byte, count *counts) Decision {
	if b == nil {
		return Decision{}
	}
	if b.broken != "" {
		return Decision{Rule: b.broken, Effect: Deny, Broken: true}
	}
	with := &activation{caller: who, tool: b.tool}
	if b.args {
		with.args = b.decode(arguments)
	}
	for _, r := range b.deny {
		if s.holds(r, with, count) {
			return Decision{Rule: r.Name, Effect: Deny}
		}
	}
	return s.firstAllowed(b, with, count)
}

// firstAllowed is what the allow rules of a tool say.
func (s *Set) firstAllowed(b *bound, with *activation, count *counts) Decision {
	if len(b.allow) == 0 {
		return Decision{}
	}
	for _, r := range b.allow {
		if s.holds(r, with, count) {
			return Decision{Rule: r.Name, Effect: Allow}
		}
	}
	d := Decision{Rule: b.allow[0].Name, Effect: Deny}
	for _, r := range b.allow[1:] {
		d.Others = append(d.Others, r.Name)
	}
	return d
}

// decode reads arguments. An error is their value, so that only rules that read them
// fail.
func (b *bound) decode(arguments []byte) any {
	if b.input.message == nil {
		args, err := decodeJSON(arguments)
		if err != nil {
			return types.NewErr("arguments cannot be read")
		}
		return args
	}
	args, err := b.decodeMessage(arguments)
	if err != nil {
		return types.NewErr("arguments cannot be read")
	}
	return args
}

// maxNamed bounds the rules that an error names.
const maxNamed = 5

// reason says why a call is refused, in words for the caller. It has names of rules and
// nothing of their text.
func (d Decision) reason(t *catalog.Tool) string {
	switch {
	case d.Broken:
		return "policy rule " + d.Rule + " does not fit the input of tool " + t.Name + ", so that it is disabled; an operator can correct the rule"
	case len(d.Others) > 0:
		names := append([]string{d.Rule}, d.Others...)
		more := ""
		if len(names) > maxNamed {
			names, more = names[:maxNamed], " or others"
		}
		return "none of the policy rules " + strings.Join(names, ", ") + more + " allows this use of tool " + t.Name
	}
	return "policy rule " + d.Rule + " does not allow this use of tool " + t.Name
}
