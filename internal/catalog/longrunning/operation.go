// SPDX-License-Identifier: Apache-2.0

// Package longrunning reads and writes the messages of google.longrunning (AIP-151) that
// the sidecar needs: operations, and the requests that get, await and cancel them. It reads
// wire bytes, so that no generated types have to be linked.
//
// It also has what a caller brings back to go on with an operation ([Handle]), what an
// operation's metadata say of its progress ([Report]), and how often to ask ([Pace]).
package longrunning

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Names of google.longrunning, and the number of its method option in MethodOptions.
const (
	OperationMessage  = "google.longrunning.Operation"
	OperationsService = "google.longrunning.Operations"
	InfoOption        = "google.longrunning.operation_info"
	InfoField         = 1049
)

// Numbers of the fields of OperationInfo.
const (
	InfoResponseType = 1
	InfoMetadataType = 2
)

// Operation is a google.longrunning.Operation.
type Operation struct {
	// Name is what the server knows the operation by.
	Name string
	// Metadata is what the server says of its progress; nil if it says nothing.
	Metadata *anypb.Any
	// Done is set if the operation has ended: with Error, or else with Response, which may
	// be nil.
	Done     bool
	Error    *status.Status
	Response *anypb.Any
}

// Numbers of the fields of Operation.
const (
	fieldName     = 1
	fieldMetadata = 2
	fieldDone     = 3
	fieldError    = 4
	fieldResponse = 5
)

// Parse reads the wire bytes of an Operation. The result shares no memory with them.
func Parse(wire []byte) (*Operation, error) {
	op := &Operation{}
	for len(wire) > 0 {
		number, kind, n := protowire.ConsumeTag(wire)
		if n < 0 {
			return nil, fmt.Errorf("longrunning: read operation: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(number, kind, wire[n:])
		if size < 0 {
			return nil, fmt.Errorf("longrunning: read operation: %w", protowire.ParseError(size))
		}
		if err := op.field(number, kind, wire[n:n+size]); err != nil {
			return nil, err
		}
		wire = wire[n+size:]
	}
	return op, nil
}

// field takes the value of one field. Parts of a message that come apart are merged, and of a oneof the last one stays, as
// Protobuf has it.
func (op *Operation) field(number protowire.Number, kind protowire.Type, value []byte) error {
	if number == fieldDone && kind == protowire.VarintType {
		done, _ := protowire.ConsumeVarint(value)
		op.Done = done != 0
		return nil
	}
	if kind != protowire.BytesType {
		return nil
	}
	body, _ := protowire.ConsumeBytes(value)
	switch number {
	case fieldName:
		if op.Name = string(body); !utf8.ValidString(op.Name) {
			return errors.New("longrunning: the operation's name is not UTF-8")
		}
	case fieldMetadata:
		return merge(&op.Metadata, body)
	case fieldError:
		op.Response = nil
		return merge(&op.Error, body)
	case fieldResponse:
		op.Error = nil
		return merge(&op.Response, body)
	}
	return nil
}

// Append appends the wire bytes of the operation to dst.
func (op *Operation) Append(dst []byte) ([]byte, error) {
	if op.Name != "" {
		dst = protowire.AppendString(protowire.AppendTag(dst, fieldName, protowire.BytesType), op.Name)
	}
	if op.Done {
		dst = protowire.AppendVarint(protowire.AppendTag(dst, fieldDone, protowire.VarintType), 1)
	}
	for _, part := range []struct {
		number  protowire.Number
		message proto.Message
	}{{fieldMetadata, op.Metadata}, {fieldError, op.Error}, {fieldResponse, op.Response}} {
		if !part.message.ProtoReflect().IsValid() {
			continue
		}
		body, err := proto.Marshal(part.message)
		if err != nil {
			return nil, fmt.Errorf("longrunning: write operation: %w", err)
		}
		dst = protowire.AppendBytes(protowire.AppendTag(dst, part.number, protowire.BytesType), body)
	}
	return dst, nil
}

// merge adds a part of a message to what is there of it.
func merge[T any, M interface {
	*T
	proto.Message
}](to *M, body []byte) error {
	if *to == nil {
		*to = new(T)
	}
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(body, *to); err != nil {
		return fmt.Errorf("longrunning: read operation: %w", err)
	}
	return nil
}

// maxName is the maximum size of an operation's name, in bytes. Handles of longer names
// would not fit into the ids of tasks (2,048 characters when sealed).
const maxName = 1024

// maxTool bounds the name of a tool in a handle: that of the contract.
const maxTool = 256

// Handle is what is sealed for a caller, so that any replica can go on with an operation.
type Handle struct {
	// Name is the operation's name.
	Name string
	// Tool is the canonical name of the tool whose call began the operation.
	Tool string
	// Created is when that was, to the millisecond.
	Created time.Time
	// Fields, Budget and ForModel are how much of its result that call wanted (content.Wanted).
	Fields   string
	Budget   int
	ForModel bool
	// IsMaskLost is set if Fields was too long to be kept.
	IsMaskLost bool
}

// handleVersion begins an encoded handle.
const handleVersion = 1

// Numbers of the fields of an encoded handle.
const (
	handleName    = 1
	handleTool    = 2
	handleCreated = 3
	handleFields  = 4
	handleBudget  = 5
	handleFlags   = 6
)

// Bits of handleFlags.
const (
	flagForModel   = 1
	flagIsMaskLost = 2
)

// The bounds of what a handle says about the result: those of a field mask and of a budget.
const (
	maxFields = 8192
	maxBudget = 1 << 30
)

// errNoHandle means that bytes are no encoded [Handle].
var errNoHandle = errors.New("longrunning: no handle of an operation")

// Encode returns the bytes to seal. The error says that the name is too long.
func (h Handle) Encode() ([]byte, error) {
	if len(h.Name) > maxName {
		return nil, fmt.Errorf("longrunning: the operation's name has %d bytes; the limit is %d", len(h.Name), maxName)
	}
	out := protowire.AppendTag([]byte{handleVersion}, handleName, protowire.BytesType)
	out = protowire.AppendTag(protowire.AppendString(out, h.Name), handleTool, protowire.BytesType)
	out = protowire.AppendTag(protowire.AppendString(out, h.Tool), handleCreated, protowire.VarintType)
	out = protowire.AppendVarint(out, uint64(h.Created.UnixMilli()))
	if h.Fields != "" {
		out = protowire.AppendString(protowire.AppendTag(out, handleFields, protowire.BytesType), h.Fields)
	}
	if h.Budget > 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, handleBudget, protowire.VarintType), uint64(h.Budget))
	}
	if flags := h.flags(); flags != 0 {
		out = protowire.AppendVarint(protowire.AppendTag(out, handleFlags, protowire.VarintType), flags)
	}
	return out, nil
}

func (h *Handle) flags() uint64 {
	var flags uint64
	if h.ForModel {
		flags |= flagForModel
	}
	if h.IsMaskLost {
		flags |= flagIsMaskLost
	}
	return flags
}

// ParseHandle reads what Encode has written. Fields of later versions are ignored. The error
// is errNoHandle.
func ParseHandle(raw []byte) (Handle, error) {
	var h Handle
	if len(raw) == 0 || raw[0] != handleVersion {
		return h, errNoHandle
	}
	for raw = raw[1:]; len(raw) > 0; {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return Handle{}, errNoHandle
		}
		size := protowire.ConsumeFieldValue(number, kind, raw[n:])
		if size < 0 {
			return Handle{}, errNoHandle
		}
		switch value := raw[n : n+size]; kind {
		case protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			h.setText(number, string(text))
		case protowire.VarintType:
			value, _ := protowire.ConsumeVarint(value)
			h.setNumber(number, value)
		}
		raw = raw[n+size:]
	}
	if !isText(h.Name, maxName) || !isText(h.Tool, maxTool) || !isMoment(h.Created) || h.Fields != "" && !isText(h.Fields, maxFields) {
		return Handle{}, errNoHandle
	}
	return h, nil
}

func (h *Handle) setText(number protowire.Number, text string) {
	switch number {
	case handleName:
		h.Name = text
	case handleTool:
		h.Tool = text
	case handleFields:
		h.Fields = text
	}
}

func (h *Handle) setNumber(number protowire.Number, value uint64) {
	switch number {
	case handleCreated:
		h.Created = time.UnixMilli(int64(value))
	case handleBudget:
		h.Budget = int(min(value, maxBudget))
	case handleFlags:
		h.ForModel, h.IsMaskLost = value&flagForModel != 0, value&flagIsMaskLost != 0
	}
}

func isText(s string, most int) bool { return s != "" && len(s) <= most && utf8.ValidString(s) }

// isMoment holds for times that a Timestamp can hold and that lie after 1970.
func isMoment(t time.Time) bool { return t.Unix() > 0 && t.Year() < 10_000 }

// maxReport bounds the text of a report, in bytes.
const maxReport = 1024

// Report is what the metadata of an operation say of its progress.
type Report struct {
	// Text is a message in the metadata, or else the metadata as compact JSON, shortened to
	// 1 KiB; empty if there are no metadata.
	Text string
	// Percent is how much is done, 0 to 100, if HasPercent is set.
	Percent    float64
	HasPercent bool
}

// ReportOf reads the JSON of an operation's metadata, an object; nil has nothing to report.
// AIP-151 leaves the form of the metadata to the service, so it looks for the names of
// fields that services commonly use: a message (status_message, message ...) and a percentage
// (progress_percent, percent_complete ...), at the root or in a member "progress".
func ReportOf(metadata []byte) Report {
	var r Report
	var text, detail string
	r.read(metadata, func(name, value string) {
		switch name {
		case "statusmessage", "statusdetail", "statetext", "statemessage", "progressmessage":
			text = value
		case "message":
			detail = value
		}
	})
	if progress, ok := jsontext.Lookup(metadata, "progress"); ok && jsontext.IsObject(progress) {
		r.read(progress, func(string, string) {})
	}
	switch {
	case text != "":
		r.Text = shorten(text)
	case detail != "":
		r.Text = shorten(detail)
	case len(metadata) > len(jsontext.EmptyObject):
		r.Text = shorten(string(jsontext.Compact(nil, metadata)))
	}
	return r
}

// read looks at the members of an object for a percentage, and hands on the texts. Names are compared without case and
// underscores, because metadata may be written in either form of their names.
func (r *Report) read(object []byte, text func(name, value string)) {
	if !jsontext.IsObject(object) {
		return
	}
	for name, value := range jsontext.Members(object) {
		flat := strings.ToLower(strings.ReplaceAll(name, "_", ""))
		switch flat {
		case "progresspercent", "progresspercentage", "percentcomplete", "percentdone", "percent", "percentage", "progress":
			if percent, ok := number(value); ok {
				r.Percent, r.HasPercent = percent, true
			}
		default:
			if said, ok := jsontext.Text(value); ok && said != "" {
				text(flat, said)
			}
		}
	}
}

// number reads a percentage, which ProtoJSON writes as a number or, of 64 bits, as a string.
func number(value []byte) (float64, bool) {
	text, ok := jsontext.Text(value)
	if !ok {
		text = string(value)
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && n >= 0 && n <= 100
}

// shorten cuts a text to the bound, at the end of a character.
func shorten(text string) string {
	if len(text) <= maxReport {
		return text
	}
	return strings.ToValidUTF8(text[:maxReport-len("...")], "") + "..."
}

// AppendPending appends the JSON of an operation that is still running: done, handle (if
// there is one), and what is known of its progress. metadata is JSON; nil is left out.
func AppendPending(dst []byte, handle string, r Report, metadata []byte) []byte {
	dst = append(dst, `{"done":false`...)
	if handle != "" {
		dst = jsontext.AppendString(append(dst, `,"handle":`...), handle)
	}
	if r.Text != "" {
		dst = jsontext.AppendString(append(dst, `,"status_message":`...), r.Text)
	}
	if r.HasPercent {
		dst = strconv.AppendFloat(append(dst, `,"progress_percent":`...), r.Percent, 'f', -1, 64)
	}
	if metadata != nil {
		dst = append(append(dst, `,"metadata":`...), metadata...)
	}
	return append(dst, '}')
}

// ResponseMember is the member of what AppendDone writes that has the response.
const ResponseMember = "response"

// AppendDone appends the JSON of an operation that has ended with a response, which is JSON.
func AppendDone(dst, response []byte) []byte {
	return append(append(append(dst, `{"done":true,"response":`...), response...), '}')
}

// AppendCancelRequested appends the JSON of what a request to cancel is answered with.
func AppendCancelRequested(dst []byte, handle string) []byte {
	return append(jsontext.AppendString(append(dst, `{"cancel_requested":true,"handle":`...), handle), '}')
}

// AppendMember appends an object with one member, whose value is JSON.
func AppendMember(dst []byte, name string, value []byte) []byte {
	dst = append(jsontext.AppendString(append(dst, '{'), name), ':')
	return append(append(dst, value...), '}')
}

// fieldTimeout is the number of WaitOperationRequest.timeout. The name is the first field of
// every request.
const fieldTimeout = 2

// NameRequest returns the wire bytes of a GetOperationRequest, a CancelOperationRequest or a
// DeleteOperationRequest: they have the same form.
func NameRequest(name string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, fieldName, protowire.BytesType), name)
}

// WaitRequest returns the wire bytes of a WaitOperationRequest: the server is to answer when
// the operation is done, and at the latest after timeout.
func WaitRequest(name string, timeout time.Duration) []byte {
	span, err := proto.Marshal(durationpb.New(timeout))
	if err != nil {
		return NameRequest(name) // a duration has no text that could be invalid
	}
	return protowire.AppendBytes(protowire.AppendTag(NameRequest(name), fieldTimeout, protowire.BytesType), span)
}

const (
	// minInterval and maxInterval bound the time between two questions about an operation.
	minInterval = 250 * time.Millisecond
	maxInterval = 10 * time.Second
	// ageShare is the part of an operation's age after which to ask again: an answer is late
	// by at most an eighth.
	ageShare = 8
)

// Pace is how long to wait before each question about an operation: at first minInterval,
// then each time twice as long, up to maxInterval. The zero value is ready for use.
type Pace struct{ last time.Duration }

// Next returns the next interval.
func (p *Pace) Next() time.Duration {
	p.last = min(max(2*p.last, minInterval), maxInterval)
	return p.last
}

// IntervalAt returns the interval to suggest to a caller who asks about an operation of an
// age. It needs no memory of the questions before.
func IntervalAt(age time.Duration) time.Duration {
	return min(max(age/ageShare, minInterval), maxInterval).Truncate(time.Millisecond)
}
