// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

func TestStartListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		if _, err := demo.Start(t.Context(), demo.Options{Addr: addr}); !errors.Is(err, demo.ErrNotLoopback) {
			t.Errorf("%s: %v, want ErrNotLoopback", addr, err)
		}
	}
	if _, err := demo.Start(t.Context(), demo.Options{Addr: "nonsense"}); err == nil {
		t.Error("an address without a port was accepted")
	}
	first := start(t, demo.Options{})
	if _, err := demo.Start(t.Context(), demo.Options{Addr: strings.TrimPrefix(first.URL(), "http://")}); err == nil {
		t.Error("a port that is in use was accepted")
	}
}

func TestAServerOutlivesTheContextOfItsStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server, err := demo.Start(ctx, demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	ask(t, dial(t, server.URL(), true, connect.WithGRPC()).lab.Echo, &demov1.EchoRequest{})
	for range 2 {
		if err := server.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

func TestCloseLetsCallsFinishAndEndsWatchers(t *testing.T) {
	t.Parallel()
	server, err := demo.Start(t.Context(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, server.URL(), true, connect.WithGRPC())
	watch, err := p.fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{
		VehicleIds: []int64{101}, Rounds: 1000, Interval: durationpb.New(time.Minute),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if !watch.Receive() {
		t.Fatalf("first update: %v", watch.Err())
	}
	relay := p.lab.Relay(t.Context())
	say := func(when string, n int64) {
		t.Helper()
		if err := relay.Send(&demov1.EchoRequest{Signed: n}); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if res, err := relay.Receive(); err != nil || res.GetSigned() != n {
			t.Fatalf("%s: %v, %v", when, res, err)
		}
	}
	say("before closing", 1)

	closed := make(chan error, 1)
	go func() { closed <- server.Close(t.Context()) }()
	if watch.Receive() || connect.CodeOf(watch.Err()) != connect.CodeUnavailable {
		t.Errorf("the watcher ended with %v, want unavailable", watch.Err())
	}
	// The end of the watcher tells that Close is under way.
	say("while closing", 2)
	if err := relay.CloseRequest(); err != nil {
		t.Error(err)
	}
	if _, err := relay.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("the call in flight ended with %v", err)
	}
	if err := errors.Join(relay.CloseResponse(), <-closed); err != nil {
		t.Errorf("close: %v", err)
	}
	_ = watch.Close()
}

func TestCloseCutsWhatOutlastsItsContext(t *testing.T) {
	t.Parallel()
	server, err := demo.Start(t.Context(), demo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, server.URL(), true, connect.WithGRPC())
	stream := p.lab.Relay(t.Context())
	if err := stream.Send(&demov1.EchoRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := server.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v, want the context's error", err)
	}
	if _, err := stream.Receive(); err == nil {
		t.Error("the stream outlived the server")
	}
	_ = stream.CloseRequest()
	_ = stream.CloseResponse()
}

func TestMessagesAreBounded(t *testing.T) {
	t.Parallel()
	url := start(t, demo.Options{MaxMessageBytes: 1 << 10}).URL()
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			p := dial(t, url, protocol.http2, protocol.options...)
			ask(t, p.lab.Echo, &demov1.EchoRequest{Payload: make([]byte, 512)})
			_, err := p.lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Payload: make([]byte, 2<<10)}))
			failureOf(t, err, connect.CodeResourceExhausted)
			_, err = p.fleet.FindOrders(t.Context(), connect.NewRequest(&demov1.FindOrdersRequest{}))
			failureOf(t, err, connect.CodeResourceExhausted)
		})
	}
}

func TestWebPagesAreKeptOut(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, demo.Options{}).URL(), false)
	for _, test := range []struct {
		name, host, origin string
		want               int
	}{
		{"a program", "", "", http.StatusOK},
		{"localhost", "localhost:80", "", http.StatusOK},
		{"IPv6", "[::1]:80", "", http.StatusOK},
		{"a page", "", "http://evil.example", http.StatusForbidden},
		{"a page without an address", "", "null", http.StatusForbidden},
		{"a rebound name", "evil.example:80", "", http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+demov1connect.LabEchoProcedure, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			req.Header.Set("Content-Type", "application/json")
			if test.origin != "" {
				req.Header.Set("Origin", test.origin)
			}
			res, err := p.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Fatal(err)
			}
			if res.StatusCode != test.want {
				t.Errorf("status %d, want %d", res.StatusCode, test.want)
			}
		})
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	p := dial(t, start(t, demo.Options{}).URL(), true)
	for _, test := range []struct{ service, want string }{
		{"", `SERVING"}`},
		{demov1connect.FleetName, `SERVING"}`},
		{demov1connect.LabName, `SERVING"}`},
		{"outrigger.demo.v1.Pizza", `"code":"not_found"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			p.url+"/"+grpchealth.HealthV1ServiceName+"/Check", strings.NewReader(`{"service":"`+test.service+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := p.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), test.want) {
			t.Errorf("%q: %s, want %s", test.service, body, test.want)
		}
	}
}

func TestHandlersDoNotShareTheirData(t *testing.T) {
	t.Parallel()
	var peers [2]*peer
	for i := range peers {
		handler, err := demo.Handler(demo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		peers[i] = dial(t, server.URL, false)
	}
	ask(t, peers[0].fleet.CancelOrder, &demov1.CancelOrderRequest{OrderId: firstOrder + 2})
	ask(t, peers[1].fleet.GetOrder, &demov1.GetOrderRequest{OrderId: firstOrder + 2})
}
