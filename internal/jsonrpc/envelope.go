// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"unicode"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Envelope is a message whose bytes were checked, before the rules of a profile
// apply. An edge that has to inspect a message to detect its dialect reads it once
// and then calls As with the detected profile. It aliases the input. The zero
// Envelope is not a message.
type Envelope struct {
	limits  Limits
	values  [memberCount]json.RawMessage // nil where absent
	similar string                       // the first name that differs from a reserved one by folding
	params  jsontext.Index
	root    byte // the first byte of the value
	fault   *Fault
	unread  []byte // what has the fault
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
// kept and becomes the Fault of every message made from the envelope.
func Read(raw []byte, l Limits) Envelope {
	e := Envelope{limits: l.WithDefaults()}
	if e.fault = checkSize(raw, e.limits); e.fault != nil {
		return e
	}
	noted, err := jsontext.Outline(raw, e.limits.MaxDepth, "params")
	if err != nil {
		e.fault, e.unread = faultOf(err), raw
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

// Params returns the raw params, whatever their type, or nil if they are
// absent or the input is not JSON.
func (e *Envelope) Params() []byte {
	return e.value(memberParams)
}

// Method returns the decoded method, or "" if it is absent or not a string.
func (e *Envelope) Method() string {
	method, _ := jsontext.Text(e.value(memberMethod))
	return method
}

// Parse reads one message. It never fails: the first defect becomes the Fault of
// the message, which still has the Kind as far as it is known, and the id if it
// could be read. raw must not change while the message is in use.
func Parse(raw []byte, p Profile, l Limits) Message {
	e := Read(raw, l)
	return e.As(p)
}

// As applies the typing rule and the rules of p, and returns the message.
func (e *Envelope) As(p Profile) Message {
	m := e.as(p)
	if m.Fault != nil {
		m.Asked = e.asked()
	}
	return m
}

func (e *Envelope) as(p Profile) Message {
	var m Message
	if e.fault != nil {
		m.Fault = e.fault
		return m
	}
	if m.Fault = e.checkRoot(); m.Fault != nil {
		return m
	}
	id, idReason := e.readID(p)
	m.ID = id
	m.Method = methodText(e.value(memberMethod))
	if m.Fault = e.checkNames(); m.Fault != nil {
		return m
	}
	m.Kind, m.Fault = e.typed()
	if m.Fault != nil {
		return m
	}
	if m.Fault = e.checkVersion(); m.Fault != nil {
		return m
	}
	if idReason != "" {
		m.Fault = e.limits.idFault("/id", idReason)
		return m
	}
	switch m.Kind {
	case KindRequest, KindNotification:
		m.Params = e.value(memberParams)
		m.index = e.params
		m.Fault = e.checkCall(&m, p)
	case KindSuccess:
		m.Result = e.value(memberResult)
		if p == ProfileMCP && m.Result[0] != '{' {
			m.Fault = envelopeFault("/result", "Make the result an object.")
		}
	case KindError:
		m.Error, m.Fault = readError(e.value(memberError))
	}
	return m
}

func (e *Envelope) checkRoot() *Fault {
	switch {
	case e.root == '[':
		return envelopeFault("", "Send one message, not an array; batches are not accepted here.")
	case e.root != '{':
		return envelopeFault("", "Send a JSON object.")
	}
	return nil
}

func (e *Envelope) checkNames() *Fault {
	if e.similar == "" {
		return nil
	}
	path, _ := jsontext.Within(e.similar, "")
	return envelopeFault(path, "The name of this member can be taken for a reserved one; spell it exactly or leave it out.")
}

// typed applies the typing rule of the package comment.
func (e *Envelope) typed() (Kind, *Fault) {
	method, id := e.has(memberMethod), e.has(memberID)
	result, failure := e.has(memberResult), e.has(memberError)
	switch {
	case method && (result || failure):
		return KindInvalid, envelopeFault("", "Send either a method or a result or error, not both.")
	case result && failure:
		return KindInvalid, envelopeFault("", "Send either a result or an error, not both.")
	case method && id && e.value(memberID)[0] == 'n':
		return KindInvalid, envelopeFault("/id", "Give the request an id that is not null, or leave the id out.")
	case method && id:
		return KindRequest, nil
	case method:
		return KindNotification, nil
	case result && id:
		return KindSuccess, nil
	case result:
		return KindInvalid, envelopeFault("", "A result needs the id of its request.")
	case failure:
		return KindError, nil
	default:
		return KindInvalid, envelopeFault("", "The message needs a method, a result or an error.")
	}
}

func (e *Envelope) checkVersion() *Fault {
	raw := e.value(memberJSONRPC)
	if raw == nil {
		return envelopeFault("", `Add the member "jsonrpc" with the value "2.0".`)
	}
	if string(raw) == `"2.0"` {
		return nil // as nearly everybody writes it
	}
	if version, ok := jsontext.Text(raw); !ok || version != "2.0" {
		return envelopeFault("/jsonrpc", `Set "jsonrpc" to the string "2.0".`)
	}
	return nil
}

// methodText is the method's name, which nearly always is this one.
func methodText(raw []byte) string {
	if string(raw) == `"tools/call"` {
		return "tools/call"
	}
	method, _ := jsontext.Text(raw)
	return method
}

// readID returns the id if there is a readable one, and a reason if there is an
// id that p does not admit. An integer is readable even where p wants strings:
// the reply can name it.
func (e *Envelope) readID(p Profile) (id ID, reason string) {
	raw := e.value(memberID)
	if raw == nil {
		return ID{}, ""
	}
	// An error about a message whose id could not be read has a null id.
	if raw[0] == 'n' && p != ProfileMCP && e.has(memberError) {
		return ID{}, ""
	}
	id, reason = readID(raw, e.limits.MaxIDBytes)
	if reason == "" {
		reason = p.refuseID(id)
	}
	return id, reason
}

// refuseID returns why p does not admit a readable id, or "".
func (p Profile) refuseID(id ID) string {
	switch {
	case p == ProfileCanonical && !id.IsString():
		return "Make the id a string."
	case p == ProfileCanonicalUUID && !isUUID(id):
		return "Make the id a string that is a UUID."
	}
	return ""
}

// checkCall checks what requests and notifications add.
func (e *Envelope) checkCall(m *Message, p Profile) *Fault {
	if m.Method == "" {
		return envelopeFault("/method", "Make the method a string that is not empty.")
	}
	if m.Params == nil {
		if m.Kind == KindRequest && p != ProfileMCP {
			return envelopeFault("", `Add the member "params" with an object.`)
		}
		return nil
	}
	if m.Params[0] != '{' {
		return envelopeFault("/params", "Make the params an object, not "+jsontext.TypeName(m.Params)+".")
	}
	return nil
}

// readError reads the error member of an error response.
func readError(raw []byte) (*ErrorObject, *Fault) {
	if raw[0] != '{' {
		return nil, envelopeFault("/error", "Make the error an object, not "+jsontext.TypeName(raw)+".")
	}
	code, _ := jsontext.Lookup(raw, "code")
	number, ok := wholeNumber(code)
	if !ok {
		return nil, envelopeFault("/error/code", "Give the error an integer code.")
	}
	text, _ := jsontext.Lookup(raw, "message")
	message, ok := jsontext.Text(text)
	if !ok {
		return nil, envelopeFault("/error/message", "Give the error a message that is a string.")
	}
	data, _ := jsontext.Lookup(raw, "data")
	return &ErrorObject{Code: number, Message: message, Data: data}, nil
}
