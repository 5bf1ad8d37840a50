// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
)

// Kinds of backends in a fleet.
const (
	Sound = "sound"
	// Slow answers Echo after a minute.
	Slow = "slow"
	// Changing offers the desk besides the demo in every other second.
	Changing = "changing"
	// Refusing takes no call, and tells no descriptors.
	Refusing = "refusing"
)

const (
	slowAnswer  = time.Minute
	changeEvery = time.Second
)

// serveFleet serves a backend of each kind in one process, and announces all addresses in one line: fifty processes would need more
// memory than what is measured.
func serveFleet(ctx context.Context, stdout io.Writer, kinds []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var addrs []string
	ended := make(chan error, len(kinds))
	for _, kind := range kinds {
		server, err := member(kind)
		if err != nil {
			return err
		}
		var listen net.ListenConfig
		listener, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("fleet: %w", err)
		}
		addrs = append(addrs, listener.Addr().String())
		defer context.AfterFunc(ctx, server.Stop)()
		go func() { ended <- server.Serve(listener) }()
	}
	if _, err := fmt.Fprintln(stdout, strings.Join(addrs, " ")); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	for range kinds {
		err := <-ended
		cancel()
		if err != nil {
			return fmt.Errorf("fleet: %w", err)
		}
	}
	return nil
}

func member(kind string) (*grpc.Server, error) {
	var opts []grpc.ServerOption
	desc := lab
	switch kind {
	case Sound, Changing:
	case Slow:
		desc.Methods = append([]grpc.MethodDesc{{MethodName: "Echo", Handler: func(server any, ctx context.Context, decode func(any) error, next grpc.UnaryServerInterceptor) (any, error) {
			if err := wait(ctx, slowAnswer); err != nil {
				return nil, err
			}
			return echo(server, ctx, decode, next)
		}}}, lab.Methods[1:]...)
	case Refusing:
		opts = append(opts, grpc.InTapHandle(func(ctx context.Context, _ *tap.Info) (context.Context, error) {
			return ctx, status.Error(codes.Unauthenticated, "no caller is known here")
		}))
	default:
		return nil, fmt.Errorf("%w: serve-fleet: %q is no kind of backend", ErrUsage, kind)
	}
	server := grpc.NewServer(opts...)
	server.RegisterService(&desc, nil)
	if kind != Changing {
		reflection.Register(server)
		return server, nil
	}
	benchv1.RegisterDeskServer(server, desk.Server{})
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{Services: changing{server, time.Now()}}))
	return server, nil
}

// changing hides the desk in every other second.
type changing struct {
	server *grpc.Server
	since  time.Time
}

func (c changing) GetServiceInfo() map[string]grpc.ServiceInfo {
	all := c.server.GetServiceInfo()
	if time.Since(c.since)/changeEvery%2 == 0 {
		delete(all, benchv1.Desk_ServiceDesc.ServiceName)
	}
	return all
}
