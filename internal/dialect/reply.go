// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Reply is the reply to one JSON-RPC message.
type Reply struct {
	// Status is the HTTP status of the reply.
	Status int
	// RetryAfter, where positive, is the value of a Retry-After header in
	// seconds.
	RetryAfter int
	// Challenge, where not empty, is the value of a WWW-Authenticate header.
	Challenge string
	// Then is a notification that follows the reply if the transport continues after it
	// (stdio); nil for none.
	Then []byte
	// Header is the backend's metadata that the allow-list permits, for edges whose
	// transport has headers. It may be nil.
	Header http.Header

	// IsUnasked is set if the reply is about a notification, or a response that nothing waits
	// for. Where a message may be left without a reply (stdio, entries of a batch), none is sent.
	IsUnasked bool

	// err is the error that the reply shows, and tool the tool that it is
	// about; both are for the run record.
	err  *errmap.Error
	tool *catalog.Tool
	// data is the canonical data object of err; nil where the run record has to make it.
	data []byte
	// body is what belongs to the reply alone of its message; nil where nothing may be
	// sent (a notification, a cancelled request).
	body []byte
	// lender takes body back; nil where it came from nowhere.
	lender *bytepool.Pool
	// shared is what is in the message and not in body, of a large listing, or
	// the result of a large call.
	shared shared
	// quoted is where the result of a large call is as text.
	quoted quoted
}

// NewReply returns a reply with a message, which is its own, and the status 200.
func NewReply(message []byte) Reply { return Reply{Status: http.StatusOK, body: message} }

// Release releases the message, which must not be used afterwards. Code that writes a
// reply and keeps nothing of it calls Release once. It is optional: without it, a
// buffer is not reused.
func (r *Reply) Release() {
	if r.lender != nil {
		r.lender.Put(r.body)
		if r.quoted.pooled {
			r.lender.Put(r.shared.part)
		}
	}
	r.body, r.lender, r.shared, r.quoted = nil, nil, shared{}, quoted{}
}

// leastShared is the size from which a part of a reply is not copied into it: up
// to here one write of a copy costs less than three writes.
const leastShared = 32 << 10

// shared is a part of a message that many replies have, and where it is in
// what belongs to each alone.
type shared struct {
	part []byte
	at   int
}

// IsEmpty reports whether nothing may be sent.
func (r *Reply) IsEmpty() bool { return r.body == nil }

// ToolName returns the canonical name of the tool that the reply is about, "" for none.
func (r *Reply) ToolName() string {
	if r.tool == nil {
		return ""
	}
	return r.tool.Name
}

// Len returns the size of the message in bytes.
func (r *Reply) Len() int { return len(r.body) + len(r.shared.part) + r.quoted.size }

// Parts returns the message in order: the reply's own parts around the shared part,
// which must not be changed. If nothing is shared, tail is the whole message.
func (r *Reply) Parts() (head, shared, tail []byte) {
	if r.quoted.size > 0 {
		return nil, nil, r.Bytes()
	}
	return r.around()
}

// around is Parts without the text of a large call.
func (r *Reply) around() (head, shared, tail []byte) {
	at := r.shared.at
	return r.body[:at:at], r.shared.part, r.body[at:]
}

// AppendTo appends the message.
func (r *Reply) AppendTo(dst []byte) []byte {
	head, shared, tail := r.around()
	if at := r.quoted.at; r.quoted.size > 0 {
		dst = jsontext.AppendText(append(dst, head[:at]...), shared)
		head = head[at:]
	}
	return append(append(append(dst, head...), shared...), tail...)
}

// Bytes returns the message as one slice: one JSON-RPC message, compact and on one
// line; nil if nothing may be sent. It belongs to the reply, or is a copy if a part is
// shared.
func (r *Reply) Bytes() []byte {
	if r.shared.part == nil {
		return r.body
	}
	return r.AppendTo(make([]byte, 0, r.Len()))
}

// WriteTo implements [io.WriterTo]. A shared part is written directly, without a copy;
// text is written in chunks.
func (r *Reply) WriteTo(w io.Writer) (int64, error) {
	var written int64
	head, shared, tail := r.around()
	if at := r.quoted.at; r.quoted.size > 0 {
		n, err := w.Write(head[:at])
		if written += int64(n); err != nil {
			return written, err
		}
		more, err := writeQuoted(w, shared, r.lender)
		if written += more; err != nil {
			return written, err
		}
		head = head[at:]
	}
	for _, part := range [...][]byte{head, shared, tail} {
		if len(part) == 0 {
			continue
		}
		n, err := w.Write(part)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// appendContent opens a tool result whose first content block repeats the
// structured result as text, for callers that read text only; a second one says
// what is to be said about it. The object stays open.
func appendContent(dst, result []byte, explanation string) []byte {
	return closeContent(jsontext.AppendText(append(dst, contentHead...), result), explanation)
}

// contentHead opens a tool result up to its text.
const contentHead = `{"content":[{"type":"text","text":`

// closeContent appends what follows the text.
func closeContent(dst []byte, explanation string) []byte {
	if explanation != "" {
		dst = append(dst, `},{"type":"text","text":`...)
		dst = jsontext.AppendString(dst, explanation)
	}
	return append(dst, `}]`...)
}

// failedCall is what a failed call is answered with: a result with isError set, a text that a model can act on, another with
// what a stream had sent before it failed, the canonical data in _meta, and no structured content, which clients show models in
// the place of texts.
type failedCall struct {
	err  *errmap.Error
	text string
	// data is the canonical data object.
	data []byte
	// before and after stand around the member of _meta with the data.
	before, after []byte
}

// appendTo appends the whole envelope, in one buffer.
func (f *failedCall) appendTo(id jsonrpc.ID) []byte {
	const around = 128 // the names and brackets
	size := len(id.String()) + envelopeBytes + around + len(f.text) + len(f.err.Partial) + len(f.data) + len(f.before) + len(f.after)
	dst := jsonrpc.AppendResultHead(make([]byte, 0, size), id)
	dst = jsontext.AppendString(append(dst, contentHead...), f.text)
	if partial := f.err.PartialText(); partial != "" {
		dst = jsontext.AppendString(append(dst, `},{"type":"text","text":`...), partial)
	}
	dst = append(dst, `}],"isError":true`...)
	dst = append(dst, f.before...)
	dst = append(dst, `,"_meta":{"`+errmap.MetaKey+`":`...)
	dst = appendErrorData(dst, f.err, f.data)
	dst = appendDenial(dst, f.err)
	dst = append(dst, f.after...)
	return append(dst, `}}}`...)
}

// appendDenial appends the member of _meta with what a denied caller can expect of asking for approval (draft SEP-2643).
func appendDenial(dst []byte, err *errmap.Error) []byte {
	if err.Denial == "" {
		return dst
	}
	dst = append(dst, `,"io.modelcontextprotocol/authorization":{"reason":"insufficient_authorization","remediation":`...)
	dst = append(jsontext.AppendString(dst, err.Denial), err.Disposition()...)
	if err.Handle != "" {
		dst = append(dst, `,"authorizationContextId":`...)
		dst = jsontext.AppendString(dst, err.Handle)
	}
	return append(dst, '}')
}

// withPartial adds to the data of an error what a stream had sent before it failed.
func withPartial(err *errmap.Error, data []byte) []byte {
	if len(err.Partial) == 0 || len(data) == 0 {
		return data
	}
	out := append(bytes.Clone(data[:len(data)-1]), `,"partial":`...)
	return append(append(out, err.Partial...), '}')
}

// appendErrorData appends the data of an error without space between its tokens. Only details of a backend's own can have
// some.
func appendErrorData(dst []byte, err *errmap.Error, data []byte) []byte {
	if len(err.Details) == 0 {
		return append(dst, data...)
	}
	return jsontext.Compact(dst, data)
}

const (
	// leastQuoted is the size of a result from which its text is written in pieces
	// and never is in memory. Below it one write costs less than several.
	leastQuoted = 64 << 10
	// pieceBytes is how much of a result is made text at a time. A piece stays in
	// the processor's cache until it is written.
	pieceBytes = 32 << 10
)

// quoted is the text of a result that is in a reply a second time, as shared.
type quoted struct {
	// at is where in the reply's own bytes the text is, and size its length with
	// its quotes; 0 for none.
	at, size int
	// pooled is set where the result is of the bridge's buffers.
	pooled bool
}

// writeQuoted writes a text as a JSON string, in pieces.
func writeQuoted(w io.Writer, text []byte, buffers *bytepool.Pool) (written int64, err error) {
	piece := buffers.Get(pieceBytes + pieceBytes/4)
	defer func() { buffers.Put(piece) }()
	for first := true; len(text) > 0; first = false {
		n := cutAt(text, pieceBytes)
		piece = jsontext.AppendText(piece[:0], text[:n])
		text = text[n:]
		out := piece
		if !first {
			out = out[1:]
		}
		if len(text) > 0 {
			out = out[:len(out)-1]
		}
		m, err := w.Write(out)
		if written += int64(m); err != nil {
			return written, err //nolint:wrapcheck // as io.WriterTo has it
		}
	}
	return written, nil
}

// cutAt is at most n, and not within a character.
func cutAt(text []byte, n int) int {
	if len(text) <= n {
		return len(text)
	}
	for n > 1 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// notification is a JSON-RPC notification with params, compact and on one line.
func notification(method string, params []byte) []byte {
	dst := make([]byte, 0, len(params)+len(method)+envelopeBytes)
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	dst = jsontext.AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	dst = append(dst, params...)
	return append(dst, '}')
}

// envelopeBytes is the size of an envelope around an id and a result, and of a
// line end behind it.
const envelopeBytes = 40

func bareNotification(method string) []byte {
	return append(jsontext.AppendString([]byte(`{"jsonrpc":"2.0","method":`), method), '}')
}
