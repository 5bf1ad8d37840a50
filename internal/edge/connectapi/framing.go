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

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/stats"
)

// What the RPC library refuses by itself (framing, compression, size, methods and types of content) it refuses in its own
// words and without details. Callers get the canonical error instead, under the same code or that of a caller's fault. On
// streams an interceptor sees such errors; those of unary calls pass no interceptor, so that they are found in the response.

// counted answers and counts what the RPC library refuses by itself. A request that cannot be refused that way costs some
// lookups in its headers here, and no memory.
func (s *Service) counted(isTyped bool, next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		edge := edgeOf(r, isTyped)
		var mark asItCame
		if isTyped {
			r = r.WithContext(context.WithValue(r.Context(), asItCameKey{}, &mark))
		}
		kind := r.Header.Get("Content-Type")
		switch {
		case strings.HasPrefix(kind, "application/connect+") && !isReadable(r.Header, "Connect-Content-Encoding"):
			refused := s.framing(r, edge, connect.CodeInvalidArgument)
			_ = writer.Write(w, r, refused) // the caller has gone if this fails
		case isOrdinary(r, kind):
			if isPlainGRPC(kind) {
				w = &challenger{ResponseWriter: w}
			}
			next.ServeHTTP(w, r)
			if !mark.is {
				s.explainTrailers(r, edge, w.Header())
			}
		default:
			if isPlainGRPC(kind) {
				w = &challenger{ResponseWriter: w}
			}
			watched := &explainer{ResponseWriter: w, service: s, request: r, edge: edge, mark: &mark}
			next.ServeHTTP(watched, r)
			watched.finish(writer)
			watched.explain()
		}
	})
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
	if version := h.Get("Connect-Protocol-Version"); version != "" && version != "1" {
		return false
	}
	if timeout := h.Get("Connect-Timeout-Ms"); timeout != "" {
		if _, err := strconv.ParseUint(timeout, 10, 63); err != nil || len(timeout) > 10 {
			return false
		}
	}
	return isCompression(h.Get(encoding))
}

// framing is the canonical error for what the library refused of a request, under the library's code; it is counted, told
// and recorded.
func (s *Service) framing(r *http.Request, edge stats.Edge, code connect.Code) *connect.Error {
	failed, code := s.framingError(r.Header, code)
	s.countFraming(edge, failed)
	s.auditUnread(r.Context(), &rpc{header: r.Header, peer: r.RemoteAddr, protocol: protocolOf(r), procedure: r.URL.Path}, failed)
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

func (s *Service) countFraming(edge stats.Edge, failed *errmap.Error) {
	counts := s.bridge.Stats()
	counts.Over(failed.Limit)
	counts.HTTPRefused(edge, failed.Code)
}

// protocolOf is the protocol of a request by its content type.
func protocolOf(r *http.Request) string {
	switch edgeOf(r, false) {
	case stats.EdgeGRPC:
		return connect.ProtocolGRPC
	case stats.EdgeGRPCWeb:
		return connect.ProtocolGRPCWeb
	}
	return connect.ProtocolConnect
}

// How the status of a call stands in the header of a response: as trailers that
// net/http will write, or, in gRPC-Web, as headers.
const (
	headerStatus  = "Grpc-Status"
	headerMessage = "Grpc-Message"
	headerDetails = "Grpc-Status-Details-Bin"
)

// explainTrailers gives a status of gRPC that has no details the canonical ones: every error of the sidecar has some.
func (s *Service) explainTrailers(r *http.Request, edge stats.Edge, h http.Header) {
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

// explainer holds back what the library refuses, until it is told in canonical words.
type explainer struct {
	http.ResponseWriter

	service *Service
	request *http.Request
	edge    stats.Edge
	held    int // the status of an error of Connect, 0 for none
	body    []byte
	done    bool // all has been written
	mark    *asItCame
}

// explain explains the trailers, where they are not a status of the backend.
func (w *explainer) explain() {
	if !w.mark.is {
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
		// In gRPC-Web, the status of an answer without a message stands here.
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
	if !w.mark.is && !bytes.Contains(w.body, []byte(`"details"`)) && code.UnmarshalText(codeIn(w.body)) == nil {
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
func (s *Service) refuseFraming(w http.ResponseWriter, r *http.Request, edge stats.Edge, status int) {
	failed := unservedContent(r.Header.Get("Content-Type"))
	if status == http.StatusMethodNotAllowed {
		failed = errmap.New(errmap.MethodNotAllowed)
	}
	s.bridge.Stats().HTTPRefused(edge, failed.Code)
	s.toldRefusal(r, failed)
	if failed.Code != errmap.MethodNotAllowed {
		s.auditUnread(r.Context(), &rpc{header: r.Header, peer: r.RemoteAddr, protocol: protocolOf(r), procedure: r.URL.Path}, failed)
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

// streamFraming gives errors of receiving on streams their canonical form.
type streamFraming struct{ service *Service }

// WrapUnary implements [connect.Interceptor].
func (streamFraming) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements [connect.Interceptor].
func (streamFraming) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (f streamFraming) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &framedConn{StreamingHandlerConn: conn, ctx: ctx, service: f.service})
	}
}

// framedConn is a stream whose errors of receiving are canonical.
type framedConn struct {
	connect.StreamingHandlerConn

	ctx     context.Context //nolint:containedctx // of the stream, for the audit trail
	service *Service
	// received: a message has come, so that the stream is a request by now.
	received bool
}

// Receive implements [connect.StreamingHandlerConn]. A message that was refused when it was read is an error too, except
// an envelope: an invalid envelope does not end the stream.
func (c *framedConn) Receive(message any) error {
	err := c.StreamingHandlerConn.Receive(message)
	edge := stats.EdgeOf(c.Peer().Protocol, "", false)
	isFirst := !c.received
	c.received = true
	if err == nil {
		m, ok := message.(proto.Message)
		if !ok || isEnvelope(m) {
			return nil
		}
		if failed := refusalOf(m); failed != nil {
			return c.service.refusedAt(edge, failed, aboutOf(m))
		}
		return nil
	}
	switch code := connect.CodeOf(err); code {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeUnimplemented:
		failed, code := c.service.framingError(c.RequestHeader(), code)
		c.service.countFraming(edge, failed)
		_, isTyped := c.ctx.Value(procedureKey{}).(string)
		if procedure := c.Spec().Procedure; isFirst && !isTyped || procedure == outriggerv1connect.ToolServiceExchangeProcedure { // a typed stream is a request before its first message
			c.service.auditUnread(c.ctx, &rpc{header: c.RequestHeader(), peer: c.Peer().Addr, protocol: c.Peer().Protocol, procedure: procedure}, failed)
		}
		return withCode(code, errmap.ToConnect(failed, errmap.About{}))
	default: // the end of the stream, or its caller has gone
		return err
	}
}
