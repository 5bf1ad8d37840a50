// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/rig"
)

// shop is a backend whose calls last until a test lets them end.
type shop struct {
	url, descriptors string

	mu      sync.Mutex
	calls   map[string]int // begun, by RPC and name
	ended   map[string]int // whose caller went away
	release chan struct{}
}

// startShop starts a backend with two RPCs: Look may be called again, Pay may not. Their
// messages have the wire form of a string in a wrapper.
func startShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{calls: map[string]int{}, ended: map[string]int{}, release: make(chan struct{})}
	mux := http.NewServeMux()
	for _, name := range []string{"Look", "Pay", "Ping", "Refund"} {
		procedure := "/fleet.v1.Shop/" + name
		mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(ctx context.Context, req *connect.Request[wrapperspb.StringValue]) (*connect.Response[wrapperspb.StringValue], error) {
			key := name + " " + req.Msg.GetValue()
			s.mu.Lock()
			s.calls[key]++
			release := s.release
			s.mu.Unlock()
			if name != "Ping" {
				select {
				case <-release:
				case <-ctx.Done():
					s.mu.Lock()
					s.ended[key]++
					s.mu.Unlock()
					return nil, ctx.Err()
				}
			}
			return connect.NewResponse(wrapperspb.String("result of " + key)), nil
		}))
	}
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(s.letGo)
	s.url, s.descriptors = "grpc://"+server.Listener.Addr().String(), rig.Describe(t, rig.Method{Name: "Look", Idempotent: true}, rig.Method{Name: "Pay"}, rig.Method{Name: "Ping"})
	return s
}

// letGo lets all calls end.
func (s *shop) letGo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.release:
	default:
		close(s.release)
	}
}

func (s *shop) count(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[key]
}
