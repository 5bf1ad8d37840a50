// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// flowMessage is the size of a message, and mostUnderWay more than the windows and buffers
// of two connections hold: 4 MiB of them are of the caller's own library.
const (
	flowMessage  = 8 << 10
	mostUnderWay = 8 << 20
)

// relayed serves Relay by serve, and the rest of the demo service as it is.
func relayed(t *testing.T, serve func(context.Context, *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error) string {
	t.Helper()
	service, err := demo.Handler(demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	relay := connect.NewBidiStreamHandler(demov1connect.LabRelayProcedure, serve)
	return mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Relay") {
			relay.ServeHTTP(w, r)
			return
		}
		service.ServeHTTP(w, r)
	}))
}

// settled waits until a count is stopped, and returns it.
func settled(t *testing.T, count *atomic.Int64) int64 {
	t.Helper()
	// Nothing but time shows that a writer waits. Where a message takes longer than this, the test sees less, and does not fail.
	const still = 500 * time.Millisecond
	last, since := int64(-1), time.Now()
	testkit.Try(t, "the writer waits", func() error {
		now := count.Load()
		if now*flowMessage > mostUnderWay {
			t.Fatalf("%d messages of %d bytes are under way", now, flowMessage)
		}
		if now != last {
			last, since = now, time.Now()
		}
		if now == 0 || time.Since(since) <= still {
			return fmt.Errorf("%d messages so far", now)
		}
		return nil
	})
	return last
}

// TestASlowReaderSlowsTheWriter through both connections, in both directions; and no
// message is lost by it.
func TestASlowReaderSlowsTheWriter(t *testing.T) {
	t.Parallel()
	payload := make([]byte, flowMessage)
	_, _ = rand.Read(payload) // which cannot be compressed
	for _, p := range wires() {
		for _, scheme := range []string{"grpc", "connect+http"} {
			// The codec makes no difference, and one protocol is enough to see the other backend.
			if strings.Contains(p.name, " ") || scheme != "grpc" && p.name != "gRPC" {
				continue
			}
			t.Run(p.name+" to "+scheme+"/a caller that does not read", func(t *testing.T) {
				t.Parallel()
				var sent atomic.Int64
				backend := relayed(t, func(_ context.Context, s *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error {
					for i := int64(0); ; i++ {
						if err := s.Send(&demov1.EchoResponse{Signed: i, Payload: payload}); err != nil {
							return err
						}
						sent.Store(i + 1)
					}
				})
				rig := mcptest.Start(t, mcptest.Options{Behind: scheme + strings.TrimPrefix(backend, "http")})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				relay := demov1connect.NewLabClient(mcptest.Client(t, 2), mount(t, ofRig(rig), connectapi.Options{}), p.options...).Relay(ctx)
				defer func() {
					stop()
					_ = relay.CloseRequest() // net/http's client waits for it, whatever the context says
				}()
				if err := relay.Send(nil); err != nil { // the service speaks first
					t.Fatal(err)
				}
				for i := range settled(t, &sent) * 3 {
					if got, err := relay.Receive(); err != nil || got.GetSigned() != i {
						t.Fatalf("message %d: %v, %v", i, got.GetSigned(), err)
					}
				}
			})
			t.Run(p.name+" to "+scheme+"/a service that does not read", func(t *testing.T) {
				t.Parallel()
				read := make(chan struct{})
				backend := relayed(t, func(ctx context.Context, s *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error {
					select {
					case <-read:
					case <-ctx.Done():
						return ctx.Err()
					}
					for i := int64(0); ; i++ {
						got, err := s.Receive()
						if errors.Is(err, io.EOF) {
							return s.Send(&demov1.EchoResponse{Signed: i})
						}
						if err != nil || got.GetSigned() != i {
							return connect.NewError(connect.CodeDataLoss, errors.Join(err, errors.New("a message is missing")))
						}
					}
				})
				rig := mcptest.Start(t, mcptest.Options{Behind: scheme + strings.TrimPrefix(backend, "http")})
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				relay := demov1connect.NewLabClient(mcptest.Client(t, 2), mount(t, ofRig(rig), connectapi.Options{}), p.options...).Relay(ctx)
				var sent atomic.Int64
				enough, done := make(chan struct{}), make(chan error, 1)
				go func() {
					for {
						select {
						case <-enough:
							done <- relay.CloseRequest()
							return
						default:
						}
						if err := relay.Send(&demov1.EchoRequest{Signed: sent.Load(), Payload: payload}); err != nil {
							done <- err
							return
						}
						sent.Add(1)
					}
				}()
				settled(t, &sent)
				close(enough)
				close(read)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if got, err := relay.Receive(); err != nil || got.GetSigned() != sent.Load() {
					t.Errorf("%d messages were sent, %d came: %v", sent.Load(), got.GetSigned(), err)
				}
			})
		}
	}
}
