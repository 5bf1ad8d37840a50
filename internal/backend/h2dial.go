// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// h2Dialer makes HTTP/2 connections.
type h2Dialer struct {
	transport *http.Transport
	timeout   time.Duration // for all of it: dial, TLS, SETTINGS
}

// newH2Dialer has the transport dial with dial, whose connections are of type
// *conn.
func newH2Dialer(transport *http.Transport, dial netDial, timeout time.Duration) *h2Dialer {
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dial(ctx, network, addr)
		if made, ok := ctx.Value(madeKey{}).(**conn); ok && err == nil {
			*made, _ = nc.(*conn)
			(*made).forHTTP2.Store(true)
		}
		if err != nil {
			return nil, err
		}
		return &smallFrames{Conn: nc}, nil
	}
	return &h2Dialer{transport: transport, timeout: timeout}
}

// madeKey is the context key of where the connection is put that a dial makes.
type madeKey struct{}

// establish dials, opens HTTP/2 and waits for the peer to do the same. One of those
// who wait is woken when a stream ends, the limit rises or the connection closes.
func (d *h2Dialer) establish(ctx context.Context, waiting *turnQueue) (*h2Conn, error) {
	ctx, cancel := stall.WithTimeout(ctx, d.timeout)
	defer cancel()
	var c *conn
	cc, err := d.transport.NewClientConn(context.WithValue(ctx, madeKey{}, &c), "http", "backend:0") // the dialer knows the address
	if err != nil {
		return nil, err
	}
	if err := settled(ctx, cc, c.heard, c); err != nil {
		_ = cc.Close()
		_ = c.Close()
		return nil, err
	}
	cc.SetStateHook(func(*http.ClientConn) { waiting.wakeOne() })
	return &h2Conn{http: cc, state: cc, conn: c, limit: cc.Available()}, nil
}

// wireDialer makes the connections of unary gRPC calls.
type wireDialer struct {
	dial    netDial // makes connections of type *conn
	timeout time.Duration
	opts    grpcwire.Options
}

// establish implements establisher. All who wait are woken: the connection tells
// only of changes that may concern all of them.
func (d *wireDialer) establish(ctx context.Context, waiting *turnQueue) (*h2Conn, error) {
	ctx, cancel := stall.WithTimeout(ctx, d.timeout)
	defer cancel()
	nc, err := d.dial(ctx, "", "") // it knows the address
	if err != nil {
		return nil, err
	}
	c, _ := nc.(*conn)
	c.forHTTP2.Store(true)
	o := d.opts
	o.Changed = waiting.wakeAll
	wire := grpcwire.New(c, o)
	if err := settled(ctx, wire, wire.Ready(), c); err != nil {
		_ = wire.Close()
		return nil, err
	}
	return &h2Conn{wire: wire, state: wire, conn: c, limit: wire.Available()}, nil
}

// settled waits for the peer's SETTINGS, which close heard.
func settled(ctx context.Context, cc h2State, heard <-chan struct{}, c *conn) error {
	select {
	case <-heard:
	case <-ctx.Done():
		return fmt.Errorf("no HTTP/2 settings from the server: %w", ctx.Err())
	}
	err := greetingError(c.greeted())
	if errors.Is(err, errHungUp) {
		if cause := c.readError(); cause != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
	}
	if err == nil {
		err = cc.Err()
	}
	return err
}
