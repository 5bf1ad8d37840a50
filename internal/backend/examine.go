// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"
)

// examineTimeout bounds one look at a port. A server that is there answers a
// greeting in milliseconds.
const examineTimeout = 2 * time.Second

// Examine tells whether a wrong expectation about TLS explains a fault that leaves this
// open. A server that requested a client certificate and then closed the connection
// without a response did not accept ours, or the lack of it. Else Examine tests whether the
// port speaks TLS or plaintext. It sends only a greeting, so an unverified peer never sees a
// credential. It returns other faults unchanged.
func (c *Client) Examine(ctx context.Context, f Fault) Fault {
	if f == FaultHungUp && c.asked.Load() {
		return FaultClientCertificate
	}
	switch f {
	case FaultHungUp, FaultNotRPC, FaultWebServer, FaultNoAnswer, FaultUnknown:
	default:
		return f
	}
	switch {
	case !c.target.tls && c.speaksTLS(ctx):
		return FaultNeedsTLS
	case c.target.tls && !c.speaksTLS(ctx) && c.speaksPlain(ctx):
		return FaultNoTLS
	}
	return f
}

// greet connects and has talk say something.
func (c *Client) greet(ctx context.Context, talk func(ctx context.Context, nc net.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	network, address := c.target.address()
	nc, err := c.opts.Dial(ctx, network, address)
	if err != nil {
		return false
	}
	defer func() { _ = nc.Close() }()
	deadline, _ := ctx.Deadline()
	if nc.SetDeadline(deadline) != nil {
		return false
	}
	return talk(ctx, nc)
}

// speaksTLS reports whether the port answers a TLS greeting as a TLS server does.
// A refusal counts: only a TLS server can refuse.
func (c *Client) speaksTLS(ctx context.Context) bool {
	return c.greet(ctx, func(ctx context.Context, nc net.Conn) bool {
		err := tls.Client(nc, &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // nothing is sent over it
			NextProtos:         []string{"h2", "http/1.1"},
		}).HandshakeContext(ctx)
		refused := new(net.OpError)
		return err == nil || errors.As(err, &refused) && refused.Op == "remote error"
	})
}

// speaksPlain reports whether the port answers the greeting of HTTP/2 in the clear,
// in HTTP/2 or HTTP/1.
func (c *Client) speaksPlain(ctx context.Context) bool {
	return c.greet(ctx, func(_ context.Context, nc net.Conn) bool {
		const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty settings
		if _, err := io.WriteString(nc, preface); err != nil {
			return false
		}
		var begin [5]byte
		if _, err := io.ReadFull(nc, begin[:]); err != nil {
			return false
		}
		g := greetingOf(begin[:])
		return g == greetSettings || g == greetHTTP1
	})
}
