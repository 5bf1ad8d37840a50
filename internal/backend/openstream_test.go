// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// The methods of the streaming peers: Chat echoes each message, Sum answers the number
// of messages, Count sends as many as the request says, Echo is unary.
const (
	chatProcedure = "/test.v1.Echo/Chat"
	sumProcedure  = "/test.v1.Echo/Sum"
)

// nothing is a number of messages whose sum is an empty message.
const nothing = 3

// sumOf answers a client's stream of n messages.
func sumOf(n int) []byte {
	if n == nothing {
		return []byte{}
	}
	return counted(n)
}

// metadataOf returns what a peer sends back of its request's metadata.
func metadataOf(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if strings.HasPrefix(name, "X-") && name != "X-User-Agent" {
			out[name] = values
		}
	}
	return out
}

// connectStreams serves the methods with connect-go.
func connectStreams() *http.ServeMux {
	mux := streamMux(count)
	mux.Handle(chatProcedure, connect.NewBidiStreamHandler(chatProcedure, func(_ context.Context, s *connect.BidiStream[rawMessage, rawMessage]) error {
		maps.Copy(s.ResponseHeader(), metadataOf(s.RequestHeader()))
		s.ResponseTrailer().Set("X-Tail", "end")
		if err := s.Send(nil); err != nil { // the header, before any message
			return err
		}
		for {
			message, err := s.Receive()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if string(*message) == "fail" {
				return connect.NewError(connect.CodeAborted, errors.New("as\r\nasked"))
			}
			if err := s.Send(message); err != nil {
				return err
			}
		}
	}, connect.WithCodec(rawCodec{})))
	mux.Handle(sumProcedure, connect.NewClientStreamHandler(sumProcedure, func(_ context.Context, s *connect.ClientStream[rawMessage]) (*connect.Response[rawMessage], error) {
		n := 0
		for s.Receive() {
			n++
		}
		if s.Err() != nil {
			return nil, s.Err()
		}
		message := rawMessage(sumOf(n))
		resp := connect.NewResponse(&message)
		maps.Copy(resp.Header(), metadataOf(s.RequestHeader()))
		resp.Trailer().Set("X-Tail", "end")
		return resp, nil
	}, connect.WithCodec(rawCodec{})))
	return mux
}

// grpcStreams serves the methods with grpc-go.
func grpcStreams(tb testing.TB) string {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	reply := func(s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		out := metadata.MD{}
		for name, values := range md {
			if strings.HasPrefix(name, "x-") {
				out[name] = values
			}
		}
		s.SetTrailer(metadata.Pairs("x-tail", "end"))
		return s.SendHeader(out)
	}
	server := grpc.NewServer(grpc.ForceServerCodec(grpcCodec{}))
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.v1.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: func(_ any, ctx context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			var in []byte
			if err := dec(&in); err != nil {
				return nil, err
			}
			md, _ := metadata.FromIncomingContext(ctx)
			_ = grpc.SetHeader(ctx, metadata.Pairs("x-one", md.Get("x-one")[0], "x-one", md.Get("x-one")[1]))
			_ = grpc.SetTrailer(ctx, metadata.Pairs("x-tail", "end"))
			return &in, nil
		}}},
		Streams: []grpc.StreamDesc{
			{StreamName: "Chat", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				if err := reply(s); err != nil {
					return err
				}
				for {
					var in []byte
					if err := s.RecvMsg(&in); errors.Is(err, io.EOF) {
						return nil
					} else if err != nil {
						return err
					}
					if string(in) == "fail" {
						return status.Error(codes.Aborted, "as\r\nasked")
					}
					if err := s.SendMsg(&in); err != nil {
						return err
					}
				}
			}},
			{StreamName: "Sum", ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				if err := reply(s); err != nil {
					return err
				}
				for n := 0; ; n++ {
					var in []byte
					if err := s.RecvMsg(&in); errors.Is(err, io.EOF) {
						out := sumOf(n)
						return s.SendMsg(&out)
					} else if err != nil {
						return err
					}
				}
			}},
			{StreamName: "Count", ServerStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
				var in []byte
				if err := s.RecvMsg(&in); err != nil {
					return err
				}
				if err := reply(s); err != nil {
					return err
				}
				n, _ := binary.Uvarint(in)
				for i := range int(n) {
					out := counted(i)
					if err := s.SendMsg(&out); err != nil {
						return err
					}
				}
				return nil
			}},
		},
	}, nil)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	tb.Cleanup(func() { server.Stop(); <-done })
	return lis.Addr().String()
}

// kinds are the targets by protocol and peer. TLS is not different for streams.
func streamTargets(tb testing.TB) map[string]string {
	tb.Helper()
	p := servePeer(tb, connectStreams(), clearProtocols(true, true))
	return map[string]string{
		"gRPC, connect-go":     p.as("grpc"),
		"Connect, connect-go":  p.as("connect+http"),
		"gRPC-Web, connect-go": p.as("grpcweb+http"),
		"gRPC, grpc-go":        "grpc://" + grpcStreams(tb),
	}
}

// eventuallyIdle waits until no place in the pools is held: a stream gives its own back
// when its context has ended.
func eventuallyIdle(tb testing.TB, c *Client) {
	tb.Helper()
	testkit.Until(tb, "no place of the pool is held after all streams have ended", func() bool {
		active := 0
		c.h2.h2.mu.Lock()
		defer c.h2.h2.mu.Unlock()
		for _, hc := range c.h2.h2.conns {
			active += hc.active
		}
		return active == 0
	})
}

func TestOpenStreamsOfEveryKind(t *testing.T) {
	t.Parallel()
	const many = 500
	for name, target := range streamTargets(t) {
		for _, tc := range []struct {
			kind           connect.StreamType
			procedure      string
			send           [][]byte
			want           int
			first          []byte
			headerMayBlock bool // the header comes with the first message
		}{
			{kind: connect.StreamTypeServer, procedure: countProcedure, send: [][]byte{counted(many)}, want: many, first: counted(0)},
			{kind: connect.StreamTypeClient, procedure: sumProcedure, send: make([][]byte, many), want: 1, first: counted(many)},
			{kind: connect.StreamTypeClient, procedure: sumProcedure, want: 1, first: counted(0)},
			{kind: connect.StreamTypeClient, procedure: sumProcedure, send: make([][]byte, nothing), want: 1},
			{kind: connect.StreamTypeBidi, procedure: chatProcedure, send: [][]byte{make([]byte, 200<<10), {}, []byte("x")}, want: 3, first: make([]byte, 200<<10)},
			{kind: connect.StreamTypeBidi, procedure: chatProcedure},
		} {
			t.Run(fmt.Sprintf("%s, %v of %d", name, tc.kind, len(tc.send)), func(t *testing.T) {
				t.Parallel()
				c := newClient(t, target, Options{})
				s, err := c.OpenStream(t.Context(), tc.procedure, tc.kind, http.Header{"X-One": {"1", "2"}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				go func() {
					for _, message := range tc.send {
						if err := s.Send(message); err != nil {
							t.Errorf("send: %v", err)
						}
					}
					s.CloseSend()
				}()
				got := 0
				for {
					message, err := s.Receive()
					if errors.Is(err, io.EOF) {
						break
					}
					if err != nil {
						t.Fatalf("after %d messages: %v", got, err)
					}
					if got == 0 && string(message) != string(tc.first) {
						t.Errorf("first message %.20x", message)
					}
					got++
				}
				if got != tc.want {
					t.Errorf("%d messages, want %d", got, tc.want)
				}
				if h := headerOf(s)["X-One"]; len(h) != 2 || h[1] != "2" {
					t.Errorf("header %v", headerOf(s))
				}
				if s.Trailer().Get("X-Tail") != "end" || len(s.Trailer()) != 1 {
					t.Errorf("trailer %v", s.Trailer())
				}
				if _, err := s.Receive(); !errors.Is(err, io.EOF) {
					t.Errorf("after the end: %v", err)
				}
				s.Close()
				eventuallyIdle(t, c)
			})
		}
	}
}

// Each message is answered before the next is sent, and the header comes before them.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	for name, target := range streamTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, target, Options{})
			s, err := c.OpenStream(t.Context(), chatProcedure, connect.StreamTypeBidi, http.Header{"X-One": {"1"}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := headerOf(s).Get("X-One"); got != "1" {
				t.Errorf("header %q before any message", got)
			}
			for i := range 100 {
				if err := s.Send(counted(i)); err != nil {
					t.Fatal(err)
				}
				if got, err := s.Receive(); err != nil || string(got) != string(counted(i)) {
					t.Fatalf("message %d: %x, %v", i, got, err)
				}
			}
			// A status with a message of any bytes, while the request is still open.
			if err := s.Send([]byte("fail")); err != nil {
				t.Fatal(err)
			}
			_, err = s.Receive()
			e := failure(t, err)
			if e.Kind != KindStatus || e.Code != connect.CodeAborted || e.Message != "as\r\nasked" {
				t.Errorf("got %v %q", e, e.Message)
			}
			if s.Trailer().Get("X-Tail") != "end" {
				t.Errorf("trailer %v", s.Trailer())
			}
			for err = nil; err == nil; { // the buffer takes a few
				err = s.Send(make([]byte, 1<<10))
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("send after the end: %v", err)
			}
			eventuallyIdle(t, c)
		})
	}
}

// A service that fails before it has read anything ends the stream for its sender too.
func TestStreamRefusedAtOnce(t *testing.T) {
	t.Parallel()
	for name, target := range streamTargets(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, target, Options{})
			s, err := c.OpenStream(t.Context(), "/test.v1.Echo/Missing", connect.StreamTypeBidi, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			_, err = s.Receive()
			if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeUnimplemented {
				t.Errorf("got %v", err)
			}
			if err := s.Send(make([]byte, 1<<20)); !errors.Is(err, io.EOF) {
				t.Errorf("send: %v", err)
			}
		})
	}
}

// stuck is a peer whose handlers report their beginning, read as told, and wait for
// their context.
func stuck(tb testing.TB) (target string, begun chan struct{}, over chan error) {
	tb.Helper()
	begun, over = make(chan struct{}, 16), make(chan error, 16)
	mux := http.NewServeMux()
	mux.Handle(chatProcedure, connect.NewBidiStreamHandler(chatProcedure, func(ctx context.Context, s *connect.BidiStream[rawMessage, rawMessage]) error {
		if s.RequestHeader().Get("X-Mute") == "" {
			if err := s.Send(nil); err != nil {
				return err
			}
		}
		begun <- struct{}{}
		<-ctx.Done()
		over <- ctx.Err()
		return ctx.Err()
	}, connect.WithCodec(rawCodec{})))
	return servePeer(tb, mux, clearProtocols(true, true)).url, begun, over
}

// A context that ends, ends both sides at once, whatever they wait for.
func TestCancelledStreams(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		for _, tc := range []struct {
			name string
			mute bool // no header comes
			fill bool // Send waits for the peer's window
			end  string
		}{
			{name: "idle", end: "cancel"},
			{name: "before the header", mute: true, end: "cancel"},
			{name: "full", fill: true, end: "cancel"},
			{name: "full before the header", fill: true, mute: true, end: "cancel"},
			{name: "closed", fill: true, end: "close"},
			{name: "deadline", fill: true, end: "deadline"},
		} {
			t.Run(scheme+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				target, begun, over := stuck(t)
				_, rest, _ := strings.Cut(target, "://")
				c := newClient(t, scheme+"://"+rest, Options{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				want := KindCancelled
				if tc.end == "deadline" {
					var stop context.CancelFunc
					ctx, stop = context.WithTimeout(ctx, 2*time.Second)
					defer stop()
					want = KindTimeout
				}
				md := http.Header{}
				if tc.mute {
					md.Set("X-Mute", "yes")
				}
				s, err := c.OpenStream(ctx, chatProcedure, connect.StreamTypeBidi, md)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				var both sync.WaitGroup
				if tc.fill {
					both.Go(func() {
						for {
							if err := s.Send(make([]byte, 64<<10)); err != nil {
								if !errors.Is(err, io.EOF) {
									t.Errorf("send: %v", err)
								}
								return
							}
						}
					})
				}
				both.Go(func() {
					_, err := s.Receive()
					if e := failure(t, err); e.Kind != want {
						t.Errorf("receive: %v", err)
					}
				})
				began := true
				select {
				case <-begun:
				case <-ctx.Done(): // the deadline may pass before
					began = false
				}
				if tc.fill && tc.end != "deadline" {
					waitBlocked(t, s)
				}
				switch tc.end {
				case "cancel":
					cancel()
				case "close":
					s.Close()
				}
				both.Wait()
				if began {
					<-over
				}
				eventuallyIdle(t, c)
			})
		}
	}
}

// waitBlocked waits until the sender waits for the transport.
func waitBlocked(tb testing.TB, s *Stream) {
	tb.Helper()
	testkit.Until(tb, "the sender has to wait", func() bool {
		s.body.mu.Lock()
		defer s.body.mu.Unlock()
		return len(s.body.queued) == sendBuffer
	})
}

// headerOf is the header of a stream.
func headerOf(s *Stream) http.Header {
	h, _ := s.Header()
	return h
}
