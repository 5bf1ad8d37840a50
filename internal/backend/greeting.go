// SPDX-License-Identifier: Apache-2.0

package backend

import "errors"

// What a peer turns out to be when it does not answer HTTP/2 with HTTP/2.
var (
	errNoHTTP2  = errors.New("the server does not offer HTTP/2 (ALPN)")
	errHTTP1    = errors.New("the server answers in HTTP/1")
	errWantsTLS = errors.New("the server speaks TLS on this port (use https:// or grpcs://)")
	errNotHTTP  = errors.New("the server's response is not HTTP")
	errHungUp   = errors.New("the server closed the connection without a response")
)

// greetingError is what an HTTP/2 client makes of the peer's first bytes.
func greetingError(g greeting) error {
	switch g {
	case greetSettings:
		return nil
	case greetHTTP1:
		return errHTTP1
	case greetTLS:
		return errWantsTLS
	case greetOther:
		return errNotHTTP
	default:
		return errHungUp
	}
}

// spokeOtherwise reports whether an error says that the peer is there and
// speaks, but not what was expected.
func spokeOtherwise(err error) bool {
	return errors.Is(err, errNoHTTP2) || errors.Is(err, errHTTP1) || errors.Is(err, errWantsTLS) || errors.Is(err, errNotHTTP)
}
