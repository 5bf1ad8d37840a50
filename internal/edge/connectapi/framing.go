// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"connectrpc.com/connect"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// What the RPC library refuses by itself (framing, compression, size, methods and types of content) it refuses in its own
// words and without details. Callers get the canonical error instead, under the same code or that of a caller's fault. On
// streams an interceptor sees such errors; those of unary calls pass no interceptor, so that they are found in the response.

// front answers and counts what the RPC library refuses by itself, and keeps for the handlers behind the library what it does
// not show them. A request that cannot be refused that way costs some lookups in its headers here.
type front struct {
	service  *Service
	next     http.Handler
	writer   *connect.ErrorWriter
	isTyped  bool
	isStream bool // of all its methods; in the tool API, the path says it
}

func (s *Service) front(isTyped, isStream bool, next http.Handler) http.Handler {
	return &front{service: s, next: next, writer: connect.NewErrorWriter(), isTyped: isTyped, isStream: isStream}
}

// ServeHTTP implements [http.Handler].
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of := &served{answer: peer.WriterOf(w), isStream: f.isStream || isStream(r.URL.Path)}
	if f.isTyped {
		of.procedure = r.URL.Path
	}
	if of.isStream {
		of.reader = f.service.newReader(w, r, of)
		// The response may be touched until the handler returns, and no longer.
		defer of.reader.leave()
	}
	r = r.WithContext(context.WithValue(r.Context(), servedKey{}, of))
	s, edge, kind := f.service, edgeOf(r, f.isTyped), r.Header.Get("Content-Type")
	if isPlainGRPC(kind) {
		w = &trailing{ResponseWriter: w, isOne: !of.isStream && r.ProtoMajor == 2}
	}
	switch {
	case strings.HasPrefix(kind, "application/connect+") && !isReadable(r.Header, "Connect-Content-Encoding"):
		_ = f.writer.Write(w, r, s.framing(r, edge, connect.CodeInvalidArgument)) // the caller has gone if this fails
	case isOrdinary(r, kind):
		f.next.ServeHTTP(w, r)
		if !of.asItCame {
			s.explainTrailers(r, edge, w.Header())
		}
	default:
		watched := &explainer{ResponseWriter: w, service: s, request: r, edge: edge, of: of}
		f.next.ServeHTTP(watched, r)
		watched.finish(f.writer)
		watched.explain()
	}
}

// served is what is known of a request beside what the RPC library shows of it.
type served struct {
	procedure string         // of the typed pass-through, whose handlers serve all of them; "" for the tool API
	answer    *peer.Writer   // counts the response for a tool; nil where none is counted
	reader    *reader        // of a stream; nil for unary RPCs
	span      *streamOfCalls // of a stream; nil without tracing
	isStream  bool
	asItCame  bool // the response is a status of the backend, to which nothing is added
}

type servedKey struct{}

// servedOf is what is known of the request of a context.
func servedOf(ctx context.Context) *served {
	if of, ok := ctx.Value(servedKey{}).(*served); ok {
		return of
	}
	return &served{} // a method that is called directly
}

// attribute counts a response for the tool whose result it is.
func (of *served) attribute(resp *bridge.Response) {
	if resp.Tool != nil {
		of.answer.SetTool(resp.Tool.Name)
	}
}

// isOrdinary holds for requests whose response header alone shows what the library refuses, if anything. Those of unary Connect
// are none: the library writes its own error where a body is cut short or late.
func isOrdinary(r *http.Request, kind string) bool {
	return r.Method == http.MethodPost && slices.Contains(streamKinds, kind)
}

// streamKinds are the types of content whose errors are in trailers, or pass an interceptor.
//
//nolint:gochecknoglobals // nothing assigns to it
var streamKinds = []string{
	"application/grpc", "application/grpc+proto", "application/grpc+json",
	"application/connect+proto", "application/connect+json",
}

// isReadable holds for headers of Connect that the library does not refuse.
func isReadable(h http.Header, encoding string) bool {
	if version := h.Get("Connect-Protocol-Version"); version != "" && version != "1" || !isMilliseconds(h.Get("Connect-Timeout-Ms")) {
		return false
	}
	switch h.Get(encoding) {
	case "", "identity", gzipName, zstdName:
		return true
	}
	return false
}

// framing is the canonical error for what the library refused of a request, under the library's code; it is counted, told
// and recorded.
func (s *Service) framing(r *http.Request, edge telemetry.Edge, code connect.Code) *connect.Error {
	failed, code := s.framingError(r.Header, code)
	s.countFraming(edge, failed)
	s.auditUnread(r.Context(), rpcOfHTTP(r), failed)
	refused := withCode(code, errmap.ToConnect(failed, errmap.About{}))
	s.toldFraming(r, refused)
	return refused
}

// framingError is what a caller gets in place of an error of the library, and its code. All of it is the caller's fault,
// which the library does not always know: a body that it cannot read is of an unknown error, a message that is cut short an
// internal one, and one that comes too late has met a deadline, also where the caller set none.
func (s *Service) framingError(h http.Header, code connect.Code) (*errmap.Error, connect.Code) {
	if code == connect.CodeUnknown || code == connect.CodeInternal {
		code = connect.CodeInvalidArgument
	}
	var failed *errmap.Error
	switch code {
	case connect.CodeResourceExhausted:
		failed = errmap.New(errmap.PayloadTooLarge, errmap.Over(errmap.LimitMessageBytes), errmap.Messagef(
			"Payload too large: a message may have at most %d bytes after decompression (--max-message-bytes)", s.opts.Limits.MaxBytes))
	case connect.CodeDeadlineExceeded:
		if h.Get("Connect-Timeout-Ms") == "" && h.Get("Grpc-Timeout") == "" {
			return errmap.New(errmap.ParseError, errmap.Message("Parse error: the body did not arrive in time")), connect.CodeInvalidArgument
		}
		failed = errmap.New(errmap.Timeout)
	case connect.CodeCanceled:
		failed = errmap.New(errmap.Cancelled)
	case connect.CodeUnimplemented:
		failed = errmap.New(errmap.InvalidEnvelope, errmap.Message("Invalid request: want one message, in a supported encoding and compression"))
	default:
		reason := "the framing, compression or encoding of the request cannot be read"
		if code == connect.CodeInvalidArgument {
			reason = cmp.Or(headerFault(h), reason)
		}
		failed = errmap.New(errmap.ParseError, errmap.Message("Parse error: "+reason))
	}
	return failed, code
}

func (s *Service) countFraming(edge telemetry.Edge, failed *errmap.Error) {
	counts := s.bridge.Stats()
	counts.Over(failed.Limit)
	counts.HTTPRefused(edge, failed.Code)
}

// protocolOf is the protocol of a request by its content type.
func protocolOf(r *http.Request) string {
	switch edgeOf(r, false) {
	case telemetry.EdgeGRPC:
		return connect.ProtocolGRPC
	case telemetry.EdgeGRPCWeb:
		return connect.ProtocolGRPCWeb
	}
	return connect.ProtocolConnect
}

// How the status of a call is in the header of a response: as trailers that
// net/http will write, or, in gRPC-Web, as headers.
const (
	headerStatus  = "Grpc-Status"
	headerMessage = "Grpc-Message"
	headerDetails = "Grpc-Status-Details-Bin"
)

// explainTrailers gives a status of gRPC that has no details the canonical ones: every error of the sidecar has some.
func (s *Service) explainTrailers(r *http.Request, edge telemetry.Edge, h http.Header) {
	for _, prefix := range [...]string{http.TrailerPrefix, ""} {
		status := h[prefix+headerStatus]
		if len(status) != 1 || status[0] == "0" || h[prefix+headerDetails] != nil {
			continue
		}
		code, err := strconv.ParseUint(status[0], 10, 32)
		if err != nil {
			continue
		}
		shown := s.framing(r, edge, connect.Code(code))
		h[prefix+headerStatus] = []string{strconv.Itoa(int(shown.Code()))}
		full := &statuspb.Status{Code: int32(shown.Code()), Message: shown.Message()}
		for _, d := range shown.Details() {
			full.Details = append(full.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
		}
		raw, err := proto.Marshal(full)
		if err != nil {
			continue
		}
		h[prefix+headerMessage] = []string{shown.Message()}
		h[prefix+headerDetails] = []string{base64.RawStdEncoding.EncodeToString(raw)}
	}
}

// explainer holds back what the library refuses, until it is said in canonical words.
type explainer struct {
	http.ResponseWriter

	service *Service
	request *http.Request
	edge    telemetry.Edge
	held    int // the status of an error of Connect, 0 for none
	body    []byte
	done    bool // all has been written
	of      *served
}

// explain explains the trailers, where they are not a status of the backend.
func (w *explainer) explain() {
	if !w.of.asItCame {
		w.service.explainTrailers(w.request, w.edge, w.Header())
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *explainer) WriteHeader(status int) {
	kind := w.Header().Get("Content-Type")
	switch {
	case w.held != 0 || w.done:
	case kind == "" && (status == http.StatusMethodNotAllowed || status == http.StatusUnsupportedMediaType):
		w.done = true
		w.service.refuseFraming(w.ResponseWriter, w.request, w.edge, status)
	case status >= http.StatusBadRequest && strings.HasPrefix(kind, "application/json"):
		w.held = status
	default:
		// In gRPC-Web, the status of an answer without a message is here.
		w.explain()
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write implements [http.ResponseWriter]. A Connect error is some kilobytes at most.
func (w *explainer) Write(p []byte) (int, error) {
	switch {
	case w.done:
		return len(p), nil
	case w.held != 0:
		w.body = append(w.body, p...)
		return len(p), nil
	}
	w.explain()
	return w.ResponseWriter.Write(p)
}

// finish writes what was held back.
func (w *explainer) finish(writer *connect.ErrorWriter) {
	if w.held == 0 {
		return
	}
	var code connect.Code
	if !w.of.asItCame && !bytes.Contains(w.body, []byte(`"details"`)) && code.UnmarshalText(codeIn(w.body)) == nil {
		w.Header().Del("Content-Length")
		refused := w.service.framing(w.request, w.edge, code)
		_ = writer.Write(w.ResponseWriter, w.request, refused) // the caller has gone if this fails
		return
	}
	w.ResponseWriter.WriteHeader(w.held)
	_, _ = w.ResponseWriter.Write(w.body)
}

// codeIn is the code of a Connect error in JSON.
func codeIn(body []byte) []byte {
	_, rest, _ := bytes.Cut(body, []byte(`"code":"`))
	code, _, _ := bytes.Cut(rest, []byte(`"`))
	return code
}

// Flush implements [http.Flusher], which streams need.
func (w *explainer) Flush() {
	if w.held == 0 && !w.done {
		w.explain()
		// What cannot flush writes at once.
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// Unwrap is for [http.ResponseController].
func (w *explainer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuseFraming answers a method or a type of content that is not served. The intended protocol is unknown, so the
// canonical error is plain JSON.
func (s *Service) refuseFraming(w http.ResponseWriter, r *http.Request, edge telemetry.Edge, status int) {
	failed := unservedContent(r.Header.Get("Content-Type"))
	if status == http.StatusMethodNotAllowed {
		failed = errmap.New(errmap.MethodNotAllowed)
	}
	s.bridge.Stats().HTTPRefused(edge, failed.Code)
	s.toldRefusal(r, failed)
	if failed.Code != errmap.MethodNotAllowed {
		s.auditUnread(r.Context(), rpcOfHTTP(r), failed)
	}
	shown := failed.JSONRPC(errmap.About{})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(jsonrpc.AppendError(nil, jsonrpc.ID{}, true, shown.Code, shown.Message, shown.Data))
}

// unservedContent names what is served in place of a type of content.
func unservedContent(kind string) *errmap.Error {
	reason := errmap.Quote(kind) + " is not served here; gRPC uses application/grpc, gRPC-Web application/grpc-web, Connect application/proto or " +
		"application/json, and application/connect+proto or application/connect+json for streams"
	if strings.HasPrefix(kind, "application/grpc-web-text") {
		reason = "gRPC-Web is served in binary form only; set the client's mode from grpcwebtext to grpcweb, which sends application/grpc-web+proto"
	}
	return errmap.Because(errmap.UnsupportedMediaType, reason)
}

// headerChallenge tells a client how to authenticate. HTTP forbids it in trailers (RFC 9110, section 6.5.1), where gRPC has
// the metadata of errors, and HTTP servers drop it there. So it is metadata of the response's header, which is where clients
// look as well.
const headerChallenge = "Www-Authenticate"

// lateChallenge is how the RPC library asks for it as a trailer.
const lateChallenge = http.TrailerPrefix + headerChallenge

// isPlainGRPC holds for requests whose errors are in trailers.
func isPlainGRPC(kind string) bool {
	return strings.HasPrefix(kind, "application/grpc") && !strings.HasPrefix(kind, "application/grpc-web")
}

// trailing is a response of gRPC. It moves the challenge of an error from the trailer to the header, if that has not been sent:
// a response that has begun cannot have one. The message of a unary response leaves together with its trailers, except over
// HTTP/1.1, where net/http would leave out the trailers of a response that fits in its buffer.
type trailing struct {
	http.ResponseWriter

	isOne, begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *trailing) WriteHeader(status int) {
	w.beginHead()
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *trailing) Write(p []byte) (int, error) {
	w.beginHead()
	return w.ResponseWriter.Write(p)
}

// Flush implements [http.Flusher]. What cannot flush writes at once. The library flushes behind every message, which would be
// one more write to the connection.
func (w *trailing) Flush() {
	if w.begun && w.isOne {
		return
	}
	w.beginHead()
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap is for [http.ResponseController].
func (w *trailing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *trailing) beginHead() {
	h := w.Header()
	if late, ok := h[lateChallenge]; ok {
		delete(h, lateChallenge)
		if !w.begun {
			h[headerChallenge] = late
		}
	}
	w.begun = true
}

// headerFault names the header of the protocol that the library refuses, and what it wants; "" for none.
func headerFault(h http.Header) string {
	var name, want string
	switch {
	case !isTimeout(h.Get("Grpc-Timeout")):
		name, want = "Grpc-Timeout", "want 1 to 8 digits and a unit (H, M, S, m, u or n), such as 500m"
	case !isMilliseconds(h.Get("Connect-Timeout-Ms")):
		name, want = "Connect-Timeout-Ms", "want milliseconds, in 1 to 10 digits"
	case h.Get("Connect-Protocol-Version") != "" && h.Get("Connect-Protocol-Version") != "1":
		name, want = "Connect-Protocol-Version", "want 1"
	default:
		return ""
	}
	return "the header " + name + " is " + errmap.Quote(h.Get(name)) + "; " + want
}

// isTimeout holds for values of Grpc-Timeout that the library takes; it takes no header too.
func isTimeout(text string) bool {
	if text == "" {
		return true
	}
	n, err := strconv.ParseInt(text[:len(text)-1], 10, 64)
	return err == nil && n >= 0 && n <= 99_999_999 && strings.IndexByte("HMSmun", text[len(text)-1]) >= 0
}

// isMilliseconds is isTimeout for Connect-Timeout-Ms.
func isMilliseconds(text string) bool {
	_, err := strconv.ParseUint(text, 10, 63)
	return text == "" || err == nil && len(text) <= 10
}
