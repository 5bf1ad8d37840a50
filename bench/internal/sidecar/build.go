// SPDX-License-Identifier: Apache-2.0

// Package sidecar builds the sidecar's binary and starts it, and tells how long it takes to be ready.
package sidecar

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build makes a stripped, static binary of the module in root, as a release would, and returns its path inside dir.
func Build(ctx context.Context, root, dir string) (string, error) {
	out := filepath.Join(dir, "sidecar")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", out, "./cmd/sidecar") //nolint:gosec // a folder of the benchmark's own
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	return out, nil
}

// Root returns the folder of the main module, seen from the folder of this one, where `go run .` and `go test` start.
func Root(dir string) (string, error) {
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "cmd", "sidecar")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the main module: cmd/sidecar: %w", os.ErrNotExist)
		}
	}
}
