// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

// A service that does not read makes Send wait, and one whose client does not read
// cannot send on.
func TestFlowControlOfStreams(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	mux := http.NewServeMux()
	mux.Handle(countProcedure, connect.NewServerStreamHandler(countProcedure, func(_ context.Context, _ *streamRequest, out *streamSender) error {
		for {
			if err := send(out, make([]byte, 8<<10)); err != nil {
				return err
			}
			sent.Add(8 << 10)
		}
	}, connect.WithCodec(rawCodec{})))
	p := servePeer(t, mux, clearProtocols(true, true))
	c := newClient(t, p.as("grpc"), Options{})
	s, err := c.OpenStream(t.Context(), countProcedure, connect.StreamTypeServer, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_ = s.Send(nil)
	s.CloseSend()
	headerOf(s)
	still := int64(-1)
	for now := sent.Load(); now != still || now == 0; now = sent.Load() {
		still = now
		time.Sleep(100 * time.Millisecond)
	}
	const own = 64 << 10 // buffers of the server
	if still > streamWindow+own {
		t.Errorf("%d bytes were sent to a client that reads nothing", still)
	}
	for range 100 {
		if _, err := s.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	eventuallyIdle(t, c)
}

// The limits of a message hold on streams, and a response of too many or too few
// messages is none.
func TestBoundsOfStreams(t *testing.T) {
	t.Parallel()
	for name, target := range streamTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, target, Options{Config: &configv1.Backend{MaxSendBytes: new(int64(200)), MaxReceiveBytes: new(int64(100))}})
			s, err := c.OpenStream(t.Context(), chatProcedure, connect.StreamTypeBidi, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if e := failure(t, s.Send(make([]byte, 201))); e.Kind != KindRequestTooLarge {
				t.Errorf("too large to send: %v", e)
			}
			if err := s.Send(make([]byte, 101)); err != nil {
				t.Fatal(err)
			}
			_, err = s.Receive()
			if e := failure(t, err); e.Kind != KindTooLarge {
				t.Errorf("too large to receive: %v", e)
			}
			for _, n := range []int{0, 2} { // a server stream, called as if it were none
				s, err := c.OpenStream(t.Context(), countProcedure, connect.StreamTypeClient, nil)
				if err != nil {
					t.Fatal(err)
				}
				_ = s.Send(counted(n))
				s.CloseSend()
				_, err = s.Receive()
				if e := failure(t, err); e.Kind != KindGarbage {
					t.Errorf("%d messages: %v", n, err)
				}
				s.Close()
			}
			eventuallyIdle(t, c)
		})
	}
}

// What a backend that is not there, or not one, leaves of a stream.
func TestStreamsThatCannotBegin(t *testing.T) {
	t.Parallel()
	old := servePeer(t, connectStreams(), clearProtocols(true, false))
	a := tlstest.NewAuthority(t)
	encrypted := serveOver(t, a, connectStreams(), onLoopback(), true, false, false)
	for _, tc := range []struct {
		name, target string
		tls          *configv1.BackendTls
		want         Kind
	}{
		{name: "refused", target: "grpc://" + testkit.Dead(t), want: KindUnreachable},
		{name: "HTTP/1.1 only", target: old.as("connect+http"), want: KindUnsupported},
		{name: "HTTP/1.1 only, gRPC-Web", target: old.as("grpcweb+http"), want: KindUnsupported},
		{name: "HTTP/1.1 only, TLS", target: encrypted.as("connect+https"), tls: &configv1.BackendTls{CaFile: a.File}, want: KindUnsupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, tc.target, Options{Config: &configv1.Backend{Tls: tc.tls}})
			s, err := c.OpenStream(t.Context(), chatProcedure, connect.StreamTypeBidi, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Receive()
			if e := failure(t, err); e.Kind != tc.want || strings.Contains(e.Message, "gRPC needs") {
				t.Errorf("got %v", err)
			}
			for err = nil; err == nil; {
				err = s.Send(make([]byte, 1<<10))
			}
			if !errors.Is(err, io.EOF) || headerOf(s) != nil {
				t.Errorf("send: %v, header %v", err, headerOf(s))
			}
		})
	}
}

// A backend that goes away in the middle of a stream leaves its outcome unknown.
func TestBackendGoesAwayDuringAStream(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: connectStreams(), Protocols: clearProtocols(true, true), ReadHeaderTimeout: time.Minute}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(lis) }()
		c := newClient(t, scheme+"://"+lis.Addr().String(), Options{})
		s, err := c.OpenStream(t.Context(), chatProcedure, connect.StreamTypeBidi, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send([]byte("x"))
		if _, err := s.Receive(); err != nil {
			t.Fatal(err)
		}
		_ = srv.Close()
		<-done
		_, err = s.Receive()
		if e := failure(t, err); e.Kind != KindTransport || !e.Sent {
			t.Errorf("%s: %v", scheme, err)
		}
		s.Close()
	}
}
