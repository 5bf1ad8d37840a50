// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// Demo starts the demo service outside of the sidecar, as a backend like any
// other.
func Demo(tb testing.TB) *Service {
	tb.Helper()
	server, err := demo.Start(tb.Context(), demo.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	stop := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 5*time.Second)
		defer cancel()
		if err := server.Close(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			tb.Errorf("close the demo: %v", err)
		}
	})
	tb.Cleanup(stop)
	return &Service{URL: server.URL(), stop: stop}
}

// ConnectOnly serves a Lab that speaks Connect and refuses everything else, and
// so has no reflection.
func ConnectOnly(tb testing.TB) *Service {
	tb.Helper()
	return serveConnect(tb, "connect+http", "application/proto", "application/json")
}

// GRPCWebOnly serves a Lab that speaks gRPC-Web and refuses everything else.
func GRPCWebOnly(tb testing.TB) *Service {
	tb.Helper()
	return serveConnect(tb, "grpcweb+http", "application/grpc-web", "application/grpc-web+proto")
}

// serveConnect serves connect-go's handler for some content types only. Others
// get the answer that connect-go has for types that it does not know.
func serveConnect(tb testing.TB, scheme string, types ...string) *Service {
	tb.Helper()
	lab := &Lab{}
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewLabHandler(connectLab{lab: lab}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(types, r.Header.Get("Content-Type")) {
			w.Header().Set("Accept-Post", strings.Join(types, ", "))
			w.WriteHeader(http.StatusUnsupportedMediaType)
			return
		}
		mux.ServeHTTP(w, r)
	})}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("serve: %v", err)
		}
	})
	stop := func() {
		_ = server.Close()
		serving.Wait()
	}
	tb.Cleanup(stop)
	return &Service{Lab: lab, URL: scheme + "://" + l.Addr().String(), stop: stop}
}

// connectLab lets connect-go serve a Lab.
type connectLab struct {
	demov1connect.UnimplementedLabHandler
	lab *Lab
}

func (c connectLab) Echo(ctx context.Context, req *connect.Request[demov1.EchoRequest]) (*connect.Response[demov1.EchoResponse], error) {
	res, err := c.lab.echo(ctx, req.Msg)
	return connect.NewResponse(res), err
}

func (c connectLab) Sleep(ctx context.Context, req *connect.Request[demov1.SleepRequest]) (*connect.Response[demov1.SleepResponse], error) {
	res, err := c.lab.sleep(ctx, req.Msg)
	if err != nil {
		return nil, connect.NewError(connect.CodeCanceled, err)
	}
	return connect.NewResponse(res), nil
}
