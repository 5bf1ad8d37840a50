// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// headerSession names the session of a legacy message (MCP 2025-11-25,
// Streamable HTTP).
const headerSession = "Mcp-Session-Id"

// methodInitialize opens a session.
const methodInitialize = "initialize"

// find looks for the session that a legacy message names, and uses it. The
// second result is false where it names one that is not there, which has been
// answered: 404 tells a client to open another one.
func (h *Handler) find(w http.ResponseWriter, r *http.Request, in *dialect.Inbound) (*session.Session, bool) {
	id, isOne := dialect.SameValue(r.Header[headerSession])
	switch {
	case !isOne:
		httpbody.Write(w, h.rpc.Refuse(in, errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Keyword: "session", Message: "the request names two sessions; send one Mcp-Session-Id",
		}))))
		return nil, false
	case id == "":
		return nil, true
	}
	s, err := h.rpc.Sessions().Use(r.Context(), in.Caller, id)
	if err != nil {
		httpbody.Write(w, h.rpc.SessionRefused(in, err))
		return nil, false
	}
	return s, true
}

// post answers a legacy message that was posted.
func (h *Handler) post(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, answer form) {
	if in.Message.Fault == nil {
		if err := h.rpc.AdmitLegacy(in); err != nil {
			httpbody.Write(w, h.rpc.Refuse(in, err))
			return
		}
	}
	s, ok := h.find(w, r, in)
	if !ok {
		return
	}
	if s == nil {
		h.open(w, r, in, answer)
		return
	}
	in.Session, in.Origin = s, s.Origin()
	isRequest := in.Message.Kind == jsonrpc.KindRequest
	switch {
	case in.Message.Fault != nil:
	case isRequest:
		h.call(w, r, in, answer)
		return
	case in.Message.Kind != jsonrpc.KindNotification:
		err := s.Deliver(r.Context(), in.Message)
		if err == nil || errors.Is(err, session.ErrUnavailable) {
			defer s.Release()
			h.delivered(w, in, err)
			return
		}
	}
	defer s.Release()
	answer.write(w, h.rpc.HandleMessage(r.Context(), in))
}

// delivered answers a response to a question: what was not passed on can be sent again.
func (h *Handler) delivered(w http.ResponseWriter, in *dialect.Inbound, err error) {
	if err != nil {
		httpbody.Write(w, h.rpc.SessionRefused(in, err))
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// open answers a message without a session: initialize opens one, and the rest
// is served as far as it needs none. A client without a session is sent no
// requests, because nothing would tell its answers from those of others.
func (h *Handler) open(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, answer form) {
	if in.Message.Kind != jsonrpc.KindRequest || in.Message.Fault != nil {
		answer.write(w, h.rpc.HandleMessage(r.Context(), in))
		return
	}
	if in.Message.Method == methodInitialize {
		in.Opened = func(s *session.Session) {
			w.Header().Set(headerSession, s.ID())
			s.Release()
		}
	}
	s := newStream(w, &h.opts, func(error) {}) // a reader that goes does not cancel
	if answer.mayStream {
		in.Send = s.send
	}
	if answer.mayBegin && in.Opened == nil { // the id of a session is a header
		h.silent.await(&s.silent)
		defer h.leave(s)
	}
	s.writeReply(h.rpc.BeginMessage(context.WithoutCancel(r.Context()), in)(), answer.asEvent)
}

// sessionReply is the way of one request's messages to its client. They go to a
// stream of the session from the first one that is no reply, because a stream
// outlives its connection; a reply alone goes the short way.
type sessionReply struct {
	session *session.Session
	in      *dialect.Inbound
	silent  silent
	// madeFor is what the caller saw of results when it called.
	madeFor string

	mu     sync.Mutex
	stream *session.Stream
	isOver bool
	// wasSilent: the stream began without a message.
	wasSilent bool
	began     chan struct{} // closed with the first message that is no reply, or after a while without one
	replied   chan dialect.Reply
}

// openStream returns the stream, which it begins.
func (p *sessionReply) openStream() *session.Stream {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened()
}

// opened is openStream; p.mu is held.
func (p *sessionReply) opened() *session.Stream {
	if p.stream == nil {
		p.stream = p.session.NewStream()
		p.stream.BegunBy(p.in.TraceContext())
		p.stream.MadeFor(p.madeFor)
		close(p.began)
	}
	return p.stream
}

// begin begins the stream of a request that has been silent.
func (p *sessionReply) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.isOver && p.stream == nil {
		p.wasSilent = true
		p.opened()
	}
}

// reading is the connection that reads the stream.
func (p *sessionReply) reading() *reading {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &reading{session: p.session, reader: p.opened().Read(), isSilent: p.wasSilent}
}

// handOver hands over the reply.
func (p *sessionReply) handOver(reply dialect.Reply) {
	p.mu.Lock()
	stream := p.stream
	p.isOver = true
	p.mu.Unlock()
	if stream == nil {
		p.replied <- reply
		return
	}
	var message []byte
	if !reply.IsEmpty() {
		message = reply.Bytes()
	}
	_ = stream.Finish(message) // where it has ended, so has the session
}

// call answers a request of a session, and releases it. The request runs on a
// separate goroutine: the end of the connection is not its end, and the
// connection may be closed while it runs.
func (h *Handler) call(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, answer form) {
	s := in.Session
	p := &sessionReply{session: s, in: in, madeFor: h.rpc.ResultsKey(r.Context()), began: make(chan struct{}), replied: make(chan dialect.Reply, 1)}
	if answer.mayStream {
		in.Send = func(message []byte) error { return p.openStream().Send(message) }
		if resumes(s) {
			in.Quiet = func() { p.openStream().Pause() }
		}
	}
	if answer.mayBegin {
		p.silent.of = p
		h.silent.await(&p.silent)
		defer h.silent.leave(&p.silent)
	}
	run := h.rpc.BeginMessage(context.WithoutCancel(r.Context()), in)
	h.endWith(s)
	go func() {
		defer s.Release()
		p.handOver(*run())
	}()
	select {
	case reply := <-p.replied:
		answer.write(w, reply)
	case <-p.began:
		h.pump(w, r, p.reading())
	case <-r.Context().Done():
	}
}

// endWith ends what was begun in a session that has ended in the same moment,
// too late to be ended with it.
func (h *Handler) endWith(s *session.Session) {
	select {
	case <-s.Done():
		h.rpc.Flights().CloseOrigin(s.Origin())
	default:
	}
}

// resumes reports whether a client knows events that only carry an id, and
// connections that are closed before their stream ends (since 2025-11-25).
func resumes(s *session.Session) bool {
	revision, _ := content.ParseRevision(s.Context().GetProtocolVersion())
	return revision == content.Rev20251125
}

// batch answers an array, which 2025-03-26 alone has: every entry is a message of
// the session, and the replies come together, in the order of the requests.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, body []byte, answer form) {
	if err := h.rpc.AdmitLegacy(in); err != nil {
		httpbody.Write(w, h.rpc.Refuse(in, err))
		return
	}
	s, ok := h.find(w, r, in)
	if !ok {
		return
	}
	if s != nil {
		defer s.Release()
	}
	if s == nil || s.Context().GetProtocolVersion() != content.Rev20250326.String() {
		msg := jsonrpc.Parse(body, jsonrpc.ProfileMCP, h.limits)
		in.Message = &msg
		httpbody.Write(w, h.rpc.HandleMessage(r.Context(), in))
		return
	}
	entries, err := jsonrpc.SplitBatch(body, h.opts.MaxBatch, h.limits)
	if err != nil {
		httpbody.Write(w, h.rpc.Refuse(in, httpbody.BatchError(err, h.opts.MaxBatch)))
		return
	}
	ctx := context.WithoutCancel(r.Context())
	runs := make([]func() *dialect.Reply, len(entries))
	for i, entry := range entries {
		runs[i] = h.entry(ctx, in, s, entry)
	}
	h.endWith(s)
	out := newStream(w, &h.opts, func(error) {})
	if answer.mayBegin {
		h.silent.await(&out.silent)
		defer h.leave(out)
	}
	out.writeBatch(httpbody.RunBatch(runs))
}

// entry begins one entry of a batch.
func (h *Handler) entry(ctx context.Context, in *dialect.Inbound, s *session.Session, text []byte) func() *dialect.Reply {
	msg := jsonrpc.Parse(text, jsonrpc.ProfileMCP, h.limits)
	own := *in
	own.Message, own.Session, own.Origin = &msg, s, s.Origin()
	isResponse := msg.Kind == jsonrpc.KindSuccess || msg.Kind == jsonrpc.KindError
	switch {
	case msg.Fault == nil && isResponse && s.Deliver(ctx, &msg) == nil:
		return func() *dialect.Reply { return &dialect.Reply{} }
	case msg.Fault == nil && dialect.ClaimsModern(msg.Params):
		err := errmap.New(errmap.InvalidEnvelope, errmap.WithViolations(errmap.Violation{
			Path: "/params/_meta", Keyword: "batch", Message: "the protocol version of this message has no batches; send it alone",
		}))
		return func() *dialect.Reply {
			reply := h.rpc.Refuse(&own, err)
			return &reply
		}
	}
	return h.rpc.BeginMessage(ctx, &own)
}
