// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const echoProcedure = "/test.v1.Echo/Echo"

// remote is a real server on loopback.
type remote struct {
	url   string // http://host:port, or unix:///path
	conns atomic.Int64
	// open counts those that are, most is the most of them there were at once.
	open, most atomic.Int64
}

// state counts connections of a server.
func (p *remote) state(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		p.conns.Add(1)
		now := p.open.Add(1)
		for most := p.most.Load(); now > most && !p.most.CompareAndSwap(most, now); {
			most = p.most.Load()
		}
	case http.StateClosed, http.StateHijacked:
		p.open.Add(-1)
	case http.StateActive, http.StateIdle:
	}
}

// protocols of a test server.
func clearProtocols(h1, h2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(h1)
	p.SetUnencryptedHTTP2(h2)
	return p
}

// servePeer runs handler until the test ends.
func servePeer(tb testing.TB, handler http.Handler, protocols *http.Protocols) *remote {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return serveOn(tb, lis, "http://"+lis.Addr().String(), handler, protocols)
}

func serveSocket(tb testing.TB, handler http.Handler, protocols *http.Protocols) *remote {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "s")
	lis, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	return serveOn(tb, lis, "unix://"+path, handler, protocols)
}

func serveOn(tb testing.TB, lis net.Listener, url string, handler http.Handler, protocols *http.Protocols) *remote {
	tb.Helper()
	p := &remote{url: url}
	srv := &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnState:         p.state,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(lis)
	}()
	tb.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return p
}

// rawPeer answers each TCP connection with talk.
func rawPeer(tb testing.TB, talk func(net.Conn)) *remote {
	tb.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &remote{url: "http://" + lis.Addr().String()}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			p.conns.Add(1)
			go func() {
				end := context.AfterFunc(ctx, func() { _ = nc.Close() })
				defer end()
				talk(nc)
			}()
		}
	}()
	tb.Cleanup(func() {
		stop()
		_ = lis.Close()
		<-done
	})
	return p
}

// as gives the peer's address another scheme.
func (p *remote) as(scheme string) string {
	_, rest, _ := strings.Cut(p.url, "://")
	return scheme + "://" + rest
}

func newClient(tb testing.TB, target string, o Options) *Client {
	tb.Helper()
	t, err := ParseTarget(target)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := New(t, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// patient are options for a backend that answers: on a busy machine, a probe may take longer than by default, after which another
// protocol is tried.
func patient(tls *configv1.BackendTls) Options {
	return Options{Config: &configv1.Backend{Tls: tls, ProbeTimeout: durationpb.New(time.Minute)}, AttemptTimeout: time.Minute}
}

// unary mounts fn as procedure, for every protocol.
func unary(mux *http.ServeMux, procedure string, fn func(context.Context, *connect.Request[rawMessage]) (*connect.Response[rawMessage], error)) {
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, fn, connect.WithCodec(rawCodec{})))
}

// echo returns the request, its x- headers as headers, and a trailer.
func echo(_ context.Context, req *connect.Request[rawMessage]) (*connect.Response[rawMessage], error) {
	resp := connect.NewResponse(req.Msg)
	for name, values := range req.Header() {
		if strings.HasPrefix(name, "X-") && name != "X-User-Agent" {
			resp.Header()[name] = values
		}
	}
	resp.Trailer().Set("X-Tail", "end")
	return resp, nil
}

func echoMux() *http.ServeMux {
	mux := http.NewServeMux()
	unary(mux, echoProcedure, echo)
	return mux
}

// only lets requests of one protocol through and answers the others as a server
// does that never heard of them: 415 without a list of what it takes.
func only(protocol Protocol, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contentType := r.Header.Get("Content-Type")
		got := ProtocolConnect
		switch {
		case strings.HasPrefix(contentType, "application/grpc-web"):
			got = ProtocolGRPCWeb
		case strings.HasPrefix(contentType, "application/grpc"):
			got = ProtocolGRPC
		}
		if got != protocol {
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// failure asserts that err is an *Error.
func failure(tb testing.TB, err error) *Error {
	tb.Helper()
	e := new(Error)
	if !errors.As(err, &e) {
		tb.Fatalf("got %v (%T), want an *Error", err, err)
	}
	return e
}

// contextTimeout exists so that tables can hold a duration.
func contextTimeout(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel
}
