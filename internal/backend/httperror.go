// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"fmt"
	"net"
	"reflect"

	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
)

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
	return resetBy(err, h2RefusedStream) || errors.Is(err, grpcwire.ErrGoAway) ||
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
	if wire := new(grpcwire.ResetError); errors.As(err, &wire) {
		return wire.Code == code
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
