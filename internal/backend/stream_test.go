// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/tlstest"
)

const countProcedure = "/test.v1.Echo/Count"

type (
	streamRequest = connect.Request[rawMessage]
	streamSender  = connect.ServerStream[rawMessage]
)

// streaming mounts fn as procedure, for every protocol.
func streaming(mux *http.ServeMux, procedure string, fn func(context.Context, *streamRequest, *streamSender) error, opts ...connect.HandlerOption) {
	mux.Handle(procedure, connect.NewServerStreamHandler(procedure, fn, append(opts, connect.WithCodec(rawCodec{}))...))
}

// streamMux serves fn as countProcedure, and echoProcedure beside it.
func streamMux(fn func(context.Context, *streamRequest, *streamSender) error, opts ...connect.HandlerOption) *http.ServeMux {
	mux := healthMux()
	streaming(mux, countProcedure, fn, opts...)
	return mux
}

func serveStream(tb testing.TB, fn func(context.Context, *streamRequest, *streamSender) error, opts ...connect.HandlerOption) *remote {
	tb.Helper()
	return servePeer(tb, streamMux(fn, opts...), clearProtocols(true, true))
}

// send sends one message.
func send(out *streamSender, message []byte) error {
	m := rawMessage(message)
	return out.Send(&m)
}

// counted is message i of a counting stream.
func counted(i int) []byte { return binary.AppendUvarint(nil, uint64(i)) }

// count sends as many messages as the request says, between x- headers and a
// trailer.
func count(_ context.Context, req *streamRequest, out *streamSender) error {
	for name, values := range req.Header() {
		if strings.HasPrefix(name, "X-") && name != "X-User-Agent" {
			out.ResponseHeader()[name] = values
		}
	}
	out.ResponseTrailer().Set("X-Tail", "end")
	n, _ := binary.Uvarint(*req.Msg)
	for i := range int(n) {
		if err := send(out, counted(i)); err != nil {
			return err
		}
	}
	return nil
}

// collect keeps copies of what arrives.
func collect(into *[][]byte) func([]byte) error {
	return func(message []byte) error {
		*into = append(*into, slices.Clone(message))
		return nil
	}
}

func TestStreamOverEveryProtocol(t *testing.T) {
	t.Parallel()
	const many = 3000
	a := tlstest.NewAuthority(t)
	p := serveStream(t, count)
	s := serveSocket(t, streamMux(count), clearProtocols(true, true))
	sealed := serveOver(t, a, streamMux(count), onLoopback(), true, true, false)
	connectOnly := servePeer(t, only(ProtocolConnect, streamMux(count)), clearProtocols(true, true))
	webOnly := servePeer(t, only(ProtocolGRPCWeb, streamMux(count)), clearProtocols(true, false))
	for _, tc := range []struct {
		name, target string
		want         Protocol
		tls          bool
	}{
		{name: "gRPC", target: p.as("grpc"), want: ProtocolGRPC},
		{name: "Connect", target: p.as("connect+http"), want: ProtocolConnect},
		{name: "gRPC-Web", target: p.as("grpcweb+http"), want: ProtocolGRPCWeb},
		{name: "probed gRPC", target: p.as("http"), want: ProtocolGRPC},
		{name: "probed Connect", target: connectOnly.as("http"), want: ProtocolConnect},
		{name: "probed gRPC-Web over HTTP/1.1", target: webOnly.as("http"), want: ProtocolGRPCWeb},
		{name: "gRPC on a socket", target: s.as("grpc+unix"), want: ProtocolGRPC},
		{name: "Connect on a socket", target: s.as("connect+unix"), want: ProtocolConnect},
		{name: "gRPC over TLS", target: sealed.as("grpcs"), want: ProtocolGRPC, tls: true},
		{name: "Connect over TLS", target: sealed.as("connect+https"), want: ProtocolConnect, tls: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var o Options
			if tc.tls {
				o.Config = &configv1.Backend{Tls: &configv1.BackendTls{CaFile: a.File}}
			}
			c := newClient(t, tc.target, o)
			for _, n := range []int{many, 1, 2} {
				next := 0
				got, err := c.Stream(t.Context(), countProcedure, counted(n), http.Header{"X-One": {"1", "2"}}, func(message []byte) error {
					if i, used := binary.Uvarint(message); used != len(message) || int(i) != next {
						return fmt.Errorf("message %d reads %x", next, message)
					}
					next++
					return nil
				})
				if err != nil || next != n {
					t.Fatalf("%d messages of %d: %v", next, n, err)
				}
				want := &Answer{Header: http.Header{"X-One": {"1", "2"}}, Trailer: http.Header{"X-Tail": {"end"}}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			}
			if c.Protocol() != tc.want {
				t.Errorf("protocol %v, want %v", c.Protocol(), tc.want)
			}
			idle(t, c)
		})
	}
}

// A stream without messages is a good one, and an empty message among others is
// one, not a repetition of the one before.
func TestEmptyStreamsAndMessages(t *testing.T) {
	t.Parallel()
	sent := [][]byte{{}, []byte("one"), {}, make([]byte, 2*keptBuffer), {}, {}, []byte("two")}
	p := serveStream(t, func(_ context.Context, req *streamRequest, out *streamSender) error {
		if len(*req.Msg) == 0 {
			out.ResponseTrailer().Set("X-Tail", "end")
			return nil
		}
		for _, message := range sent {
			if err := send(out, message); err != nil {
				return err
			}
		}
		return nil
	})
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{})
		var got [][]byte
		answer, err := c.Stream(t.Context(), countProcedure, nil, nil, collect(&got))
		if err != nil || len(got) != 0 || answer.Trailer.Get("X-Tail") != "end" || answer.Body != nil {
			t.Errorf("%s: no messages: %q, %v, %v", scheme, got, answer, err)
		}
		if _, err := c.Stream(t.Context(), countProcedure, []byte("x"), nil, collect(&got)); err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, sent, func(a, b []byte) bool { return string(a) == string(b) }) {
			t.Errorf("%s: other messages arrived than were sent", scheme)
		}
	}
}

// grpcCodec is grpc-go's side of rawCodec.
type grpcCodec struct{}

func (grpcCodec) Name() string                    { return "proto" }
func (grpcCodec) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (grpcCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = slices.Clone(b); return nil }

// grpc-go frames, flushes and ends streams in its own way.
func TestStreamOfGRPCGo(t *testing.T) {
	t.Parallel()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(grpcCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.v1.Echo", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Count", ServerStreams: true,
			Handler: func(_ any, stream grpc.ServerStream) error {
				var in []byte
				if err := stream.RecvMsg(&in); err != nil {
					return err
				}
				_ = stream.SetHeader(metadata.Pairs("x-head", "start"))
				stream.SetTrailer(metadata.Pairs("x-tail", "end"))
				n, _ := binary.Uvarint(in)
				for i := range int(n) {
					out := counted(i)
					if err := stream.SendMsg(&out); err != nil {
						return err
					}
				}
				return nil
			},
		}},
	}, nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	t.Cleanup(func() { server.Stop(); <-done })

	c := newClient(t, "http://"+lis.Addr().String(), Options{})
	var got [][]byte
	answer, err := c.Stream(t.Context(), countProcedure, counted(1000), nil, collect(&got))
	if err != nil || len(got) != 1000 || string(got[999]) != string(counted(999)) {
		t.Fatalf("%d messages, %v", len(got), err)
	}
	if answer.Header.Get("X-Head") != "start" || answer.Trailer.Get("X-Tail") != "end" {
		t.Errorf("metadata %v", answer)
	}
	_, err = c.Stream(t.Context(), "/test.v1.Echo/Missing", nil, nil, collect(&got))
	if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeUnimplemented {
		t.Errorf("unknown method: got %v", err)
	}
	idle(t, c)
}

// endless sends until its context ends and tells that it did.
func endless(tb testing.TB) (p *remote, over <-chan error) {
	tb.Helper()
	ended := make(chan error, 8)
	return serveStream(tb, func(ctx context.Context, _ *streamRequest, out *streamSender) error {
		out.ResponseHeader().Set("X-Head", "start")
		for i := 0; ctx.Err() == nil; i++ {
			if err := send(out, counted(i)); err != nil {
				break
			}
		}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}), ended
}

// The receiver's error ends the call, here and at the service, and comes back.
func TestReceiverEndsTheStream(t *testing.T) {
	t.Parallel()
	errEnough := errors.New("enough")
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p, over := endless(t)
			c := newClient(t, p.as(scheme), Options{})
			for range 3 {
				calls := 0
				got, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error {
					if calls++; calls == 5 {
						return fmt.Errorf("after five: %w", errEnough)
					}
					return nil
				})
				if !errors.Is(err, errEnough) || errors.As(err, new(*Error)) || calls != 5 {
					t.Errorf("got %v after %d messages", err, calls)
				}
				if want := (&Answer{Header: http.Header{"X-Head": {"start"}}}); !cmp.Equal(want, got) {
					t.Errorf("answer %v, want %v", got, want)
				}
				if err := <-over; !errors.Is(err, context.Canceled) {
					t.Errorf("the service's context ended with %v", err)
				}
			}
			if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil {
				t.Errorf("the next call: %v", err)
			}
			idle(t, c)
		})
	}
}

// A receiver that panics leaves nothing behind either.
func TestReceiverPanics(t *testing.T) {
	t.Parallel()
	for _, scheme := range allSchemes() {
		p, over := endless(t)
		c := newClient(t, p.as(scheme), Options{})
		func() {
			defer func() {
				if got := recover(); got != "oops" {
					t.Errorf("%s: recovered %v", scheme, got)
				}
			}()
			_, _ = c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error { panic("oops") })
		}()
		<-over
		idle(t, c)
	}
}

// Streams that were used to their end leave their connection to the next.
func TestStreamsReuseConnections(t *testing.T) {
	t.Parallel()
	p := serveStream(t, count)
	for i, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{})
		for range 20 {
			if _, err := c.Stream(t.Context(), countProcedure, counted(10), nil, func([]byte) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if n := p.conns.Load(); n != int64(i+1) {
			t.Errorf("%s: %d connections so far, want %d", scheme, n, i+1)
		}
	}
}

// What is refused before it is sent.
func TestStreamRefusals(t *testing.T) {
	t.Parallel()
	p := serveStream(t, count)
	c := newClient(t, p.as("grpc"), Options{Config: &configv1.Backend{MaxSendBytes: new(int64(10))}})
	never := func([]byte) error { t.Error("a message came"); return nil }
	for name, tc := range map[string]struct {
		procedure string
		in        []byte
		md        http.Header
		want      Kind
	}{
		"procedure": {"Count", nil, nil, KindRejected},
		"metadata":  {countProcedure, nil, http.Header{"X-A": {"a\nb"}}, KindRejected},
		"size":      {countProcedure, make([]byte, 11), nil, KindRequestTooLarge},
	} {
		got, err := c.Stream(t.Context(), tc.procedure, tc.in, tc.md, never)
		if e := failure(t, err); e.Kind != tc.want || e.Sent || got != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	if n := p.conns.Load(); n != 0 {
		t.Errorf("%d connections for calls that were refused", n)
	}
}

// Metadata and the name of the client travel as with unary calls.
func TestStreamHeaders(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 1)
	p := serveStream(t, func(_ context.Context, req *streamRequest, _ *streamSender) error {
		seen <- req.Header().Clone()
		return nil
	})
	for _, scheme := range allSchemes() {
		c := newClient(t, p.as(scheme), Options{UserAgent: "outrigger-test/1"})
		md := http.Header{"Authorization": {"Bearer token"}, "x-lower": {"a", "b"}, "Grpc-Timeout": {"1n"}, "User-Agent": {"evil"}}
		if _, err := c.Stream(t.Context(), countProcedure, nil, md, nil); err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}
		got := <-seen
		if diff := cmp.Diff(http.Header{"Authorization": {"Bearer token"}, "X-Lower": {"a", "b"}}, incoming(got)); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", scheme, diff)
		}
		if agents := got.Values("User-Agent"); len(agents) != 1 || agents[0] != "outrigger-test/1" {
			t.Errorf("%s: the client calls itself %q", scheme, agents)
		}
	}
}

// A slow receiver slows down its own service only: what is on its way
// stays within the windows of HTTP/2 and TCP, and calls on the same connection
// go on.
func TestSlowReceiver(t *testing.T) {
	t.Parallel()
	const (
		size     = 64 << 10
		messages = 512
		// Go's window of a stream is 4 MiB, Linux's socket buffers grow to 4 and 6 MiB; half of all that is sent.
		mostOnTheWay = 16 << 20
	)
	for _, scheme := range allSchemes() {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			p := serveStream(t, func(_ context.Context, _ *streamRequest, out *streamSender) error {
				message := make([]byte, size)
				for range messages {
					if err := send(out, message); err != nil {
						return err
					}
					sent.Add(size)
				}
				return nil
			})
			c := newClient(t, p.as(scheme), Options{})
			received := int64(0)
			_, err := c.Stream(t.Context(), countProcedure, nil, nil, func([]byte) error {
				pauses := 0
				if received%(mostOnTheWay/4) == 0 {
					pauses = 100 // time enough for the service to send all that it may
				}
				for range pauses {
					if _, err := c.Call(t.Context(), echoProcedure, []byte("x"), nil); err != nil {
						return err
					}
				}
				received += size
				if ahead := sent.Load() - received; ahead > mostOnTheWay {
					return fmt.Errorf("%d bytes are on their way", ahead)
				}
				return nil
			})
			if err != nil || received != messages*size {
				t.Errorf("%d bytes, %v", received, err)
			}
		})
	}
}
