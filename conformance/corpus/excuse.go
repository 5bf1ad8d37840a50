// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/conformance/corpus/sources"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Reason is why two readers may judge a document otherwise.
type Reason string

// Why the transcoder refuses what protojson takes. Where one of these holds outside of an Any, it has to.
const (
	// ReasonRequired: google.api.field_behavior says REQUIRED, and the field is absent, or null where that is no value.
	// protojson does not know the annotation; the backend does, and would refuse the call later and less clearly.
	ReasonRequired Reason = "REQUIRED field is absent"
	// ReasonOutputOnly: a field that only answers have is given. Backends drop it without a word, which is not ours to do.
	ReasonOutputOnly Reason = "OUTPUT_ONLY field is given"
	// ReasonClosedEnum: a number that a closed enum does not have. On the wire it is an unknown field: the backend would
	// not see it.
	ReasonClosedEnum Reason = "number is not in the closed enum"
	// ReasonBounds: a bound on depth, on the length or size of a number. protojson has no such bounds, or higher ones.
	ReasonBounds Reason = "over a bound"
)

// Why the schema cannot see what the transcoder sees.
const (
	// ReasonAny: what an Any holds depends on its @type.
	ReasonAny Reason = "content of an Any"
	// ReasonMapKey: two spellings of one key are two members in JSON.
	ReasonMapKey Reason = "two spellings of a map key"
	// ReasonOpen: the message was left open to keep the schema within its bounds.
	ReasonOpen Reason = "message left open"
	// ReasonExponent: an integer whose exponent shifts more than 20 digits. protojson gives up on those.
	ReasonExponent Reason = "integer with a large exponent"
	// ReasonRange: an integer beyond a range that an advertised schema does not show. A string has the digits of an unsigned
	// type, and few validators know the formats that say so; few numbers come near the limits of 32 bits.
	ReasonRange Reason = "integer beyond its range"
)

// Why the transcoder takes what protojson refuses.
const (
	// ReasonWrapped: a root whose JSON is not an object may come as {"value": ...}.
	ReasonWrapped Reason = "wrapped root"
	// ReasonNullList: null for a list of Values or of NullValues is the empty list, as null is for every other. protojson looks for an element.
	ReasonNullList Reason = "null for a list whose elements may be null"
	// ReasonUnknownType: an Any of an unknown type is its bytes in base64, for which ProtoJSON has no form.
	ReasonUnknownType Reason = "Any of an unknown type"
)

// What protojson refuses to write, the transcoder writes in the nearest form, with a note (transcode.Noted): a Timestamp out of
// range is no reason to lose the answer around it. The corpus has no such answers, since protojson makes them; those are in the
// tests of package transcode. Where the suite of protobuf wants an error, cmd/protobuf-testee makes one of the note.

// reader finds the reasons that hold for a document. It goes by descriptors alone.
type reader struct {
	types    *sources.Types
	outside  map[Reason]bool // found outside of any Any
	inAny    map[Reason]bool
	anyDepth int
}

// reasons reads a document.
func reasons(types *sources.Types, md protoreflect.MessageDescriptor, doc []byte, root any) *reader {
	r := &reader{types: types, outside: map[Reason]bool{}, inAny: map[Reason]bool{}}
	for _, v := range schema.Inspect(doc, schema.Bounds{}) {
		if v.Keyword != "syntax" && v.Keyword != "duplicate" {
			r.outside[ReasonBounds] = true
		}
	}
	r.message(root, md)
	return r
}

func (r *reader) found(reason Reason) {
	if r.anyDepth > 0 {
		r.inAny[reason] = true
	} else {
		r.outside[reason] = true
	}
}

// isStricter holds where the transcoder has to refuse the document, mayBeStricter where it may as well.
func (r *reader) isStricter() bool { return isStricter(r.outside) }

func (r *reader) mayBeStricter() bool { return isStricter(r.outside) || isStricter(r.inAny) }

func isStricter(found map[Reason]bool) bool {
	return slices.ContainsFunc([]Reason{ReasonRequired, ReasonOutputOnly, ReasonClosedEnum, ReasonBounds}, func(one Reason) bool { return found[one] })
}

func (r *reader) message(v any, md protoreflect.MessageDescriptor) {
	if md.IsPlaceholder() {
		return
	}
	o, isObject := v.(object)
	if schema.IsWellKnown(md) {
		if isObject && md.Name() == "Any" && len(o) > 0 {
			r.packed(o)
		}
		if scalar := md.Fields().ByName("value"); scalar != nil && scalar.Message() == nil && md.Name() != "Any" {
			r.scalar(v, scalar)
		}
		return
	}
	if isObject {
		r.members(o, md)
	}
}

func (r *reader) packed(o object) {
	r.outside[ReasonAny] = true
	md := typeOf(r.types, o)
	if md == nil {
		return
	}
	r.anyDepth++
	defer func() { r.anyDepth-- }()
	if schema.IsWellKnown(md) {
		value, _ := o.get("value")
		r.message(value, md)
		return
	}
	rest := object{}
	for _, m := range o {
		if m.name != "@type" {
			rest = append(rest, m)
		}
	}
	r.members(rest, md)
}

func (r *reader) members(o object, md protoreflect.MessageDescriptor) {
	fds := fieldsOf(md, r.types)
	given := map[protoreflect.FullName]bool{}
	for _, m := range o {
		fd := fieldByName(fds, m.name)
		if fd == nil {
			continue
		}
		if schema.BehaviorOf(fd).OutputOnly && !fd.IsExtension() {
			r.found(ReasonOutputOnly)
		}
		if m.value == nil && fd.IsList() && (fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value" ||
			fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue") {
			r.found(ReasonNullList)
		}
		given[fd.FullName()] = given[fd.FullName()] || m.value != nil || nullIsValue(fd)
		r.field(m.value, fd)
	}
	for _, fd := range fds {
		b := schema.BehaviorOf(fd)
		if b.Required && !b.OutputOnly && !given[fd.FullName()] {
			r.found(ReasonRequired)
		}
	}
}

// nullIsValue holds for fields that null sets rather than leaves out.
func nullIsValue(fd protoreflect.FieldDescriptor) bool {
	switch {
	case fd.IsList() || fd.IsMap():
		return false
	case fd.Message() != nil:
		return fd.Message().FullName() == "google.protobuf.Value"
	default:
		return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
	}
}

func (r *reader) field(v any, fd protoreflect.FieldDescriptor) {
	switch {
	case fd.IsMap():
		entries, _ := v.(object)
		keys := map[string]bool{}
		for _, m := range entries {
			key := plainKey(m.name, fd.MapKey().Kind())
			if keys[key] {
				r.found(ReasonMapKey)
			}
			keys[key] = true
			if isBeyondUnsigned(m.name, fd.MapKey().Kind()) {
				r.found(ReasonRange)
			}
			r.value(m.value, fd.MapValue())
		}
	case fd.IsList():
		items, _ := v.([]any)
		for _, item := range items {
			r.value(item, fd)
		}
	default:
		r.value(v, fd)
	}
}

// plainKey is how a map's key is written, for keys that are integers in some spelling.
func plainKey(name string, kind protoreflect.Kind) string {
	if kind == protoreflect.StringKind || kind == protoreflect.BoolKind {
		return name
	}
	number := new(big.Rat)
	if len(name) < 40 && !strings.ContainsAny(name, "/_xXpP") {
		if n, ok := number.SetString(strings.TrimPrefix(name, "+")); ok {
			return n.RatString()
		}
	}
	return name
}

func (r *reader) value(v any, fd protoreflect.FieldDescriptor) {
	if md := fd.Message(); md != nil {
		r.message(v, md)
		return
	}
	r.scalar(v, fd)
}

func (r *reader) scalar(v any, fd protoreflect.FieldDescriptor) {
	number, ok := v.(json.Number)
	if text, isText := v.(string); isText && fd.Kind() != protoreflect.StringKind && fd.Kind() != protoreflect.BytesKind {
		number, ok = json.Number(text), true
	}
	if !ok {
		return
	}
	if ed := fd.Enum(); ed != nil {
		_, isText := v.(string)
		if n, isInt := integer(number); !isText && isInt && ed.IsClosed() && ed.Values().ByNumber(protoreflect.EnumNumber(n)) == nil {
			r.found(ReasonClosedEnum)
		}
		return
	}
	if isInteger(fd.Kind()) && hasLargeExponent(string(number)) {
		r.found(ReasonExponent)
	}
	_, isText := v.(string)
	if isText && isBeyondUnsigned(string(number), fd.Kind()) || !isText && isBeyond32(number, fd.Kind()) {
		r.found(ReasonRange)
	}
}

// isBeyondUnsigned holds for as many digits as the largest number of an unsigned type has, if they are more than it.
func isBeyondUnsigned(digits string, kind protoreflect.Kind) bool {
	largest := ""
	switch kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		largest = "4294967295"
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		largest = "18446744073709551615"
	}
	return len(digits) == len(largest) && digits > largest && strings.Trim(digits, "0123456789") == ""
}

// isBeyond32 holds for a number beyond a type of 32 bits.
func isBeyond32(number json.Number, kind protoreflect.Kind) bool {
	x, err := number.Float64()
	switch kind {
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return err != nil || x > math.MaxUint32
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return err != nil || x > math.MaxInt32 || x < math.MinInt32
	default:
		return false
	}
}

func isInteger(kind protoreflect.Kind) bool {
	switch kind {
	case protoreflect.BoolKind, protoreflect.StringKind, protoreflect.BytesKind, protoreflect.FloatKind, protoreflect.DoubleKind, protoreflect.EnumKind:
		return false
	default:
		return true
	}
}

// integer is the 32-bit integer that a JSON number is, however it is written.
func integer(n json.Number) (int32, bool) {
	if hasLargeExponent(string(n)) {
		return 0, false
	}
	x, ok := new(big.Rat).SetString(string(n))
	if !ok || !x.IsInt() || !x.Num().IsInt64() || x.Num().Int64() != int64(int32(x.Num().Int64())) {
		return 0, false
	}
	return int32(x.Num().Int64()), true
}

// maxShift is how many digits protojson lets an exponent shift.
const maxShift = 20

func hasLargeExponent(number string) bool {
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return false
	}
	exponent, err := strconv.Atoi(number[at+1:])
	return err != nil || exponent > maxShift || exponent < -maxShift
}
