// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// scalar writes the value at pos, which is no message.
func (w *writer) scalar(s *slot, b []byte, pos int) int {
	switch s.wire {
	case protowire.BytesType:
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return refused
		}
		pos = from + int(n)
		if s.kind == protoreflect.BytesKind {
			w.out = append(w.out, '"')
			w.out = append(base64.StdEncoding.AppendEncode(w.out, b[from:pos]), '"')
			return pos
		}
		if !w.text(b[from:pos]) {
			return refused
		}
		return pos
	case protowire.Fixed32Type:
		if pos+4 > len(b) {
			return refused
		}
		w.bits(s, uint64(binary.LittleEndian.Uint32(b[pos:])))
		return pos + 4
	case protowire.Fixed64Type:
		if pos+8 > len(b) {
			return refused
		}
		w.bits(s, binary.LittleEndian.Uint64(b[pos:]))
		return pos + 8
	default:
		v, pos := varintAt(b, pos)
		if pos >= 0 {
			w.bits(s, v)
		}
		return pos
	}
}

// bits writes a value from what stands on the wire. Sizes are cut off as the wire decoder does.
func (w *writer) bits(s *slot, v uint64) {
	switch s.kind {
	case protoreflect.BoolKind:
		w.out = strconv.AppendBool(w.out, v != 0)
	case protoreflect.EnumKind:
		w.out = s.enum.append(w.out, int32(v))
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		w.out = strconv.AppendInt(w.out, int64(int32(v)), 10)
	case protoreflect.Sint32Kind:
		w.out = strconv.AppendInt(w.out, int64(int32(protowire.DecodeZigZag(v&math.MaxUint32))), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		w.out = strconv.AppendUint(w.out, uint64(uint32(v)), 10)
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		w.out = append(strconv.AppendInt(append(w.out, '"'), int64(v), 10), '"')
	case protoreflect.Sint64Kind:
		w.out = append(strconv.AppendInt(append(w.out, '"'), protowire.DecodeZigZag(v), 10), '"')
	case protoreflect.FloatKind:
		w.out = appendFloat(w.out, float64(math.Float32frombits(uint32(v))), 32)
	case protoreflect.DoubleKind:
		w.out = appendFloat(w.out, math.Float64frombits(v), 64)
	default:
		w.out = append(strconv.AppendUint(append(w.out, '"'), v, 10), '"')
	}
}

// append writes the name of a number, or the number where it has none.
func (e *enumPlan) append(dst []byte, n int32) []byte {
	if e.null {
		return append(dst, "null"...)
	}
	if uint32(n) < uint32(len(e.dense)) {
		return append(dst, e.dense[n]...)
	}
	if text, ok := e.text[n]; ok {
		return append(dst, text...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendFloat writes a float as encoding/json does, and the three that are no numbers as strings.
func appendFloat(dst []byte, f float64, size int) []byte {
	exact := float64(1 << 53)
	if size == 32 {
		exact = 1 << 24
	}
	abs := math.Abs(f)
	if abs < exact && f == math.Trunc(f) && (f != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if size == 64 && abs < 1e9 && abs != 0 {
		for _, places := range [...]int{3, 6} {
			if n := math.Round(abs * powersOfTen(places)); n > 0 && n/powersOfTen(places) == abs {
				return appendDecimal(dst, f < 0, uint64(n), places)
			}
		}
	}
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs != 0 && (size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, size)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1]) // e-07 is written as e-7
	}
	return dst
}

// appendDecimal writes n / 10^places without zeros at its end. No two numbers of up to fifteen digits are the same
// double, so this is the shortest form of the one whose nearest number it is.
func appendDecimal(dst []byte, negative bool, n uint64, places int) []byte {
	if negative {
		dst = append(dst, '-')
	}
	unit := uint64(powersOfTen(places))
	dst = append(strconv.AppendUint(dst, n/unit, 10), '.')
	for rest := n % unit; rest > 0; rest %= unit {
		unit /= 10
		dst = append(dst, byte('0'+rest/unit))
	}
	return dst
}

// text writes a string, or returns false where it is not UTF-8.
func (w *writer) text(b []byte) (valid bool) {
	before := len(w.out)
	w.out, valid = jsontext.AppendValid(w.out, b)
	return valid || w.mended(b, before)
}
