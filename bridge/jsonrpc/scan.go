// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// scanner walks one document once. It recurses once per nesting level, which
// maxDepth bounds. It never moves past the end of raw.
type scanner struct {
	raw      []byte
	pos      int
	maxDepth int
	names    names
	envelope bool // take note of the members of the outermost object
	params   int  // where the value of its params begins while that is read, else 0
	found    members
}

// Check reports the first reason to refuse raw as JSON, or nil. It is the
// syntax check of Parse for documents that are no envelopes: UTF-8 without a
// byte order mark, RFC 8259, no duplicate names, no lone surrogates, nothing
// after the value, size and depth within l. Its faults are FaultParse and
// FaultTooLarge.
func Check(raw []byte, l Limits) *Fault {
	return check(raw, l.WithDefaults())
}

func check(raw []byte, l Limits) *Fault {
	if f := checkSize(raw, l); f != nil {
		return f
	}
	s := scanner{raw: raw, maxDepth: l.MaxDepth}
	return s.document().done()
}

func checkSize(raw []byte, l Limits) *Fault {
	if len(raw) <= l.MaxBytes {
		return nil
	}
	return &Fault{Code: FaultTooLarge, Reason: "The message is larger than " + strconv.Itoa(l.MaxBytes) + " bytes.", Over: OverBytes}
}

// byteOrderMark is U+FEFF in UTF-8. RFC 8259, section 8.1 forbids to send it.
const byteOrderMark = "\ufeff"

func (s *scanner) document() *Fault {
	if bytes.HasPrefix(s.raw, []byte(byteOrderMark)) {
		return s.fault("Remove the byte order mark before the JSON text.")
	}
	s.space()
	if s.pos == len(s.raw) {
		return s.fault("The message is empty; send one JSON object.")
	}
	if f := s.value(0); f != nil {
		return f
	}
	s.space()
	if s.pos < len(s.raw) {
		return s.fault("Remove what follows the JSON value, from byte %d on.", s.pos)
	}
	return nil
}

func (s *scanner) fault(format string, args ...any) *Fault {
	return &Fault{Code: FaultParse, Reason: fmt.Sprintf(format, args...)}
}

// unexpected is the fault of a byte that the grammar does not allow here.
func (s *scanner) unexpected(want string) *Fault {
	if s.pos >= len(s.raw) {
		return s.fault("The JSON text ends at byte %d, where %s is expected.", len(s.raw), want)
	}
	return s.fault("Byte %d is %s, where %s is expected.", s.pos, shown(s.raw[s.pos]), want)
}

// shown is a byte in a form that is safe in replies and logs.
func shown(c byte) string {
	if c > ' ' && c < utf8.RuneSelf-1 {
		return strconv.QuoteRune(rune(c))
	}
	return fmt.Sprintf("0x%02X", c)
}

func (s *scanner) space() {
	if s.pos < len(s.raw) && s.raw[s.pos] > ' ' {
		return // the usual case, cheap enough to be inlined
	}
	s.spaces()
}

func (s *scanner) spaces() {
	for s.pos < len(s.raw) {
		switch s.raw[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// value scans the value at pos; depth is the number of open containers.
func (s *scanner) value(depth int) *Fault {
	if s.pos >= len(s.raw) {
		return s.unexpected("a value")
	}
	switch c := s.raw[s.pos]; c {
	case '"':
		_, f := s.text()
		return f
	case '{':
		return s.object(depth + 1)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.unexpected("a value")
	}
}

func (s *scanner) literal(word string) *Fault {
	for i := range len(word) {
		if s.pos >= len(s.raw) || s.raw[s.pos] != word[i] {
			return s.unexpected("the rest of " + word)
		}
		s.pos++
	}
	return nil
}

// number scans by the grammar of RFC 8259, section 6. A sign or digit is at pos.
func (s *scanner) number() *Fault {
	if s.raw[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '0' {
		s.pos++
		if s.pos < len(s.raw) && isDigit(s.raw[s.pos]) {
			return s.fault("Remove the leading zero of the number at byte %d.", s.pos-1)
		}
	} else if f := s.digits(); f != nil {
		return f
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '.' {
		s.pos++
		if f := s.digits(); f != nil {
			return f
		}
	}
	if s.pos < len(s.raw) && s.raw[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.raw) && (s.raw[s.pos] == '+' || s.raw[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() *Fault {
	start := s.pos
	for s.pos < len(s.raw) && isDigit(s.raw[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return s.unexpected("a digit")
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// enter refuses one level too many; the opening bracket is at pos.
func (s *scanner) enter(depth int) *Fault {
	if depth > s.maxDepth {
		f := s.fault("Nest objects and arrays at most %d levels deep.", s.maxDepth)
		f.Over = OverDepth
		return f
	}
	s.pos++
	s.space()
	return nil
}

func (s *scanner) array(depth int) *Fault {
	if f := s.enter(depth); f != nil {
		return f
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == ']' {
		s.pos++
		return nil
	}
	for index := 0; ; index++ {
		if f := s.value(depth); f != nil {
			return f.within(strconv.Itoa(index))
		}
		s.space()
		if s.pos >= len(s.raw) {
			return s.unexpected("',' or ']'")
		}
		switch s.raw[s.pos] {
		case ',':
			s.pos++
			s.space()
		case ']':
			s.pos++
			return nil
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

func (s *scanner) object(depth int) *Fault {
	if f := s.enter(depth); f != nil {
		return f
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '}' {
		s.pos++
		return nil
	}
	scope := s.names.open()
	for {
		n, f := s.member(&scope)
		if f != nil {
			return f
		}
		start := s.pos
		noted := s.envelope && depth <= 2
		if noted && depth == 1 && string(s.names.bytes(s.raw, n)) == "params" {
			s.params = start
		}
		if f := s.value(depth); f != nil {
			return f.within(string(s.names.bytes(s.raw, n)))
		}
		if noted {
			s.note(depth, n, start)
		}
		s.space()
		if s.pos >= len(s.raw) {
			return s.unexpected("',' or '}'")
		}
		switch s.raw[s.pos] {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.pos++
			s.names.close(scope)
			return nil
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

// note takes note of a member of the envelope or of its params that was read.
func (s *scanner) note(depth int, n name, start int) {
	switch {
	case depth == 1:
		s.found.record(s.names.bytes(s.raw, n), span{start, s.pos})
		if s.params > 0 {
			s.found.params.size = s.pos - s.params
			s.params = 0
		}
	case s.params > 0:
		s.noteParam(n, start)
	}
}

// noteParam takes note of a member of params that was read.
func (s *scanner) noteParam(n name, start int) {
	base := uint32(s.params)
	s.found.params.note(paramSpan{n.start - base, n.end - base}, paramSpan{uint32(start) - base, uint32(s.pos) - base}, n.escaped)
}

// shortName scans a name of up to 15 bytes without escapes and its colon, as nearly all are, if it surely was not in its
// object before; else it moves nothing. An equal name has the same bit in scope.seen.
func (s *scanner) shortName(scope *scope) (name, bool) {
	start := s.pos + 1
	if start+18 > len(s.raw) || s.raw[s.pos] != '"' || s.names.count-scope.first > fewNames {
		return name{}, false
	}
	head := s.raw[start : start+18]
	size, bytes := 0, binary.LittleEndian.Uint64(head)
	special, hash := flags(bytes), uint64(0)
	if special == 0 {
		size, hash = 8, bytes
		bytes = binary.LittleEndian.Uint64(head[8:])
		if special = flags(bytes); special == 0 {
			return name{}, false
		}
	}
	shift := bits.TrailingZeros64(special) &^ 7
	size += shift / 8
	if head[size] != '"' || head[size+1] != ':' {
		return name{}, false
	}
	bit := shortBit(hash, bytes&(1<<shift-1))
	if scope.seen&bit != 0 {
		return name{}, false
	}
	scope.seen |= bit
	n := name{start: uint32(start), end: uint32(start + size)}
	s.names.push(n)
	s.pos = start + size + 2
	s.space()
	return n, true
}

// member scans a name and its colon and leaves pos at the value.
func (s *scanner) member(scope *scope) (name, *Fault) {
	if n, ok := s.shortName(scope); ok {
		return n, nil
	}
	if s.pos >= len(s.raw) || s.raw[s.pos] != '"' {
		return name{}, s.unexpected("a name in double quotes")
	}
	start := s.pos + 1
	escaped, f := s.text()
	if f != nil {
		return name{}, f
	}
	n := s.names.add(s.raw, start, s.pos-1, escaped)
	if s.names.duplicate(s.raw, scope, n) {
		f := s.fault("The name of this member appears twice in its object; keep one.")
		return name{}, f.within(string(s.names.bytes(s.raw, n)))
	}
	s.space()
	if s.pos >= len(s.raw) || s.raw[s.pos] != ':' {
		return name{}, s.unexpected("':'")
	}
	s.pos++
	s.space()
	return n, nil
}
