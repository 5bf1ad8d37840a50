// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// DisagreementError means that independent checks of one message had different outcomes, so none of them can be trusted.
// It is a bug in this package, never an error in the document. No bytes are returned with it.
type DisagreementError struct {
	Message string // full name
	What    string // which check found what
}

func (e *DisagreementError) Error() string {
	return "transcode: the checks of " + e.Message + " disagree: " + e.What
}

// Oracle runs everything that can be run on a message and compares. It is made of functions so that a test can put a wrong
// answer in the place of each.
type Oracle struct {
	*Message

	reach func() reach

	planRead      func(doc []byte) ([]byte, bool)
	planKeeps     func(ctx context.Context, wire []byte, u use) bool
	planWrite     func(wire []byte) ([]byte, Noted, bool)
	generalRead   func(ctx context.Context, doc []byte) ([]byte, error)
	generalWrite  func(ctx context.Context, wire []byte) ([]byte, Noted, error)
	input, output func() (*schema.Validator, error) // without protovalidate's rules
}

// NewOracle makes the oracle of a message.
func NewOracle(m *Message) *Oracle {
	return &Oracle{
		Message: m, reach: sync.OnceValue(m.reaching),
		planRead:    func(doc []byte) ([]byte, bool) { return m.read(nil, nil, doc) },
		planKeeps:   m.keeps,
		planWrite:   func(wire []byte) ([]byte, Noted, bool) { return m.write(nil, nil, wire) },
		generalRead: func(ctx context.Context, doc []byte) ([]byte, error) { return m.generalToWire(ctx, nil, doc) },
		generalWrite: func(ctx context.Context, wire []byte) ([]byte, Noted, error) {
			msg, err := m.decode(wire)
			if err != nil {
				return nil, Noted{}, err
			}
			if err := m.checkRules(ctx, msg, len(wire), forOutput, nil); err != nil {
				return nil, Noted{}, err
			}
			return m.appendMessage(nil, wire, msg)
		},
		input: m.structure, output: m.validator(schema.Output, schema.Options{WithoutRules: true}),
	}
}

// ToWire is Message.ToWire by both engines and the schema. What has to hold, in the order of the code:
//   - what the plan takes, the general engine takes;
//   - what the general engine takes, the plan takes, where every message below the root has a plan;
//   - what both take is the same message;
//   - where protovalidate finds a rule broken, the plan's check does not find all of them kept;
//   - the canonical schema admits what the engines take, and refuses what they refuse.
//
// Each comparison has exceptions where one side cannot know: isPlanned, isOverDefaults, isFullyDescribed, isOnlyHere.
func (m *Oracle) ToWire(dst, doc []byte) ([]byte, error) {
	t, ctx := m, context.Background()
	doc, _ = m.plainObjects(doc)
	byPlan, planTakes := t.planRead(doc)
	byGeneral, err := t.generalRead(ctx, doc)
	var refused *InputError
	if err != nil && !errors.As(err, &refused) {
		return dst, err // a rule that fails to run, a schema that cannot be made
	}
	generalTakes := err == nil || !refused.Structural
	switch {
	case planTakes && !generalTakes:
		return dst, m.disagree("the plan takes a document that the general engine refuses: %s", refused.Violations[0].Message)
	case !planTakes && generalTakes && m.isPlanned():
		return dst, m.disagree("the plan refuses a document that the general engine takes")
	case planTakes && err == nil:
		if why := m.differs(byPlan, byGeneral); why != "" {
			return dst, m.disagree("%s", why)
		}
	case planTakes && m.rules != nil && t.planKeeps(ctx, byPlan, forInput):
		return dst, m.disagree("the plan finds every rule kept, protovalidate finds %s broken", refused.Violations[0].Keyword)
	}
	if failed := m.againstSchema(ctx, doc, generalTakes, refused); failed != nil {
		return dst, failed
	}
	if err != nil {
		return dst, err
	}
	if planTakes { // what standard mode sends
		return append(dst, byPlan...), nil
	}
	return append(dst, byGeneral...), nil
}

// againstSchema compares what the engines found with what the canonical schema finds.
func (m *Oracle) againstSchema(ctx context.Context, doc []byte, taken bool, refused *InputError) error {
	v, err := m.input()
	if err != nil {
		return err
	}
	found, err := v.ValidateContext(ctx, doc)
	if err != nil {
		return err
	}
	switch {
	case taken && len(found) > 0 && !m.isOverDefaults():
		return m.disagree("the engines take a document that the schema refuses at %q: %s", found[0].Path, found[0].Message)
	case !taken && len(found) == 0 && m.isFullyDescribed() && !m.isOnlyHere(doc, refused):
		return m.disagree("the schema admits a document that the engines refuse at %q: %s", refused.Violations[0].Path, refused.Violations[0].Message)
	}
	return nil
}

// isOnlyHere holds for refusals that no schema could share: bounds of this transcoder, two spellings of a map's key, which
// are two members in JSON, and an exponent that shifts more digits than protojson follows.
func (m *Message) isOnlyHere(doc []byte, refused *InputError) bool {
	for _, v := range refused.Violations {
		switch v.Keyword {
		case "maxDepth", "maxValues", "maxNumberLength", "range":
			return true
		}
	}
	if largeExponent.Match(doc) {
		return true
	}
	err := protojson.UnmarshalOptions{Resolver: m.resolver}.Unmarshal(m.emptied(m.unwrap(doc)), dynamicpb.NewMessage(m.md))
	return err != nil && strings.Contains(err.Error(), "duplicate map key")
}

// largeExponent finds what may be a number with an exponent of two digits or more.
var largeExponent = regexp.MustCompile(`[0-9][eE][+-]?[0-9]{2}`)

// isOverDefaults holds where the transcoder's bounds are wider than those that a Validator holds documents to.
func (m *Message) isOverDefaults() bool {
	return m.bounds.MaxDepth > defaults.MaxJSONDepth || m.bounds.MaxNumberLength > schema.DefaultMaxNumberLength || m.bounds.MaxValues > schema.DefaultMaxValues
}

// ToJSON is Message.ToJSON by both engines and the schema. What the plan refuses is not held
// against it here: it may refuse answers that are right and rare. What it writes has to be the general engine's JSON to the
// byte, and the output schema has to admit it.
func (m *Oracle) ToJSON(dst, wire []byte) ([]byte, error) {
	t, ctx := m, context.Background()
	byPlan, _, planWrites := t.planWrite(wire)
	byGeneral, noted, err := t.generalWrite(ctx, wire)
	if planWrites && err == nil && len(noted.Unknown) > 0 && !bytes.Equal(byPlan, byGeneral) {
		// The resolver may have learned a type between the two, which it does not forget.
		byPlan, _, planWrites = t.planWrite(wire)
		byGeneral, noted, err = t.generalWrite(ctx, wire)
	}
	var broken *InputError
	switch {
	case err != nil && planWrites && !errors.As(err, &broken):
		var unreadable *OutputError
		if errors.As(err, &unreadable) {
			return dst, m.disagree("the plan reads an answer that the general engine refuses: %s", plainError(unreadable.Err))
		}
		return dst, err
	case broken != nil && planWrites && m.rules != nil && t.planKeeps(ctx, wire, forOutput):
		return dst, m.disagree("the plan finds every rule of an answer kept, protovalidate finds %s broken", broken.Violations[0].Keyword)
	case err != nil:
		return dst, err
	case planWrites && !bytes.Equal(byPlan, byGeneral):
		return dst, m.disagree("the engines write an answer differently, from byte %d", firstDifference(byPlan, byGeneral))
	}
	v, err := t.output()
	if err != nil {
		return dst, err
	}
	found, err := v.ValidateContext(ctx, byGeneral)
	if err != nil {
		return dst, err
	}
	// A Validator holds documents to the default bounds, which an answer need not keep.
	if len(found) > 0 && len(schema.Inspect(byGeneral, schema.Bounds{})) == 0 {
		return dst, m.disagree("the output schema refuses what both engines write, at %q: %s", found[0].Path, found[0].Message)
	}
	return append(dst, byGeneral...), nil
}

func (m *Oracle) disagree(format string, args ...any) error {
	return &DisagreementError{Message: string(m.md.FullName()), What: fmt.Sprintf(format, args...)}
}

// differs says how two encodings differ as messages, or "". The order of fields and of map entries is free, and NaN is
// not equal to itself; deterministic bytes tell all values apart.
func (m *Message) differs(byPlan, byGeneral []byte) string {
	if bytes.Equal(byPlan, byGeneral) {
		return ""
	}
	var plain [2][]byte
	for i, wire := range [...][]byte{byPlan, byGeneral} {
		msg, err := m.decode(wire)
		if err != nil {
			return [...]string{"the plan", "the general engine"}[i] + " wrote what cannot be decoded: " + plainError(err)
		}
		if plain[i], err = (proto.MarshalOptions{AllowPartial: true, Deterministic: true}).Marshal(msg); err != nil {
			return plainError(err)
		}
	}
	if bytes.Equal(plain[0], plain[1]) {
		return ""
	}
	return fmt.Sprintf("the engines read a document as two different messages, of %d and %d bytes", len(plain[0]), len(plain[1]))
}

func firstDifference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// reach is what has to be known about a message and all below it before a refusal of one reader can be held against
// another.
type reach struct {
	planned   bool // each has its own plan
	described bool // the schema says everything there is to say about the structure
}

func (m *Oracle) isPlanned() bool        { return m.reach().planned }
func (m *Oracle) isFullyDescribed() bool { return m.reach().described }

// reaching walks the messages below a root, once each. What an Any holds is known to no plan and no schema beforehand.
func (m *Message) reaching() reach {
	r := reach{planned: true, described: true}
	if derived, err := schema.Derive(m.md, schema.Input, schema.Options{WithoutRules: true, Extensions: m.opts.extensions()}); err != nil || len(derived.Warnings) > 0 {
		r.described = false
	}
	seen := map[protoreflect.FullName]bool{m.md.FullName(): true}
	for queue := []protoreflect.MessageDescriptor{m.md}; len(queue) > 0; queue = queue[1:] {
		md := queue[0]
		if md.FullName() == "google.protobuf.Any" || md.IsPlaceholder() || m.planner.of(md).prepared().unready != "" {
			r.planned = false
		}
		if md.FullName() == "google.protobuf.Any" || md.IsPlaceholder() {
			r.described = false
		}
		for _, fd := range fieldsOf(md, m.opts.extensions()) {
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if below := fd.Message(); below != nil && !seen[below.FullName()] {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return r
}
