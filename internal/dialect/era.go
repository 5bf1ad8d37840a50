// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// era is what one JSON-RPC dialect adds to the neutral pipeline: which methods
// exist, what every request must carry, and how results and errors look. Each
// is in its own file and is frozen when the bridge is made.
type era struct {
	methods map[string]*method
	// admit checks what every request of the era must carry, before its method
	// is looked up.
	admit func(in *Inbound) *errmap.Error
	// matchHeaders checks headers against the params, before anything is read
	// from them.
	matchHeaders func(in *Inbound, op bridge.Op) *errmap.Error
	// mirrors is set where HTTP headers have to repeat arguments that a tool
	// marks.
	mirrors bool
	// fail writes an error.
	fail func(h *Handler, call *exchange, err *errmap.Error) Reply
}

// method is one row of an era's method table.
type method struct {
	op bridge.Op
	// read checks the params and turns them into facts of the request.
	read func(call *exchange) *errmap.Error
	// write renders the result member of the reply, compact.
	write func(h *Handler, call *exchange) ([]byte, *errmap.Error)
}

// op is the operation of a method, OpInvalid for one that the era does not have.
func (e *era) op(name string) bridge.Op {
	if method := e.methods[name]; method != nil {
		return method.op
	}
	return bridge.OpInvalid
}

// exchange is one request and its answer inside a dialect.
type exchange struct {
	handler *Handler

	in   *Inbound
	req  *bridge.Request
	resp *bridge.Response
	// era and method say how the reply is written. A writer that makes the whole message
	// puts it into reply, so that it is not copied.
	era    *era
	method *method
	reply  Reply
	// opened is the session that an initialize opened; nil where its edge keeps none.
	opened *session.Session
	// messageForm marks a canonical call in the form {"tool_name", ...}, which
	// is answered in kind.
	messageForm bool
	// isNoted is set by noteRest; the others are what it found and did not read yet,
	// nil where there is none.
	isNoted                                                     bool
	draft                                                       *draft
	meta, progressToken, logLevel, inputResponses, requestState []byte
}

// era returns the rules of a dialect.
func (h *Handler) era(d Dialect) *era {
	switch d {
	case Modern:
		return h.modern
	case Legacy:
		return h.legacy
	default:
		return h.canonical
	}
}

// admitAll is for eras that ask nothing of a request as such.
func admitAll(*Inbound) *errmap.Error { return nil }

// ignoreHeaders is for eras in which no header repeats a parameter.
func ignoreHeaders(*Inbound, bridge.Op) *errmap.Error { return nil }

// failed writes an error and remembers it.
func (e *era) failed(h *Handler, call *exchange, err *errmap.Error) Reply {
	err = err.Redacted() // the run record shows it too
	reply := e.fail(h, call, err)
	reply.err = err
	if call.resp != nil {
		reply.tool = call.resp.Tool
	}
	return reply
}

// about says what an error is the answer to.
func (call *exchange) about() errmap.About {
	msg := call.in.Message
	about := errmap.About{RequestID: msg.ID.Raw()}
	if call.resp != nil {
		about = call.resp.About(msg.ID.Raw())
	}
	about.ToolCall = call.req.Op == bridge.OpCall || (msg.Kind == jsonrpc.KindRequest && msg.Method == methodToolsCall)
	return about
}

// methodToolsCall is the method of a call in every dialect. A request that is
// refused before its method is known is reported under this method.
const methodToolsCall = "tools/call"

// recording keeps the data of an error for the run record, where that has the same: it does not know of idempotent tools.
func (r Reply) recording(err *errmap.Error, about errmap.About, data []byte) Reply {
	if !about.Idempotent || err.CanRetry(true) == err.CanRetry(false) {
		r.data = data
	}
	return r
}

// replyFrom carries over what an error says to HTTP.
func replyFrom(shown errmap.Reply, body []byte) Reply {
	return Reply{Status: shown.HTTPStatus, RetryAfter: shown.RetryAfter, Challenge: shown.Challenge, body: body}
}
