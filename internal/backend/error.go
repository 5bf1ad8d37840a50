// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
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
	case KindForeign:
		return "foreign"
	case KindUnsupported:
		return "unsupported"
	default:
		return "invalid"
	}
}

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

// codeOf is the code that goes with a kind other than KindStatus.
func codeOf(k Kind) connect.Code {
	switch k {
	case KindUnreachable, KindTransport, KindForeign:
		return connect.CodeUnavailable
	case KindTimeout:
		return connect.CodeDeadlineExceeded
	case KindCancelled:
		return connect.CodeCanceled
	case KindTooLarge, KindRequestTooLarge:
		return connect.CodeResourceExhausted
	case KindRejected:
		return connect.CodeInvalidArgument
	case KindUnsupported:
		return connect.CodeUnimplemented
	default:
		return connect.CodeInternal
	}
}

func newError(k Kind, message string, cause error) *Error {
	return &Error{Kind: k, Code: codeOf(k), Message: message, cause: cause}
}
