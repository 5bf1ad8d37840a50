// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// streamsOf runs a test over every protocol and codec.
func streamsOf(t *testing.T, o connectapi.Options, test func(t *testing.T, fleet demov1connect.FleetClient, lab demov1connect.LabClient)) {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{Configure: tenantsAndReplies})
	url := mount(t, ofRig(rig), o)
	for _, p := range append(wires(),
		wire{"gRPC JSON", []connect.ClientOption{connect.WithGRPC(), connect.WithProtoJSON()}},
		wire{"gRPC zipped", []connect.ClientOption{connect.WithGRPC(), connect.WithSendGzip()}},
	) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := mcptest.Client(t, 2)
			test(t, demov1connect.NewFleetClient(client, url, p.options...), demov1connect.NewLabClient(client, url, p.options...))
		})
	}
}

// A generated client's streams of all three kinds pass, full duplex where they are
// bidirectional.
func TestStreamsPassThrough(t *testing.T) {
	t.Parallel()
	streamsOf(t, connectapi.Options{}, func(t *testing.T, fleet demov1connect.FleetClient, lab demov1connect.LabClient) {
		relay := lab.Relay(t.Context())
		for i := range int64(100) {
			if err := relay.Send(&demov1.EchoRequest{Nonce: "n", Signed: math.MinInt64 + i, Unsigned: math.MaxUint64, Payload: make([]byte, i*1000)}); err != nil {
				t.Fatal(err)
			}
			got, err := relay.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if got.GetSigned() != math.MinInt64+i || got.GetUnsigned() != math.MaxUint64 || len(got.GetPayload()) != int(i)*1000 {
				t.Fatalf("message %d came as %v", i, got.GetSigned())
			}
		}
		_ = relay.CloseRequest()
		if _, err := relay.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("the end of both sides: %v", err)
		}

		watch, err := fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{
			VehicleIds: []int64{101, 102}, Rounds: 3, Interval: durationpb.New(time.Millisecond),
		}))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for ; watch.Receive(); n++ {
		}
		if watch.Err() != nil || n != 6 {
			t.Errorf("%d updates, %v", n, watch.Err())
		}
		_ = watch.Close()

		report := fleet.ReportPositions(t.Context())
		for range 3 {
			if err := report.Send(&demov1.PositionReport{
				VehicleId: 101, Position: &demov1.Position{Latitude: 1, Longitude: 2}, ObservedAt: timestamppb.Now(),
			}); err != nil {
				t.Fatal(err)
			}
		}
		res, err := report.CloseAndReceive()
		if err != nil || res.Msg.GetReceived() != 3 {
			t.Errorf("%v, %v", res, err)
		}
	})
}

// On HTTP/1.1, streams and calls follow each other on one connection. What ends a stream
// is not held against those behind it.
func TestStreamsShareAConnection(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: tenantsAndReplies})
	url := mount(t, ofRig(rig), connectapi.Options{})
	for _, p := range []wire{{"Connect", nil}, {"gRPC-Web", []connect.ClientOption{connect.WithGRPCWeb()}}} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var opened atomic.Int32
			client := mcptest.Client(t, 1)
			transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				opened.Add(1)
				return new(net.Dialer).DialContext(ctx, network, addr)
			}}
			t.Cleanup(transport.CloseIdleConnections)
			client.Transport = transport
			fleet, lab := demov1connect.NewFleetClient(client, url, p.options...), demov1connect.NewLabClient(client, url, p.options...)
			for range 20 {
				report := fleet.ReportPositions(t.Context())
				_ = report.Send(&demov1.PositionReport{
					VehicleId: 101, Position: &demov1.Position{Latitude: 1, Longitude: 2}, ObservedAt: timestamppb.Now(),
				})
				if res, err := report.CloseAndReceive(); err != nil || res.Msg.GetReceived() != 1 {
					t.Fatalf("a client's stream: %v, %v", res, err)
				}
				watch, err := fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{VehicleIds: []int64{101}, Rounds: 2}))
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for ; watch.Receive(); n++ {
				}
				if watch.Err() != nil || n != 2 {
					t.Fatalf("a server's stream: %d messages, %v", n, watch.Err())
				}
				_ = watch.Close()
				if _, err := lab.Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{Nonce: "n"})); err != nil {
					t.Fatalf("a call behind a stream: %v", err)
				}
			}
			if n := opened.Load(); n > 2 {
				t.Errorf("%d connections were opened for calls one after the other", n)
			}
		})
	}
}

// What is wrong with a message ends its stream with the sidecar's own error, and what is
// wrong with an RPC keeps it from beginning.
func TestStreamsAreChecked(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	streamsOf(t, connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: most}}, func(t *testing.T, fleet demov1connect.FleetClient, lab demov1connect.LabClient) {
		report := fleet.ReportPositions(t.Context())
		good := &demov1.PositionReport{VehicleId: 101, Position: &demov1.Position{Latitude: 1, Longitude: 2}, ObservedAt: timestamppb.Now()}
		_ = report.Send(good)
		_ = report.Send(&demov1.PositionReport{VehicleId: 101, Position: &demov1.Position{Latitude: 91}, ObservedAt: timestamppb.Now()})
		_, err := report.CloseAndReceive()
		if connect.CodeOf(err) != connect.CodeInvalidArgument || reason(t, err) != errmap.InvalidToolInput {
			t.Errorf("a broken rule: %v (%s)", err, reason(t, err))
		}
		if bad := detail[*errdetails.BadRequest](t, err); bad == nil || !strings.Contains(bad.GetFieldViolations()[0].GetField(), "latitude") {
			t.Errorf("violations: %v", bad)
		}

		relay := lab.Relay(t.Context())
		_ = relay.Send(&demov1.EchoRequest{Payload: make([]byte, most+1)})
		_, err = relay.Receive()
		if connect.CodeOf(err) != connect.CodeResourceExhausted || reason(t, err) != errmap.PayloadTooLarge {
			t.Errorf("over the limit: %v (%s)", err, reason(t, err))
		}

		watch, err := fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{Rounds: -1}))
		if err == nil {
			watch.Receive()
			err = watch.Err()
			_ = watch.Close()
		}
		if connect.CodeOf(err) != connect.CodeInvalidArgument || reason(t, err) != errmap.InvalidToolInput {
			t.Errorf("a request that breaks a rule: %v (%s)", err, reason(t, err))
		}
	})
}

// The backend's own status leaves a stream as it came.
func TestStatusOfAStreamPassesAsItCame(t *testing.T) {
	t.Parallel()
	streamsOf(t, connectapi.Options{}, func(t *testing.T, fleet demov1connect.FleetClient, _ demov1connect.LabClient) {
		watch, err := fleet.WatchVehicles(t.Context(), connect.NewRequest(&demov1.WatchVehiclesRequest{VehicleIds: []int64{999999}}))
		if err == nil {
			watch.Receive()
			err = watch.Err()
			_ = watch.Close()
		}
		if connect.CodeOf(err) != connect.CodeNotFound || reason(t, err) != "" {
			t.Errorf("got %v (%s)", err, reason(t, err))
		}
	})
}

// A caller that goes away ends the backend's side, and a deadline both.
func TestStreamsEndWithTheirCallers(t *testing.T) {
	t.Parallel()
	streamsOf(t, connectapi.Options{}, func(t *testing.T, fleet demov1connect.FleetClient, lab demov1connect.LabClient) {
		ctx, cancel := context.WithCancel(t.Context())
		relay := lab.Relay(ctx)
		_ = relay.Send(&demov1.EchoRequest{Nonce: "n"})
		if _, err := relay.Receive(); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := relay.Receive(); connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("cancelled: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		watch, err := fleet.WatchVehicles(ctx, connect.NewRequest(&demov1.WatchVehiclesRequest{Rounds: 100, Interval: durationpb.New(10 * time.Second)}))
		if err == nil {
			for watch.Receive() {
			}
			err = watch.Err()
			_ = watch.Close()
		}
		if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
			t.Errorf("deadline: %v", err)
		}
	})
}

// Bidirectional streams need HTTP/2, and say so.
func TestBidirectionalStreamsOnHTTP1(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	lab := demov1connect.NewLabClient(mcptest.Client(t, 1), url)
	relay := lab.Relay(t.Context())
	_ = relay.Send(&demov1.EchoRequest{})
	_ = relay.CloseRequest()
	if _, err := relay.Receive(); err == nil || !strings.Contains(fmt.Sprint(err), http.StatusText(http.StatusHTTPVersionNotSupported)) {
		t.Errorf("got %v", err)
	}
}

// What the backend said of a unary call leaves with its bytes, in the library's way and in
// the plain one, and redacted only where that is asked for.
func TestStatusOfACallPassesAsItCame(t *testing.T) {
	t.Parallel()
	const said = "line\r\nBearer hunter2hunter2 % ü"
	for _, redacts := range []bool{false, true} {
		url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{RedactTyped: redacts})
		for _, p := range wires() {
			for _, details := range [][]demov1.FailDetail{nil, {demov1.FailDetail_FAIL_DETAIL_HELP}} {
				t.Run(fmt.Sprintf("%s, %d details, redacted %t", p.name, len(details), redacts), func(t *testing.T) {
					t.Parallel()
					lab := demov1connect.NewLabClient(mcptest.Client(t, 2), url, p.options...)
					_, err := lab.Fail(t.Context(), connect.NewRequest(&demov1.FailRequest{
						Code: demov1.FailCode_FAIL_CODE_ABORTED, Message: said, Details: details,
					}))
					var failed *connect.Error
					if !errors.As(err, &failed) || failed.Code() != connect.CodeAborted {
						t.Fatalf("got %v", err)
					}
					if redacts {
						if strings.Contains(failed.Message(), "hunter2") || reason(t, err) != errmap.ToolExecutionFailed {
							t.Errorf("got %q (%s)", failed.Message(), reason(t, err))
						}
						return
					}
					if failed.Message() != said || len(failed.Details()) != len(details) {
						t.Errorf("got %q with %d details", failed.Message(), len(failed.Details()))
					}
				})
			}
		}
	}
}

// A stream takes a place, gives it back, and ends when nothing passes on it.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Limits.MaxStreams = new(int32(1))
		c.Limits.StreamIdleTimeout = durationpb.New(time.Second)
	}})
	url := mount(t, ofRig(rig), connectapi.Options{})
	lab := demov1connect.NewLabClient(mcptest.Client(t, 2), url, connect.WithGRPC())
	first := lab.Relay(t.Context())
	_ = first.Send(&demov1.EchoRequest{Nonce: "n"})
	if _, err := first.Receive(); err != nil {
		t.Fatal(err)
	}
	second := lab.Relay(t.Context())
	_ = second.Send(&demov1.EchoRequest{Nonce: "n"})
	if _, err := second.Receive(); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "--max-streams") {
		t.Errorf("one stream too many: %v", err)
	}
	if _, err := first.Receive(); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "--stream-idle") {
		t.Errorf("an idle stream: %v", err)
	}
	for {
		third := lab.Relay(t.Context())
		_ = third.Send(&demov1.EchoRequest{Nonce: "n"})
		_, err := third.Receive()
		_ = third.CloseRequest()
		_ = third.CloseResponse()
		if err == nil {
			return
		}
		if connect.CodeOf(err) != connect.CodeUnavailable {
			t.Fatal(err)
		}
	}
}

// A stream that is never idle ends all the same, where streams have a maximum time.
func TestAStreamHasItsTime(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Limits.MaxStreamTime = durationpb.New(time.Second) }})
	lab := demov1connect.NewLabClient(mcptest.Client(t, 2), mount(t, ofRig(rig), connectapi.Options{}), connect.WithGRPC())
	relay := lab.Relay(t.Context())
	for {
		_ = relay.Send(&demov1.EchoRequest{Nonce: "n"})
		if _, err := relay.Receive(); err != nil {
			if connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(fmt.Sprint(err), "--max-stream-time") {
				t.Errorf("after its time: %v", err)
			}
			break
		}
	}
	_ = relay.CloseRequest()
	_ = relay.CloseResponse()
}

// A drain leaves streams their grace period, and then ends them between two messages.
func TestADrainEndsStreams(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Limits.DrainGrace = durationpb.New(2 * time.Second) }})
	url := mount(t, ofRig(rig), connectapi.Options{})
	for _, p := range wires() {
		lab := demov1connect.NewLabClient(mcptest.Client(t, 2), url, p.options...)
		relay := lab.Relay(t.Context())
		_ = relay.Send(&demov1.EchoRequest{Nonce: "n"})
		if _, err := relay.Receive(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_, err := relay.Receive()
			if connect.CodeOf(err) != connect.CodeUnavailable || reason(t, err) != errmap.Unavailable {
				t.Errorf("%s: %v (%s)", p.name, err, reason(t, err))
			}
		}()
	}
	rig.End()
}
