// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
)

// till is the backend. It is never broken: what it counts is what the replicas did. The name in a call says how long
// the call lasts: "c1-7/250ms".
type till struct {
	url, descriptors string

	mu   sync.Mutex
	runs map[string]int // started, by RPC and name
}

// The RPCs: Look may run again, Pay and Refund may not, Ping is a call that needs no state, and Count streams.
func methods() []rig.Method {
	return []rig.Method{{Name: "Look", Idempotent: true}, {Name: "Pay"}, {Name: "Refund"}, {Name: "Ping", Idempotent: true}, {Name: "Count", Streams: true}}
}

// counts is how many messages Count sends.
const counts = 10

// startTill starts it at a host.
func startTill(t *testing.T, host string) *till {
	t.Helper()
	b := &till{runs: map[string]int{}}
	mux := http.NewServeMux()
	for _, m := range methods() {
		procedure := "/fleet.v1.Shop/" + m.Name
		if m.Streams {
			mux.Handle(procedure, connect.NewServerStreamHandler(procedure, func(ctx context.Context, req *connect.Request[wrapperspb.StringValue], out *connect.ServerStream[wrapperspb.StringValue]) error {
				return b.stream(ctx, m.Name, req.Msg.GetValue(), out.Send)
			}))
			continue
		}
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			return b.run(ctx, m.Name, req.Msg.GetValue())
		}))
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	_ = server.Listener.Close() // it has one on loopback
	server.Listener = l
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	b.url, b.descriptors = "grpc://"+server.Listener.Addr().String(), rig.Describe(t, methods()...)
	return b
}

func (b *till) run(ctx context.Context, method, name string) (*connect.Response[wrapperspb.StringValue], error) {
	if method != "Ping" {
		b.started(method, name)
	}
	if err := doing(ctx, name, 1); err != nil {
		return nil, err
	}
	return connect.NewResponse(wrapperspb.String(models.ResultOf(method, name))), nil
}

// stream is run in steps, each with a message.
func (b *till) stream(ctx context.Context, method, name string, send func(*wrapperspb.StringValue) error) error {
	b.started(method, name)
	for range counts {
		if err := doing(ctx, name, counts); err != nil {
			return err
		}
		if err := send(wrapperspb.String(models.ResultOf(method, name))); err != nil {
			return err
		}
	}
	return nil
}

func (b *till) started(method, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs[method+" "+name]++
}

// doing waits for a part of what a call lasts.
func doing(ctx context.Context, name string, parts int) error {
	_, text, ok := strings.Cut(name, "/")
	if !ok {
		return nil
	}
	lasts, err := time.ParseDuration(text)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	select {
	case <-time.After(lasts / time.Duration(parts)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count is how often a call was started.
func (b *till) count(method, name string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.runs[method+" "+name]
}
