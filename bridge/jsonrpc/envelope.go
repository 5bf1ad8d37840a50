// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"unicode"
	"unicode/utf8"
)

// Envelope is a message after the pass over its bytes and before the rules of
// a profile. An edge that has to look into a message to tell its dialect reads
// it once and then asks for it As the profile that it found. It aliases the
// input. The zero Envelope is no message.
type Envelope struct {
	raw    []byte
	limits Limits
	found  members
	root   byte // the first byte of the value
	fault  *Fault
}

// members is what the scanner notes about the outermost object.
type members struct {
	values  [memberCount]span
	similar string // the first name that differs from a reserved one by folding
	params  paramIndex
}

// span is a value: offsets into the input. A value is never empty, so the zero
// span means absent.
type span struct{ start, end int }

// The reserved members.
type member uint8

const (
	memberJSONRPC member = iota
	memberID
	memberMethod
	memberParams
	memberResult
	memberError
	memberCount

	memberNone = memberCount
)

// reserved returns the member with exactly this name.
func reserved(name []byte) member {
	switch string(name) {
	case "jsonrpc":
		return memberJSONRPC
	case "id":
		return memberID
	case "method":
		return memberMethod
	case "params":
		return memberParams
	case "result":
		return memberResult
	case "error":
		return memberError
	default:
		return memberNone
	}
}

// longestReserved is the length of "jsonrpc".
const longestReserved = 7

// similar reports whether a careless reader could take name for a reserved
// one: see the package comment. It reads each rune at most once.
func similar(name []byte) bool {
	var folded [longestReserved]byte
	n := 0
	for len(name) > 0 {
		r, size := utf8.DecodeRune(name)
		name = name[size:]
		if unicode.In(r, unicode.Cc, unicode.Cf) {
			continue
		}
		// Upper and then lower case also folds what has no simple folding of
		// its own but is lower-cased by some readers, like the dotted I.
		r = unicode.ToLower(unicode.ToUpper(r))
		if n == longestReserved || r >= utf8.RuneSelf {
			return false
		}
		folded[n] = byte(r)
		n++
	}
	return reserved(folded[:n]) != memberNone
}

// Read makes the pass over raw that the package comment describes. A defect is
// kept and shows as the Fault of every message made from the envelope.
func Read(raw []byte, l Limits) Envelope {
	e := Envelope{raw: raw, limits: l.WithDefaults()}
	if e.fault = checkSize(raw, e.limits); e.fault != nil {
		return e
	}
	s := scanner{raw: raw, maxDepth: e.limits.MaxDepth, envelope: true}
	if e.fault = s.document().done(); e.fault != nil {
		return e
	}
	e.found = s.found
	e.root = raw[skipSpace(raw, 0)]
	return e
}

// record takes note of a member of the outermost object.
func (m *members) record(name []byte, value span) {
	if r := reserved(name); r != memberNone {
		m.values[r] = value
		return
	}
	if m.similar == "" && similar(name) {
		m.similar = string(name)
	}
}

func (e *Envelope) has(m member) bool { return e.found.values[m].end > 0 }

// value is the raw value of a member, nil when absent.
func (e *Envelope) value(m member) []byte {
	s := e.found.values[m]
	if s.end == 0 {
		return nil
	}
	return e.raw[s.start:s.end:s.end]
}

// Params returns the raw params, whatever their type, or nil when they are
// absent or the input is not JSON.
func (e *Envelope) Params() []byte {
	return e.value(memberParams)
}

// Method returns the decoded method, or "" when it is absent or no string.
func (e *Envelope) Method() string {
	method, _ := Text(e.value(memberMethod))
	return method
}
