// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"iter"
	"strconv"
)

// The functions of this file look into values that were checked, by Check
// or one like it, and allocate next to nothing. On other bytes they return something
// useless but stay within them and do not panic. Values that they return alias
// their input, without space around them.

// Lookup returns the member of an object with the given decoded name. It reports
// false if there is none, and if object is nil or not an object. Checked objects
// have at most one such member.
func Lookup(object []byte, name string) (json.RawMessage, bool) {
	for pos := firstElement(object, '{'); pos < len(object); {
		body, escaped, value, next := memberAt(object, pos)
		if sameText(body, escaped, name) {
			return value, len(value) > 0
		}
		pos = next
	}
	return nil, false
}

// Members yields the decoded names and raw values of an object in order, and
// nothing if object is not an object. Each name is a copy.
//
// Like the other iterators, it only returns a function that calls another one.
// The compiler can then inline it, and the loop's body, with the variables that it
// changes, stays on the stack.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) { eachMember(object, yield) }
}

func eachMember(object []byte, yield func(string, json.RawMessage) bool) {
	eachField(object, func(name []byte, value json.RawMessage) bool { return yield(string(name), value) })
}

// Fields is Members without the copies: a name is valid until the next one.
func Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { eachField(object, yield) }
}

func eachField(object []byte, yield func([]byte, json.RawMessage) bool) {
	for pos := firstElement(object, '{'); pos < len(object); {
		body, escaped, value, next := memberAt(object, pos)
		if escaped {
			body = appendDecoded(nil, body)
		}
		if !yield(body, value) {
			return
		}
		pos = next
	}
}

// Elements yields the raw elements of an array in order, and nothing if array is
// not an array.
func Elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) { eachElement(array, yield) }
}

func eachElement(array []byte, yield func(json.RawMessage) bool) {
	for pos := firstElement(array, '['); pos < len(array); {
		end := SkipValue(array, pos)
		if !yield(array[pos:end:end]) {
			return
		}
		pos = nextElement(array, end)
	}
}

// Text returns the decoded value of a JSON string, and false for other values.
func Text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body), true
	}
	return string(appendDecoded(make([]byte, 0, len(body)), body)), true
}

// IsText reports whether raw is a JSON string with this decoded value.
func IsText(raw []byte, want string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	body := raw[1 : len(raw)-1]
	return sameText(body, bytes.IndexByte(body, '\\') >= 0, want)
}

// IsInteger reports whether raw consists of digits after at most one minus sign.
func IsInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	for _, c := range raw {
		if !isDigit(c) {
			return false
		}
	}
	return len(raw) > 0
}

// Int64 returns the value of a JSON number that has no fraction or exponent and
// fits an int64, and false for anything else.
func Int64(raw []byte) (int64, bool) {
	if !IsInteger(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// EmptyObject is the JSON of an object without members.
const EmptyObject = "{}"

// IsObject reports whether raw is a JSON object. It is false for nil bytes.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// IsNull reports whether raw is a JSON null. It is false for nil bytes.
func IsNull(raw []byte) bool { return string(raw) == "null" }

// TypeName returns the JSON type of a value, in words for people.
func TypeName(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// Trim returns a value without surrounding space.
func Trim(raw []byte) []byte {
	raw = raw[SkipSpace(raw, 0):]
	for len(raw) > 0 && isSpace(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// IsCompact reports whether raw has no space between its tokens.
func IsCompact(raw []byte) bool {
	for pos := 0; pos < len(raw); {
		switch c := raw[pos]; {
		case c == '"':
			pos = SkipString(raw, pos)
		case c <= ' ':
			return false
		default:
			pos++
		}
	}
	return true
}

// Compact appends raw to dst without the space between its tokens. Strings and
// numbers are unchanged.
func Compact(dst, raw []byte) []byte {
	for pos := 0; pos < len(raw); {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		case '"':
			end := SkipString(raw, pos)
			dst = append(dst, raw[pos:end]...)
			pos = end
		default:
			start := pos
			for pos < len(raw) && raw[pos] > ' ' && raw[pos] != '"' {
				pos++
			}
			pos = max(pos, start+1)
			dst = append(dst, raw[start:pos]...)
		}
	}
	return dst
}

// firstElement returns where the first element of a container is, or
// len(raw) where raw is no such container or an empty one.
func firstElement(raw []byte, open byte) int {
	pos := SkipSpace(raw, 0)
	if pos >= len(raw) || raw[pos] != open {
		return len(raw)
	}
	pos = SkipSpace(raw, pos+1)
	if pos < len(raw) && (raw[pos] == '}' || raw[pos] == ']') {
		return len(raw)
	}
	return pos
}

// nextElement returns where the element after the one that ends at pos is,
// or len(raw) after the last one.
func nextElement(raw []byte, pos int) int {
	pos = SkipSpace(raw, pos)
	if pos >= len(raw) || raw[pos] != ',' {
		return len(raw)
	}
	return SkipSpace(raw, pos+1)
}

// memberAt reads the member whose name is at pos.
func memberAt(raw []byte, pos int) (body []byte, escaped bool, value json.RawMessage, next int) {
	end := SkipString(raw, pos)
	if end-pos >= 2 {
		body = raw[pos+1 : end-1]
		escaped = bytes.IndexByte(body, '\\') >= 0
	}
	pos = SkipSpace(raw, SkipSpace(raw, end)+1)
	if pos >= len(raw) {
		return body, escaped, nil, len(raw)
	}
	end = SkipValue(raw, pos)
	return body, escaped, raw[pos:end:end], nextElement(raw, end)
}

func sameText(body []byte, escaped bool, want string) bool {
	if !escaped {
		return string(body) == want
	}
	if len(body) > 6*len(want) { // \uXXXX is the longest spelling of a byte
		return false
	}
	return string(appendDecoded(nil, body)) == want
}

// SkipSpace returns the position of the first byte at or after pos that is not white
// space, or len(raw) if there is none.
func SkipSpace(raw []byte, pos int) int {
	for pos < len(raw) {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		default:
			return pos
		}
	}
	return len(raw)
}

// SkipString returns the end of the string that starts at pos. It always advances.
// It searches from quote to quote, which the standard library does many bytes at a
// time: values are skipped far more often than they are read.
func SkipString(raw []byte, pos int) int {
	for pos++; pos < len(raw); {
		i := bytes.IndexByte(raw[pos:], '"')
		if i < 0 {
			break
		}
		end := pos + i
		backslashes := 0
		for at := end - 1; at >= pos && raw[at] == '\\'; at-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return end + 1
		}
		pos = end + 1 // the quote was escaped
	}
	return len(raw)
}

// SkipValue returns the end of the value that starts at pos. It always advances.
func SkipValue(raw []byte, pos int) int {
	for depth := 0; pos < len(raw); {
		switch raw[pos] {
		case '"':
			pos = SkipString(raw, pos)
		case '{', '[':
			depth++
			pos++
			continue
		case '}', ']':
			depth--
			pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			pos++
			if depth > 0 {
				continue
			}
			return pos
		default:
			pos = skipScalar(raw, pos)
		}
		if depth <= 0 {
			return pos
		}
	}
	return len(raw)
}

// skipScalar returns the end of the number or literal at pos.
func skipScalar(raw []byte, pos int) int {
	for pos++; pos < len(raw); pos++ {
		switch raw[pos] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r', '"', '{', '[':
			return pos
		}
	}
	return len(raw)
}

// inlineNames is how many names, over all open objects, fit on the stack of
// the scan. Envelopes of tool calls rarely hold more at one time.
const inlineNames = 64

// fewNames is the number of names of one object up to which comparing each
// pair is quicker than hashing.
const fewNames = 12

// name is one member name: offsets into the input, or into names.decoded where
// it came with escapes.
type name struct {
	start, end uint32
	escaped    bool
}

// names is the list of the names of all open objects, the innermost last, so that its
// memory follows the open objects and never exceeds a small multiple of the
// input. Large objects get a hash set; the hash is seeded per document, so a
// sender cannot aim for collisions.
type names struct {
	inline  [inlineNames]name // an array, so that the scanner stays on the stack
	more    []name            // those after the inline ones
	count   int
	decoded []byte
	seed    maphash.Seed
	seeded  bool
	spare   []uint32 // the table of the last large object that was closed
}

// scope is one open object.
type scope struct {
	first   int      // the index of its first name
	decoded int      // len(names.decoded) when it was opened
	seen    uint64   // the shortBit of each name so far that is short
	table   []uint32 // open addressing, a power of two: index of a name plus 1, or 0
}

func (ns *names) open() scope {
	return scope{first: ns.count, decoded: len(ns.decoded)}
}

func (ns *names) close(sc scope) {
	ns.count = sc.first
	ns.more = ns.more[:max(0, ns.count-inlineNames)]
	ns.decoded = ns.decoded[:sc.decoded]
	if cap(sc.table) > cap(ns.spare) {
		ns.spare = sc.table
	}
}

// add appends the name whose body is at raw[start:end].
func (ns *names) add(raw []byte, start, end int, escaped bool) name {
	n := name{start: uint32(start), end: uint32(end)}
	if escaped {
		n.escaped = true
		n.start = uint32(len(ns.decoded))
		ns.decoded = appendDecoded(ns.decoded, raw[start:end])
		n.end = uint32(len(ns.decoded))
	}
	ns.push(n)
	return n
}

func (ns *names) push(n name) {
	if ns.count < inlineNames {
		ns.inline[ns.count] = n
	} else {
		ns.more = append(ns.more, n)
	}
	ns.count++
}

func (ns *names) at(index int) name {
	if index < inlineNames {
		return ns.inline[index]
	}
	return ns.more[index-inlineNames]
}

// bytes is the decoded name. It is valid until its object is closed.
func (ns *names) bytes(raw []byte, n name) []byte {
	if n.escaped {
		return ns.decoded[n.start:n.end]
	}
	return raw[n.start:n.end]
}

// longestShort is the length of the longest name, without escapes, that is found
// to be new by its bit alone.
const longestShort = 15

// shortBit is one of 64 bits that a name of up to longestShort bytes has, given its first eight
// bytes and the others, or zero and its bytes if it has fewer than eight. Names
// with different bits differ.
func shortBit(first, rest uint64) uint64 {
	// The golden ratio times 2^64, as in Fibonacci hashing; the highest six bits choose.
	const golden = 0x9e3779b97f4a7c15
	return 1 << (((first*golden ^ rest) * golden) >> 58)
}

// note sets the bit of a name that did not come by shortName.
func (sc *scope) note(text []byte) {
	if len(text) > longestShort {
		return
	}
	var padded [16]byte
	copy(padded[:], text)
	first, rest := binary.LittleEndian.Uint64(padded[:]), binary.LittleEndian.Uint64(padded[8:])
	if len(text) < 8 {
		first, rest = 0, first
	}
	sc.seen |= shortBit(first, rest)
}

// duplicate reports whether the last name added, n, was in its object before.
func (ns *names) duplicate(raw []byte, sc *scope, n name) bool {
	last := ns.count - 1
	count := last - sc.first
	if count <= fewNames {
		text := ns.bytes(raw, n)
		sc.note(text)
		for i := sc.first; i < last; i++ {
			other := ns.at(i)
			if other.end-other.start == n.end-n.start && bytes.Equal(text, ns.bytes(raw, other)) {
				return true
			}
		}
		return false
	}
	if 2*(count+1) > len(sc.table) { // keep half of the slots free
		ns.grow(raw, sc, last)
	}
	return !ns.insert(raw, sc.table, last)
}

// grow gives sc a table of twice the size, or its first one, and puts the names
// before last into it.
func (ns *names) grow(raw []byte, sc *scope, last int) {
	size := max(4*fewNames, 2*len(sc.table))
	for size&(size-1) != 0 {
		size += size & -size // up to the next power of two
	}
	old := sc.table
	if cap(ns.spare) >= size {
		// Only the part in use is cleared: an object pays for its own size,
		// not for that of an earlier, larger one.
		sc.table, ns.spare = ns.spare[:size], nil
		clear(sc.table)
	} else {
		sc.table = make([]uint32, size)
	}
	if ns.spare == nil {
		ns.spare = old
	}
	if !ns.seeded {
		ns.seed, ns.seeded = maphash.MakeSeed(), true
	}
	for i := sc.first; i < last; i++ {
		ns.insert(raw, sc.table, i)
	}
}

// insert reports whether the name at index was new to the table.
func (ns *names) insert(raw []byte, table []uint32, index int) bool {
	text := ns.bytes(raw, ns.at(index))
	mask := uint64(len(table) - 1)
	for slot := maphash.Bytes(ns.seed, text) & mask; ; slot = (slot + 1) & mask {
		found := table[slot]
		if found == 0 {
			table[slot] = uint32(index + 1)
			return true
		}
		if bytes.Equal(text, ns.bytes(raw, ns.at(int(found-1)))) {
			return false
		}
	}
}

// Rewriter copies a checked value and lets its user change it in the process: omit
// members, rename them, or replace values. Values that it walks through lose their
// white space; values that it copies whole keep it. Set In, with Pos at a value,
// and take Out.
type Rewriter struct {
	In  []byte
	Pos int // position of the next value, or the end of the previous one
	Out []byte
}

// Next returns the first byte of the value at Pos.
func (r *Rewriter) Next() byte { return r.In[r.Pos] }

// Copy copies the value at Pos unchanged.
func (r *Rewriter) Copy() {
	start := r.Pos
	r.Skip()
	r.Out = append(r.Out, r.In[start:r.Pos]...)
}

// Skip skips the value at Pos.
func (r *Rewriter) Skip() { r.Pos = SkipValue(r.In, r.Pos) }

// Members walks through the object at Pos. It calls choose for each member, with
// the quoted name, and with Pos at the value. choose returns the name to write and
// a function that writes the value and moves Pos past it. Nil omits the member.
func (r *Rewriter) Members(choose func(quoted []byte) (name []byte, value func())) {
	r.enter('{')
	for first := true; r.Pos < len(r.In) && r.In[r.Pos] != '}'; r.step() {
		start := r.Pos
		r.Pos = SkipString(r.In, r.Pos)
		quoted := r.In[start:r.Pos]
		r.Pos = SkipSpace(r.In, min(SkipSpace(r.In, r.Pos)+1, len(r.In))) // behind the colon
		name, value := choose(quoted)
		if value == nil {
			r.Skip()
			continue
		}
		if !first {
			r.Out = append(r.Out, ',')
		}
		first = false
		r.Out = append(append(r.Out, name...), ':')
		value()
	}
	r.leave('}')
}

// Items walks through the array at Pos; item writes an element and moves Pos past it.
func (r *Rewriter) Items(item func(index int)) {
	r.enter('[')
	for i := 0; r.Pos < len(r.In) && r.In[r.Pos] != ']'; i++ {
		if i > 0 {
			r.Out = append(r.Out, ',')
		}
		item(i)
		r.step()
	}
	r.leave(']')
}

func (r *Rewriter) enter(bracket byte) {
	r.Out = append(r.Out, bracket)
	r.Pos = SkipSpace(r.In, r.Pos+1)
}

// step moves from behind an element to the next one, or to the closing bracket.
func (r *Rewriter) step() {
	r.Pos = SkipSpace(r.In, r.Pos)
	if r.Pos < len(r.In) && r.In[r.Pos] == ',' {
		r.Pos = SkipSpace(r.In, r.Pos+1)
	}
}

func (r *Rewriter) leave(bracket byte) {
	r.Out = append(r.Out, bracket)
	r.Pos = min(r.Pos+1, len(r.In))
}

// PlainName decodes a quoted name.
func PlainName(quoted []byte) string {
	name, _ := Text(quoted)
	return name
}
