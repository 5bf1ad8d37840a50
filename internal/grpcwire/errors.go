// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"errors"
	"fmt"
)

// What a Failure is caused by, beside errors of the socket and [*ResetError].
var (
	// ErrClosed: Close was called.
	ErrClosed = errors.New("the connection was closed")
	// ErrGoAway: the peer shuts the connection down and did not process the
	// request.
	ErrGoAway = errors.New("the server is shutting the connection down and did not process the request")
	// ErrHeaderTooLarge: the header fields of the answer are over their limit.
	ErrHeaderTooLarge = errors.New("the headers of the response are too large")
	// ErrAnswerTooLarge: the message of the answer is over its limit.
	ErrAnswerTooLarge = errors.New("the response is too large")
	// ErrRequestHeader: the request has more header fields than the peer takes.
	ErrRequestHeader = errors.New("the metadata exceeds the server's limit")
	// ErrIdle: the connection was closed because it was idle.
	ErrIdle = errors.New("the connection was idle for too long")
	// ErrSilent: the peer did not answer a ping.
	ErrSilent = errors.New("the server does not answer pings")
	// ErrStuck: nothing could be written for too long.
	ErrStuck = errors.New("the server does not read")
	// ErrStreamIDs: the connection has made all the calls that it could.
	ErrStreamIDs = errors.New("the connection has no stream ids left")
)

// ResetError tells that the peer ended the stream of a call.
type ResetError struct {
	// Code is an error code of RFC 9113, section 7.
	Code uint32
}

// Error implements error.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the server reset the stream with code %d", e.Code)
}

// ProtocolError tells that the peer broke the rules of HTTP/2, on one stream or
// on the connection.
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

// Failure is every error of [Conn.Do].
type Failure struct {
	// Cause is what went wrong: an error of this package, of the socket, or of the
	// context.
	Cause error
	// Began is false where certainly no byte of the request left, Complete where
	// certainly not all of them did. A method does not run on part of a request.
	Began, Complete bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Cause.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Unprocessed reports whether the peer said that it did not process the request
// (RFC 9113, section 8.7), so that it may be sent again.
func (f *Failure) Unprocessed() bool {
	reset := new(ResetError)
	return errors.Is(f.Cause, ErrGoAway) || errors.As(f.Cause, &reset) && reset.Code == codeRefusedStream
}
