// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Effort is how much is tried on each message.
type Effort struct {
	// Messages are random messages in each direction, Mutations changed documents of each input.
	Messages, Mutations int
	// Seed makes runs differ; each message has its own sequence under it.
	Seed uint64
}

// Failure is one thing that does not hold.
type Failure struct {
	Message protoreflect.FullName
	// Claim is what should hold.
	Claim string
	// Detail says what was found, Document is the smallest document found that shows it.
	Detail, Document string
}

func (f Failure) String() string {
	return fmt.Sprintf("%s: %s\n\tdocument %s\n\t%s", f.Message, f.Claim, f.Document, f.Detail)
}

// Counts are what was tried, and what was excused for which reason.
type Counts struct {
	Messages, Ran, Random, Answers, Mutations, Taken int
	Skipped                                          map[string]int
	Excused                                          map[Reason]int
	Stuck                                            int
	// Shown are inputs in the form of the strict profile, NotShown those that have none.
	Shown, NotShown            int
	SchemaBytes, LargestSchema int
	Open                       int
}

// check runs everything on one message.
type check struct {
	*subject

	gen      *generator
	mut      *mutator
	counts   Counts
	failures []Failure
	effort   Effort
}

// maxFailures bounds what one message reports: the first few say what is wrong.
const maxFailures = 3

func newCheck(s *subject, effort Effort) *check {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.md.FullName()))
	r := rand.New(rand.NewPCG(effort.Seed, h.Sum64())) //nolint:gosec // values are to be tried again, not to be secret
	c := &check{
		subject: s, effort: effort,
		gen: &generator{Rand: r, types: s.types, anys: []protoreflect.FullName{
			"google.protobuf.Duration", "google.protobuf.Value", "google.protobuf.Empty", "google.protobuf.Int64Value", "google.protobuf.FieldDescriptorProto", "google.protobuf.Struct", s.md.FullName(),
		}},
		mut: &mutator{Rand: r, types: s.types},
	}
	c.counts.Skipped, c.counts.Excused = map[string]int{}, map[Reason]int{}
	return c
}

func (c *check) run() {
	c.counts.Messages = 1
	for _, n := range c.sizes {
		c.counts.SchemaBytes += n
		c.counts.LargestSchema = max(c.counts.LargestSchema, n)
	}
	if c.open {
		c.counts.Open = 1
	}
	if why := c.cannotRun(); why != "" {
		c.counts.Skipped[why]++
		return
	}
	c.counts.Ran = 1
	for range c.effort.Messages {
		if len(c.failures) >= maxFailures {
			return
		}
		c.answer()
		c.question()
	}
}

func (c *check) fail(doc []byte, claim, format string, args ...any) {
	if len(c.failures) < maxFailures {
		c.failures = append(c.failures, Failure{c.md.FullName(), claim, fmt.Sprintf(format, args...), string(doc)})
	}
}

// answer: what ToJSON writes is what protojson writes, and what the output schemas say.
func (c *check) answer() {
	c.gen.dir = schema.Output
	m, ok := c.gen.message(c.md)
	if !ok {
		c.counts.Stuck++
		return
	}
	wire, err := proto.Marshal(m)
	if err != nil {
		c.counts.Stuck++
		return
	}
	written, err := protojson.MarshalOptions{Resolver: c.types, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		c.counts.Skipped["protojson cannot write a random message"]++
		return
	}
	c.counts.Answers++
	want, err := parseTree(written)
	if err != nil {
		c.fail(written, "protojson writes JSON", "%v", err)
		return
	}
	want = withoutInputOnly(want, c.md)
	doc, err := c.message.ToJSON(nil, wire)
	if err != nil {
		c.fail(written, "ToJSON reads what proto.Marshal writes", "%v (wire %x)", err, wire)
		return
	}
	got, err := parseTree(doc)
	if err != nil || !sameTree(want, got) {
		c.fail(doc, "ToJSON writes what protojson writes", "want %s (%v)", appendTree(nil, want), err)
		return
	}
	for _, pair := range c.output {
		if why := refusal(pair.canonical, doc); why != "" {
			c.fail(doc, "the canonical output schema admits answers", "%s", why)
		}
		shown := doc
		if c.wrapped {
			shown = append(append([]byte(`{"value":`), doc...), '}')
		}
		if why := refusal(pair.advertised, shown); why != "" {
			c.fail(shown, "the advertised output schema admits answers", "%s", why)
		}
	}
}

// withoutInputOnly takes the members of INPUT_ONLY fields out of what protojson wrote.
func withoutInputOnly(v any, md protoreflect.MessageDescriptor) any {
	o, ok := v.(object)
	if !ok || md == nil || schema.IsWellKnown(md) {
		return v
	}
	out := object{}
	for _, m := range o {
		fd := md.Fields().ByJSONName(m.name)
		switch {
		case fd == nil:
		case schema.BehaviorOf(fd).InputOnly:
			continue
		case fd.IsMap():
			entries := object{}
			below, _ := m.value.(object)
			for _, e := range below {
				entries = append(entries, member{e.name, withoutInputOnly(e.value, fd.MapValue().Message())})
			}
			m.value = entries
		case fd.IsList():
			items := []any{}
			below, _ := m.value.([]any)
			for _, e := range below {
				items = append(items, withoutInputOnly(e, fd.Message()))
			}
			m.value = items
		default:
			m.value = withoutInputOnly(m.value, fd.Message())
		}
		out = append(out, m)
	}
	return out
}

// question: what protojson writes is taken and understood; what is changed is judged as protojson judges it.
func (c *check) question() {
	c.gen.dir = schema.Input
	m, ok := c.gen.message(c.md)
	if !ok {
		c.counts.Stuck++
		return
	}
	opts := protojson.MarshalOptions{Resolver: c.types, UseProtoNames: c.gen.IntN(4) == 0, UseEnumNumbers: c.gen.IntN(4) == 0}
	doc, err := opts.Marshal(m)
	if err != nil {
		c.counts.Skipped["protojson cannot write a random message"]++
		return
	}
	c.counts.Random++
	root, err := parseTree(doc)
	if err != nil {
		c.fail(doc, "protojson writes JSON", "%v", err)
		return
	}
	doc = appendTree(nil, root)
	if claim, detail := c.plain(doc, m); claim != "" {
		c.fail(doc, claim, "%s", detail)
		return
	}
	plain, err := protojson.MarshalOptions{Resolver: c.types}.Marshal(m)
	if err != nil {
		c.fail(doc, "protojson writes in all styles", "%v", err)
		return
	}
	if claim, detail := c.shownStrictly(plain, func(wire []byte) string { return c.differs(m, wire) }); claim != "" {
		c.fail(plain, claim, "%s", detail)
		return
	}
	for range c.effort.Mutations {
		root, _ := parseTree(doc)
		c.mutated(c.mut.document(root, c.md))
	}
}

// plain says which claim about an unchanged document does not hold.
func (c *check) plain(doc []byte, m *dynamicpb.Message) (claim, detail string) {
	for _, pair := range c.input {
		if why := refusal(pair.canonical, doc); why != "" {
			return "the canonical schema admits what protojson writes", why
		}
	}
	wire, err := c.message.ToWire(nil, doc)
	if err != nil {
		return "ToWire takes what protojson writes", err.Error()
	}
	if difference := c.differs(m, wire); difference != "" {
		return "ToWire's bytes decode to the message", difference
	}
	return "", ""
}

// differs compares bytes with the message that they should be.
func (c *check) differs(want *dynamicpb.Message, wire []byte) string {
	got := dynamicpb.NewMessage(c.md)
	if err := (proto.UnmarshalOptions{Resolver: c.types}).Unmarshal(wire, got); err != nil {
		return err.Error()
	}
	if proto.Equal(want, got) {
		return ""
	}
	// NaN is not equal to itself, and the bytes within an Any may be written in another order. Text tells all apart.
	a, b := c.text(want), c.text(got)
	if a == b {
		return ""
	}
	return fmt.Sprintf("want %s\n\tgot  %s", a, b)
}

func (c *check) text(m proto.Message) string {
	written, err := protojson.MarshalOptions{Resolver: c.types, AllowPartial: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, written); err != nil {
		return err.Error()
	}
	return compact.String()
}

// mutated judges a changed document, and makes it smaller where a claim does not hold.
func (c *check) mutated(root any) {
	c.counts.Mutations++
	doc := appendTree(nil, root)
	v := c.verdict(doc)
	for reason := range v.excused {
		c.counts.Excused[reason]++
	}
	if v.taken {
		c.counts.Taken++
	}
	if v.claim == "" {
		return
	}
	small := minimize(root, func(smaller any) bool { return c.verdict(appendTree(nil, smaller)).claim == v.claim })
	doc = appendTree(nil, small)
	v = c.verdict(doc)
	c.fail(doc, v.claim, "%s", v.detail)
}

// verdict is what the readers say of a document, compared.
type verdict struct {
	claim, detail string // what does not hold
	taken         bool
	excused       map[Reason]bool
}

func (c *check) verdict(doc []byte) verdict {
	v := verdict{excused: map[Reason]bool{}}
	root, err := parseTree(doc)
	r := reasons(c.types, c.md, doc, root)
	if err != nil {
		r = reasons(c.types, c.md, doc, nil)
	}
	wire, byTranscoder := c.message.ToWire(nil, doc)
	var refused *transcode.InputError
	if byTranscoder != nil && (!errors.As(byTranscoder, &refused) || len(refused.Violations) == 0) {
		v.claim, v.detail = "ToWire refuses with violations", byTranscoder.Error()
		return v
	}
	v.taken = byTranscoder == nil
	m := dynamicpb.NewMessage(c.md)
	byProtojson := protojson.UnmarshalOptions{Resolver: c.types}.Unmarshal(doc, m)
	if inner, ok := c.unwrapped(root); ok && byProtojson != nil {
		if byProtojson = (protojson.UnmarshalOptions{Resolver: c.types}).Unmarshal(inner, m); byProtojson == nil {
			v.excused[ReasonWrapped] = true
		}
		if len(reasons(c.types, c.md, doc, root).outside) == 0 {
			innerRoot, _ := parseTree(inner)
			r.message(innerRoot, c.md)
		}
	}
	c.againstProtojson(&v, r, m, wire, byTranscoder, byProtojson)
	if v.claim == "" {
		c.againstSchemas(&v, r, doc, byTranscoder)
	}
	return v
}

// unwrapped is the document within {"value": ...}, for a root that may come so.
func (c *check) unwrapped(root any) ([]byte, bool) {
	o, ok := root.(object)
	if !ok || !c.wrappedInput || len(o) != 1 || o[0].name != "value" {
		return nil, false
	}
	return appendTree(nil, o[0].value), true
}

func (c *check) againstProtojson(v *verdict, r *reader, m *dynamicpb.Message, wire []byte, byTranscoder, byProtojson error) {
	switch {
	case byTranscoder == nil && byProtojson != nil && strings.Contains(byProtojson.Error(), "unable to resolve"):
		v.excused[ReasonUnknownType] = true
	case byTranscoder == nil && byProtojson != nil && (r.outside[ReasonNullList] || r.inAny[ReasonNullList]) && strings.Contains(byProtojson.Error(), "unexpected token null"):
		v.excused[ReasonNullList] = true
	case byTranscoder == nil && byProtojson != nil:
		v.claim, v.detail = "what ToWire takes, protojson takes", byProtojson.Error()
	case byTranscoder == nil && r.isStricter():
		v.claim, v.detail = "ToWire refuses what only it can see", fmt.Sprint(r.outside)
	case byTranscoder == nil:
		if difference := c.differs(m, wire); difference != "" {
			v.claim, v.detail = "ToWire and protojson read the same", difference
		}
	case byProtojson == nil && !r.mayBeStricter():
		v.claim, v.detail = "what protojson takes, ToWire takes", byTranscoder.Error()
	case byProtojson == nil:
		for _, found := range []map[Reason]bool{r.outside, r.inAny} {
			for reason := range found {
				if isStricter(map[Reason]bool{reason: true}) {
					v.excused[reason] = true
				}
			}
		}
	}
}

// againstSchemas compares the schemas with the transcoder. What a schema cannot see only ever makes it more lenient.
func (c *check) againstSchemas(v *verdict, r *reader, doc []byte, byTranscoder error) {
	for i, pair := range c.input {
		byCanonical, byAdvertised := refusal(pair.canonical, doc), refusal(pair.advertised, doc)
		excuse := func(claim, detail string) {
			reason := Reason("")
			switch {
			case r.outside[ReasonMapKey]:
				reason = ReasonMapKey
			case r.outside[ReasonAny]:
				reason = ReasonAny
			case c.open:
				reason = ReasonOpen
			case r.outside[ReasonExponent] || r.inAny[ReasonExponent]:
				reason = ReasonExponent
			}
			if reason == "" {
				v.claim, v.detail = claim, detail
				return
			}
			v.excused[reason] = true
		}
		switch {
		case byTranscoder == nil && byCanonical != "":
			v.claim, v.detail = "what ToWire takes, the canonical schema admits", byCanonical
		case byTranscoder != nil && byCanonical == "":
			excuse("what the canonical schema admits, ToWire takes", byTranscoder.Error())
		case byAdvertised == "" && profiles()[i] == schema.ProfileStrict:
			excuses, failed := c.strictly(doc)
			for _, reason := range excuses {
				v.excused[reason] = true
			}
			if failed != "" {
				excuse("what the strict schema admits, the canonical one admits", failed)
			}
		case byAdvertised == "" && byCanonical != "" && r.outside[ReasonRange]:
			v.excused[ReasonRange] = true
		case byAdvertised == "" && byCanonical != "":
			excuse("what the advertised schema admits, the canonical one admits", byCanonical)
		}
	}
}
