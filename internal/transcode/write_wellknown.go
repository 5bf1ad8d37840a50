// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"math"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// wellKnown writes a message that has a JSON form of its own.
func (w *writer) wellKnown(p *plan, b []byte, depth int) bool {
	if p.form == formTimestamp || p.form == formDuration {
		if seconds, nanos, ok := briefMoment(b); ok {
			if p.form == formTimestamp {
				return w.timestamp(seconds, nanos)
			}
			return w.duration(seconds, nanos)
		}
	}
	base := len(w.spans)
	for range p.bits {
		w.spans = append(w.spans, span{})
	}
	if !w.locate(p, b, w.spans[base:]) {
		return false
	}
	var at [6]span // of the fields, of which no well-known type has more
	copy(at[:], w.spans[base:])
	w.spans = w.spans[:base]
	switch p.form {
	case formTimestamp:
		return w.timestamp(moment(b, at))
	case formDuration:
		return w.duration(moment(b, at))
	case formFieldMask:
		return w.fieldMask(b, at[0])
	case formStruct:
		if at[0].end == 0 {
			w.out = append(w.out, '{', '}')
			return true
		}
		return w.mapping(&p.fields[0], b[:at[0].end], int(at[0].start), depth) >= 0
	case formList:
		if at[0].end == 0 {
			w.out = append(w.out, '[', ']')
			return true
		}
		return w.list(&p.fields[0], b[:at[0].end], int(at[0].start), at[0].typ, depth) >= 0
	case formValue:
		for i := range p.fields {
			if at[i].end != 0 {
				return w.anyValue(&p.fields[i], b, at[i], depth)
			}
		}
		return w.word("null", "a Value that has no kind, shown as null")
	case formWrapper:
		if at[0].end == 0 {
			w.out = append(w.out, p.scalar.blank...)
			return true
		}
		return w.scalar(p.scalar, b, int(at[0].start)) >= 0
	case formAny:
		return w.unpacked(b, at, depth)
	default:
		return false
	}
}

// anyValue writes what a google.protobuf.Value holds. JSON has no number that is infinite or not a number.
func (w *writer) anyValue(s *slot, b []byte, at span, depth int) bool {
	if s.wire == protowire.Fixed64Type {
		bits, _ := protowire.ConsumeFixed64(b[at.start:])
		if f := math.Float64frombits(bits); math.IsNaN(f) || math.IsInf(f, 0) {
			return w.word(string(appendFloat(nil, f, 64)), "a number that JSON does not have, shown as a word")
		}
	}
	return w.value(s, b, int(at.start), depth) >= 0
}

// briefMoment reads a Timestamp or Duration in the form in which encoders write it: seconds and nanos, in this order and
// nothing else.
func briefMoment(b []byte) (seconds, nanos int64, ok bool) {
	pos := 0
	if len(b) > 0 && b[0] == 1<<3|byte(protowire.VarintType) {
		v, end := varintAt(b, 1)
		if end < 0 {
			return 0, 0, false
		}
		seconds, pos = int64(v), end
	}
	if pos < len(b) && b[pos] == 2<<3|byte(protowire.VarintType) {
		v, end := varintAt(b, pos+1)
		if end < 0 {
			return 0, 0, false
		}
		nanos, pos = int64(int32(v)), end
	}
	return seconds, nanos, pos == len(b)
}

// moment reads the fields that Timestamp and Duration share.
func moment(b []byte, at [6]span) (seconds, nanos int64) {
	if at[0].end != 0 {
		v, _ := varintAt(b, int(at[0].start))
		seconds = int64(v)
	}
	if at[1].end != 0 {
		v, _ := varintAt(b, int(at[1].start))
		nanos = int64(int32(v))
	}
	return seconds, nanos
}

func (w *writer) timestamp(seconds, nanos int64) bool {
	if seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos > maxNanos {
		return w.raw(seconds, nanos, "a Timestamp outside of the years 0001 to 9999 or with invalid nanos, shown as its fields, in seconds since 1970")
	}
	seconds -= minTimestamp // since the start of year 1
	days, second := seconds/86400, int(seconds%86400)
	year, month, day := dateOf(days)
	hour, minute := second/3600, second/60%60
	second %= 60
	w.out = append(w.out, '"',
		byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-',
		byte('0'+month/10), byte('0'+month%10), '-', byte('0'+day/10), byte('0'+day%10), 'T',
		byte('0'+hour/10), byte('0'+hour%10), ':', byte('0'+minute/10), byte('0'+minute%10), ':', byte('0'+second/10), byte('0'+second%10))
	w.nanos(nanos)
	w.out = append(w.out, 'Z', '"')
	return true
}

// nanos writes a fraction of three, six or nine digits, or nothing.
func (w *writer) nanos(n int64) {
	if n == 0 {
		return
	}
	digits := 9
	for n%1000 == 0 {
		n /= 1000
		digits -= 3
	}
	w.out = append(w.out, '.')
	start := len(w.out)
	for range digits {
		w.out = append(w.out, '0')
	}
	for i := start + digits - 1; n > 0; i-- {
		w.out[i] = byte('0' + n%10)
		n /= 10
	}
}

// dateOf turns days since 0001-01-01 into a date. Years begin in March while it counts, so that the leap day is the last.
func dateOf(days int64) (year, month, day int) {
	const fromMarch = 306 // days from 0000-03-01 to 0001-01-01
	d := int(days) + fromMarch
	era := d / 146097
	d %= 146097
	years := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*years + years/4 - years/100
	m := (5*d + 2) / 153
	day = d - (153*m+2)/5 + 1
	year = era*400 + years
	if month = m + 3; month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func (w *writer) duration(seconds, nanos int64) bool {
	isOdd := seconds < -maxDuration || seconds > maxDuration || nanos < -maxNanos || nanos > maxNanos
	if isOdd || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return w.raw(seconds, nanos, "a Duration of more than 10,000 years or with invalid nanos, shown as its fields")
	}
	w.out = append(w.out, '"')
	if seconds < 0 || nanos < 0 {
		w.out = append(w.out, '-')
		seconds, nanos = -seconds, -nanos
	}
	w.out = strconv.AppendInt(w.out, seconds, 10)
	w.nanos(nanos)
	w.out = append(w.out, 's', '"')
	return true
}

// fieldMask writes the paths in lowerCamelCase, where that can be undone.
func (w *writer) fieldMask(b []byte, at span) bool {
	w.out = append(w.out, '"')
	if at.end == 0 {
		w.out = append(w.out, '"')
		return true
	}
	start := len(w.out) - 1
	for pos := int(at.start); ; {
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return false
		}
		pos = from + int(n)
		before := len(w.out)
		if !isFullName(b[from:pos]) || !w.camelCase(b[from:pos]) {
			w.out = w.out[:before]
			if !w.pathAsItIs(b[from:pos], start) {
				return false
			}
		}
		if pos >= int(at.end) {
			w.out = append(w.out, '"')
			return true
		}
		w.out = append(w.out, ',')
		if _, _, pos = tagAt(b, pos); pos < 0 {
			return false
		}
	}
}

// camelCase writes a path. What cannot be read back, such as a capital or an underscore without a small letter behind
// it, is refused.
func (w *writer) camelCase(path []byte) bool {
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case 'A' <= c && c <= 'Z':
			return false
		case c == '_':
			if i++; i >= len(path) || path[i] < 'a' || path[i] > 'z' {
				return false
			}
			w.out = append(w.out, path[i]-'a'+'A')
		default:
			w.out = append(w.out, c)
		}
	}
	return true
}

// unpacked writes an Any with the fields of its type, or with the form of its type as the member value.
func (w *writer) unpacked(b []byte, at [6]span, depth int) bool {
	url, value := contentOf(b, at[0]), contentOf(b, at[1])
	if len(url) == 0 {
		if len(value) > 0 {
			return w.packedBytes("", value, "an Any that has no type, shown as bytes in base64")
		}
		w.out = append(w.out, '{', '}')
		return true
	}
	if !utf8.Valid(url) {
		return false
	}
	mt, err := w.resolver.FindMessageByURL(string(url))
	if err != nil {
		return w.opaque(string(url), value)
	}
	if w.nearest {
		if value, err = w.reencoded(mt, value); err != nil {
			return w.packedBytes(string(url), contentOf(b, at[1]), "an Any whose bytes are no "+string(mt.Descriptor().FullName())+", shown in base64")
		}
	}
	p := w.planner.of(mt.Descriptor()).prepared()
	w.inAny++
	var ok bool
	if p.form == formFields || p.form == formEmpty {
		ok = w.message(p, value, depth+1, string(url))
	} else {
		w.out = append(jsontext.AppendString(append(w.out, `{"`+typeMember+`":`...), string(url)), `,"value":`...)
		ok = w.message(p, value, depth+1, "")
		w.out = append(w.out, '}')
	}
	w.inAny--
	return ok
}

// contentOf returns the bytes of a string, which is nil where it is not there.
func contentOf(b []byte, at span) []byte {
	if at.end == 0 {
		return nil
	}
	_, from := varintAt(b, int(at.start))
	return b[from:at.end]
}
