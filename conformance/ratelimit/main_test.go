// SPDX-License-Identifier: Apache-2.0

package ratelimit_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// built is what TestMain made; it is written before the first test starts.
var built struct {
	// binary is the sidecar, service the rate limit service.
	binary, service string
}

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(ctx context.Context, binary, dir string) error {
		built.binary, built.service = binary, filepath.Join(dir, "ratelimit")
		return buildService(ctx, built.service)
	}))
}

// buildService compiles the service's own program.
func buildService(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/envoyproxy/ratelimit/src/service_cmd")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the rate limit service: %w\n%s", err, text)
	}
	return nil
}
