// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
)

// EchoMethod and SleepMethod are the RPCs of the demo that are called.
const (
	EchoMethod  = "/outrigger.demo.v1.Lab/Echo"
	SleepMethod = "/outrigger.demo.v1.Lab/Sleep"
)

// maxMessage admits the large payload with room to spare; grpc-go's own default for received messages is 4 MiB.
const maxMessage = 32 << 20

// serveBackend serves the demo's Echo, the desk and the flow with grpc-go, the server that most backends are made with. Checks and logs are left out: a
// backend that costs little makes what is before it visible.
//
// rate, where it is not zero, is how many calls of Echo it answers in a second; others wait.
func serveBackend(ctx context.Context, stdout io.Writer, rate int) error {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	desc := lab
	if rate > 0 {
		desc.Methods = append([]grpc.MethodDesc{{MethodName: "Echo", Handler: limitedEcho(rate)}}, lab.Methods[1:]...)
	}
	server.RegisterService(&desc, nil)
	benchv1.RegisterDeskServer(server, desk.Server{})
	benchv1.RegisterFlowServer(server, flow{})
	reflection.Register(server)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if err := announce(stdout, listener.Addr()); err != nil {
		return err
	}
	if err := server.Serve(listener); err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// lab describes the service of the demo. Echo, Sleep and Fail are there; reflection tells of the others, and calling
// them is UNIMPLEMENTED.
var lab = grpc.ServiceDesc{ //nolint:gochecknoglobals // a table, never written
	ServiceName: "outrigger.demo.v1.Lab",
	Methods: []grpc.MethodDesc{
		{MethodName: "Echo", Handler: echo}, {MethodName: "Sleep", Handler: sleep}, {MethodName: "Fail", Handler: fail},
	},
	Metadata: "outrigger/demo/v1/lab.proto",
}

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := new(demov1.EchoRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	return &demov1.EchoResponse{
		Nonce: req.GetNonce(), Signed: req.GetSigned(), Unsigned: req.GetUnsigned(), Payload: req.GetPayload(),
	}, nil
}

// workers of a backend with a rate answer one call at a time each.
const workers = 8

// limitedEcho answers so many calls in a second.
func limitedEcho(rate int) grpc.MethodHandler {
	places := make(chan struct{}, workers)
	each := time.Second * workers / time.Duration(rate)
	return func(server any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		defer func() { <-places }()
		if err := wait(ctx, each); err != nil {
			return nil, err
		}
		return echo(server, ctx, decode, next)
	}
}

func sleep(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := new(demov1.SleepRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	if err := wait(ctx, req.GetDuration().AsDuration()); err != nil {
		return nil, err
	}
	return &demov1.SleepResponse{Slept: req.GetDuration(), Nonce: req.GetNonce()}, nil
}

func fail(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	req := new(demov1.FailRequest)
	if err := decode(req); err != nil {
		return nil, err
	}
	// The demo numbers its codes as gRPC does.
	return nil, status.Error(codes.Code(req.GetCode()), req.GetMessage())
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
