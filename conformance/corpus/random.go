// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Bounds of a random message: enough to meet every kind of field, small enough to look at.
const (
	maxDepth  = 4
	maxFields = 40
	// hopeless is how far required messages may nest below maxDepth before a message is taken for one that no finite
	// document satisfies.
	hopeless = -12
)

// generator makes random messages whose JSON protojson can write. It is not safe for concurrent use.
type generator struct {
	*rand.Rand

	types *sources.Types
	dir   schema.Direction
	anys  []protoreflect.FullName // what an Any may hold
	left  int                     // fields that may still be set
	stuck bool                    // a required field could not be set
}

// message makes one message. ok is false where no message satisfies what the descriptor asks for.
func (g *generator) message(md protoreflect.MessageDescriptor) (m *dynamicpb.Message, ok bool) {
	g.left, g.stuck = maxFields, false
	m = g.below(md, maxDepth, false)
	return m, !g.stuck
}

func (g *generator) below(md protoreflect.MessageDescriptor, depth int, meant bool) *dynamicpb.Message {
	m := dynamicpb.NewMessage(md)
	if depth < hopeless || isMessageSet(md) {
		g.stuck = true
		return m
	}
	if schema.IsWellKnown(md) && g.wellKnown(m, depth, meant) {
		return m
	}
	taken := map[protoreflect.Name]bool{}
	for _, fd := range g.inOrder(md, taken) {
		od := fd.ContainingOneof()
		behavior := schema.BehaviorOf(fd)
		if behavior.Hides(g.dir) && !fd.IsExtension() {
			continue
		}
		must := fd.Cardinality() == protoreflect.Required || g.dir == schema.Input && behavior.Required
		if od != nil && taken[od.Name()] {
			g.stuck = g.stuck || must
			continue
		}
		if !must && (g.left <= 0 || g.IntN(3) == 0 || depth <= 0 && fd.Message() != nil) {
			continue
		}
		if below := fd.Message(); below != nil && below.IsPlaceholder() {
			g.stuck = g.stuck || must
			continue
		}
		if od != nil {
			taken[od.Name()] = true
		}
		g.left--
		g.fill(m, fd, depth, must)
	}
	return m
}

// inOrder lists the fields and extensions of a message, those that have to be set first, then at random: else the first
// fields of a large message would always use up what may be set.
func (g *generator) inOrder(md protoreflect.MessageDescriptor, taken map[protoreflect.Name]bool) []protoreflect.FieldDescriptor {
	clear(taken)
	fds := fieldsOf(md, g.types)
	g.Shuffle(len(fds), func(i, j int) { fds[i], fds[j] = fds[j], fds[i] })
	slices.SortStableFunc(fds, func(a, b protoreflect.FieldDescriptor) int { return rank(b) - rank(a) })
	return fds
}

func rank(fd protoreflect.FieldDescriptor) int {
	if fd.Cardinality() == protoreflect.Required || schema.BehaviorOf(fd).Required {
		return 1
	}
	return 0
}

// fieldsOf lists the fields of a message as declared, and then its extensions by name.
func fieldsOf(md protoreflect.MessageDescriptor, types schema.Extensions) []protoreflect.FieldDescriptor {
	var out, extensions []protoreflect.FieldDescriptor
	for i := range md.Fields().Len() {
		out = append(out, md.Fields().Get(i))
	}
	types.RangeExtensionsByMessage(md.FullName(), func(t protoreflect.ExtensionType) bool {
		extensions = append(extensions, t.TypeDescriptor())
		return true
	})
	slices.SortFunc(extensions, func(a, b protoreflect.FieldDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	return append(out, extensions...)
}

func (g *generator) fill(m *dynamicpb.Message, fd protoreflect.FieldDescriptor, depth int, must bool) {
	least := 0
	if must {
		least = 1
	}
	switch {
	case fd.IsMap():
		entries := m.Mutable(fd).Map()
		for range least + g.IntN(3) {
			entries.Set(g.scalar(fd.MapKey(), false).MapKey(), g.value(fd.MapValue(), depth, false))
		}
	case fd.IsList():
		list := m.Mutable(fd).List()
		for range least + g.IntN(3) {
			list.Append(g.value(fd, depth, false))
		}
	default:
		m.Set(fd, g.value(fd, depth, must))
	}
}

// value makes a value; meant asks for one that is written even without presence, and is not null.
func (g *generator) value(fd protoreflect.FieldDescriptor, depth int, meant bool) protoreflect.Value {
	if md := fd.Message(); md != nil {
		return protoreflect.ValueOfMessage(g.below(md, depth-1, meant))
	}
	return g.scalar(fd, meant && !fd.HasPresence())
}

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) scalar(fd protoreflect.FieldDescriptor, nonZero bool) protoreflect.Value {
	v := g.anyScalar(fd)
	if !nonZero || !v.Equal(zeroOf(fd)) {
		return v
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString("x")
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte{1})
	case protoreflect.EnumKind:
		for i := range fd.Enum().Values().Len() {
			if n := fd.Enum().Values().Get(i).Number(); n != 0 {
				return protoreflect.ValueOfEnum(n)
			}
		}
		return protoreflect.ValueOfEnum(1)
	default:
		return one(fd.Kind())
	}
}

func one(kind protoreflect.Kind) protoreflect.Value {
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(1)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(1)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(1)
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(1)
	default:
		return protoreflect.ValueOfInt64(1)
	}
}

// zeroOf is the value that a field without presence has when it is not set.
func zeroOf(fd protoreflect.FieldDescriptor) protoreflect.Value { return fd.Default() }

// anyScalar makes any value of a scalar type, the edges of its range more often than chance would.
func (g *generator) anyScalar(fd protoreflect.FieldDescriptor) protoreflect.Value {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(g.IntN(2) == 0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(g.text())
	case protoreflect.BytesKind:
		b := make([]byte, g.IntN(8))
		for i := range b {
			b[i] = byte(g.Uint32())
		}
		return protoreflect.ValueOfBytes(b)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(pick(g, 0, 1, -1, math.MaxInt32, math.MinInt32, int32(g.Uint32()), int32(g.IntN(1000))))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(pick(g, 0, 1, math.MaxUint32, math.MaxInt32+1, g.Uint32(), g.Uint32N(1000)))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(pick(g, 0, 1, -1, 1<<53+1, math.MaxInt64, math.MinInt64, int64(g.Uint64()), g.Int64N(1000)))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(pick(g, 0, 1, 1<<53+1, math.MaxUint64, math.MaxInt64+1, g.Uint64(), g.Uint64N(1000)))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(pick(g, 0, float32(math.Copysign(0, -1)), 1.5, 1e21, 1e-7, math.MaxFloat32, math.SmallestNonzeroFloat32,
			float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), g.Float32(), float32(g.NormFloat64()*1e9)))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(pick(g, 0, math.Copysign(0, -1), 1.5, 1e21, 1e-7, math.MaxFloat64, math.SmallestNonzeroFloat64,
			math.Inf(1), math.Inf(-1), math.NaN(), g.Float64(), g.NormFloat64()*1e9))
	default:
		return protoreflect.ValueOfEnum(g.enum(fd.Enum()))
	}
}

func (g *generator) enum(ed protoreflect.EnumDescriptor) protoreflect.EnumNumber {
	switch {
	case ed.IsPlaceholder() || ed.FullName() == "google.protobuf.NullValue":
		return 0
	case !ed.IsClosed() && g.IntN(6) == 0:
		return protoreflect.EnumNumber(int32(g.Uint32()))
	default:
		return ed.Values().Get(g.IntN(ed.Values().Len())).Number()
	}
}

func (g *generator) text() string {
	var b strings.Builder
	for range g.IntN(6) {
		b.WriteString(pick(g, "a", "Z", "0", " ", "é", "\u2028", "😀", `"`, `\`, "/", "<", "\x00", "\n", "\x1f", "\x7f", "\ufffd", "\U0010ffff", string(rune('a'+g.IntN(26)))))
	}
	return b.String()
}

// Ranges of google.protobuf.Timestamp and Duration, in seconds.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
	maxDuration  = 315576000000
)

// wellKnown fills the types whose values are fewer than their fields could hold; false leaves it to the caller.
func (g *generator) wellKnown(m *dynamicpb.Message, depth int, meant bool) bool {
	set := func(name protoreflect.Name, v protoreflect.Value) { m.Set(m.Descriptor().Fields().ByName(name), v) }
	nanos := pick(g, 0, 0, 1, 999_999_999, 500_000_000, 1_000, g.Int32N(1_000_000_000))
	switch m.Descriptor().Name() {
	case "Timestamp":
		set("seconds", protoreflect.ValueOfInt64(pick(g, 0, -1, minTimestamp, maxTimestamp, minTimestamp+g.Int64N(maxTimestamp-minTimestamp))))
		set("nanos", protoreflect.ValueOfInt32(nanos))
	case "Duration":
		sign := pick(g, -1, 1)
		seconds := pick(g, 0, 1, maxDuration, g.Int64N(maxDuration))
		if seconds == maxDuration {
			nanos = 0
		}
		set("seconds", protoreflect.ValueOfInt64(int64(sign)*seconds))
		set("nanos", protoreflect.ValueOfInt32(int32(sign)*nanos))
	case "FieldMask":
		list := m.Mutable(m.Descriptor().Fields().ByName("paths")).List()
		for range g.IntN(3) {
			list.Append(protoreflect.ValueOfString(pick(g, "name", "foo_bar", "a.b_c.d", "x1")))
		}
	case "Value":
		g.fillValue(m, depth, meant)
	case "Any":
		g.fillAny(m, depth, meant)
	default:
		return false
	}
	return true
}

func (g *generator) fillValue(m *dynamicpb.Message, depth int, meant bool) {
	kinds := []protoreflect.Name{"number_value", "string_value", "bool_value"}
	if !meant {
		kinds = append(kinds, "null_value")
	}
	if depth > 0 && g.left > 0 {
		kinds = append(kinds, "struct_value", "list_value")
	}
	fd := m.Descriptor().Fields().ByName(pick(g, kinds...))
	g.left--
	if fd.Name() == "number_value" {
		m.Set(fd, protoreflect.ValueOfFloat64(pick(g, 0, -1.5, 1e21, 12345678901234567, g.NormFloat64())))
		return
	}
	m.Set(fd, g.value(fd, depth, true))
}

func (g *generator) fillAny(m *dynamicpb.Message, depth int, meant bool) {
	if !meant && g.IntN(4) == 0 {
		return
	}
	name := pick(g, g.anys...)
	mt, err := g.types.FindMessageByName(name)
	if err != nil {
		return
	}
	inner, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(g.below(mt.Descriptor(), min(depth-1, 1), true))
	if err != nil {
		g.stuck = true
		return
	}
	m.Set(m.Descriptor().Fields().ByName("type_url"), protoreflect.ValueOfString("type.googleapis.com/"+string(name)))
	m.Set(m.Descriptor().Fields().ByName("value"), protoreflect.ValueOfBytes(inner))
}

func isMessageSet(md protoreflect.MessageDescriptor) bool {
	options, ok := md.Options().(*descriptorpb.MessageOptions)
	return ok && options.GetMessageSetWireFormat()
}
