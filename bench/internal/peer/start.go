// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/outrigger-mcp/outrigger/bench/internal/proc"
)

// Start starts this executable in a role and waits for the address that it announces.
func Start(ctx context.Context, dir string, args ...string) (*proc.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("own executable: %w", err)
	}
	announced := make(chan string, 1)
	p, err := proc.Start(ctx, proc.Spec{Path: self, Args: args, Dir: dir, OnStdout: func(line []byte) {
		select {
		case announced <- string(line):
		default: // only the first line is an address
		}
	}})
	if err != nil {
		return nil, "", err
	}
	select {
	case addr := <-announced:
		return p, addr, nil
	case <-p.Done():
		return nil, "", p.Failure(args[0])
	case <-ctx.Done():
		return nil, "", errors.Join(context.Cause(ctx), p.Stop())
	}
}
