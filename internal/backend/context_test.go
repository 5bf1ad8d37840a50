// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// waiting is a service that holds every call until its context ends, and tells
// what it saw. A call that says something is answered at once, and not told of.
func waiting(tb testing.TB) (p *remote, started <-chan time.Duration, ended <-chan error) {
	tb.Helper()
	begun, over := make(chan time.Duration, 1), make(chan error, 1)
	mux := http.NewServeMux()
	unary(mux, echoProcedure, func(ctx context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		if len(*req.Msg) > 0 {
			return connect.NewResponse(req.Msg), nil
		}
		left := time.Duration(-1)
		if deadline, ok := ctx.Deadline(); ok {
			left = time.Until(deadline)
		}
		begun <- left
		<-ctx.Done()
		over <- ctx.Err()
		return nil, ctx.Err()
	})
	return servePeer(tb, mux, clearProtocols(true, true)), begun, over
}

func TestDeadlineReachesTheService(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, started, over := waiting(t)
			c := newClient(t, p.as(scheme), Options{})
			// The deadline must not pass before the service has the call. So the connection is
			// made beforehand, and there is time to spare.
			if _, err := c.Call(t.Context(), echoProcedure, []byte("connect"), nil); err != nil {
				t.Fatal(err)
			}
			const timeout = 2 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := c.Call(ctx, echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindTimeout || e.Code != connect.CodeDeadlineExceeded || !e.Sent {
				t.Errorf("got %v", err)
			}
			// Whether our clock, the service's word or the reset of the stream came first must not show.
			if got, want := err.Error(), "backend: timeout: the deadline passed before the backend answered"; got != want {
				t.Errorf("the text is %q, want %q", got, want)
			}
			if left := testkit.Receive(t, "the start of the call", started); left <= 0 || left > timeout {
				t.Errorf("the service had %v left of %v", left, timeout)
			}
			testkit.Receive(t, "the end of the service's context", over)
		})
	}
}

func TestCancellationReachesTheService(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, started, over := waiting(t)
			c := newClient(t, p.as(scheme), Options{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			_, err := c.Call(ctx, echoProcedure, nil, nil)
			if e := failure(t, err); e.Kind != KindCancelled || e.Code != connect.CodeCanceled || !e.Sent {
				t.Errorf("got %v", err)
			}
			if got := <-over; !errors.Is(got, context.Canceled) {
				t.Errorf("the service's context ended with %v", got)
			}
		})
	}
}

// A request that has left counts as sent, also while its write has not returned.
func TestCancellationDuringTheWrite(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, started, over := waiting(t)
			returned := make(chan struct{})
			c := newClient(t, p.as(scheme), Options{
				Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := new(net.Dialer).DialContext(ctx, network, addr)
					return &slowEnds{Conn: nc, until: returned}, err
				},
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-started
				cancel()
			}()
			_, err := c.Call(ctx, echoProcedure, nil, nil)
			close(returned)
			if e := failure(t, err); e.Kind != KindCancelled || !e.Sent {
				t.Errorf("got %v, sent %v", err, e.Sent)
			}
			<-over
		})
	}
}

// slowEnds is a connection whose writes of the end of an HTTP/2 request return late.
type slowEnds struct {
	net.Conn
	until <-chan struct{}
}

func (c *slowEnds) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	const frameHeader = 9
	for p = bytes.TrimPrefix(p, []byte(http2.ClientPreface)); len(p) >= frameHeader; {
		if kind := http2.FrameType(p[3]); kind <= http2.FrameHeaders && http2.Flags(p[4])&http2.FlagDataEndStream != 0 {
			<-c.until
			break
		}
		p = p[min(frameHeader+(int(p[0])<<16|int(p[1])<<8|int(p[2])), len(p)):]
	}
	return n, err
}

// The cause of a cancellation may be a deadline that the context itself does not
// know.
func TestCauseTellsTimeoutFromCancel(t *testing.T) {
	t.Parallel()
	p, started, over := waiting(t)
	c := newClient(t, p.as("grpc"), Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-started
		cancel(context.DeadlineExceeded)
	}()
	_, err := c.Call(ctx, echoProcedure, nil, nil)
	if e := failure(t, err); e.Kind != KindTimeout {
		t.Errorf("got %v", err)
	}
	<-over
}

func TestContextThatIsDone(t *testing.T) {
	t.Parallel()
	p := servePeer(t, echoMux(), clearProtocols(true, true))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancelExpired := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancelExpired()
	for _, scheme := range append(allSchemes(), "http") {
		c := newClient(t, p.as(scheme), Options{})
		_, err := c.Call(cancelled, echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindCancelled || e.Sent {
			t.Errorf("%s, cancelled: got %v, sent %v", scheme, err, e.Sent)
		}
		_, err = c.Call(expired, echoProcedure, nil, nil)
		if e := failure(t, err); e.Kind != KindTimeout || e.Sent {
			t.Errorf("%s, expired: got %v, sent %v", scheme, err, e.Sent)
		}
	}
	if n := p.conns.Load(); n > 1 {
		t.Errorf("%d connections for calls that could not be made", n)
	}
}

// A deadline that the service sets itself is its own answer, not our timeout.
func TestDeadlineOfTheService(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	unary(mux, echoProcedure, func(context.Context, *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
		return nil, connect.NewError(connect.CodeDeadlineExceeded, errors.New("the database was slow"))
	})
	p := servePeer(t, mux, clearProtocols(true, true))
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := c.Call(ctx, echoProcedure, nil, nil)
		cancel()
		if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeDeadlineExceeded {
			t.Errorf("%s: got %v", scheme, err)
		}
	}
}
