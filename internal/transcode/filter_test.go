// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// digest is not a good one, and easy to write twice.
func digest(value []byte) string {
	h := fnv.New128a()
	_, _ = h.Write(value)
	return hex.EncodeToString(h.Sum(nil))
}

// byReflection treats decoded messages in the plainest way.
type byReflection struct {
	s  subject
	of func(fd protoreflect.FieldDescriptor) transcode.Treatment
}

func (o byReflection) options() transcode.FilterOptions {
	return transcode.FilterOptions{
		Of:         func(_ string, fd protoreflect.FieldDescriptor) transcode.Treatment { return o.of(fd) },
		Resolve:    o.resolve,
		Extensions: o.s.resolver, Digest: digest,
	}
}

func (o byReflection) resolve(url string) protoreflect.MessageDescriptor {
	mt, err := o.s.resolver.FindMessageByURL(url)
	if err != nil {
		return nil
	}
	return mt.Descriptor()
}

func (o byReflection) fields(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	var out []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		out = append(out, md.Fields().Get(i))
	}
	o.s.resolver.RangeExtensionsByMessage(md.FullName(), func(e protoreflect.ExtensionType) bool {
		out = append(out, e.TypeDescriptor())
		return true
	})
	return out
}

func (o byReflection) isConcerned(md protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if md.FullName() == "google.protobuf.Any" || md.ExtensionRanges().Len() > 0 {
		return true
	}
	if seen[md.FullName()] {
		return false
	}
	seen[md.FullName()] = true
	for _, fd := range o.fields(md) {
		if o.of(fd).Action != transcode.Show {
			return true
		}
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if fd.Message() != nil && o.isConcerned(fd.Message(), seen) {
			return true
		}
	}
	return false
}

// treat changes a message in place, and reports false where an Any cannot be read.
func (o byReflection) treat(m protoreflect.Message) bool {
	if !o.isConcerned(m.Descriptor(), map[protoreflect.FullName]bool{}) {
		return true
	}
	m.SetUnknown(nil)
	if m.Descriptor().FullName() == "google.protobuf.Any" {
		return o.any(m)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		t := o.of(fd)
		if t.Action == transcode.Hide && fd.Cardinality() == protoreflect.Required {
			t = transcode.Treatment{Action: transcode.Mask}
		}
		mustStay := fd.ContainingOneof() != nil || fd.Cardinality() == protoreflect.Required
		switch {
		case t.Action == transcode.Hide:
			m.Clear(fd)
		case fd.IsMap():
			value := fd.MapValue()
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if t.Action != transcode.Show {
					m.Mutable(fd).Map().Set(k, o.masked(value, v, t))
				} else if value.Message() != nil && !o.treat(v.Message()) {
					m.Mutable(fd).Map().Set(k, protoreflect.ValueOfMessage(dynamicpb.NewMessage(value.Message())))
				}
				return true
			})
		case fd.IsList():
			kept := m.NewField(fd).List()
			for i := range v.List().Len() {
				item := v.List().Get(i)
				if t.Action != transcode.Show {
					item = o.masked(fd, item, t)
				} else if fd.Message() != nil && !o.treat(item.Message()) {
					continue
				}
				kept.Append(item)
			}
			m.Set(fd, protoreflect.ValueOfList(kept))
		case t.Action != transcode.Show:
			m.Set(fd, o.masked(fd, v, t))
		case fd.Message() != nil && !o.treat(v.Message()):
			m.Clear(fd)
			if mustStay {
				m.Mutable(fd)
			}
		}
		return true
	})
	return true
}

func (o byReflection) any(m protoreflect.Message) bool {
	url, value := m.Descriptor().Fields().ByName("type_url"), m.Descriptor().Fields().ByName("value")
	if m.Get(url).String() == "" && len(m.Get(value).Bytes()) == 0 {
		return true
	}
	md := o.resolve(m.Get(url).String())
	if md == nil {
		return false
	}
	inner := dynamicpb.NewMessage(md)
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: o.s.resolver}).Unmarshal(m.Get(value).Bytes(), inner); err != nil {
		if o.isConcerned(md, map[protoreflect.FullName]bool{}) {
			m.Clear(url)
			m.Clear(value)
			return false
		}
		return true
	}
	if !o.treat(inner) {
		inner = dynamicpb.NewMessage(md)
	}
	wire, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner)
	if err != nil {
		panic(err)
	}
	m.Set(value, protoreflect.ValueOfBytes(wire))
	return true
}

func (o byReflection) masked(fd protoreflect.FieldDescriptor, v protoreflect.Value, t transcode.Treatment) protoreflect.Value {
	isHash := t.Action == transcode.Hash
	switch fd.Kind() {
	case protoreflect.StringKind:
		if isHash && v.String() != "" {
			return protoreflect.ValueOfString(digest([]byte(v.String())))
		} else if isHash {
			return v
		}
		count := utf8.RuneCountInString(v.String())
		if runes := []rune(v.String()); t.Style == transcode.MaskLastFour && count >= 8 {
			return protoreflect.ValueOfString("****" + string(runes[count-4:]))
		}
		return protoreflect.ValueOfString(strings.Repeat("*", min(count, 8)))
	case protoreflect.BytesKind:
		if isHash && len(v.Bytes()) > 0 {
			return protoreflect.ValueOfBytes([]byte(digest(v.Bytes())))
		}
		return protoreflect.ValueOfBytes([]byte{})
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(0).Number())
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return protoreflect.ValueOfMessage(blank(fd.Message()))
	default:
		return zeroOf(fd)
	}
}

func zeroOf(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(false)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(0)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(0)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(0)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(0)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(0)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{})
	default:
		return protoreflect.ValueOfEnum(fd.Enum().Values().Get(0).Number())
	}
}

func blank(md protoreflect.MessageDescriptor) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	if md.FullName() == "google.protobuf.Value" {
		m.Set(md.Fields().ByName("null_value"), protoreflect.ValueOfEnum(0))
	}
	for i := range md.Fields().Len() {
		switch fd := md.Fields().Get(i); {
		case fd.Cardinality() != protoreflect.Required:
		case fd.Message() != nil:
			m.Set(fd, protoreflect.ValueOfMessage(blank(fd.Message())))
		default:
			m.Set(fd, zeroOf(fd))
		}
	}
	return m
}

// canonical is a message as bytes by which it can be compared: what is in an Any too.
func (o byReflection) canonical(t interface{ Fatal(...any) }, m protoreflect.Message) []byte {
	byReflection{s: o.s, of: func(protoreflect.FieldDescriptor) transcode.Treatment { return transcode.Treatment{} }}.known(m)
	wire, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m.Interface())
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// known writes what each Any holds in one order.
func (o byReflection) known(m protoreflect.Message) {
	if m.Descriptor().FullName() == "google.protobuf.Any" {
		value := m.Descriptor().Fields().ByName("value")
		if md := o.resolve(m.Get(m.Descriptor().Fields().ByName("type_url")).String()); md != nil {
			inner := dynamicpb.NewMessage(md)
			if (proto.UnmarshalOptions{AllowPartial: true, Resolver: o.s.resolver}).Unmarshal(m.Get(value).Bytes(), inner) == nil {
				o.known(inner)
				wire, _ := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner)
				m.Set(value, protoreflect.ValueOfBytes(wire))
			}
		}
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { o.known(v.Message()); return true })
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				o.known(v.List().Get(i).Message())
			}
		case fd.Message() != nil && !fd.IsMap():
			o.known(v.Message())
		}
		return true
	})
}

// compareFilter holds the filter to what reflection does with the same bytes.
func (o byReflection) compare(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, wire []byte,
) {
	f := transcode.NewFilter(o.s.md, o.options())
	decode := proto.UnmarshalOptions{AllowPartial: true, Resolver: o.s.resolver, RecursionLimit: 900}
	want := dynamicpb.NewMessage(o.s.md)
	failed := decode.Unmarshal(wire, want)
	got, err := f.Apply(nil, wire)
	if failed != nil {
		return // and no panic
	}
	if err != nil {
		t.Fatalf("%s: %v of %x", o.s.md.FullName(), err, wire)
	}
	isWhole := proto.CheckInitialized(want) == nil
	if !o.treat(want) {
		want = dynamicpb.NewMessage(o.s.md)
	}
	out := dynamicpb.NewMessage(o.s.md)
	if err := decode.Unmarshal(got, out); err != nil {
		t.Fatalf("%s: %v: %x became %x", o.s.md.FullName(), err, wire, got)
	}
	if isWhole && proto.CheckInitialized(out) != nil {
		t.Fatalf("%s: a required field is gone: %x became %x", o.s.md.FullName(), wire, got)
	}
	if a, b := o.canonical(t, out), o.canonical(t, want); !bytes.Equal(a, b) {
		t.Fatalf("%s\n   from: %x\nfilters: %x\nreflect: %x\nwant %v\n got %v", o.s.md.FullName(), wire, got, b, want, out)
	}
	again, err := f.Apply(nil, got)
	if err != nil {
		t.Fatalf("%s: %v of what a filter wrote", o.s.md.FullName(), err)
	}
	_ = again
}

// someTreatments treats about one field in so many, by its name and a seed.
func someTreatments(seed uint32, one uint32) func(protoreflect.FieldDescriptor) transcode.Treatment {
	return func(fd protoreflect.FieldDescriptor) transcode.Treatment {
		h := fnv.New32a()
		_, _ = h.Write([]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)})
		_, _ = h.Write([]byte(fd.FullName()))
		n := h.Sum32()
		if n%one != 0 || fd.FullName().Parent().Parent() == "google.protobuf" && fd.ContainingMessage().FullName() != "google.protobuf.DescriptorProto" {
			return transcode.Treatment{}
		}
		n /= one
		return transcode.Treatment{Action: transcode.Mask + transcode.Action(n%3), Style: transcode.MaskStyle(n / 3 % 2)}
	}
}

// TestFilterIsWhatReflectionDoes: random messages, in one part and in two, with fields that their types do not have.
func TestFilterIsWhatReflectionDoes(t *testing.T) {
	all := subjects(t, func(string) bool { return true })
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(all).Draw(t, "message")
		o := byReflection{s: s, of: someTreatments(rapid.Uint32().Draw(t, "seed"), rapid.Uint32Range(1, 5).Draw(t, "one in"))}
		var wire []byte
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			part, err := proto.MarshalOptions{AllowPartial: true}.Marshal(randomMessage(t, s, s.md, 3))
			if err != nil {
				t.Fatal(err)
			}
			wire = append(wire, part...)
		}
		if rapid.Bool().Draw(t, "unknown") {
			wire = protowire.AppendString(protowire.AppendTag(wire, 536870000, protowire.BytesType), "unknown")
			wire = protowire.AppendVarint(protowire.AppendTag(wire, protowire.Number(rapid.IntRange(1, 12).Draw(t, "number")), protowire.VarintType), 7)
		}
		o.compare(t, wire)
	})
}

// FuzzFilter: any bytes, any treatments.
func FuzzFilter(f *testing.F) {
	all := subjects(f, func(string) bool { return true })
	for i := range all {
		f.Add(uint8(i), uint32(i), []byte{0x0a, 3, 'a', 'b', 'c'})
		f.Add(uint8(i), uint32(i), []byte{0x08, 1, 0x0a, 4, 0x0a, 2, 'a', 'b', 0x0a, 0, 0x13, 0x08, 1, 0x14})
	}
	f.Fuzz(func(t *testing.T, which uint8, seed uint32, wire []byte) {
		byReflection{s: all[int(which)%len(all)], of: someTreatments(seed, 1+seed%4)}.compare(t, wire)
	})
}

func TestFilterOfNothingIsNil(t *testing.T) {
	files := shapes(t)
	md := shape(t, files, "google.protobuf.Duration")
	show := transcode.FilterOptions{Of: func(string, protoreflect.FieldDescriptor) transcode.Treatment { return transcode.Treatment{} }}
	f := transcode.NewFilter(md, show)
	if f != nil {
		t.Fatal("there is a filter")
	}
	wire := []byte{0x08, 1}
	got, err := f.Apply(nil, wire)
	if err != nil || &got[0] != &wire[0] || f.Treats() {
		t.Fatalf("%v %v", got, err)
	}
	if allocs := testing.AllocsPerRun(10, func() { _, _ = f.Apply(nil, wire) }); allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func TestFilterDenies(t *testing.T) {
	files := shapes(t)
	md := shape(t, files, "google.protobuf.Duration")
	f := transcode.NewFilter(md, transcode.FilterOptions{Of: func(_ string, fd protoreflect.FieldDescriptor) transcode.Treatment {
		if fd.Name() == "nanos" {
			return transcode.Treatment{Action: transcode.Deny}
		}
		return transcode.Treatment{}
	}})
	for wire, denies := range map[string]bool{"\x08\x01": false, "\x10\x00": false, "\x10\x05": true, "": false} {
		got, err := f.Apply(nil, []byte(wire))
		var denied *transcode.DeniedError
		if errors.As(err, &denied) != denies {
			t.Errorf("%x: %v", wire, err)
		}
		if denies && (denied.Field != "google.protobuf.Duration.nanos" || got != nil) {
			t.Errorf("%x: %v %x", wire, denied, got)
		}
	}
	var broken *transcode.OutputError
	if _, err := f.Apply(nil, []byte{0x08}); !errors.As(err, &broken) {
		t.Errorf("malformed: %v", err)
	}
}

// TestFilterKnowsPlaces: the same field is treated at one place and not at another, also in a type that holds itself.
func TestFilterKnowsPlaces(t *testing.T) {
	files := shapes(t)
	s := newSubject(t, files, shape(t, files, "google.protobuf.DescriptorProto"))
	f := transcode.NewFilter(s.md, transcode.FilterOptions{
		Paths: []string{"nested_type.nested_type.name"},
		Of: func(path string, _ protoreflect.FieldDescriptor) transcode.Treatment {
			if path == "nested_type.nested_type.name" {
				return transcode.Treatment{Action: transcode.Mask}
			}
			return transcode.Treatment{}
		},
	})
	node := func(name string, below []byte) []byte {
		out := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		if below != nil {
			out = protowire.AppendBytes(protowire.AppendTag(out, 3, protowire.BytesType), below)
		}
		return out
	}
	wire := node("a", node("b", node("secret", node("d", nil))))
	got, err := f.Apply(nil, wire)
	if want := node("a", node("b", node("******", node("d", nil)))); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v %q", err, got)
	}
	got, err = f.Apply(nil, wire[:3])
	if err != nil || &got[0] != &wire[0] {
		t.Fatalf("%v %q", err, got)
	}
}
