// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestAuthorizationOfCalls: a call and a stream carry the value of their context, in
// each protocol, in place of the client's own; other calls carry the client's.
func TestAuthorizationOfCalls(t *testing.T) {
	t.Parallel()
	const own, theirs = "Bearer sidecar-0123456789", "Bearer alice-0123456789"
	service, err := demo.Handler(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan []string, 16)
	url := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "outrigger") {
			seen <- r.Header["Authorization"]
		}
		if strings.HasSuffix(r.URL.Path, "Fail") {
			connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("bad %v", r.Header["Authorization"])))
			return
		}
		service.ServeHTTP(w, r)
	}))
	for _, scheme := range []string{"grpc", "connect+http", "grpcweb+http"} {
		t.Run(scheme, func(t *testing.T) {
			target, err := backend.ParseTarget(scheme + strings.TrimPrefix(url, "http"))
			if err != nil {
				t.Fatal(err)
			}
			c, err := backend.New(target, backend.Options{Config: &configv1.Backend{Metadata: &configv1.Metadata{Static: map[string]string{"authorization": own, "x-tenant": "shop"}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = c.Close() }()
			with := backend.WithAuthorization(t.Context(), theirs)
			for _, tt := range []struct {
				ctx  context.Context //nolint:containedctx // a row of a table
				want string
			}{{t.Context(), own}, {with, theirs}, {backend.WithAuthorization(t.Context(), ""), own}} {
				if _, err := c.Call(tt.ctx, "/outrigger.demo.v1.Lab/Echo", nil, http.Header{"X-A": {"b"}}); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Call(tt.ctx, "/outrigger.demo.v1.Lab/Echo", nil, nil); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Stream(tt.ctx, "/outrigger.demo.v1.Fleet/WatchVehicles", []byte{0x10, 1}, nil, func([]byte) error { return nil }); err != nil {
					t.Fatal(err)
				}
				for range 3 {
					if got := <-seen; len(got) != 1 || got[0] != tt.want {
						t.Errorf("%v, want %s", got, tt.want)
					}
				}
			}
			if err := c.Check(with); err != nil { // the client's own request; it is not refused
				t.Error(err)
			}
			_, err = c.Call(with, "/outrigger.demo.v1.Lab/Fail", nil, nil)
			<-seen
			if failed := new(backend.Error); !errors.As(err, &failed) || strings.Contains(fmt.Sprintf("%v %+v %v", err, *failed, failed.Message), "alice-0123456789") {
				t.Errorf("an error that shows the token: %v", err)
			}
			if text := fmt.Sprintf("%v %+v %#v", with, with, with); strings.Contains(text, "alice") {
				t.Errorf("the context shows the token: %s", text)
			}
		})
	}
}
