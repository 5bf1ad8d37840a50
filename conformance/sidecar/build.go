// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Build compiles the sidecar with the race detector into dir and returns the
// binary's path. The working directory must be inside this module, or another
// one that requires the sidecar's.
func Build(ctx context.Context, dir string) (string, error) {
	return build(ctx, filepath.Join(dir, "sidecar"), "-race")
}

// BuildPlain is Build without the race detector, for what is measured.
func BuildPlain(ctx context.Context, dir string) (string, error) {
	return build(ctx, filepath.Join(dir, "sidecar-plain"))
}

func build(ctx context.Context, out string, flags ...string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/outrigger-mcp/outrigger").Output()
	if err != nil {
		return "", fmt.Errorf("build the sidecar: where its module is: %w", err)
	}
	args := append(append([]string{"build"}, flags...), "-o", out, "./cmd/sidecar")
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // out is a directory of the test run
	cmd.Dir = strings.TrimSpace(string(root))
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the sidecar: %w\n%s", err, text)
	}
	if _, err := os.Stat(out); err != nil {
		return "", fmt.Errorf("build the sidecar: %w", err)
	}
	return out, nil
}
