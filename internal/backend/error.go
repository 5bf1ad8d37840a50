// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/h2"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Kind classifies failures by what a caller may conclude from them.
type Kind uint8

const (
	// KindUnreachable means that the service did not receive the request, or not all of
	// it. The connection or TLS handshake failed, the socket does not exist, the
	// connection broke while the request was being written, the peer refused it
	// unprocessed (GOAWAY, REFUSED_STREAM), an HTTP server before the service refused it
	// (429, 503), no protocol was detected, or the client is closed. A retry is safe.
	KindUnreachable Kind = iota + 1
	// KindTimeout means that the caller's deadline passed. Sent tells whether the service
	// may have seen the request.
	KindTimeout
	// KindCancelled means that the caller's context was cancelled.
	KindCancelled
	// KindTransport means that the request was sent and no response came: reset, end of
	// stream, or an intermediary's 502 or 504. The outcome is unknown.
	KindTransport
	// KindTooLarge means that the response exceeds MaxResponseBytes.
	KindTooLarge
	// KindRequestTooLarge means that the request was not sent because it exceeds
	// MaxRequestBytes, or its metadata MaxMetadataBytes or the peer's limit; or that the
	// peer's HTTP server refused its size (413, 431).
	KindRequestTooLarge
	// KindGarbage means that the response violates the protocol: a broken frame, or no
	// status.
	KindGarbage
	// KindStatus means that the service, or an HTTP server in its place (401, 403, 404),
	// returned an error. Code, PeerCode, Message and Details are from that error.
	KindStatus
	// KindRejected means that the client rejected the request and did not send it,
	// because of metadata that must not go on the wire or an invalid procedure.
	KindRejected
	// KindForeign means that an HTTP server answered in place of the service, with none of
	// the protocols: a redirect, a web page, or a status that says nothing of the call. The
	// outcome is unknown.
	KindForeign
	// KindUnsupported means that the backend answers, but cannot run a method of this kind:
	// bidirectional streams need HTTP/2. The service did not receive the request. A retry
	// fails in the same way.
	KindUnsupported
)

// kinds are the names of all kinds, and the codes that go with those other than KindStatus.
func kinds() [12]struct {
	name string
	code connect.Code
} {
	return [...]struct {
		name string
		code connect.Code
	}{
		0:                   {"invalid", connect.CodeInternal},
		KindUnreachable:     {"unreachable", connect.CodeUnavailable},
		KindTimeout:         {"timeout", connect.CodeDeadlineExceeded},
		KindCancelled:       {"cancelled", connect.CodeCanceled},
		KindTransport:       {"transport", connect.CodeUnavailable},
		KindTooLarge:        {"too_large", connect.CodeResourceExhausted},
		KindRequestTooLarge: {"request_too_large", connect.CodeResourceExhausted},
		KindGarbage:         {"garbage", connect.CodeInternal},
		KindStatus:          {"status", connect.CodeInternal},
		KindRejected:        {"rejected", connect.CodeInvalidArgument},
		KindForeign:         {"foreign", connect.CodeUnavailable},
		KindUnsupported:     {"unsupported", connect.CodeUnimplemented},
	}
}

// String returns a short name for logs.
func (k Kind) String() string { return kinds()[k].name }

// Error is the error type of all calls and probes of this package.
type Error struct {
	Kind Kind
	// Code is always one of the sixteen codes. For KindStatus it is the peer's code, or
	// CodeUnknown if the peer's number or name is none of them. For other kinds it is the
	// code that fits.
	Code connect.Code
	// PeerCode is the peer's name for the code ("not_found", "code_42"). It is set only
	// for KindStatus.
	PeerCode string
	// PeerStatus is the peer's status number if it is above those that gRPC and Connect
	// define, else 0.
	PeerStatus uint32
	// Message is the peer's message for KindStatus (not redacted), else a sentence of
	// this package.
	Message string
	// Details are the peer's details, undecoded.
	Details []*anypb.Any
	// Header and Trailer are the metadata of the response, without the protocol's own
	// entries; nil if there is none. Connect sends the metadata of a unary error as headers.
	Header, Trailer http.Header
	// RetryAfter is how long the peer asks to wait before a retry (Retry-After,
	// grpc-retry-pushback-ms). It is negative if the peer asks for no retry, and 0 if it
	// says nothing.
	RetryAfter time.Duration
	// HTTPStatus is the status of the HTTP response, or 0 if none came.
	HTTPStatus int
	// Sent is false if the service certainly did not receive the whole request.
	Sent bool

	unmet bool // there was no connection for it
	cause error
}

// Error implements error.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("backend: ")
	b.WriteString(e.Kind.String())
	if e.PeerCode != "" {
		b.WriteString(" (" + e.PeerCode + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	if e.cause != nil && e.Kind != KindStatus && !e.isChance() {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

// isChance reports whether the cause is only what came first: at the end of a call that the backend has, our clock, the backend's
// word and the reset of the stream race each other, and before that our clock says no more than the kind. Equal calls have equal texts.
func (e *Error) isChance() bool {
	return (e.Kind == KindTimeout || e.Kind == KindCancelled) &&
		(e.Sent || errors.Is(e.cause, context.DeadlineExceeded) || errors.Is(e.cause, context.Canceled))
}

// Unwrap returns the cause, for the log.
func (e *Error) Unwrap() error { return e.cause }

func newError(k Kind, message string, cause error) *Error {
	return &Error{Kind: k, Code: kinds()[k].code, Message: message, cause: cause}
}

// deadlineSlack is how long before our deadline an end that the peer ascribes to
// a deadline counts as ours. Connect sends the time left in whole milliseconds,
// rounded down, and the peer's timer may win the race by as much.
const deadlineSlack = 10 * time.Millisecond

// classify turns what a call returned into an *Error. The order matters: the
// peer's own word first, then our own clock, then what the exchange showed.
func classify(ctx context.Context, err error, f *facts) *Error {
	var rpc *connect.Error
	if !errors.As(err, &rpc) {
		rpc = connect.NewError(connect.CodeUnknown, err)
	}
	e := sortOut(ctx, err, rpc, f)
	e.HTTPStatus = f.httpStatus
	e.cause = err
	if f.sendErr != nil {
		e.cause = f.sendErr
	}
	return e
}

func sortOut(ctx context.Context, err error, rpc *connect.Error, f *facts) *Error {
	ours := ended(ctx)
	if e := f.said.failure(ctx, err); e != nil && !f.overLimit {
		return e
	}
	if connect.IsWireError(err) && !f.ofAGateway() {
		e := fromPeer(ctx, rpc, ours)
		if e.Kind == KindStatus {
			e.Header, e.Trailer = f.said.metadata(rpc.Meta())
		}
		return e
	}
	if ours != 0 {
		return ourEnd(ours, f.mayHaveBegun())
	}
	if f.httpStatus == 0 {
		return noResponse(ctx, f)
	}
	return badResponse(ctx, rpc, f)
}

// ended is KindTimeout or KindCancelled once the caller's context is done, else 0.
func ended(ctx context.Context) Kind {
	switch err := ctx.Err(); {
	case err == nil:
		return 0
	case errors.Is(err, context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return KindTimeout
	default:
		return KindCancelled
	}
}

// expiring reports whether the caller's deadline has passed or is about to.
func expiring(ctx context.Context) bool { return expiresWithin(ctx, deadlineSlack) }

func expiresWithin(ctx context.Context, slack time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) <= slack
}

func ourEnd(k Kind, sent bool) *Error {
	message := "the deadline passed before the backend answered"
	if k == KindCancelled {
		message = "the call was cancelled"
	}
	e := newError(k, message, nil)
	e.Sent = sent
	return e
}

func fromPeer(ctx context.Context, rpc *connect.Error, ours Kind) *Error {
	switch {
	case rpc.Code() == connect.CodeDeadlineExceeded && expiring(ctx):
		return ourEnd(KindTimeout, true)
	case rpc.Code() == connect.CodeCanceled && ours != 0:
		return ourEnd(ours, true)
	}
	e := statusError(rpc.Code(), rpc.Message())
	e.RetryAfter = retryHint(rpc.Meta())
	for _, d := range rpc.Details() {
		e.Details = append(e.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type(), Value: d.Bytes()})
	}
	return e
}

// statusError keeps foreign codes, 0 among them, apart: status details can carry
// any number whatever the header says.
func statusError(code connect.Code, message string) *Error {
	e := &Error{Kind: KindStatus, Code: code, PeerCode: code.String(), Message: message, Sent: true}
	if code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		e.Code = connect.CodeUnknown
	}
	if code > connect.CodeUnauthenticated {
		e.PeerStatus = uint32(code)
	}
	return e
}

// noResponse sorts failures in which no HTTP response came.
func noResponse(ctx context.Context, f *facts) *Error {
	cause, sent := f.sendErr, f.complete()
	if cause == nil {
		return newError(KindRejected, "the request cannot be sent", nil)
	}
	switch {
	case tooManyFields(cause):
		return newError(KindRequestTooLarge, tooManyFieldsText, nil)
	case errors.Is(cause, errHTTP1):
		return newError(KindGarbage, "the backend answers HTTP/2 requests with HTTP/1, but gRPC needs HTTP/2 (try http:// or connect+http://)", nil)
	case errors.Is(cause, errNotHTTP):
		return newError(KindGarbage, "the backend's response is not HTTP", nil)
	case !f.onHTTP2 && f.greeted() == greetSettings:
		return newError(KindGarbage, "the backend answers HTTP/1.1 requests with HTTP/2", nil)
	case !f.began():
		e := newError(KindUnreachable, "cannot reach the backend", nil)
		e.unmet = true
		return e
	case !sent:
		return newError(KindUnreachable, "the connection broke before the request was complete", nil)
	case unprocessed(cause):
		return newError(KindUnreachable, "the backend rejected the request", nil)
	case handshakeRefused(cause):
		return newError(KindUnreachable, "the backend refused the TLS handshake", nil)
	case f.greeted() == greetTLS:
		return newError(KindUnreachable, errWantsTLS.Error(), nil)
	case resetBy(cause, h2Cancel) && expiring(ctx):
		return ourEnd(KindTimeout, true)
	}
	e := newError(KindTransport, "the connection broke before the backend answered", nil)
	if !f.onHTTP2 && f.greeted() == greetOther {
		e = newError(KindGarbage, "the backend's response is not HTTP", nil)
	}
	e.Sent = true
	return e
}

// badResponse sorts failures in which an HTTP response came that is no answer of
// the protocol. rpc may be nil where f says why the body ended.
func badResponse(ctx context.Context, rpc *connect.Error, f *facts) *Error {
	e := func() *Error {
		switch {
		case f.overLimit, f.bodyErr == nil && f.httpStatus == http.StatusOK && rpc.Code() == connect.CodeResourceExhausted:
			return newError(KindTooLarge, "the response is too large", nil)
		case f.bodyErr != nil && resetBy(f.bodyErr, h2Cancel) && expiring(ctx):
			return ourEnd(KindTimeout, true)
		case f.bodyErr != nil:
			return newError(KindTransport, "the connection broke during the response", nil)
		case f.httpStatus != http.StatusOK, f.foreign:
			return notTheService(f.httpStatus, mediaType(f.said.header.Get("Content-Type")), f.said.header, f.hangsUp)
		default:
			return newError(KindGarbage, "the response violates the protocol", nil)
		}
	}()
	e.Sent = true
	return e
}

// notTheService sorts answers of an HTTP server in the service's place, along gRPC's
// table for such answers. hangsUp says that the server closes the connection: with a 400,
// that it could not read the request, as net/http does when the time for the headers has
// run out in between.
func notTheService(status int, mediaType string, h http.Header, hangsUp bool) *Error {
	name := strconv.Itoa(status) + " " + http.StatusText(status)
	switch status {
	case http.StatusBadRequest:
		if hangsUp {
			return newError(KindTransport, "the backend's HTTP server could not read the request and closed the connection: HTTP "+name, nil)
		}
	case http.StatusRequestTimeout:
		return newError(KindTransport, "the backend's HTTP server did not receive the request in time: HTTP "+name, nil)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		code := map[int]connect.Code{http.StatusUnauthorized: connect.CodeUnauthenticated, http.StatusForbidden: connect.CodePermissionDenied, http.StatusNotFound: connect.CodeUnimplemented}[status]
		e := statusError(code, "HTTP status "+name)
		e.RetryAfter = retryHint(h)
		return e
	case http.StatusRequestEntityTooLarge:
		return newError(KindRequestTooLarge, "an HTTP server before the service does not accept a request of this size: HTTP "+name, nil)
	case http.StatusRequestHeaderFieldsTooLarge:
		return newError(KindRequestTooLarge, tooManyFieldsText, nil)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		e := newError(KindUnreachable, "an HTTP server before the service refused the request: HTTP "+name, nil)
		e.RetryAfter = retryHint(h)
		return e
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return newError(KindTransport, "an intermediary could not forward the request: HTTP "+name, nil)
	}
	if mediaType == "" {
		mediaType = "no content type"
	}
	e := newError(KindForeign, "an HTTP server answered in place of the service: HTTP "+name+", "+clip(mediaType), nil)
	if status == http.StatusBadRequest {
		e.Code = connect.CodeInternal // as gRPC's table has it: the next request would be no better
	}
	return e
}

// ofAGateway reports whether the response is JSON that a gateway wrote in place of a
// server of Connect. The library takes any JSON for an error of Connect.
func (f *facts) ofAGateway() bool {
	switch f.httpStatus {
	case http.StatusRequestEntityTooLarge, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		var wire struct {
			Code string `json:"code"`
		}
		return len(f.said.tail) > 0 && f.said.flags == 0 && json.Unmarshal(f.said.tail, &wire) == nil && wire.Code == ""
	}
	return false
}

// unreachableRetry is the hint that goes with UNAVAILABLE where nothing better is known: about one backoff step of the
// catalog's loader.
const unreachableRetry = time.Second

// statusSlack is how much earlier than ours the backend may notice the
// deadline that it was sent: clocks start at different moments and protocols
// round to milliseconds.
const statusSlack = 20 * time.Millisecond

// canonical gives a failed call its canonical code. Only what kept the call
// from reaching the backend, or its answer from coming back, is ours to name;
// what the backend said itself stays its own.
func canonical(ctx context.Context, err error) *errmap.Error {
	var failed *Error
	if !errors.As(err, &failed) {
		return errmap.Wrap(errmap.InternalError, err)
	}
	switch failed.Kind {
	case KindUnreachable:
		wait := unreachableRetry
		if failed.RetryAfter > 0 {
			wait = failed.RetryAfter
		}
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(wait),
			errmap.Message("Tool service unavailable: "+failed.Message))
	case KindTimeout:
		return errmap.Wrap(errmap.Timeout, err)
	case KindCancelled:
		return errmap.Wrap(errmap.Cancelled, err)
	case KindTransport, KindForeign:
		return errmap.Wrap(errmap.TransportError, err)
	case KindTooLarge:
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Message("Result too large: "+failed.Message))
	case KindRequestTooLarge:
		return errmap.Wrap(errmap.PayloadTooLarge, err, errmap.Message("Payload too large: "+failed.Message))
	case KindGarbage:
		if !failed.Sent {
			return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(unreachableRetry),
				errmap.Message("Tool service unavailable: "+failed.Message))
		}
		return errmap.Wrap(errmap.SerializationError, err)
	case KindUnsupported:
		return errmap.FromBackendStatus(failed.Code, failed.Message, nil).WithCause(failed)
	case KindStatus:
		if failed.Code == connect.CodeDeadlineExceeded && expiresWithin(ctx, statusSlack) {
			return errmap.Wrap(errmap.Timeout, err)
		}
		return failed.canonical()
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// canonical is the canonical form of what the peer answered.
func (e *Error) canonical() *errmap.Error {
	out := errmap.FromBackendStatus(e.status(), e.Message, e.Details).WithCause(e)
	switch {
	case e.RetryAfter < 0:
		out.Retryable, out.RetryAfter = new(bool), 0
	case out.RetryAfter == 0:
		out.RetryAfter = e.RetryAfter
	}
	return out
}

// status is the number of the peer's status.
func (e *Error) status() connect.Code {
	if e.PeerStatus != 0 {
		return connect.Code(e.PeerStatus)
	}
	return e.Code
}

// Reworded returns an error with what reword makes of the message and the details that a backend answered with, and without the
// metadata beside them. An error that no backend answered with is returned as it is.
func Reworded(err *errmap.Error, reword func(code string, message string, details []*anypb.Any) (string, []*anypb.Any)) *errmap.Error {
	var failed *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed) && (failed.Kind == KindStatus || failed.Kind == KindUnsupported):
		own := *failed
		own.Message, own.Details = reword(failed.Code.String(), failed.Message, failed.Details)
		own.PeerCode, own.Header, own.Trailer, own.cause = own.Code.String(), nil, nil, nil
		if err.Code == errmap.Timeout {
			return err.WithCause(&own)
		}
		return own.canonical()
	case failed == nil && err.FromTool():
		out := errmap.New(err.Code, errmap.BackendCode(err.BackendCode), errmap.RetryAfter(err.RetryAfter))
		out.Message, out.Details = reword(err.BackendCode, err.Message, err.Details)
		out.Retryable, out.BackendStatus = err.Retryable, err.BackendStatus
		return out
	}
	return err
}

// isUnimplemented reports whether a backend said that it has no such RPC.
func isUnimplemented(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Kind == KindStatus && failed.Code == connect.CodeUnimplemented
}

// Fault is the reason why a backend cannot be used, as far as it can be determined.
type Fault string

// The faults. Each has a different fix.
const (
	FaultUnknown Fault = ""
	// FaultUnknownHost means that the host name does not resolve.
	FaultUnknownHost Fault = "unknown_host"
	// FaultRefused means that nothing listens on the port or socket.
	FaultRefused Fault = "connection_refused"
	// FaultNoAnswer means that no response came in time.
	FaultNoAnswer Fault = "no_answer"
	// FaultHungUp means that the peer closed the connection without a response.
	FaultHungUp Fault = "hung_up"
	// FaultNeedsTLS means that the port speaks TLS and the target does not.
	FaultNeedsTLS Fault = "tls_needed"
	// FaultNoTLS means that the target has TLS and the port does not.
	FaultNoTLS Fault = "tls_not_spoken"
	// FaultAuthority means that no trusted CA signed the certificate.
	FaultAuthority Fault = "tls_unknown_authority"
	// FaultName means that the certificate is for another name.
	FaultName Fault = "tls_wrong_name"
	// FaultExpired means that the certificate is not valid now.
	FaultExpired Fault = "tls_expired"
	// FaultCertificate means that the certificate was rejected for another reason.
	FaultCertificate Fault = "tls_bad_certificate"
	// FaultClientCertificate means that the backend rejects the client certificate, or
	// requires one.
	FaultClientCertificate Fault = "tls_client_refused"
	// FaultNoHTTP2 means that the server offers HTTP/1.1 only. gRPC needs HTTP/2, and so
	// does reflection over Connect.
	FaultNoHTTP2 Fault = "no_http2"
	// FaultWebServer means that the port belongs to a web server.
	FaultWebServer Fault = "web_server"
	// FaultNotRPC means that the peer responds, but in none of the protocols.
	FaultNotRPC Fault = "not_rpc"
	// FaultCredentials means that the backend requires credentials, or other ones.
	FaultCredentials Fault = "unauthenticated"
	// FaultForbidden means that the credentials lack permission.
	FaultForbidden Fault = "permission_denied"
	// FaultNotServed means that the backend does not serve the requested service.
	FaultNotServed Fault = "unimplemented"
)

// FaultOf returns the reason why a call, a probe or a reflection of a backend failed.
func FaultOf(err error) Fault {
	if err == nil {
		return FaultUnknown
	}
	if f := tlsFault(err); f != FaultUnknown {
		return f
	}
	if f := answerFault(err); f != FaultUnknown {
		return f
	}
	return connectionFault(err)
}

// tlsFault goes by the types of crypto/tls and crypto/x509.
func tlsFault(err error) Fault {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		refused   *tls.CertificateVerificationError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &authority):
		return FaultAuthority
	case errors.As(err, &name):
		return FaultName
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return FaultExpired
	case errors.As(err, &refused), errors.As(err, &invalid):
		return FaultCertificate
	case errors.As(err, &record):
		return FaultNoTLS
	case errors.Is(err, errWantsTLS):
		return FaultNeedsTLS
	case errors.Is(err, errNoHTTP2):
		return FaultNoHTTP2
	case anyHandshakeRefused(err):
		return FaultClientCertificate
	}
	return FaultUnknown
}

// anyHandshakeRefused looks at all attempts of a probe.
func anyHandshakeRefused(err error) bool {
	var probe *probeError
	if !errors.As(err, &probe) {
		return handshakeRefused(err)
	}
	for _, a := range probe.Attempts {
		if handshakeRefused(a.Cause) {
			return true
		}
	}
	return false
}

// answerFault goes by what the peer said.
func answerFault(err error) Fault {
	if f := attemptsFault(err); f != FaultUnknown {
		return f
	}
	code := connect.Code(0)
	var own *Error
	var rpc *connect.Error
	switch {
	case errors.As(err, &own):
		if own.Kind == KindStatus {
			code = own.Code
		}
		if f := foreignFault(own.PeerCode, own.Message); f != FaultUnknown {
			return f
		}
	case errors.As(err, &rpc) && connect.IsWireError(err):
		code = rpc.Code()
	case errors.As(err, &rpc) && !errors.Is(err, context.DeadlineExceeded):
		// The library's own word about an answer of HTTP (401, 403, 404).
		if rpc.Code() != connect.CodeUnavailable {
			code = rpc.Code()
		}
	}
	if rpc != nil {
		if f := foreignFault(rpc.Code().String(), rpc.Message()); f != FaultUnknown {
			return f
		}
	}
	switch code { //nolint:exhaustive // the others say nothing about the backend as a whole
	case connect.CodeUnauthenticated:
		return FaultCredentials
	case connect.CodePermissionDenied:
		return FaultForbidden
	case connect.CodeUnimplemented:
		return FaultNotServed
	}
	return FaultUnknown
}

// foreignFault goes by the message of a status whose number is none of gRPC's, as
// OpenFGA sends: 1010 "missing bearer token", 1500 "unauthenticated", 1600
// "forbidden".
func foreignFault(code, message string) Fault {
	if !strings.HasPrefix(code, "code_") {
		return FaultUnknown
	}
	message = strings.ToLower(message)
	for _, part := range [...]string{"unauthenticated", "bearer token", "invalid token", "authentication", "credential", "api key"} {
		if strings.Contains(message, part) {
			return FaultCredentials
		}
	}
	if strings.Contains(message, "forbidden") || strings.Contains(message, "permission denied") {
		return FaultForbidden
	}
	return FaultUnknown
}

// attemptsFault goes by the HTTP answers of a probe.
func attemptsFault(err error) Fault {
	var probe *probeError
	if !errors.As(err, &probe) {
		return FaultUnknown
	}
	found, answered := FaultUnknown, false
	for _, a := range probe.Attempts {
		var answer *answerError
		if !errors.As(a.Cause, &answer) {
			continue
		}
		answered = true
		switch {
		case answer.Status == http.StatusUnauthorized:
			return FaultCredentials
		case answer.Status == http.StatusForbidden && found == FaultUnknown:
			found = FaultForbidden
		case strings.HasPrefix(answer.ContentType, "text/html"):
			found = FaultWebServer
		}
	}
	if found == FaultUnknown && answered {
		found = FaultNotRPC
	}
	return found
}

// connectionFault goes by how far the connection got.
func connectionFault(err error) Fault {
	var dns *net.DNSError
	var timeout net.Error
	var own *Error
	switch {
	case errors.As(err, &dns) && !dns.IsTimeout:
		return FaultUnknownHost
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return FaultRefused
	case errors.Is(err, errHTTP1):
		return FaultNoHTTP2
	case errors.Is(err, errNotHTTP):
		return FaultNotRPC
	case errors.Is(err, errHungUp), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return FaultHungUp
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return FaultNoAnswer
	case errors.As(err, &own) && (own.Kind == KindGarbage || own.Kind == KindForeign):
		return FaultNotRPC
	}
	return FaultUnknown
}

// A service's status is kept whatever the form of what surrounds it. Its code and message
// come from their own fields, broken escapes in the message stay as they are, and details
// that cannot be read are dropped. The RPC library gives up the status in these cases, so
// it is read here as well; see docs/decisions/0013-the-backend-client.md.

// Names of gRPC's fields, in canonical form.
const (
	grpcStatusField  = "Grpc-Status"
	grpcMessageField = "Grpc-Message"
	grpcDetailsField = "Grpc-Status-Details-Bin"
	grpcPushback     = "Grpc-Retry-Pushback-Ms"
)

// grpcFailure returns the failure that gRPC's three fields describe. It returns nil if
// they describe success, or if the code is no number.
func grpcFailure(ctx context.Context, code, message, details string) *Error {
	number, err := strconv.ParseUint(code, 10, 32)
	if err != nil || number == 0 {
		return nil //nolint:nilerr // then there is no status
	}
	message = percentDecoded(message)
	status := readDetails(details, int32(number))
	if message == "" {
		message = status.GetMessage()
	}
	peer := connect.Code(number)
	switch ours := ended(ctx); {
	case peer == connect.CodeDeadlineExceeded && expiring(ctx):
		return ourEnd(KindTimeout, true)
	case peer == connect.CodeCanceled && ours != 0:
		return ourEnd(ours, true)
	}
	e := statusError(peer, message)
	e.Details = status.GetDetails()
	e.cause = errors.New(message)
	return e
}

// readDetails reads grpc-status-details-bin. It returns nil if there is none that can be
// read, or if it names another code: then it is not about this status. Code 0 names none.
func readDetails(value string, code int32) *statuspb.Status {
	if value == "" {
		return nil
	}
	raw, err := decodedBinary(value)
	if err != nil {
		return nil
	}
	status := new(statuspb.Status)
	if proto.Unmarshal(raw, status) != nil || status.GetCode() != code && status.GetCode() != 0 {
		return nil
	}
	return status
}

// decodedBinary reads a value of metadata whose name ends in -bin; senders may
// leave the padding out.
func decodedBinary(value string) ([]byte, error) {
	if len(value)%4 == 0 {
		return base64.StdEncoding.DecodeString(value)
	}
	return base64.RawStdEncoding.DecodeString(value)
}

// percentDecoded reads grpc-message. A broken escape stays as it is: the specification
// forbids to fail because of one.
func percentDecoded(text string) string {
	if strings.IndexByte(text, '%') < 0 {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+3 <= len(text) {
			if b, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, text[i])
	}
	return string(out)
}

// said is what a peer said at the end of a call that went through the RPC library.
type said struct {
	header  http.Header // of the response
	trailer http.Header // of HTTP, once the body has ended
	began   bool        // part of a body came
	// tail is the last frame of the body, where it is none of a message: gRPC-Web's
	// trailers or Connect's end of a stream; or the body of an error of unary Connect.
	tail  []byte
	flags byte // of that frame
}

// Flags of frames that are no messages. With the lowest bit they are compressed.
const (
	flagConnectEnd = 1 << 1
	flagWebTrailer = 1 << 7
)

// failure returns the status that the peer sent, and nil if it sent none. err is what
// the library made of the response.
func (s *said) failure(ctx context.Context, err error) *Error {
	trailer := s.trailer
	if s.flags == flagWebTrailer {
		trailer = webTrailer(s.tail)
	}
	e := (*Error)(nil)
	switch {
	case trailer.Get(grpcStatusField) != "":
		e = grpcFailureOf(ctx, trailer)
	case s.endsInHeader():
		trailer = s.header
		e = grpcFailureOf(ctx, trailer)
	case !connect.IsWireError(err):
		e, trailer = s.connectFailure(ctx)
	}
	if e == nil || e.Kind != KindStatus {
		return e
	}
	e.Trailer = incoming(trailer)
	if !s.endsInHeader() {
		e.Header = incoming(s.header)
	}
	e.RetryAfter = retryHint(trailer, s.header)
	return e
}

// endsInHeader reports whether the header is a trailer, as in a response of gRPC without messages. A status in the header
// of others means nothing.
func (s *said) endsInHeader() bool { return s.header.Get(grpcStatusField) != "" && !s.began }

// metadata tells what came in the header from what came in the trailer. all is both, as the library joins them for an error.
func (s *said) metadata(all http.Header) (header, trailer http.Header) {
	all = incoming(all)
	if s.endsInHeader() {
		return nil, all
	}
	for name, values := range all {
		if n := min(len(s.header[name]), len(values)); n > 0 {
			if header == nil {
				header = make(http.Header, len(all))
			}
			header[name], values = values[:n:n], values[n:]
		}
		if len(values) == 0 {
			continue
		}
		if trailer == nil {
			trailer = make(http.Header, len(all))
		}
		trailer[name] = values
	}
	return header, trailer
}

func grpcFailureOf(ctx context.Context, h http.Header) *Error {
	last := func(name string) string {
		values := h[name]
		if len(values) == 0 {
			return ""
		}
		return values[len(values)-1]
	}
	return grpcFailure(ctx, last(grpcStatusField), last(grpcMessageField), last(grpcDetailsField))
}

// webTrailer reads the trailers of gRPC-Web: a block of header fields without the line
// that ends one.
func webTrailer(block []byte) http.Header {
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(bytes.TrimRight(block, "\r\n"), "\r\n\r\n"...)))).ReadMIMEHeader()
	if err != nil {
		return nil
	}
	return http.Header(h)
}

// connectFailure reads an error of Connect that the library could not read, because of
// its details. Anything less than a code of Connect is not taken for one.
func (s *said) connectFailure(ctx context.Context) (*Error, http.Header) {
	var wire struct {
		Code    string            `json:"code"`
		Message string            `json:"message"`
		Details []json.RawMessage `json:"details"`
	}
	var trailer http.Header
	switch s.flags {
	case 0:
		if json.Unmarshal(s.tail, &wire) != nil {
			return nil, nil //nolint:nilerr // it is no error of Connect
		}
	case flagConnectEnd:
		var end struct {
			Error    json.RawMessage `json:"error"`
			Metadata http.Header     `json:"metadata"`
		}
		if json.Unmarshal(s.tail, &end) != nil || json.Unmarshal(end.Error, &wire) != nil {
			return nil, nil //nolint:nilerr // the same
		}
		trailer = make(http.Header, len(end.Metadata))
		for name, values := range end.Metadata {
			trailer[http.CanonicalHeaderKey(name)] = values
		}
	}
	var code connect.Code
	if code.UnmarshalText([]byte(wire.Code)) != nil || code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
		return nil, nil //nolint:nilerr // the same
	}
	failed := connect.NewWireError(code, errors.New(wire.Message))
	e := fromPeer(ctx, failed, ended(ctx))
	for _, text := range wire.Details {
		var detail struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		}
		if json.Unmarshal(text, &detail) != nil {
			continue
		}
		if raw, err := decodedBinary(detail.Value); err == nil && detail.Type != "" {
			e.Details = append(e.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type, Value: raw})
		}
	}
	return e, trailer
}

// retryHint is what a peer says about a retry: gRPC's pushback before HTTP's
// Retry-After. It is negative if the call must not be retried, and zero if the peer says
// nothing.
func retryHint(headers ...http.Header) time.Duration {
	const (
		never = -1
		most  = 24 * time.Hour
	)
	for _, h := range headers {
		if text := h.Get(grpcPushback); text != "" {
			ms, err := strconv.ParseInt(text, 10, 32)
			if err != nil || ms < 0 { // gRPC A6: a value that cannot be read forbids retries too
				return never
			}
			return min(time.Duration(ms)*time.Millisecond, most)
		}
	}
	for _, h := range headers {
		text := h.Get("Retry-After")
		if text == "" {
			continue
		}
		if s, err := strconv.ParseUint(text, 10, 32); err == nil {
			return min(time.Duration(s)*time.Second, most)
		}
		if at, err := http.ParseTime(text); err == nil {
			return min(max(time.Until(at), 0), most)
		}
	}
	return 0
}

// mediaType is a content type without parameters, in lower case.
func mediaType(contentType string) string {
	contentType, _, _ = strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(contentType))
}

// isGRPCType holds for the media types of gRPC and gRPC-Web.
func isGRPCType(mediaType string) bool {
	rest, ok := strings.CutPrefix(mediaType, "application/grpc")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "-web")
	return rest == "" || rest[0] == '+'
}

// isRPCType holds for the media types of all protocols.
func isRPCType(mediaType string) bool {
	return isGRPCType(mediaType) || mediaType == "application/json" || mediaType == "application/proto" ||
		strings.HasPrefix(mediaType, "application/connect+")
}

// readable prepares a response for the library: it knows no parameters of content types,
// and takes no gRPC from a response whose HTTP status is not 200, where gRPC's own counts.
func readable(resp *http.Response) {
	kind := mediaType(resp.Header.Get("Content-Type"))
	if !isRPCType(kind) {
		return
	}
	resp.Header["Content-Type"] = []string{kind}
	if isGRPCType(kind) {
		resp.StatusCode = http.StatusOK
	}
}

// streamReset has the shape of net/http's unexported HTTP/2 stream error, which
// offers itself to errors.As for any struct of this shape.
type streamReset struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

// Error implements error.
func (s streamReset) Error() string {
	return fmt.Sprintf("HTTP/2 stream %d reset with code %d", s.StreamID, s.Code)
}

// HTTP/2 error codes, RFC 9113, section 7.
const (
	h2RefusedStream = 0x7
	h2Cancel        = 0x8
)

// unprocessed reports whether an error of an HTTP/2 connection says that the
// peer did not process the request (RFC 9113, section 8.7): it refused the
// stream, or its GOAWAY excluded it.
//
// For the latter net/http has only a text. It is compared to move a failure from
// "unknown" to "certainly not processed"; a text that changed moves none.
func unprocessed(err error) bool {
	return resetBy(err, h2RefusedStream) || errors.Is(err, h2.ErrGoAway) ||
		err.Error() == "http2: Transport received Server's graceful shutdown GOAWAY"
}

const tooManyFieldsText = "the forwarded headers are more than the backend accepts"

// tooManyFields reports whether net/http did not send a request because its header is
// larger than the peer accepts. It has only a text for that.
func tooManyFields(err error) bool {
	return err.Error() == "http2: request header list larger than peer's advertised limit"
}

// resetBy reports whether the peer ended the stream with the given code.
func resetBy(err error, code uint32) bool {
	reset := streamReset{}
	if wire := new(h2.ResetError); errors.As(err, &wire) {
		return uint32(wire.Code) == code
	}
	return errors.As(err, &reset) && reset.Code == code
}

// handshakeRefused reports whether the peer answered with a TLS alert about our
// certificate. With TLS 1.3 it arrives after the handshake, when the request is
// already under way; the peer has not read it.
func handshakeRefused(err error) bool {
	op := new(net.OpError)
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return false
	}
	alert := reflect.ValueOf(op.Err)
	if alert.Kind() != reflect.Uint8 { // crypto/tls keeps its alert type to itself
		return false
	}
	switch alert.Uint() { // RFC 8446, section 6.2
	case 40, 41, 42, 43, 44, 45, 46, 48, 49, 70, 71, 116, 120:
		return true
	}
	return false
}

// Answered returns an error with a status as its cause that a backend answered with before, as [StatusOf] returned it.
func Answered(err *errmap.Error, code connect.Code, message string, details []*anypb.Any) *errmap.Error {
	said := &Error{Kind: KindStatus, Code: code, Message: message, Details: details, Sent: true}
	if code > connect.CodeUnauthenticated {
		said.Code, said.PeerStatus = connect.CodeUnknown, uint32(code)
	}
	return err.WithCause(said)
}

// StatusOf returns the status of a failed call as the backend sent it (code, message and details, with nothing added or
// taken away), and nil if the call failed otherwise. It has no metadata.
func StatusOf(err *errmap.Error) *connect.Error {
	var failed *Error
	if err == nil || err.Code == errmap.Timeout || !errors.As(err, &failed) || failed.Kind != KindStatus {
		return nil
	}
	out := connect.NewError(failed.status(), errors.New(failed.Message))
	for _, d := range failed.Details {
		if detail, err := connect.NewErrorDetail(d); err == nil {
			out.AddDetail(detail)
		}
	}
	return out
}
