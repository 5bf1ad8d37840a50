// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstats "google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// isTool holds for calls of what the service is there for.
func isTool(info *grpcstats.RPCTagInfo) bool {
	return strings.HasPrefix(info.FullMethodName, "/outrigger.demo.v1.")
}

// handler serves what tests call.
type handler struct {
	last atomic.Pointer[metadata.MD]
	// asleep gets an element when a call of Sleep begins, givenUp one when its caller gave it up.
	asleep, givenUp chan struct{}
}

func newHandler() *handler {
	const most = 1024 // calls of one test
	return &handler{asleep: make(chan struct{}, most), givenUp: make(chan struct{}, most)}
}

// Asleep has an element for each call of Sleep that began.
func (h *handler) Asleep() <-chan struct{} { return h.asleep }

// GivenUp has an element for each call of Sleep that was given up.
func (h *handler) GivenUp() <-chan struct{} { return h.givenUp }

// Metadata is that of the last call.
func (h *handler) Metadata() metadata.MD {
	if md := h.last.Load(); md != nil {
		return *md
	}
	return nil
}

func (h *handler) echo(_ context.Context, req *demov1.EchoRequest) (*demov1.EchoResponse, error) {
	return &demov1.EchoResponse{Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload()}, nil
}

func (h *handler) sleep(ctx context.Context, req *demov1.SleepRequest) (*demov1.SleepResponse, error) {
	note(h.asleep)
	timer := time.NewTimer(req.GetDuration().AsDuration())
	defer timer.Stop()
	select {
	case <-timer.C:
		return &demov1.SleepResponse{Slept: durationpb.New(req.GetDuration().AsDuration()), Nonce: req.GetNonce()}, nil
	case <-ctx.Done():
		note(h.givenUp)
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func (h *handler) fail(_ context.Context, req *demov1.FailRequest) (*demov1.FailResponse, error) {
	return nil, status.Error(codes.Code(req.GetCode()), "as asked for")
}

func (h *handler) cancelOrder(context.Context, *demov1.CancelOrderRequest) (*demov1.CancelOrderResponse, error) {
	return &demov1.CancelOrderResponse{}, nil
}

// watch sends one update for each vehicle and round, and waits between rounds.
func (h *handler) watch(req *demov1.WatchVehiclesRequest, stream grpc.ServerStream) error {
	for round := range req.GetRounds() {
		if interval := req.GetInterval().AsDuration(); round > 0 && interval > 0 {
			select {
			case <-time.After(interval):
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			}
		}
		for _, id := range req.GetVehicleIds() {
			if err := stream.SendMsg(&demov1.VehicleUpdate{Round: round + 1, VehicleId: id}); err != nil {
				return err
			}
		}
	}
	return nil
}

// unary adapts a function to grpc-go's table of methods.
func unary[Req, Res any](name string, call func(*handler, context.Context, *Req) (*Res, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		req := new(Req)
		if err := decode(req); err != nil {
			return nil, err
		}
		h, ok := srv.(*handler)
		if !ok {
			return nil, status.Errorf(codes.Internal, "the server is a %T", srv)
		}
		md, _ := metadata.FromIncomingContext(ctx)
		h.last.Store(&md)
		return call(h, ctx, req)
	}}
}

// note never waits: a test that does not read them has no need of them.
func note(events chan struct{}) {
	select {
	case events <- struct{}{}:
	default:
	}
}

func lab() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "outrigger.demo.v1.Lab", HandlerType: (*any)(nil), Metadata: "outrigger/demo/v1/lab.proto",
		Methods: []grpc.MethodDesc{unary("Echo", (*handler).echo), unary("Sleep", (*handler).sleep), unary("Fail", (*handler).fail)},
	}
}

func fleet() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: "outrigger.demo.v1.Fleet", HandlerType: (*any)(nil), Metadata: "outrigger/demo/v1/fleet.proto",
		Methods: []grpc.MethodDesc{unary("CancelOrder", (*handler).cancelOrder)},
		Streams: []grpc.StreamDesc{{StreamName: "WatchVehicles", ServerStreams: true, Handler: func(srv any, stream grpc.ServerStream) error {
			h, ok := srv.(*handler)
			req := &demov1.WatchVehiclesRequest{}
			if err := stream.RecvMsg(req); err != nil || !ok {
				return status.Errorf(codes.Internal, "the server is a %T: %v", srv, err)
			}
			return h.watch(req, stream)
		}}},
	}
}
