// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"math"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"
)

// randomMessage fills a message with values that ProtoJSON can write.
func randomMessage(t *rapid.T, s subject, md protoreflect.MessageDescriptor, depth int) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	if fillWellKnown(t, s, m, depth) {
		return m
	}
	taken := map[protoreflect.Name]bool{}
	fields := make([]protoreflect.FieldDescriptor, 0, md.Fields().Len())
	for i := range md.Fields().Len() {
		fields = append(fields, md.Fields().Get(i))
	}
	s.resolver.RangeExtensionsByMessage(md.FullName(), func(e protoreflect.ExtensionType) bool {
		fields = append(fields, e.TypeDescriptor())
		return true
	})
	for _, fd := range fields {
		must := fd.Cardinality() == protoreflect.Required
		if !must && (depth <= 0 && fd.Message() != nil || !rapid.Bool().Draw(t, "set "+string(fd.Name()))) {
			continue
		}
		if od := fd.ContainingOneof(); od != nil {
			if taken[od.Name()] {
				continue
			}
			taken[od.Name()] = true
		}
		switch {
		case fd.IsMap():
			entries := m.Mutable(fd).Map()
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				key := randomScalar(t, fd.MapKey()).MapKey()
				entries.Set(key, randomValue(t, s, fd.MapValue(), depth))
			}
		case fd.IsList():
			list := m.Mutable(fd).List()
			for range rapid.IntRange(0, 3).Draw(t, "items") {
				list.Append(randomValue(t, s, fd, depth))
			}
		default:
			m.Set(fd, randomValue(t, s, fd, depth))
		}
	}
	return m
}

func randomValue(t *rapid.T, s subject, fd protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	if md := fd.Message(); md != nil {
		return protoreflect.ValueOfMessage(randomMessage(t, s, md, depth-1))
	}
	return randomScalar(t, fd)
}

func randomScalar(t *rapid.T, fd protoreflect.FieldDescriptor) protoreflect.Value {
	name := string(fd.Name())
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, name))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, name))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, name))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, name))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, name))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, name))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, name))
	case protoreflect.FloatKind:
		special := rapid.SampledFrom([]float32{0, 1.5, math.MaxFloat32, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN())})
		return protoreflect.ValueOfFloat32(rapid.OneOf(special, rapid.Float32()).Draw(t, name))
	case protoreflect.DoubleKind:
		special := rapid.SampledFrom([]float64{0, 1.5, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN()})
		return protoreflect.ValueOfFloat64(rapid.OneOf(special, rapid.Float64()).Draw(t, name))
	case protoreflect.EnumKind:
		values := fd.Enum().Values()
		if fd.Enum().FullName() == "google.protobuf.NullValue" {
			return protoreflect.ValueOfEnum(0)
		}
		if !fd.Enum().IsClosed() && rapid.IntRange(0, 4).Draw(t, "unknown number") == 0 {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32().Draw(t, name)))
		}
		return protoreflect.ValueOfEnum(values.Get(rapid.IntRange(0, values.Len()-1).Draw(t, name)).Number())
	default:
		t.Fatalf("no random value for %s", fd.Kind())
		return protoreflect.Value{}
	}
}

// fillWellKnown handles the types whose values are more narrow than their fields.
func fillWellKnown(t *rapid.T, s subject, m *dynamicpb.Message, depth int) bool {
	md := m.Descriptor()
	if md.FullName().Parent() != "google.protobuf" {
		return false
	}
	set := func(name protoreflect.Name, v protoreflect.Value) { m.Set(md.Fields().ByName(name), v) }
	switch md.Name() {
	case "Timestamp":
		set("seconds", protoreflect.ValueOfInt64(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds")))
		set("nanos", protoreflect.ValueOfInt32(rapid.Int32Range(0, 999999999).Draw(t, "nanos")))
	case "Duration":
		sign := int64(rapid.SampledFrom([]int{-1, 1}).Draw(t, "sign"))
		set("seconds", protoreflect.ValueOfInt64(sign*rapid.Int64Range(0, 315576000000).Draw(t, "seconds")))
		set("nanos", protoreflect.ValueOfInt32(int32(sign)*rapid.Int32Range(0, 999999999).Draw(t, "nanos")))
	case "FieldMask":
		list := m.Mutable(md.Fields().ByName("paths")).List()
		for _, p := range rapid.SliceOfN(rapid.SampledFrom([]string{"name", "foo_bar", "a.b_c.d", "x1"}), 0, 3).Draw(t, "paths") {
			list.Append(protoreflect.ValueOfString(p))
		}
	case "Value":
		fillValue(t, s, m, depth)
	case "Any":
		if rapid.Bool().Draw(t, "empty any") {
			return true
		}
		name := rapid.SampledFrom([]protoreflect.FullName{"shapes.v1.Leaf", "shapes.v1.Node", "google.protobuf.Duration", "google.protobuf.Value", "google.protobuf.Empty"}).Draw(t, "type")
		mt, err := s.resolver.FindMessageByName(name)
		if err != nil {
			t.Fatal(err)
		}
		inner, err := proto.MarshalOptions{Deterministic: true}.Marshal(randomMessage(t, s, mt.Descriptor(), depth-1))
		if err != nil {
			t.Fatal(err)
		}
		set("type_url", protoreflect.ValueOfString("type.googleapis.com/"+string(name)))
		set("value", protoreflect.ValueOfBytes(inner))
	default:
		return false
	}
	return true
}

func fillValue(t *rapid.T, s subject, m *dynamicpb.Message, depth int) {
	fields := m.Descriptor().Fields()
	top := 5
	if depth <= 0 {
		top = 3
	}
	fd := fields.Get(rapid.IntRange(0, top).Draw(t, "kind of value"))
	switch fd.Name() {
	case "number_value":
		m.Set(fd, protoreflect.ValueOfFloat64(rapid.Float64Range(-1e300, 1e300).Draw(t, "number")))
	default:
		m.Set(fd, randomValue(t, s, fd, depth))
	}
}
