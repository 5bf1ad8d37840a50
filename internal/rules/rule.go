// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Effect is what a rule does with the calls for which it holds.
type Effect string

// The effects, as configuration, metrics and audit records name them.
const (
	Allow Effect = "allow"
	Deny  Effect = "deny"
)

// Rule allows or denies calls of some tools.
type Rule struct {
	// Name is unique in a set. It is shown to callers.
	Name string
	// Tools are globs over canonical tool names.
	Tools  []string
	Effect Effect
	// When is the condition, an expression in CEL of type bool.
	When string
}

// Limits bound a set. Zero fields have their defaults.
type Limits struct {
	// MaxCost bounds the cost of one evaluation of one rule, in units of CEL.
	MaxCost int64
	// MaxRules is the maximum number of rules, MaxExpressionBytes the maximum size of one
	// condition.
	MaxRules, MaxExpressionBytes int
}

// maxNesting bounds how deep an expression may be nested.
const maxNesting = 64

func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxCost, int64(defaults.MaxPolicyCost))
	defaults.Fill(&l.MaxRules, defaults.MaxPolicyRules)
	defaults.Fill(&l.MaxExpressionBytes, defaults.MaxPolicyExpressionBytes)
	return l
}

// Fault is what is wrong with a rule.
type Fault struct {
	// Index is the place of the rule in its list, from 0. It is -1 for a fault of the list.
	Index int
	// Field is the field at fault: "name", "effect" or "when".
	Field string
	// Line and Column are the place in the expression, from 1; 0 if there is none.
	Line, Column int
	// Tool is the tool that the rule was compiled for; empty for a fault that every tool has.
	Tool    string
	Message string
}

// String describes the fault in one line, without the rule's place.
func (f Fault) String() string {
	text := f.Message
	if f.Line > 0 {
		text = fmt.Sprintf("expression %d:%d: %s", f.Line, f.Column, text)
	}
	if f.Tool != "" {
		text += " (tool " + f.Tool + ")"
	}
	return text
}
