// SPDX-License-Identifier: Apache-2.0

package record

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Arrival is the information about an envelope at its arrival. Begin does not keep its
// bytes: they may be reused after it has returned.
type Arrival struct {
	// RequestID is the JSON-RPC id as received. If empty or absent, the record has null.
	RequestID json.RawMessage
	// TraceID is 32 hex digits in lower case (see [TraceID]). Any other value means that
	// the caller sent none, and the run generates one.
	TraceID string
	// Transport is http or stdio, Route its route, and Method the method of the envelope.
	// If empty, the record has null.
	Transport, Route, Method string
	// Caller is the caller as logs name it. If empty, the record has null.
	Caller string
	// Params is used only if payloads are recorded.
	Params []byte
}

// Outcome is the outcome of an envelope.
type Outcome struct {
	OK bool
	// Error is the canonical data object. HTTPStatus and Code are the numbers sent with
	// it. They are recorded if OK is false.
	Error            json.RawMessage
	HTTPStatus, Code int
	// Tool is the canonical name of the tool. If empty, the record has null.
	Tool string
	// Result is used only if payloads are recorded. So is Params, which replaces that of the
	// arrival if it is not nil.
	Result, Params []byte
	// Redact are more names whose values are secret in the params and result of this
	// envelope: the fields that the tool's own messages mark as secret.
	Redact []redact.Names
}

// place is where an entry stands.
type place uint8

const (
	placeOpen place = iota // in the reorder buffer, not ended
	placeLate              // not ended, and no longer waited for
	placeHeld              // ended, behind an open one
	placeGone              // handed to the writer, or dropped
)

// Entry is one envelope between its arrival and its outcome. A nil Entry is not
// recorded.
type Entry struct {
	run    *Run
	seq    uint64
	caller string
	start  time.Time
	ended  atomic.Bool

	// All below is guarded by run.mu, save that the tail belongs to End and the
	// line to the writer once the entry is placeGone.
	prev, next *Entry
	place      place
	unfinished bool
	buf        *buffer
}

// buffer holds the bytes of one entry: what was known first, what became of it,
// and the params until it is known how to redact them.
type buffer struct {
	line, tail []byte
	params     []byte
	paramsSize int
}

// maxPooled is the capacity of a buffer above which it is left to the garbage
// collector, so that a few large payloads do not stay for good.
const maxPooled = 16 << 10

func (b *buffer) reset() {
	b.line, b.tail, b.params, b.paramsSize = b.line[:0], b.tail[:0], b.params[:0], 0
}

func (b *buffer) isLarge() bool {
	return cap(b.line) > maxPooled || cap(b.tail) > maxPooled || cap(b.params) > maxPooled
}

func (e *Entry) size() int {
	if e.unfinished {
		return len(e.buf.line) + len(e.run.unfinishedTail(e))
	}
	return len(e.buf.line) + len(e.buf.tail)
}

// End completes the entry's line. Only the first call counts, and a call after Close has
// no effect. End does not wait for the disk, except in a deterministic run. It does not
// keep the outcome's bytes.
func (e *Entry) End(o Outcome) {
	if e == nil || e.ended.Swap(true) {
		return
	}
	r := e.run
	var took time.Duration
	if !r.opts.Deterministic {
		took = r.opts.Now().Sub(e.start)
	}
	tail := appendTail(e.buf.tail, &o, took)
	tail = appendWho(tail, o.Tool, e.caller)
	if r.opts.Payloads {
		tail = r.appendPayloads(tail, e.buf, &o)
	}
	e.buf.tail = jsontext.Visible(append(tail, r.metadata...), 0)
	r.finish(e)
}

func (r *Run) appendPayloads(dst []byte, b *buffer, o *Outcome) []byte {
	red := redact.Redactor{Base: r.names, Extra: o.Redact}
	limit := r.opts.MaxPayloadBytes
	params, size := b.params, b.paramsSize
	if o.Params != nil {
		params, size = o.Params, len(o.Params)
	}
	dst = append(dst, `,"params":`...)
	dst = red.AppendPayload(dst, params, size, limit)
	dst = append(dst, `,"result":`...)
	return red.AppendPayload(dst, o.Result, len(o.Result), limit)
}
