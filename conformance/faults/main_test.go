// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/conformance/faults"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// buildTimeout bounds the build of the sidecar, from an empty cache.
const buildTimeout = 8 * time.Minute

// binary is the sidecar. TestMain writes it before the first test starts.
var binary string

func TestMain(m *testing.M) {
	if faults.IsBackend() {
		if err := faults.RunBackend(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	if binary, err = sidecar.Build(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy traces to standard error, whatever its own logger
	code := m.Run()
	// Toxiproxy leaves the goroutines of connections behind that it cut.
	err = goleak.Find(
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	)
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
