// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar appends one value that is no message: the tag, unless it is empty, and the value. Where present is not set, the
// zero of the type is not written at all.
func (r *reader) scalar(s *slot, pos int, tag []byte, present bool) int {
	switch s.kind {
	case protoreflect.StringKind:
		text, pos := r.text(pos)
		if pos < 0 {
			return refused
		}
		if len(text) == 0 && !present {
			return pos
		}
		r.tag(tag)
		r.length(len(text))
		r.out = append(r.out, text...)
		return pos
	case protoreflect.BytesKind:
		return r.bytes(pos, tag, present)
	case protoreflect.BoolKind:
		return r.boolean(pos, tag, present)
	case protoreflect.EnumKind:
		n, pos := r.enumNumber(s.enum, pos)
		if pos < 0 {
			return refused
		}
		r.varint(tag, uint64(int64(n)), present)
		return pos
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return r.floating(s.kind, pos, tag, present)
	default:
		return r.integer(s.kind, pos, tag, present)
	}
}

func (r *reader) tag(tag []byte) {
	if len(tag) == 1 {
		r.out = append(r.out, tag[0])
		return
	}
	r.out = append(r.out, tag...)
}

func (r *reader) length(n int) {
	if n < 0x80 {
		r.out = append(r.out, byte(n))
		return
	}
	r.out = protowire.AppendVarint(r.out, uint64(n))
}

func (r *reader) varint(tag []byte, v uint64, present bool) {
	if v == 0 && !present {
		return
	}
	r.tag(tag)
	if v < 0x80 {
		r.out = append(r.out, byte(v))
		return
	}
	r.out = protowire.AppendVarint(r.out, v)
}

func (r *reader) fixed32(tag []byte, v uint32, present bool) {
	if v == 0 && !present {
		return
	}
	r.tag(tag)
	r.out = binary.LittleEndian.AppendUint32(r.out, v)
}

func (r *reader) fixed64(tag []byte, v uint64, present bool) {
	if v == 0 && !present {
		return
	}
	r.tag(tag)
	r.out = binary.LittleEndian.AppendUint64(r.out, v)
}

func (r *reader) boolean(pos int, tag []byte, present bool) int {
	if end := r.word(pos, "true"); end >= 0 {
		r.varint(tag, 1, true)
		return end
	}
	end := r.word(pos, "false")
	if end >= 0 {
		r.varint(tag, 0, present)
	}
	return end
}

func (r *reader) integer(kind protoreflect.Kind, pos int, tag []byte, present bool) int {
	m, end := r.shortInteger(pos)
	if end >= 0 {
		if !r.whole(kind, m, tag, present) {
			return refused
		}
		return end
	}
	n, pos := r.numberOf(pos)
	if pos < 0 {
		return refused
	}
	m, ok := n.integer()
	if !ok || !r.whole(kind, m, tag, present) {
		return refused
	}
	return pos
}

// shortInteger reads the usual form of an integer, plain or in quotes: nothing but digits, and not many.
func (r *reader) shortInteger(pos int) (magnitude, int) {
	doc := r.doc
	quoted := pos < len(doc) && doc[pos] == '"'
	if quoted {
		pos++
	}
	negative := pos < len(doc) && doc[pos] == '-'
	if negative {
		pos++
	}
	from, v := pos, uint64(0)
	for ; pos < len(doc) && pos-from < r.shortNumber; pos++ {
		d := doc[pos] - '0'
		if d > 9 {
			break
		}
		v = v*10 + uint64(d)
	}
	n := pos - from
	if n == 0 || n >= r.shortNumber || pos == len(doc) || n > 1 && doc[from] == '0' {
		return magnitude{}, refused
	}
	switch c := doc[pos]; {
	case quoted:
		if c != '"' {
			return magnitude{}, refused
		}
		pos++
	case c == '.' || c|0x20 == 'e':
		return magnitude{}, refused
	}
	return magnitude{v, negative}, pos
}

// whole appends an integer of any kind, or returns false where it does not fit.
func (r *reader) whole(kind protoreflect.Kind, m magnitude, tag []byte, present bool) bool {
	var v int64
	var u uint64
	var ok bool
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		v, ok = m.signed(32)
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		v, ok = m.signed(64)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		u, ok = m.unsigned(32)
	default:
		u, ok = m.unsigned(64)
	}
	if !ok {
		return false
	}
	switch kind {
	case protoreflect.Sint32Kind, protoreflect.Sint64Kind:
		r.varint(tag, protowire.EncodeZigZag(v), present)
	case protoreflect.Sfixed32Kind:
		r.fixed32(tag, uint32(v), present)
	case protoreflect.Fixed32Kind:
		r.fixed32(tag, uint32(u), present)
	case protoreflect.Sfixed64Kind:
		r.fixed64(tag, uint64(v), present)
	case protoreflect.Fixed64Kind:
		r.fixed64(tag, u, present)
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		r.varint(tag, uint64(v), present)
	default:
		r.varint(tag, u, present)
	}
	return true
}

func (r *reader) floating(kind protoreflect.Kind, pos int, tag []byte, present bool) int {
	size := 64
	if kind == protoreflect.FloatKind {
		size = 32
	}
	f, pos := r.float(pos, size)
	if pos < 0 {
		return refused
	}
	// The bits of -0 are not zero, so it is written: it is not the default.
	if size == 32 {
		r.fixed32(tag, math.Float32bits(float32(f)), present)
	} else {
		r.fixed64(tag, math.Float64bits(f), present)
	}
	return pos
}

func (r *reader) float(pos, size int) (float64, int) {
	if f, end := r.shortFloat(pos); end >= 0 && size == 64 {
		return f, end
	}
	var n number
	if pos < len(r.doc) && r.doc[pos] == '"' {
		text, end := r.text(pos)
		if end < 0 {
			return 0, refused
		}
		switch string(text) {
		case "NaN":
			return math.NaN(), end
		case "Infinity":
			return math.Inf(1), end
		case "-Infinity":
			return math.Inf(-1), end
		}
		n, pos = numberIn(text, end)
	} else {
		n, pos = r.numberOf(pos)
	}
	if pos < 0 {
		return 0, refused
	}
	f, ok := n.float(size)
	if !ok {
		return 0, refused
	}
	return f, pos
}

// shortFloat reads a number of up to fifteen digits with a point and without an exponent. Such digits and the power of
// ten are exact doubles, so their quotient is the nearest to the number. Anything else is refused without harm: float then
// reads it in full.
func (r *reader) shortFloat(pos int) (float64, int) {
	doc := r.doc
	negative := pos < len(doc) && doc[pos] == '-'
	if negative {
		pos++
	}
	from, point, v := pos, 0, uint64(0)
	for ; pos < len(doc) && pos-from < r.shortNumber; pos++ {
		d := doc[pos] - '0'
		if d <= 9 {
			v = v*10 + uint64(d)
			continue
		}
		if doc[pos] != '.' || point > 0 {
			break
		}
		point = pos + 1
	}
	n := pos - from
	if n == 0 || n > 16 || n >= r.shortNumber || pos == len(doc) || pos == point || point == from+1 || doc[pos]|0x20 == 'e' {
		return 0, refused
	}
	if doc[from] == '0' && n > 1 && point != from+2 {
		return 0, refused
	}
	f := float64(v)
	if point > 0 {
		f /= powersOfTen(pos - point)
	} else if n > 15 {
		return 0, refused
	}
	if negative {
		f = -f
	}
	return f, pos
}

func (r *reader) enumNumber(e *enumPlan, pos int) (int32, int) {
	if pos >= len(r.doc) {
		return 0, refused
	}
	switch r.doc[pos] {
	case '"':
		name, pos := r.text(pos)
		if pos < 0 {
			return 0, refused
		}
		at := e.names.find(name)
		if at < 0 {
			return 0, refused
		}
		return e.values[at], pos
	case 'n':
		if !e.null {
			return 0, refused
		}
		return 0, r.word(pos, "null")
	}
	n, pos := r.numberOf(pos)
	if pos < 0 {
		return 0, refused
	}
	m, ok := n.integer()
	if !ok {
		return 0, refused
	}
	v, ok := m.signed(32)
	if !ok || e.closed && r.inAny == 0 && !e.knows(int32(v)) {
		return 0, refused
	}
	return int32(v), pos
}

// bytes decodes base64 as ProtoJSON in Go does: either alphabet, with padding where the length is a multiple of four.
func (r *reader) bytes(pos int, tag []byte, present bool) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	encoding := base64.StdEncoding
	url := bytes.IndexByte(text, '-') >= 0 || bytes.IndexByte(text, '_') >= 0
	switch full := len(text)%4 == 0; {
	case url && full:
		encoding = base64.URLEncoding
	case url:
		encoding = base64.RawURLEncoding
	case !full:
		encoding = base64.RawStdEncoding
	}
	before := len(r.out)
	r.tag(tag)
	// The length is written for the largest result, and again where padding or line ends make it shorter.
	most := encoding.DecodedLen(len(text))
	at := len(r.out)
	r.length(most)
	from := len(r.out)
	r.out = grow(r.out, most)
	n, err := encoding.Decode(r.out[from:], text)
	if err != nil {
		return refused
	}
	if n == 0 && !present {
		r.out = r.out[:before]
		return pos
	}
	if n != most {
		size := protowire.SizeVarint(uint64(n))
		copy(r.out[at+size:], r.out[from:from+n])
		protowire.AppendVarint(r.out[:at], uint64(n))
		from = at + size
	}
	r.out = r.out[:from+n]
	return pos
}

// grow adds n bytes of any content.
func grow(b []byte, n int) []byte {
	for cap(b)-len(b) < n {
		b = append(b[:cap(b)], 0)[:len(b)]
	}
	return b[:len(b)+n]
}

// number is a JSON number, taken apart: (-1)^negative * digits * 10^(power - len(fraction)) where exact holds. 19 digits
// always fit a uint64, 20 may not. Without exact, digits may have overflowed and must not be used.
type number struct {
	raw      []byte
	whole    []byte // digits before the point
	fraction []byte // digits behind it
	power    []byte // the exponent with its sign
	digits   uint64 // of whole and fraction together
	negative bool
	exact    bool // digits has them all: at most 19
	plain    bool // neither fraction nor exponent
}

// numberAt reads a number by the grammar of RFC 8259, section 6.
func numberAt(doc []byte, pos int) (n number, end int) {
	start := pos
	if pos < len(doc) && doc[pos] == '-' {
		n.negative = true
		pos++
	}
	from := pos
	digits := uint64(0)
	for ; pos < len(doc); pos++ {
		d := doc[pos] - '0'
		if d > 9 {
			break
		}
		digits = digits*10 + uint64(d)
	}
	if pos == from || doc[from] == '0' && pos > from+1 {
		return n, refused
	}
	n.whole = doc[from:pos]
	n.digits, n.exact, n.plain = digits, pos-from <= 19, true
	if pos < len(doc) && (doc[pos] == '.' || doc[pos]|0x20 == 'e') {
		if pos = n.rest(doc, pos); pos < 0 {
			return n, refused
		}
	}
	n.raw = doc[start:pos]
	return n, pos
}

// rest reads the fraction and the exponent.
func (n *number) rest(doc []byte, pos int) int {
	n.plain = false
	if doc[pos] == '.' {
		pos++
		from := pos
		for ; pos < len(doc) && doc[pos]-'0' <= 9; pos++ {
			n.digits = n.digits*10 + uint64(doc[pos]-'0')
		}
		if pos == from {
			return refused
		}
		n.fraction = doc[from:pos]
		n.exact = len(n.whole)+len(n.fraction) <= 19
	}
	if pos < len(doc) && doc[pos]|0x20 == 'e' {
		pos++
		from := pos
		if pos < len(doc) && (doc[pos] == '+' || doc[pos] == '-') {
			pos++
		}
		first := pos
		for pos < len(doc) && doc[pos]-'0' <= 9 {
			pos++
		}
		if pos == first {
			return refused
		}
		n.power = doc[from:pos]
	}
	return pos
}

// maxPower is the largest exponent that is looked at. It has the bound of schema.Inspect, beyond which a double is zero
// or infinite.
const maxPower = 2000

// bounded holds for a number that may stand in a document at all, whatever it is for: not too long, and not larger than
// every double.
func (r *reader) bounded(n *number) bool {
	if len(n.raw) > r.maxNumber {
		return false
	}
	if n.power != nil {
		if e, err := strconv.Atoi(string(n.power)); err != nil || e > maxPower || e < -maxPower {
			return false
		}
	} else if len(n.raw) <= 300 {
		return true
	}
	_, ok := n.float(64)
	return ok
}

// float returns the nearest number of the size, and false where that is infinite. The two short ways need an exact quotient
// of exact operands: digits below 2^53 over a power of ten up to 10^22 for a double, 2^24 and 10^10 for a float. The float
// is divided as a float: a double that is rounded again may end one step away.
func (n *number) float(size int) (float64, bool) {
	if size == 64 && n.exact && n.digits < 1<<53 && n.power == nil && len(n.fraction) <= 22 {
		// Both are exact doubles, so the quotient is rounded once.
		f := float64(n.digits) / powersOfTen(len(n.fraction))
		if n.negative {
			f = -f
		}
		return f, true
	}
	if size == 32 && n.exact && n.digits < 1<<24 && n.power == nil && len(n.fraction) <= 10 {
		f := float32(n.digits) / float32(powersOfTen(len(n.fraction)))
		if n.negative {
			f = -f
		}
		return float64(f), true
	}
	f, err := strconv.ParseFloat(string(n.raw), size)
	return f, err == nil
}

// exactPowers are the powers of ten that are exact doubles.
//
//nolint:gochecknoglobals // a table that nothing writes
var exactPowers = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

func powersOfTen(n int) float64 { return exactPowers[n] }

// magnitude is an integer before it is known whether its type has a sign.
type magnitude struct {
	value    uint64
	negative bool
}

// integer returns the value of a number that is whole, however it is written, as ProtoJSON in Go reads it: 1.0 and 1e2
// are integers, and no more than twenty digits are written out.
func (n *number) integer() (magnitude, bool) {
	if n.plain && n.exact {
		return magnitude{n.digits, n.negative}, true
	}
	whole, fraction := n.whole, bytes.TrimRight(n.fraction, "0")
	if whole[0] == '0' {
		whole = nil
	}
	if len(whole) == 0 && len(fraction) == 0 {
		return magnitude{0, n.negative}, true
	}
	e := 0
	if n.power != nil {
		parsed, err := strconv.ParseInt(string(n.power), 10, 32)
		if err != nil {
			return magnitude{}, false
		}
		e = int(parsed)
	}
	const mostDigits = 20 // of the largest uint64
	var m magnitude
	m.negative = n.negative
	var ok bool
	if e < 0 {
		if len(fraction) > 0 || len(whole)+e < 0 {
			return magnitude{}, false
		}
		cut := len(whole) + e
		if len(bytes.Trim(whole[cut:], "0")) > 0 {
			return magnitude{}, false
		}
		m.value, ok = addDigits(0, whole[:cut])
		return m, ok
	}
	if len(fraction) > e || len(whole)+e > mostDigits {
		return magnitude{}, false
	}
	if m.value, ok = addDigits(0, whole); !ok {
		return magnitude{}, false
	}
	if m.value, ok = addDigits(m.value, fraction); !ok {
		return magnitude{}, false
	}
	const zeros = "00000000000000000000"
	m.value, ok = addDigits(m.value, []byte(zeros)[:e-len(fraction)])
	return m, ok
}

// addDigits writes more decimal digits behind a value, and returns false where it no longer fits.
func addDigits(v uint64, digits []byte) (uint64, bool) {
	for _, c := range digits {
		d := uint64(c - '0')
		if v > (math.MaxUint64-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	return v, true
}

// signed returns the value where it fits a signed integer of the size.
func (m magnitude) signed(size int) (int64, bool) {
	limit := uint64(1) << (size - 1)
	if m.negative {
		return -int64(m.value), m.value <= limit
	}
	return int64(m.value), m.value < limit
}

// unsigned returns the value where it fits an unsigned integer of the size. -0 does not differ from 0.
func (m magnitude) unsigned(size int) (uint64, bool) {
	if m.negative && m.value != 0 {
		return 0, false
	}
	return m.value, size == 64 || m.value < 1<<size
}

// numberOf reads a number for a field: one of the document, or one in a string.
func (r *reader) numberOf(pos int) (n number, end int) {
	if pos < len(r.doc) && r.doc[pos] == '"' {
		text, end := r.text(pos)
		if end < 0 {
			return n, refused
		}
		return numberIn(text, end)
	}
	// What is longer than the bound is not read to its end.
	n, end = numberAt(r.doc[:min(len(r.doc), pos+r.maxNumber+2)], pos)
	if end < 0 || (!n.plain || len(n.raw) > r.shortNumber) && !r.bounded(&n) {
		return n, refused
	}
	return n, end
}

// numberIn reads a string that is a number and nothing else.
func numberIn(text []byte, end int) (number, int) {
	n, at := numberAt(text, 0)
	if at != len(text) {
		return n, refused
	}
	return n, end
}
