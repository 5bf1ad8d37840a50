// SPDX-License-Identifier: Apache-2.0

// Package mcphttp is the edge for MCP over Streamable HTTP: one endpoint for every
// protocol era. It detects the era of each message from the message itself and the
// version header, once, and leaves everything else to the bridge. A Handler is
// safe for concurrent use.
package mcphttp

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Path is the path of the endpoint.
const Path = "/mcp"

// Options configure a Handler. Zero fields mean their defaults.
type Options struct {
	Limits jsonrpc.Limits
	// KeepAlive is the keep-alive interval of an idle stream, and how long a request may
	// be answered with nothing before it becomes one. WriteTimeout bounds how long one
	// write may wait for its reader.
	KeepAlive, WriteTimeout time.Duration
	// MaxBatch bounds the entries of a batch in revision 2025-03-26.
	MaxBatch int
}

// Handler serves MCP over HTTP. Make one with [New].
type Handler struct {
	rpc    *dialect.Handler
	limits jsonrpc.Limits
	opts   Options
	silent silence
}

// New returns a Handler in front of rpc.
func New(rpc *dialect.Handler, o Options) *Handler {
	defaults.Fill(&o.KeepAlive, defaults.KeepAliveInterval)
	defaults.Fill(&o.WriteTimeout, defaults.WriteTimeout)
	defaults.Fill(&o.MaxBatch, defaults.MaxBatchEntries)
	return &Handler{rpc: rpc, limits: o.Limits.WithDefaults(), opts: o, silent: silence{after: o.KeepAlive}}
}

// ServeHTTP handles one message. GET and DELETE belong to sessions of the legacy
// eras.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, answer := h.accept(w, r)
	switch {
	case in == nil:
	case in.Message == nil:
		h.get(w, r, in)
	case in.Dialect == dialect.Legacy:
		h.post(w, r, in, answer)
	default:
		h.serve(w, r, in, answer)
	}
}

// Refuse responds to a request that was refused before it was read. Only the version
// header shows the era of the request.
func (h *Handler) Refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	httpbody.Write(w, h.rpc.Refuse(h.inbound(r), err))
}

// inbound is a message before it is read.
func (h *Handler) inbound(r *http.Request) *dialect.Inbound {
	return &dialect.Inbound{
		Dialect: headerDialect(r.Header), Header: r.Header,
		Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Peer: r.RemoteAddr, Transport: "http", Route: Path,
		HTTP: h.rpc.Request(r.Context()),
	}
}

// accept reads one message and tells its era; nil where it has been answered. What
// it returns has no message where it is a GET, which only the legacy eras have. It
// is apart because a stream of changes may wait behind it for hours, and
// should not hold what only reading needs.
func (h *Handler) accept(w http.ResponseWriter, r *http.Request) (*dialect.Inbound, form) {
	in := h.inbound(r)
	if in.Dialect == dialect.Legacy {
		switch r.Method {
		case http.MethodGet:
			return in, form{}
		case http.MethodDelete:
			h.delete(w, r, in)
			return nil, form{}
		}
	}
	if r.Method == http.MethodPost {
		in.Known(r.Context())
	}
	body, answer, err := h.read(w, r)
	if err != nil {
		httpbody.Write(w, h.rpc.Refuse(in, err))
		return nil, form{}
	}
	if in.Dialect == dialect.Legacy && jsonrpc.IsBatch(body) {
		h.batch(w, r, in, body, answer)
		return nil, form{}
	}
	envelope := jsonrpc.Read(body, h.limits)
	in.Dialect = dialectOf(&envelope, r.Header)
	msg := envelope.As(jsonrpc.ProfileMCP)
	in.Message = &msg
	in.Origin = h.rpc.Flights().NewOrigin()
	if in.Dialect != dialect.Legacy && (msg.Kind != jsonrpc.KindRequest || msg.Fault != nil) {
		answer.write(w, h.rpc.HandleMessage(r.Context(), in))
		return nil, form{}
	}
	if answer.mayBegin {
		answer.mayBegin = !in.BeginsAtOnce()
	}
	return in, answer
}

// read returns the body of a request, once its head is in order, and the form of
// the answer.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) ([]byte, form, *errmap.Error) {
	if err := httpbody.Check(w, r, h.limits.MaxBytes); err != nil {
		return nil, form{}, err
	}
	answer, err := negotiate(r.Header)
	if err != nil {
		return nil, form{}, err
	}
	body, err := httpbody.Read(w, r, h.limits.MaxBytes)
	return body, answer, err
}

// serve answers a modern request. A connection that goes away cancels it, and
// does not cancel a legacy one: in this the eras are opposites.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, answer form) {
	s, run := h.register(w, r, in, answer)
	if answer.mayBegin {
		h.serveSilent(s, run, answer.asEvent)
		return
	}
	s.writeReply(run(), answer.asEvent)
}

// serveSilent answers a request of which nothing may be heard for long. It is no part of serve, because what it needs of the stack
// would be there below each stream of changes that waits.
func (h *Handler) serveSilent(s *stream, run func() *dialect.Reply, asEvent bool) {
	h.silent.await(&s.silent)
	defer h.leave(s)
	s.writeReply(run(), asEvent)
}

// register makes the stream of a request and registers it.
func (h *Handler) register(w http.ResponseWriter, r *http.Request, in *dialect.Inbound, answer form) (*stream, func() *dialect.Reply) {
	s := newStream(w, &h.opts, in.Abort)
	if answer.mayStream {
		in.Send = s.send
	}
	return s, h.rpc.BeginMessage(r.Context(), in)
}

// leave ends what awaits a silent request. Its response is not written to after this, however its handler ended.
func (h *Handler) leave(s *stream) {
	h.silent.leave(&s.silent)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// dialectOf tells the era of a message. The _meta of the message decides; where
// it says nothing, the version header does, except for initialize, which opens
// the legacy eras whatever the header says.
func dialectOf(e *jsonrpc.Envelope, header http.Header) dialect.Dialect {
	meta, _ := e.Param("_meta")
	if version, ok := dialect.MetaVersion(meta); ok {
		if dialect.IsLegacyVersion(version) {
			return dialect.Legacy
		}
		return dialect.Modern
	}
	if e.Method() == "initialize" {
		return dialect.Legacy
	}
	return headerDialect(header)
}

// headerDialect reads the version header alone. Revisions are dates, so they
// compare as text; without a header a client is older than the header.
func headerDialect(header http.Header) dialect.Dialect {
	version, _ := dialect.HeaderVersion(header)
	if isRevision(version) && version >= dialect.VersionModern {
		return dialect.Modern
	}
	return dialect.Legacy
}

// isRevision holds for the form of MCP's revisions, a date.
func isRevision(version string) bool {
	if version == dialect.VersionModern || version == dialect.VersionLegacy {
		return true // nearly all requests
	}
	_, err := time.Parse(time.DateOnly, version)
	return err == nil
}

// form is which forms the answer may have.
type form struct {
	// mayStream: notifications may go before the answer, as server-sent events.
	mayStream bool
	// asEvent: an answer without any is an event too.
	asEvent bool
	// mayBegin: a stream may begin before there is anything to say. The client named
	// events: a range of which they are part does not show that it can read them. Not set for a
	// stream of changes, which begins at once.
	mayBegin bool
}

// write writes an answer that is no stream.
func (f form) write(w http.ResponseWriter, reply dialect.Reply) {
	if f.asEvent {
		writeEvent(w, reply)
		return
	}
	httpbody.Write(w, reply)
	reply.Release()
}

// usualAccept is what the clients of MCP send, letter by letter.
const usualAccept = "application/json, text/event-stream"

// negotiate picks the form of the answer: JSON where one message is all of it,
// and events where there are more, or the client asks for nothing else.
func negotiate(header http.Header) (form, *errmap.Error) {
	if values := header["Accept"]; len(values) == 1 && values[0] == usualAccept {
		return form{mayStream: true, mayBegin: true}, nil
	}
	json, _ := accepts(header, "application/json")
	events, isNamed := accepts(header, "text/event-stream")
	if !json && !events {
		return form{}, errmap.New(errmap.NotAcceptable, errmap.WithViolations(errmap.Violation{
			Keyword: "accept", Message: "Accept allows neither application/json nor text/event-stream",
		}))
	}
	return form{mayStream: events, asEvent: !json, mayBegin: events && isNamed}, nil
}

// accepts reports whether Accept admits a media type, and whether it names it: the most
// specific range that matches it decides (RFC 9110, section 12.5.1). A request without the
// header admits all.
func accepts(header http.Header, kind string) (admitted, isNamed bool) {
	values := header.Values("Accept")
	if len(values) == 0 {
		return true, false
	}
	major, _, _ := strings.Cut(kind, "/")
	ranges := [...]string{"*/*", major + "/*", kind}
	decided := -1
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err != nil {
				continue
			}
			specific := slices.Index(ranges[:], name)
			if specific < max(decided, 0) {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			admits := err != nil || q > 0
			admitted = admits || admitted && specific == decided
			decided = specific
		}
	}
	return admitted, decided == len(ranges)-1
}

// versionRetired is the revision whose transport has one endpoint for events and
// one for messages.
const versionRetired = "2024-11-05"

// RetiredPaths returns the usual paths of the two endpoints of 2024-11-05 servers.
// The sidecar does not offer that transport: its clients support newer ones too, and
// it knows neither sessions that end nor resumable streams. These clients get an
// explanation instead; see [Handler.Retired].
func RetiredPaths() []string { return []string{"/sse", "/message", "/messages", "/messages/"} }

// Retired returns the handler for these paths. It responds with a 404 that names the
// replacement.
func (h *Handler) Retired() http.Handler {
	err := errmap.UnsupportedVersion(versionRetired, dialect.Versions())
	errmap.Message("The transport of MCP " + versionRetired + " (HTTP with SSE) is not offered; POST initialize to " + Path + " (Streamable HTTP)")(err)
	return h.notHere(err)
}

// notHere returns the handler for a path where there is nothing. It responds with a 404 that says why.
func (h *Handler) notHere(err *errmap.Error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := &dialect.Inbound{
			Dialect: dialect.Legacy, Header: r.Header,
			Caller: bridge.CallerOf(r.Context(), r.RemoteAddr), Transport: "http", Route: r.URL.Path,
			HTTP: h.rpc.Request(r.Context()),
		}
		reply := h.rpc.Refuse(in, err)
		reply.Status = http.StatusNotFound
		httpbody.Write(w, reply)
	})
}
