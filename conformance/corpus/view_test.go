// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// chance is a caller who does not see every third field, in a way that the name of the field decides.
type chance uint32

func (c chance) of(fd protoreflect.FieldDescriptor) (transcode.Action, schema.Seen) {
	h := fnv.New32a()
	_, _ = h.Write(fmt.Append(nil, uint32(c), fd.FullName()))
	n := h.Sum32()
	if n%3 != 0 || schema.IsWellKnown(fd.ContainingMessage()) {
		return transcode.Show, schema.SeenWhole
	}
	of := n / 3 % 3
	return [...]transcode.Action{transcode.Mask, transcode.Hash, transcode.Hide}[of], [...]schema.Seen{schema.SeenMasked, schema.SeenHashed, schema.SeenNot}[of]
}

// everySet are all messages of the corpus.
func everySet(t *testing.T) []*sources.Set {
	t.Helper()
	sets := []*sources.Set{sources.Linked()}
	for _, o := range sources.Modules() {
		set, err := o.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	return sets
}

// viewed counts what a view of a set was tried on.
type viewed struct{ messages, treated, hidden, excused int }

// TestViews: of each message, a view shows neither in the schema nor in the data what it hides, and what is left keeps to the schema that
// the view shows.
func TestViews(t *testing.T) {
	var n viewed
	for _, set := range everySet(t) {
		for i, md := range set.Messages() {
			if os.Getenv("OUTRIGGER_FULL") == "" && i%100 != 0 || schema.IsWellKnown(md) {
				continue
			}
			if err := n.view(set, md, chance(i), uint64(i)); err != nil {
				t.Errorf("%s: %v", md.FullName(), err)
			}
		}
	}
	t.Logf("%d messages, %d treated, %d hidden members looked for, %d whose random values break their own schema", n.messages, n.treated, n.hidden, n.excused)
	if n.treated < n.messages/2 || n.hidden == 0 || n.excused > n.messages/10 {
		t.Error("too little was tried")
	}
}

// view tries a view on one message with random values.
func (n *viewed) view(set *sources.Set, md protoreflect.MessageDescriptor, of chance, seed uint64) error {
	g := &generator{Rand: rand.New(rand.NewPCG(2, seed)), types: set.Types, dir: schema.Output, anys: []protoreflect.FullName{md.FullName(), "google.rpc.Status"}}
	whole, ok := g.message(md)
	if !ok {
		return nil
	}
	n.messages++
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(whole)
	if err != nil {
		return err
	}
	options := schema.Options{Extensions: set.Types, WithoutRules: hasRules(md, set.Types)}
	if broken, err := n.breaks(set, md, wire, options); err != nil || len(broken) > 0 {
		n.excused++
		return nil
	}
	f := filterOf(set, md, func(fd protoreflect.FieldDescriptor) transcode.Treatment {
		action, _ := of.of(fd)
		return transcode.Treatment{Action: action}
	})
	if f.Treats() {
		n.treated++
	}
	left, err := f.Apply(nil, wire)
	if err != nil {
		return err
	}
	options.Sight = schema.NewSight(func(_ string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
		_, seen := of.of(fd)
		return seen, false
	}, nil)
	broken, err := n.breaks(set, md, left, options)
	if err != nil {
		return err
	}
	if len(broken) > 0 {
		return fmt.Errorf("what is left of %x, %x, breaks the schema of the view: %v", wire, left, broken)
	}
	return n.absent(set, md, of, left, options)
}

// breaks says where a message breaks the canonical schema.
func (n *viewed) breaks(set *sources.Set, md protoreflect.MessageDescriptor, wire []byte, options schema.Options) ([]schema.Violation, error) {
	m, err := transcode.Compile(md, transcode.Options{Resolver: set.Types})
	if err != nil {
		return nil, err
	}
	doc, err := m.Loose().Seen(options.Sight).ToJSON(nil, wire)
	if err != nil {
		return nil, err
	}
	derived, err := schema.Derive(md, schema.Output, options)
	if err != nil {
		return nil, err
	}
	if derived.Wrapped {
		doc = fmt.Appendf(nil, `{"value":%s}`, doc)
	}
	for _, raw := range []json.RawMessage{derived.Canonical, derived.Advertised} {
		check, err := schema.Compile(raw)
		if err != nil {
			return nil, err
		}
		if found, err := check.Validate(doc); err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// absent looks for members that are hidden: in the data, and among the properties of the schema.
func (n *viewed) absent(set *sources.Set, md protoreflect.MessageDescriptor, of chance, left []byte, options schema.Options) error {
	out := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{Resolver: set.Types, AllowPartial: true}).Unmarshal(left, out); err != nil {
		return err
	}
	if _, err := (protojson.MarshalOptions{Resolver: set.Types, AllowPartial: true}).Marshal(out); err != nil {
		return fmt.Errorf("what is left has no JSON: %w", err)
	}
	derived, err := schema.Derive(md, schema.Output, options)
	if err != nil {
		return err
	}
	var shown struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(derived.Advertised, &shown); err != nil {
		return err
	}
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if _, seen := of.of(fd); seen != schema.SeenNot || fd.Cardinality() == protoreflect.Required {
			continue
		}
		n.hidden++
		if _, ok := shown.Properties[fd.JSONName()]; ok {
			return fmt.Errorf("%s is hidden, and in the schema", fd.Name())
		}
	}
	return n.set(out, of)
}

// set is an error where a message has a field that is hidden, at any depth.
func (n *viewed) set(m protoreflect.Message, of chance) (err error) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if _, seen := of.of(fd); seen == schema.SeenNot && fd.Cardinality() != protoreflect.Required {
			err = fmt.Errorf("%s is hidden, and in the data", fd.FullName())
			return false
		}
		below := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if fd.Message() != nil && err == nil {
				err = n.set(v.Message(), of)
			}
			return err == nil
		}
		switch {
		case fd.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return below(fd.MapValue(), v) })
		case fd.IsList():
			for i := range v.List().Len() {
				below(fd, v.List().Get(i))
			}
		default:
			below(fd, v)
		}
		return err == nil
	})
	return err
}
