// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Kind sorts failures by what a caller may conclude from them.
type Kind uint8

const (
	// KindUnreachable: the request did not reach the service, or not to its end.
	// Connection or TLS handshake failed, there is no such socket, the connection
	// broke while the request was being written, the peer turned it away
	// unprocessed (GOAWAY, REFUSED_STREAM), no protocol was found, or the client
	// is closed. Safe to repeat.
	KindUnreachable Kind = iota + 1
	// KindTimeout: the caller's deadline passed. Sent tells whether the service may
	// have seen the request.
	KindTimeout
	// KindCancelled: the caller's context was cancelled.
	KindCancelled
	// KindTransport: the request was sent and no answer came: reset, end of stream,
	// or an intermediary's 429, 502, 503 or 504. The outcome is unknown.
	KindTransport
	// KindTooLarge: the answer exceeds MaxResponseBytes.
	KindTooLarge
	// KindRequestTooLarge: the request exceeds MaxRequestBytes and was not sent.
	KindRequestTooLarge
	// KindGarbage: an answer came and is not one of the protocol: another content
	// type, a broken frame, no status, undecodable details.
	KindGarbage
	// KindStatus: the service, or an HTTP server in its place (401, 403, 404),
	// answered with an error. Code, PeerCode, Message and Details are its own.
	KindStatus
	// KindRejected: the request was refused here and not sent: metadata that must
	// not go on the wire, or a bad procedure.
	KindRejected
)

// String returns a short name for logs.
func (k Kind) String() string {
	switch k {
	case KindUnreachable:
		return "unreachable"
	case KindTimeout:
		return "timeout"
	case KindCancelled:
		return "cancelled"
	case KindTransport:
		return "transport"
	case KindTooLarge:
		return "too_large"
	case KindRequestTooLarge:
		return "request_too_large"
	case KindGarbage:
		return "garbage"
	case KindStatus:
		return "status"
	case KindRejected:
		return "rejected"
	default:
		return "invalid"
	}
}

// Error is every failure of this package's calls and probes.
type Error struct {
	Kind Kind
	// Code is always one of the sixteen codes. KindStatus: the peer's, with
	// CodeUnknown for a number or name that is none of them. Other kinds: the code
	// that fits.
	Code connect.Code
	// PeerCode is the peer's code as it named it ("not_found", "code_42"), only
	// for KindStatus.
	PeerCode string
	// PeerStatus is the peer's status number where it is above those that gRPC
	// and Connect define, 0 where it is not.
	PeerStatus uint32
	// Message is the peer's own for KindStatus (not redacted), else a sentence of
	// this package.
	Message string
	// Details are the peer's, undecoded.
	Details []*anypb.Any
	// Metadata is what headers and trailers of the answer carried beside the
	// protocol's own; nil where there is none. Protocols mix the two on errors.
	Metadata http.Header
	// HTTPStatus is the status of the HTTP response, 0 where none came.
	HTTPStatus int
	// Sent is false where the service certainly did not get the whole request.
	Sent bool

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
	if e.cause != nil && e.Kind != KindStatus {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause, for the log.
func (e *Error) Unwrap() error { return e.cause }

// codeOf is the code that goes with a kind other than KindStatus.
func codeOf(k Kind) connect.Code {
	switch k {
	case KindUnreachable, KindTransport:
		return connect.CodeUnavailable
	case KindTimeout:
		return connect.CodeDeadlineExceeded
	case KindCancelled:
		return connect.CodeCanceled
	case KindTooLarge, KindRequestTooLarge:
		return connect.CodeResourceExhausted
	case KindRejected:
		return connect.CodeInvalidArgument
	default:
		return connect.CodeInternal
	}
}

func newError(k Kind, message string, cause error) *Error {
	return &Error{Kind: k, Code: codeOf(k), Message: message, cause: cause}
}
