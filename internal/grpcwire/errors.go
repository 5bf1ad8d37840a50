// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"errors"
	"fmt"
)

// Causes of a Failure, besides errors of the socket and [*ResetError].
var (
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("the connection was closed")
	// ErrGoAway means that the peer is shutting the connection down and did not process
	// the request.
	ErrGoAway = errors.New("the server is shutting the connection down and did not process the request")
	// ErrHeaderTooLarge means that the header fields of the response exceed their limit.
	ErrHeaderTooLarge = errors.New("the headers of the response are too large")
	// ErrAnswerTooLarge means that the message of the response exceeds its limit.
	ErrAnswerTooLarge = errors.New("the response is too large")
	// ErrRequestHeader means that the request has more header fields than the peer
	// accepts.
	ErrRequestHeader = errors.New("the metadata exceeds the server's limit")
	// ErrIdle means that the connection was closed because it was idle.
	ErrIdle = errors.New("the connection was idle for too long")
	// ErrSilent means that the peer did not answer a ping.
	ErrSilent = errors.New("the server does not answer pings")
	// ErrStuck means that a write made no progress for too long.
	ErrStuck = errors.New("the server does not read")
	// ErrStreamIDs means that the connection has used all its stream ids.
	ErrStreamIDs = errors.New("the connection has no stream ids left")
)

// ResetError means that the peer reset the stream of a call.
type ResetError struct {
	// Code is an error code of RFC 9113, section 7.
	Code uint32
}

// Error implements error.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the server reset the stream with code %d", e.Code)
}

// ProtocolError means that the peer violated HTTP/2, on one stream or on the connection.
type ProtocolError struct {
	// Code is an error code of RFC 9113, section 7.
	Code   uint32
	Reason string
}

// Error implements error.
func (e *ProtocolError) Error() string { return "HTTP/2: " + e.Reason }

func broken(code uint32, format string, args ...any) *ProtocolError {
	return &ProtocolError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Failure is the type of every error of [Conn.Do].
type Failure struct {
	// Cause is an error of this package, of the socket, or of the context.
	Cause error
	// Began is false if certainly no byte of the request was sent, Complete if certainly
	// not all of them were. A method does not run on a partial request.
	Began, Complete bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Cause.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Unprocessed reports whether the peer said that it did not process the request (RFC
// 9113, section 8.7), so that a retry is safe.
func (f *Failure) Unprocessed() bool {
	reset := new(ResetError)
	return errors.Is(f.Cause, ErrGoAway) || errors.As(f.Cause, &reset) && reset.Code == codeRefusedStream
}
