// SPDX-License-Identifier: Apache-2.0

// Package peer holds the processes that stand around the sidecar in a measurement: the backend that is called, and the
// empty proxy that shows what net/http and grpc-go cost when nothing is done between them. The benchmark starts itself
// again in these roles, so that the CPU time of each is counted by the kernel, apart from the load generator's.
package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"syscall"
)

// Roles, the hidden first argument of the executable.
const (
	RoleBackend = "serve-backend"
	RoleProxy   = "serve-proxy"
)

// ErrUsage tells that a role lacks its argument.
var ErrUsage = errors.New("serve-proxy needs the backend's address")

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
		return true, serveBackend(ctx, stdout)
	case RoleProxy:
		if len(args) != 2 {
			return true, ErrUsage
		}
		return true, serveProxy(ctx, stdout, args[1])
	}
	return false, nil
}

func announce(stdout io.Writer, addr fmt.Stringer) error {
	if _, err := fmt.Fprintln(stdout, addr); err != nil {
		return fmt.Errorf("announce: %w", err)
	}
	return nil
}
