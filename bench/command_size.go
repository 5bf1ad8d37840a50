// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/outrigger-mcp/outrigger/bench/internal/sidecar"
	"github.com/outrigger-mcp/outrigger/bench/internal/size"
)

// commandSize prints what the binary consists of, and fails if it is above its limit.
func commandSize(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	if len(args) > 0 {
		return refusal(errors.New("bench size has no flags"), stderr)
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	root, err := sidecar.Root(here)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "size")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	total, shares, err := size.Of(ctx, root, dir)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(stdout, size.Table(total, shares)); err != nil {
		return err
	}
	if total > size.Limit {
		return fmt.Errorf("the stripped binary has %d bytes, above the limit of %d", total, size.Limit)
	}
	return nil
}
