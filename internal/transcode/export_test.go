// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// The two engines apart, so that tests can compare them.

// ReadByPlan is ToWire without the general engine and without rules.
func (m *Message) ReadByPlan(dst, doc []byte) ([]byte, bool) { return m.read(nil, dst, doc) }

// WriteByPlan is ToJSON without the general engine and without rules.
func (m *Message) WriteByPlan(dst, wire []byte) ([]byte, bool) {
	out, _, ok := m.write(nil, dst, wire)
	return out, ok
}

// GeneralToWire is ToWire without a plan.
func (m *Message) GeneralToWire(dst, doc []byte) ([]byte, error) {
	return m.generalToWire(context.Background(), dst, doc)
}

// GeneralToJSON is ToJSON without a plan.
func (m *Message) GeneralToJSON(dst, wire []byte) ([]byte, error) {
	msg, err := m.decode(wire)
	if err != nil {
		return dst, err
	}
	if err := m.checkRules(context.Background(), msg, len(wire), forOutput, nil); err != nil {
		return dst, err
	}
	out, _, err := m.appendMessage(dst, wire, msg)
	return out, err
}

// PlanOf says why the message has no plan, or "".
func (m *Message) PlanOf() string { return m.prepared().unready }

// Decodes is the check of wire bytes without the general engine.
func (m *Message) Decodes(wire []byte) bool { return m.prepared().decodes(wire, 1) }

// KeepsRules is the check of rules without protovalidate, of an answer or of an input.
func (m *Message) KeepsRules(wire []byte, output bool) bool {
	if output {
		return m.keeps(context.Background(), wire, forOutput)
	}
	return m.keeps(context.Background(), wire, forInput)
}

// BreaksRules asks protovalidate.
func (m *Message) BreaksRules(wire []byte, output bool) error {
	msg, err := m.decode(wire)
	if err != nil {
		return err
	}
	if output {
		return m.checkRules(context.Background(), msg, len(wire), forOutput, nil)
	}
	return m.checkRules(context.Background(), msg, len(wire), forInput, nil)
}

// Injected are answers of readers that an oracle compares, to be put in the place of the true ones.
type Injected struct {
	PlanRead      func(doc []byte) ([]byte, bool)
	PlanWrite     func(wire []byte) ([]byte, bool)
	PlanKeeps     bool // every rule, whatever the message
	Input, Output *schema.Validator
}

// Inject puts wrong answers into an oracle.
func (m *Oracle) Inject(in Injected) {
	if in.PlanRead != nil {
		m.planRead = in.PlanRead
	}
	if in.PlanWrite != nil {
		m.planWrite = func(wire []byte) ([]byte, Noted, bool) {
			out, ok := in.PlanWrite(wire)
			return out, Noted{}, ok
		}
	}
	if in.PlanKeeps {
		m.planKeeps = func(context.Context, []byte, use) bool { return true }
	}
	if in.Input != nil {
		m.input = func() (*schema.Validator, error) { return in.Input, nil }
	}
	if in.Output != nil {
		m.output = func() (*schema.Validator, error) { return in.Output, nil }
	}
}

// OccupyTurns takes all turns of large messages, until release.
func OccupyTurns() (release func()) {
	for range cap(turns) {
		turns <- struct{}{}
	}
	return func() {
		for range cap(turns) {
			<-turns
		}
	}
}

// WorkOf reads how the work of an expression grows.
func WorkOf(expression string) (loops, pattern int) { return workOf(expression) }

var ErrNoDescriptor = errNoDescriptor

type RuleError = ruleError
