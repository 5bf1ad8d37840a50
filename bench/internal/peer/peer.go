// SPDX-License-Identifier: Apache-2.0

// Package peer holds the processes that stand around the sidecar in a measurement: the backend that is called, the empty
// proxy that shows what net/http and grpc-go cost when nothing is done between them, and the servers that people write by
// hand. The benchmark starts itself
// again in these roles, so that the CPU time of each is counted by the kernel, apart from the load generator's.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/outrigger-mcp/outrigger/bench/internal/subject"
)

// Roles, the hidden first argument of the executable.
const (
	RoleBackend = "serve-backend"
	RoleProxy   = "serve-proxy"
	RoleSubject = "serve-subject"
	RoleFloor   = "serve-floor"
	RoleRefusal = "serve-refusal"
	// RoleGRPCProxy is the empty proxy between gRPC and gRPC.
	RoleGRPCProxy = "serve-grpc-proxy"
	// RoleStreamProxy is the empty proxy of streams.
	RoleStreamProxy = "serve-stream-proxy"
	// RoleSink takes exports of telemetry and keeps nothing.
	RoleSink = "serve-sink"
	// RoleFleet is a backend of each kind that its arguments name.
	RoleFleet = "serve-fleet"
)

// ErrUsage tells that a role lacks its arguments.
var ErrUsage = errors.New("serve-backend takes at most a rate, serve-fleet needs kinds of backends, serve-proxy needs the backend's address and methods, serve-grpc-proxy the backend's address and a method, serve-stream-proxy the backend's address, serve-subject a kind and the backend's address, serve-floor all three")

// Main plays the role that args name, until SIGTERM, and reports whether they named one. It writes the address that it
// listens on as one line to stdout.
func Main(args []string, stdout io.Writer) (bool, error) {
	if len(args) == 0 {
		return false, nil
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch args[0] {
	case RoleBackend:
		rate := 0
		if len(args) > 1 {
			var err error
			if rate, err = strconv.Atoi(args[1]); err != nil || rate < 1 || len(args) > 2 {
				return true, ErrUsage
			}
		}
		return true, serveBackend(ctx, stdout, rate)
	case RoleRefusal:
		return true, serveRefusal(ctx, stdout)
	case RoleSink:
		return true, serveSink(ctx, stdout)
	case RoleFleet:
		return true, serveFleet(ctx, stdout, args[1:])
	case RoleProxy:
		if len(args) < 3 {
			return true, ErrUsage
		}
		return true, serveProxy(ctx, stdout, args[1], args[2:]...)
	case RoleGRPCProxy:
		if len(args) != 3 {
			return true, ErrUsage
		}
		return true, serveGRPCProxy(ctx, stdout, args[1], args[2])
	case RoleStreamProxy:
		if len(args) != 2 {
			return true, ErrUsage
		}
		return true, serveStreamProxy(ctx, stdout, args[1])
	case RoleFloor:
		if len(args) != 4 {
			return true, ErrUsage
		}
		return true, serveFloor(ctx, stdout, args[1], args[2], args[3])
	case RoleSubject:
		if len(args) != 3 {
			return true, ErrUsage
		}
		return true, subject.Serve(ctx, args[1], args[2], func(addr net.Addr) error { return announce(stdout, addr) })
	}
	return false, nil
}

func announce(stdout io.Writer, addr fmt.Stringer) error {
	if _, err := fmt.Fprintln(stdout, addr); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}
