// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
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
		m.Responds = !e.has(memberMethod) && (e.has(memberResult) || e.has(memberError))
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

// Kind is the type of a message by the typing rule of the package comment.
type Kind uint8

// The kinds of a message. KindInvalid is a message that fits no type.
const (
	KindInvalid Kind = iota
	KindRequest
	KindNotification
	KindSuccess
	KindError
)

// Profile is the set of rules that a dialect adds to JSON-RPC 2.0.
type Profile uint8

const (
	// ProfileCanonical accepts string ids only. A request must have params,
	// and params must be an object if present. An error response may have a
	// null id.
	ProfileCanonical Profile = iota
	// ProfileCanonicalAnyID is ProfileCanonical that also accepts integer ids.
	ProfileCanonicalAnyID
	// ProfileMCP accepts string and integer ids, but no null id. Params are
	// optional, and an object if present. A result is an object.
	ProfileMCP
	// ProfileCanonicalUUID is ProfileCanonical that accepts only ids that are a
	// UUID in its usual form, for runs with deterministic ids.
	ProfileCanonicalUUID
)

// Message is one envelope. Params, Result and Error.Data alias the bytes given
// to Parse and are nil if the member is absent; a present null is the four
// bytes "null". ID and Method are copies.
//
// Do not act on a message with a Fault. Its Kind and ID are what could be
// determined despite the fault, so that it can be answered.
type Message struct {
	Kind   Kind
	ID     ID // zero: absent, null in an error response, or unreadable
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *ErrorObject
	Fault  *Fault
	// Asked and Responds are set where Fault is. Responds: it has a result or an error and no method, so its sender waits for nothing.
	Asked    Asked
	Responds bool

	index jsontext.Index // of Params
}

// ErrorObject is the error member of an error response.
type ErrorObject struct {
	Code    int64
	Message string
	Data    json.RawMessage // nil if absent
}

// Errors that SplitBatch returns besides a *Fault. Match with errors.Is.
var (
	ErrBatchTooLarge = errors.New("jsonrpc: too many messages in one batch")
	errBatchEmpty    = errors.New("jsonrpc: a batch needs at least one message")
)

// IsBatch reports whether raw starts like an array. It checks nothing else.
func IsBatch(raw []byte) bool {
	pos := jsontext.SkipSpace(raw, 0)
	return pos < len(raw) && raw[pos] == '['
}

// SplitBatch checks a batch and returns its messages, which alias raw and are not
// parsed yet. MaxBytes bounds the whole batch. MaxDepth bounds each message: the
// depth of a message does not include the batch.
//
// It returns a *Fault if raw is not JSON, not an array, or too large,
// ErrBatchTooLarge if there are more than most messages (zero means
// defaults.MaxBatchEntries), and errBatchEmpty. A syntax error anywhere refuses the
// whole batch, because the message boundaries are then uncertain.
func SplitBatch(raw []byte, most int, l Limits) ([]json.RawMessage, error) {
	defaults.Fill(&most, defaults.MaxBatchEntries)
	l = l.WithDefaults()
	l.MaxDepth++
	if f := check(raw, l); f != nil {
		return nil, f
	}
	if !IsBatch(raw) {
		return nil, envelopeFault("", "Send an array of messages.")
	}
	messages := make([]json.RawMessage, 0, min(most, defaults.MaxBatchEntries))
	for message := range jsontext.Elements(raw) {
		if len(messages) == most {
			return nil, ErrBatchTooLarge
		}
		messages = append(messages, message)
	}
	if len(messages) == 0 {
		return nil, errBatchEmpty
	}
	return messages, nil
}

// Param returns a member of params as Lookup does. In an envelope that was read,
// its cost is negligible, however large the params are.
func (e *Envelope) Param(name string) (json.RawMessage, bool) {
	return e.params.Lookup(e.Params(), name)
}

// Param returns a member of Params as Lookup does. In a message from Parse or
// Envelope.As, its cost is negligible, however large Params are.
func (m *Message) Param(name string) (json.RawMessage, bool) {
	return m.index.Lookup(m.Params, name)
}

// ParamFields yields the members of Params as Fields does, at the cost of Param.
func (m *Message) ParamFields() iter.Seq2[[]byte, json.RawMessage] { return m.index.Fields(m.Params) }

// Bounds of a number that is read by its value. They are those of the bridge's
// schema validator, so that the two refuse the same numbers.
const (
	maxNumberBytes = 1024
	maxExponent    = 2000
)

// maxInt64Digits is the length of 9223372036854775807.
const maxInt64Digits = 19

// wholeNumber returns the value of a JSON number that is an integer of 64 bits
// by its value, as JSON Schema understands the word: 1.0 and 1e2 are integers.
// The error code of a response is read so, because the contract gives it as a
// schema; ids, which are echoed and compared, are not.
func wholeNumber(raw []byte) (int64, bool) {
	if n, ok := jsontext.Int64(raw); ok || len(raw) == 0 || len(raw) > maxNumberBytes {
		return n, ok
	}
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, false
	}
	number, sign := raw, ""
	if number[0] == '-' {
		number, sign = number[1:], "-"
	}
	exponent := 0
	if at := bytes.IndexAny(number, "eE"); at >= 0 {
		var err error
		exponent, err = strconv.Atoi(string(number[at+1:]))
		if err != nil || exponent > maxExponent || exponent < -maxExponent {
			return 0, false
		}
		number = number[:at]
	}
	whole, fraction, _ := bytes.Cut(number, []byte{'.'})
	digits := append(append(make([]byte, 0, len(number)), whole...), fraction...)
	exponent -= len(fraction)
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return 0, true
	}
	significant := bytes.TrimRight(digits, "0")
	exponent += len(digits) - len(significant)
	if exponent < 0 || len(significant)+exponent > maxInt64Digits {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+string(significant)+string(bytes.Repeat([]byte{'0'}, exponent)), 10, 64)
	return n, err == nil
}

// Check returns the first reason to refuse raw as JSON, or nil. It is the
// syntax check of Parse for documents that are not envelopes: UTF-8 without a
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
	return faultOf(jsontext.Check(raw, l.MaxDepth))
}

func checkSize(raw []byte, l Limits) *Fault {
	if len(raw) <= l.MaxBytes {
		return nil
	}
	return &Fault{Code: FaultTooLarge, Reason: "The message is larger than " + strconv.Itoa(l.MaxBytes) + " bytes.", Over: OverBytes}
}

// Caps of Limits.
const (
	// capBytes keeps offsets within the 32 bits that the scanner stores.
	capBytes = math.MaxInt32
	// capDepth keeps the recursion of the scanner within a small stack.
	capDepth = 1000
)

// Limits bound what is read. A field that is zero or negative means its
// default. MaxBytes is capped at 2 GiB, MaxDepth at 1,000.
type Limits struct {
	MaxBytes   int // bytes of one message
	MaxDepth   int // nested objects and arrays, the outermost one included
	MaxIDBytes int // bytes of an id as written, without quotes
}

// WithDefaults returns the effective limits: each field has its own value within
// its cap, or its default.
func (l Limits) WithDefaults() Limits {
	l.MaxBytes = bounded(l.MaxBytes, defaults.MaxMessageBytes, capBytes)
	l.MaxDepth = bounded(l.MaxDepth, defaults.MaxJSONDepth, capDepth)
	l.MaxIDBytes = bounded(l.MaxIDBytes, defaults.MaxIDBytes, capBytes)
	return l
}

func bounded(value, fallback, most int) int {
	if value <= 0 {
		return fallback
	}
	return min(value, most)
}

// FaultCode is the stage that refused the input.
type FaultCode uint8

const (
	// FaultParse means that the bytes are not JSON as this package accepts it. It has
	// no id, because an incomplete document does not reliably contain its id.
	FaultParse FaultCode = iota + 1
	// FaultEnvelope means that the JSON is not a message of the profile in use.
	FaultEnvelope
	// FaultTooLarge means more bytes than Limits.MaxBytes. Nothing was read.
	FaultTooLarge
)

// Fault describes what is wrong with an input. It is an error.
type Fault struct {
	Code FaultCode
	// Reason is one short sentence that says what to fix. Its length is
	// bounded, and it contains no control characters.
	Reason string
	// Path is the JSON Pointer of the faulty value. It is "" for the whole
	// document, and if the pointer would be longer than 256 bytes.
	Path string
	// Over is the limit that was exceeded, if any.
	Over Bound
}

// Bound is one of the limits of a message.
type Bound uint8

// The bounds, by the fields of [Limits]. Unbounded is the zero value: the fault
// is about something else.
const (
	Unbounded Bound = iota
	OverBytes
	OverDepth
	OverIDBytes
)

// Error returns the reason, with the path if there is one.
func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Reason
	}
	return f.Path + ": " + f.Reason
}

// faultOf is what is wrong with a text that is no JSON as it is accepted here.
func faultOf(e *jsontext.Error) *Fault {
	if e == nil {
		return nil
	}
	f := &Fault{Code: FaultParse, Reason: e.Reason, Path: e.Path}
	if e.Kind == jsontext.TooDeep {
		f.Over = OverDepth
	}
	return f
}

func envelopeFault(path, reason string) *Fault {
	return &Fault{Code: FaultEnvelope, Reason: reason, Path: path}
}
