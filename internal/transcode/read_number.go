// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"math"
	"strconv"
)

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
