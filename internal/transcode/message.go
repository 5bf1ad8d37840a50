// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ErrNoDescriptor is returned where there is no message descriptor, or only the name of one.
var ErrNoDescriptor = errors.New("transcode: no message descriptor")

// Transcoder compiles messages that share one set of types and one validator: what one message has compiled, the others
// that hold the same types use. It is safe for concurrent use.
type Transcoder struct {
	opts    Options
	planner *planner
	rules   func() (*ruleBook, error)
}

// New returns a transcoder. Catalogs keep one for each snapshot: it caches what it compiles and never drops any of it, so
// it has to go when the types do. The validator is made when the first message with rules is compiled.
func New(opts Options) *Transcoder {
	return &Transcoder{opts: opts, planner: &planner{extensions: opts.extensions()}, rules: sync.OnceValues(func() (*ruleBook, error) { return newRuleBook(opts) })}
}

// Compile is New followed by Transcoder.Compile, for a message on its own.
func Compile(md protoreflect.MessageDescriptor, opts Options) (*Message, error) {
	return New(opts).Compile(md)
}

// Message reads and writes one message type. It is immutable and safe for concurrent use. Make one with Compile.
type Message struct {
	md       protoreflect.MessageDescriptor
	opts     Options
	resolver Resolver
	traits   traits
	rules    *ruleBook // nil: no rules in the message or below
	wrapped  bool      // the root may come as {"value": ...}

	planner *planner
	plan    *plan
	bounds  schema.Bounds // each of them set

	// Validators of documents that turned out wrong, and of those that protojson alone does not judge. They are built on
	// first use: most messages never need one.
	full, structure func() (*schema.Validator, error)

	// Set where everything is checked twice and compared.
	thorough *thorough
	reach    func() reach
}

// Compile prepares a message. A rule that does not compile is a *RuleError, a missing descriptor is ErrNoDescriptor.
// Rules are compiled here, so that a service with a broken rule is found when its catalog is built and not by a caller.
// Plans and schemas wait for the first document that needs them.
func (t *Transcoder) Compile(md protoreflect.MessageDescriptor) (*Message, error) {
	if md == nil {
		return nil, ErrNoDescriptor
	}
	if md.IsPlaceholder() {
		return nil, fmt.Errorf("%w: %s is not in the descriptor set", ErrNoDescriptor, md.FullName())
	}
	m := &Message{
		md: md, opts: t.opts, resolver: t.opts.resolver(md), traits: traitsOf(md, t.opts.extensions()), wrapped: schema.IsWrapped(md, schema.Input),
	}
	m.planner, m.plan, m.bounds = t.planner, t.planner.of(md), t.opts.effective()
	m.full = m.validator(schema.Input, schema.Options{})
	m.structure = m.validator(schema.Input, schema.Options{WithoutRules: true})
	if t.opts.Thorough {
		m.thorough, m.reach = m.thoroughly(), m.onceReach()
	}
	if !m.traits.hasRules {
		return m, nil
	}
	rules, err := t.rules()
	if err != nil {
		return nil, &RuleError{Message: string(md.FullName()), Err: err}
	}
	if err := rules.prepare(md); err != nil {
		return nil, &RuleError{Message: string(md.FullName()), Err: err}
	}
	m.rules = rules
	return m, nil
}

// validator derives and compiles a schema when it is first asked for. It always is the canonical one: documents are judged
// by what ProtoJSON admits, not by what a client was shown.
func (m *Message) validator(dir schema.Direction, opts schema.Options) func() (*schema.Validator, error) {
	opts.Extensions = m.opts.extensions()
	return sync.OnceValues(func() (*schema.Validator, error) {
		s, err := schema.Derive(m.md, dir, opts)
		if err != nil {
			return nil, fmt.Errorf("transcode: derive schema of %s: %w", m.md.FullName(), err)
		}
		v, err := schema.Compile(s.Canonical)
		if err != nil {
			return nil, fmt.Errorf("transcode: compile schema of %s: %w", m.md.FullName(), err)
		}
		return v, nil
	})
}

// traits are what has to be known about a message and all below it: each is a pass of the general engine that can be left
// out where nothing below needs it.
type traits struct {
	hasRules     bool // protovalidate's options somewhere
	needsSchema  bool // something that protojson does not check: closed enums, REQUIRED and OUTPUT_ONLY
	hasInputOnly bool
	holdsAny     bool                                      // an Any somewhere
	hidden       map[protoreflect.FullName]schema.Behavior // the fields that only one direction has
}

// traitsOf walks the messages below a root, once each.
func traitsOf(root protoreflect.MessageDescriptor, extensions schema.Extensions) traits {
	t := traits{hidden: map[protoreflect.FullName]schema.Behavior{}}
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	queue := []protoreflect.MessageDescriptor{root}
	for len(queue) > 0 {
		md := queue[0]
		queue = queue[1:]
		t.hasRules = t.hasRules || schema.HasRules(md)
		t.holdsAny = t.holdsAny || md.FullName() == anyName
		for i := range md.Oneofs().Len() {
			t.hasRules = t.hasRules || schema.HasRules(md.Oneofs().Get(i))
		}
		for _, fd := range fieldsOf(md, extensions) {
			b := schema.BehaviorOf(fd)
			t.hasRules = t.hasRules || schema.HasRules(fd)
			t.needsSchema = t.needsSchema || b.Required || b.OutputOnly
			t.hasInputOnly = t.hasInputOnly || b.InputOnly
			if b.InputOnly || b.OutputOnly {
				t.hidden[fd.FullName()] = b
			}
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if ed := fd.Enum(); ed != nil && ed.IsClosed() {
				t.needsSchema = true
			}
			if below := fd.Message(); below != nil && !seen[below.FullName()] {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return t
}

// fieldsOf lists the declared fields of a message and its known extensions.
func fieldsOf(md protoreflect.MessageDescriptor, extensions schema.Extensions) []protoreflect.FieldDescriptor {
	var out []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		out = append(out, md.Fields().Get(i))
	}
	if extensions != nil && md.ExtensionRanges().Len() > 0 {
		extensions.RangeExtensionsByMessage(md.FullName(), func(t protoreflect.ExtensionType) bool {
			out = append(out, t.TypeDescriptor())
			return true
		})
	}
	return out
}
