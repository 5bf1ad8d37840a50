// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"unicode"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Envelope is a message after the pass over its bytes and before the rules of
// a profile. An edge that has to look into a message to tell its dialect reads
// it once and then asks for it As the profile that it found. It aliases the
// input. The zero Envelope is no message.
type Envelope struct {
	limits  Limits
	values  [memberCount]json.RawMessage // nil where absent
	similar string                       // the first name that differs from a reserved one by folding
	params  jsontext.Index
	root    byte // the first byte of the value
	fault   *Fault
}

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
	e := Envelope{limits: l.WithDefaults()}
	if e.fault = checkSize(raw, e.limits); e.fault != nil {
		return e
	}
	noted, err := jsontext.Outline(raw, e.limits.MaxDepth, "params")
	if err != nil {
		e.fault = faultOf(err)
		return e
	}
	root := raw[noted.Start:noted.End]
	e.root, e.params = root[0], noted.Inner
	for name, value := range noted.Whole.Fields(root) {
		e.record(name, value)
	}
	return e
}

// record takes note of a member of the outermost object.
func (e *Envelope) record(name []byte, value json.RawMessage) {
	if r := reserved(name); r != memberNone {
		e.values[r] = value
		return
	}
	if e.similar == "" && similar(name) {
		e.similar = string(name)
	}
}

func (e *Envelope) has(m member) bool { return e.values[m] != nil }

// value is the raw value of a member, nil when absent.
func (e *Envelope) value(m member) []byte { return e.values[m] }

// Params returns the raw params, whatever their type, or nil when they are
// absent or the input is not JSON.
func (e *Envelope) Params() []byte {
	return e.value(memberParams)
}

// Method returns the decoded method, or "" when it is absent or no string.
func (e *Envelope) Method() string {
	method, _ := jsontext.Text(e.value(memberMethod))
	return method
}
