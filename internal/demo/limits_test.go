// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/demo"
)

// The server's cleanup waits ten seconds for calls in flight, so a sleeper that outlives its caller fails these tests.
func TestASleeperLeavesWithItsCaller(t *testing.T) {
	t.Parallel()
	url := start(t, demo.Options{}).URL()
	sleep := &demov1.SleepRequest{Duration: durationpb.New(time.Minute)}
	for _, protocol := range protocols {
		t.Run(protocol.name, func(t *testing.T) {
			p := dial(t, url, protocol.http2, protocol.options...)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err := p.lab.Sleep(ctx, connect.NewRequest(sleep))
			failureOf(t, err, connect.CodeDeadlineExceeded)

			ctx, cancel = context.WithCancel(t.Context())
			defer cancel()
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
			_, err = p.lab.Sleep(ctx, connect.NewRequest(sleep))
			failureOf(t, err, connect.CodeCanceled)
		})
	}
}

func TestStreamsOnOneConnectionAreBounded(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		limit int
		want  int32
	}{{"one", 1, 3}, {"default", 0, 1}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var dialed atomic.Int32
			h2c := new(http.Protocols)
			h2c.SetUnencryptedHTTP2(true)
			transport := &http.Transport{Protocols: h2c, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				dialed.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, addr)
			}}
			server := start(t, demo.Options{MaxConcurrentStreams: test.limit})
			t.Cleanup(transport.CloseIdleConnections)
			lab := demov1connect.NewLabClient(&http.Client{Transport: transport}, server.URL(), connect.WithGRPC())
			// Each stream stays open. A client opens another connection where the present ones take no more streams.
			for range 3 {
				stream := lab.Relay(t.Context())
				if err := stream.Send(&demov1.EchoRequest{}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Receive(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := errors.Join(stream.CloseRequest(), stream.CloseResponse()); err != nil {
						t.Error(err)
					}
				}()
			}
			if got := dialed.Load(); got != test.want {
				t.Errorf("%d connections, want %d", got, test.want)
			}
		})
	}
}

func TestAPanicIsOneErrorForOneCaller(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	p := grpcPeer(t, demo.Options{Logger: zap.New(core), Now: func() time.Time { panic("the clock fell off the wall") }})
	order := &demov1.PlaceOrderRequest{
		Customer: "Clinic", Destination: &demov1.Destination{Place: &demov1.Destination_StopId{StopId: 6}},
		Parcels: []*demov1.Parcel{{Contents: "tea", WeightKg: 1}},
	}
	for range 2 { // the second call finds no lock held
		_, err := p.fleet.PlaceOrder(t.Context(), connect.NewRequest(order))
		if failure := failureOf(t, err, connect.CodeInternal); strings.Contains(failure.Message(), "clock") {
			t.Errorf("the caller sees the panic: %v", failure)
		}
	}
	ask(t, p.fleet.ListVehicles, &demov1.ListVehiclesRequest{})
	entries := logs.TakeAll()
	if len(entries) != 2 {
		t.Fatalf("%d log entries, want 2", len(entries))
	}
	fields := entries[0].ContextMap()
	if "/"+fields["rpc.method"].(string) != demov1connect.FleetPlaceOrderProcedure || fields["exception.message"] != "the clock fell off the wall" ||
		!strings.Contains(fields["exception.stacktrace"].(string), "PlaceOrder") {
		t.Errorf("logged %v", fields)
	}
}

func TestTheDeskKeepsItsBooksUnderLoad(t *testing.T) {
	t.Parallel()
	p := grpcPeer(t, demo.Options{})
	var agents sync.WaitGroup
	for range 16 {
		agents.Go(func() {
			placed, err := p.fleet.PlaceOrder(t.Context(), connect.NewRequest(&demov1.PlaceOrderRequest{
				Customer: "Crowd", Destination: &demov1.Destination{Place: &demov1.Destination_StopId{StopId: 6}},
				Parcels: []*demov1.Parcel{{Contents: "letter", WeightKg: 0.1}},
			}))
			if err != nil {
				t.Errorf("place: %v", err)
				return
			}
			id := placed.Msg.GetId()
			for _, vehicle := range []int64{101, 106} {
				if _, err := p.fleet.AssignOrder(t.Context(), connect.NewRequest(&demov1.AssignOrderRequest{OrderId: id, VehicleId: vehicle})); err != nil {
					t.Errorf("assign: %v", err)
				}
			}
			if _, err := p.fleet.FindOrders(t.Context(), connect.NewRequest(&demov1.FindOrdersRequest{})); err != nil {
				t.Errorf("find: %v", err)
			}
			if _, err := p.fleet.CancelOrder(t.Context(), connect.NewRequest(&demov1.CancelOrderRequest{OrderId: id})); err != nil {
				t.Errorf("cancel: %v", err)
			}
		})
	}
	agents.Wait()
	for _, vehicle := range []int64{101, 106} {
		v := ask(t, p.fleet.GetVehicle, &demov1.GetVehicleRequest{VehicleId: vehicle})
		if len(v.GetOrderIds()) != 0 || v.GetStatus() != demov1.VehicleStatus_VEHICLE_STATUS_IDLE {
			t.Errorf("%s still has %v and is %v", v.GetCallSign(), v.GetOrderIds(), v.GetStatus())
		}
	}
	if total := ask(t, p.fleet.FindOrders, &demov1.FindOrdersRequest{}).GetTotalMatches(); total != 9 {
		t.Errorf("%d orders left, want the 9 of the start", total)
	}
}
