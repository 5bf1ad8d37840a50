// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Tags of the well-known types, whose field numbers formOf has checked.
const (
	tagVarint1 = 1<<3 | byte(protowire.VarintType)
	tagVarint2 = 2<<3 | byte(protowire.VarintType)
	tagVarint4 = 4<<3 | byte(protowire.VarintType)
	tagFixed2  = 2<<3 | byte(protowire.Fixed64Type)
	tagBytes1  = 1<<3 | byte(protowire.BytesType)
	tagBytes2  = 2<<3 | byte(protowire.BytesType)
	tagBytes3  = 3<<3 | byte(protowire.BytesType)
	tagBytes5  = 5<<3 | byte(protowire.BytesType)
	tagBytes6  = 6<<3 | byte(protowire.BytesType)
)

// Bounds of google.protobuf.Timestamp (years 1 to 9999) and Duration (10,000 years), see their .proto files.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
	maxDuration  = 315576000000
	maxNanos     = 999999999
)

// wellKnown appends the content of a message that has a JSON form of its own.
func (r *reader) wellKnown(p *plan, pos, depth int) int {
	switch p.form {
	case formTimestamp:
		return r.timestamp(pos)
	case formDuration:
		return r.duration(pos)
	case formFieldMask:
		return r.fieldMask(pos)
	case formStruct:
		return r.mapping(&p.fields[0], pos, depth)
	case formList:
		return r.list(&p.fields[0], pos, depth)
	case formValue:
		return r.anyValue(p, pos, depth)
	case formWrapper:
		return r.scalar(p.scalar, pos, p.scalar.tag, false)
	case formEmpty:
		pos, done := r.open(pos, depth, '{', '}')
		if !done {
			return refused
		}
		return pos
	case formAny:
		return r.packed(pos, depth)
	default:
		return refused
	}
}

// anyValue appends the content of a google.protobuf.Value.
func (r *reader) anyValue(p *plan, pos, depth int) int {
	if pos >= len(r.doc) {
		return refused
	}
	switch r.doc[pos] {
	case 'n':
		r.out = append(r.out, tagVarint1, 0)
		return r.word(pos, "null")
	case 't':
		r.out = append(r.out, tagVarint4, 1)
		return r.word(pos, "true")
	case 'f':
		r.out = append(r.out, tagVarint4, 0)
		return r.word(pos, "false")
	case '"':
		text, pos := r.text(pos)
		if pos < 0 {
			return refused
		}
		r.out = append(r.out, tagBytes3)
		r.length(len(text))
		r.out = append(r.out, text...)
		return pos
	case '{':
		return r.messageField(&p.fields[4], pos, depth)
	case '[':
		return r.messageField(&p.fields[5], pos, depth)
	default:
		return r.floating(protoreflect.DoubleKind, pos, []byte{tagFixed2}, true)
	}
}

func (r *reader) timestamp(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	seconds, nanos, ok := parseTimestamp(text)
	if !ok || seconds < minTimestamp || seconds > maxTimestamp {
		return refused
	}
	r.moment(seconds, nanos)
	return pos
}

// moment appends the fields that Timestamp and Duration share.
func (r *reader) moment(seconds int64, nanos int32) {
	if seconds != 0 {
		r.out = protowire.AppendVarint(append(r.out, tagVarint1), uint64(seconds))
	}
	if nanos != 0 {
		r.out = protowire.AppendVarint(append(r.out, tagVarint2), uint64(int64(nanos)))
	}
}

// parseTimestamp reads the plain form of RFC 3339 itself, and leaves what is unusual to package time, as protojson does.
func parseTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	if seconds, nanos, ok = plainTimestamp(text); ok {
		return seconds, nanos, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, 0, false
	}
	// More than nine digits of a second are refused, where they stand before the zone.
	point, zone := bytes.LastIndexByte(text, '.'), bytes.LastIndexAny(text, "Z-+")
	if point >= 0 && zone >= point && zone-point > len(".999999999") {
		return 0, 0, false
	}
	return t.Unix(), int32(t.Nanosecond()), true
}

// plainTimestamp reads 2006-01-02T15:04:05, up to nine digits of a second, and Z or an offset.
func plainTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	if len(text) < len("2006-01-02T15:04:05Z") || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	century, year, month, day := twoDigits(text, 0), twoDigits(text, 2), twoDigits(text, 5), twoDigits(text, 8)
	hour, minute, second := twoDigits(text, 11), twoDigits(text, 14), twoDigits(text, 17)
	if century > 99 || year > 99 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysOf(century*100+year, month) {
		return 0, 0, false
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	at := 19
	if text[at] == '.' {
		at++
		from := at
		for ; at < len(text) && text[at]-'0' <= 9 && at-from < 9; at++ {
			nanos = nanos*10 + int32(text[at]-'0')
		}
		if at == from || at == len(text) {
			return 0, 0, false
		}
		for n := at - from; n < 9; n++ {
			nanos *= 10
		}
	}
	seconds = daysBefore(century*100+year, month, day)*86400 + int64(hour*3600+minute*60+second)
	offset, ok := parseZone(text[at:])
	return seconds - offset, nanos, ok
}

// parseZone reads Z or an offset, in seconds to the east.
func parseZone(text []byte) (int64, bool) {
	switch {
	case len(text) == 1 && text[0] == 'Z':
		return 0, true
	case len(text) == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':':
		hours, minutes := twoDigits(text, 1), twoDigits(text, 4)
		if hours > 23 || minutes > 59 {
			return 0, false
		}
		offset := int64(hours*3600 + minutes*60)
		if text[0] == '-' {
			offset = -offset
		}
		return offset, true
	default:
		return 0, false
	}
}

// twoDigits reads two digits; what is none gives a number above all that are.
func twoDigits(text []byte, at int) int {
	a, b := text[at]-'0', text[at+1]-'0'
	if a > 9 || b > 9 {
		return 1000
	}
	return int(a)*10 + int(b)
}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysOf(year, month int) int {
	switch month {
	case 2:
		if isLeap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// daysBefore counts the days from 1970-01-01. Years begin in March here, so that the leap day is the last of one.
func daysBefore(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year + 400 // years are not negative: 0000-01-01 is the first
	days := 365*era + era/4 - era/100 + era/400 + (153*(month-3)+2)/5 + day - 1
	const toEpoch = 719468 + 146097 // from 0000-03-01, and the 400 years that were added
	return int64(days) - toEpoch
}

func (r *reader) duration(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	seconds, nanos, ok := parseDuration(text)
	if !ok || seconds < -maxDuration || seconds > maxDuration {
		return refused
	}
	r.moment(seconds, nanos)
	return pos
}

// parseDuration reads seconds with the suffix s. The sign may be a plus, and either side of the point may be missing, but
// there is no more than one leading zero.
func parseDuration(text []byte) (seconds int64, nanos int32, ok bool) {
	if len(text) < 2 || text[len(text)-1] != 's' {
		return 0, 0, false
	}
	text = text[:len(text)-1]
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, 0, false
	}
	n := 0
	for n < len(text) && text[n]-'0' <= 9 {
		n++
	}
	if n > 1 && text[0] == '0' || n == 0 && text[0] != '.' {
		return 0, 0, false
	}
	if n > 0 {
		var err error
		if seconds, err = strconv.ParseInt(string(text[:n]), 10, 64); err != nil {
			return 0, 0, false
		}
	}
	if text = text[n:]; len(text) > 0 {
		if nanos, ok = parseNanos(text); !ok {
			return 0, 0, false
		}
	}
	if negative {
		return -seconds, -nanos, true
	}
	return seconds, nanos, true
}

// parseNanos reads a point and up to nine digits.
func parseNanos(text []byte) (int32, bool) {
	digits := text[1:]
	if text[0] != '.' || len(digits) > 9 {
		return 0, false
	}
	nanos := int32(0)
	for i := range 9 {
		nanos *= 10
		if i < len(digits) {
			if digits[i]-'0' > 9 {
				return 0, false
			}
			nanos += int32(digits[i] - '0')
		}
	}
	return nanos, true
}

// fieldMask appends the paths of a mask, back in snake_case.
func (r *reader) fieldMask(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return pos
	}
	for more := true; more; {
		var path []byte
		path, text, more = bytes.Cut(text, []byte{','})
		r.out = append(r.out, tagBytes1)
		start := len(r.out)
		r.out = append(r.out, 0)
		for _, c := range path {
			if c == '_' {
				return refused
			}
			if 'A' <= c && c <= 'Z' {
				r.out = append(r.out, '_', c|0x20)
				continue
			}
			r.out = append(r.out, c)
		}
		if !isFullName(r.out[start+1:]) {
			return refused
		}
		r.close(start)
	}
	return pos
}

// isFullName holds for identifiers with points between them.
func isFullName(name []byte) bool {
	first := true
	for _, c := range name {
		switch {
		case c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z':
			first = false
		case first:
			return false
		case c == '.':
			first = true
		case c < '0' || c > '9':
			return false
		}
	}
	return !first
}
