// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// errNoDescriptor is returned if there is no message descriptor, or only its name.
var errNoDescriptor = errors.New("transcode: no message descriptor")

// Transcoder compiles messages that share one set of types and one validator. Messages that use the same types share what
// has been compiled for them. It is safe for concurrent use.
type Transcoder struct {
	shared *shared
	rules  *ruleBook
}

// shared is what all messages of a transcoder have.
type shared struct {
	opts    Options
	planner *planner
	bounds  schema.Bounds // each of them set
}

// New returns a transcoder. Catalogs keep one for each snapshot: it caches what it compiles and never evicts any of it,
// so it has to be dropped together with the types. The validator is created when the first message with rules is
// compiled.
func New(opts Options) *Transcoder {
	return &Transcoder{
		shared: &shared{opts: opts, planner: &planner{extensions: opts.extensions()}, bounds: opts.bounds().WithDefaults()},
		rules:  newRuleBook(opts),
	}
}

// Forget lets go of the validator and of the rules that it compiled, thousands of objects for the garbage collector. Plans
// judge most documents without it: the first one that they cannot judge makes another, in a few milliseconds. A catalog is
// complete then.
func (t *Transcoder) Forget() { t.rules.forget() }

// Compile is New followed by Transcoder.Compile, for a single message.
func Compile(md protoreflect.MessageDescriptor, opts Options) (*Message, error) {
	return New(opts).Compile(md)
}

// Message transcodes one message type. It is immutable and safe for concurrent use. Make one with Compile.
//
// A catalog holds thousands of messages, and few are ever called. The first call therefore creates what calls need.
type Message struct {
	*shared

	md       protoreflect.MessageDescriptor
	resolver Resolver
	traits   traits
	rules    *ruleBook // nil: no rules in the message or below
	wrapped  bool      // the root may come as {"value": ...}

	plan       atomic.Pointer[plan]       // a prepared one
	validators atomic.Pointer[validators] // of documents that turned out wrong, and of those that protojson alone does not judge
}

// Compile prepares a message. A rule that does not compile is a *ruleError, a missing descriptor is errNoDescriptor.
// Compile also compiles the rules, so that a broken rule is found when the catalog is built and not by a caller. Plans and
// schemas are compiled for the first document that needs them.
func (t *Transcoder) Compile(md protoreflect.MessageDescriptor) (*Message, error) {
	if md == nil {
		return nil, errNoDescriptor
	}
	if md.IsPlaceholder() {
		return nil, fmt.Errorf("%w: %s is not in the descriptor set", errNoDescriptor, md.FullName())
	}
	m := t.message(md, traitsOf(md, t.shared.opts.extensions()))
	if m.rules == nil {
		return m, nil
	}
	if err := m.rules.prepare(md); err != nil {
		return nil, &ruleError{Message: string(md.FullName()), Err: err}
	}
	return m, nil
}

// Again returns what Compile would return for a message that another transcoder has compiled, without analyzing it again.
// All definitions that the message uses, their extensions and the predefined rules must be the same. Its rules are
// compiled on the first document.
func (t *Transcoder) Again(m *Message) *Message { return t.message(m.md, m.traits) }

// Seen returns the message as callers with a Sight are shown it: what they do not see is not written, not even as its default. It
// checks no rules, which only the whole message keeps. Nil leaves it as it is.
func (m *Message) Seen(sight *schema.Sight) *Message {
	if m == nil || sight == nil {
		return m
	}
	own := *m.shared
	own.planner = &planner{extensions: own.planner.extensions, sight: sight}
	return &Message{shared: &own, md: m.md, resolver: m.resolver, traits: m.traits, wrapped: m.wrapped}
}

func (t *Transcoder) message(md protoreflect.MessageDescriptor, known traits) *Message {
	m := &Message{
		shared: t.shared, md: md, resolver: t.shared.opts.resolver(md), traits: known, wrapped: schema.IsWrapped(md, schema.Input),
	}
	if known.hasRules {
		m.rules = t.rules
	}
	return m
}

// prepared is the plan of the message.
func (m *Message) prepared() *plan {
	if p := m.plan.Load(); p != nil {
		return p
	}
	p := m.planner.at(m.md, m.planner.sight.Root()).prepared()
	m.plan.Store(p)
	return p
}

// validators are the validators of a message, each derived when it is first asked for.
type validators struct {
	full, structure func() (*schema.Validator, error)
}

// full is the validator with the rules, structure the one without.
func (m *Message) full() (*schema.Validator, error)      { return m.judges().full() }
func (m *Message) structure() (*schema.Validator, error) { return m.judges().structure() }

func (m *Message) judges() *validators {
	if v := m.validators.Load(); v != nil {
		return v
	}
	m.validators.CompareAndSwap(nil, &validators{
		full: m.validator(schema.Input, schema.Options{}), structure: m.validator(schema.Input, schema.Options{WithoutRules: true}),
	})
	return m.validators.Load()
}

// validator derives a schema when it is first asked for; its first check compiles it. It always is the canonical one: documents are judged
// by what ProtoJSON admits, not by what a client was shown.
func (m *Message) validator(dir schema.Direction, opts schema.Options) func() (*schema.Validator, error) {
	opts.Extensions = m.opts.extensions()
	return sync.OnceValues(func() (*schema.Validator, error) {
		s, err := schema.Derive(m.md, dir, opts)
		if err != nil {
			return nil, fmt.Errorf("transcode: derive schema of %s: %w", m.md.FullName(), err)
		}
		v, err := schema.Later(s.Canonical)
		if err != nil {
			return nil, fmt.Errorf("transcode: schema of %s: %w", m.md.FullName(), err)
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
	nullLists    bool                                      // a list of values of which null is one
	hidden       map[protoreflect.FullName]schema.Behavior // the fields that only one direction has

	// Of the expressions among the rules: how deep their loops are within each other, and the size of their patterns.
	loops, expressionPattern int
}

// traitsOf walks the messages below a root, once each.
func traitsOf(root protoreflect.MessageDescriptor, extensions schema.Extensions) traits {
	var t traits
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	queue := []protoreflect.MessageDescriptor{root}
	for len(queue) > 0 {
		md := queue[0]
		queue = queue[1:]
		t.noteMessage(md)
		t.holdsAny = t.holdsAny || md.FullName() == anyName
		for i := range md.Oneofs().Len() {
			t.hasRules = t.hasRules || schema.HasRules(md.Oneofs().Get(i))
		}
		for _, fd := range fieldsOf(md, extensions) {
			b := schema.BehaviorOf(fd)
			t.noteField(fd)
			t.needsSchema = t.needsSchema || b.Required || b.OutputOnly
			t.hasInputOnly = t.hasInputOnly || b.InputOnly
			t.nullLists = t.nullLists || fd.IsList() && takesNull(fd)
			if b.InputOnly || b.OutputOnly {
				if t.hidden == nil {
					t.hidden = map[protoreflect.FullName]schema.Behavior{}
				}
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

// ToJSON appends the JSON of wire bytes to dst, compact and deterministic: members in the order of the descriptor, map
// entries sorted by key.
//
// A value that ProtoJSON has no form for, such as a Timestamp out of range, is written in the nearest form (see Noted).
//
// An *OutputError means that the bytes are not an encoding of the message. An *InputError means that rules are broken, and a *ruleError that a rule failed to run.
// On an error, dst is returned unchanged. Neither argument is retained.
func (m *Message) ToJSON(dst, wire []byte) ([]byte, error) { return m.ToJSONWith(nil, dst, wire) }

// ToJSONWith is ToJSON for a caller that reuses buffers. If dst has no room for the JSON, whose size is known only now,
// the content of dst and the JSON are written to a buffer from pool.
func (m *Message) ToJSONWith(pool BufferPool, dst, wire []byte) ([]byte, error) {
	out, _, err := m.ToJSONNoting(context.Background(), pool, dst, wire)
	return out, err
}

// ToJSONNoting is ToJSONWith that also returns what there is to say about the JSON. The check ends with the context, as
// that of ToWireWith does.
func (m *Message) ToJSONNoting(ctx context.Context, pool BufferPool, dst, wire []byte) (out []byte, noted Noted, err error) {
	out, noted, ok := m.write(pool, dst, wire)
	if ok && (m.rules == nil || m.keeps(ctx, wire, forOutput)) {
		return out, noted, nil
	}
	end, err := turn(ctx, len(wire)*jsonGrowth)
	if err != nil {
		return dst, Noted{}, err
	}
	defer end()
	msg, err := m.decode(wire)
	if err != nil {
		return dst, Noted{}, m.located(err, wire)
	}
	if err := m.checkRules(ctx, msg, len(wire), forOutput, nil); err != nil {
		return dst, Noted{}, err
	}
	if ok {
		return out, noted, nil
	}
	out, noted, err = m.appendMessage(dst, wire, msg)
	return out, noted, m.located(err, wire)
}

// appendMessage writes a message as the general engine does, and may change it: what protojson writes, and what it has no
// form for in the nearest form.
func (m *Message) appendMessage(dst, wire []byte, msg *dynamicpb.Message) (out []byte, noted Noted, err error) {
	out, unknown, err := m.appendStandard(dst, msg)
	if err == nil {
		return out, Noted{Unknown: unknown}, nil
	}
	if out, noted, ok := m.appendNearest(dst, wire); ok {
		return out, noted, nil
	}
	return dst, Noted{}, err
}

// appendStandard writes a message with protojson.
//
// protojson has no form for an Any of an unknown type and no notion of INPUT_ONLY, so the message is changed before it
// (anyWalk) and the JSON behind it (prune). It also varies its white space on purpose, which appendCompact removes.
func (m *Message) appendStandard(dst []byte, msg *dynamicpb.Message) (out []byte, unknown []string, err error) {
	types := &opaqueTypes{Resolver: m.resolver}
	if m.traits.holdsAny {
		w := anyWalk{types: types, change: intoBytes}
		if _, err := w.message(msg, 1); err != nil {
			return dst, nil, &OutputError{Step: "encode", Err: err}
		}
	}
	raw, err := protojson.MarshalOptions{Resolver: types, EmitDefaultValues: true}.Marshal(msg)
	if err != nil {
		return dst, nil, &OutputError{Step: "encode", Err: err}
	}
	for url := range types.unknown {
		unknown = noted(unknown, url)
	}
	if m.traits.hasInputOnly || m.planner.sight != nil {
		compact, err := appendCompact(nil, raw)
		if err != nil {
			return dst, nil, err
		}
		return m.prune(dst, compact), unknown, nil
	}
	out, err = appendCompact(dst, raw)
	return out, unknown, err
}

// CheckWire checks that wire bytes to be passed through unchanged encode the message and keep its rules. The errors are
// those of ToJSONNoting. It does not know the direction, so the rules of a field that exists in one direction only apply if the
// field is set. Messages with rules go through the general engine: the quick check of rules relies on bytes that a plan
// read or wrote.
func (m *Message) CheckWire(ctx context.Context, wire []byte) error {
	if m.rules == nil && m.prepared().decodes(wire, 1) {
		return nil
	}
	end, err := turn(ctx, len(wire)*jsonGrowth)
	if err != nil {
		return err
	}
	defer end()
	msg, err := m.decode(wire)
	if err != nil {
		return m.located(err, wire)
	}
	return m.checkRules(ctx, msg, len(wire), forEither, nil)
}

// Descriptor is the type of the message.
func (m *Message) Descriptor() protoreflect.MessageDescriptor { return m.md }

// Types finds the types that an Any and an extension in the message may have; nil where only the transcoder knows them.
func (m *Message) Types() Resolver { return m.opts.Resolver }

// Loose returns the message without its rules, for values that kept them and were changed after that; m itself where it has none.
func (m *Message) Loose() *Message {
	if m == nil || m.rules == nil {
		return m
	}
	return &Message{shared: m.shared, md: m.md, resolver: m.resolver, traits: m.traits, wrapped: m.wrapped}
}

// decode is the general engine's reader of wire bytes. Nesting is bounded by maxWireDepth, as it is in the plan.
func (m *Message) decode(wire []byte) (msg *dynamicpb.Message, err error) {
	defer func() {
		// The library panics on the entry of a map that has its key twice, the second time with another type.
		if r := recover(); r != nil {
			msg, err = nil, &OutputError{Step: "decode", Err: fmt.Errorf("decode: %v", r)}
		}
	}()
	msg = dynamicpb.NewMessage(m.md)
	read := proto.UnmarshalOptions{Resolver: m.resolver, RecursionLimit: maxWireDepth}
	if err := read.Unmarshal(wire, msg); err != nil {
		return nil, &OutputError{Step: "decode", Err: err}
	}
	return msg, nil
}

// appendCompact takes out the white space, which protojson varies on purpose.
func appendCompact(dst, raw []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	if err := json.Compact(out, raw); err != nil {
		return dst, &OutputError{Step: "encode", Err: err}
	}
	return out.Bytes(), nil
}
