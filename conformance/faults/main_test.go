// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/conformance/faults"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

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
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy traces to standard error, whatever its own logger
	os.Exit(sidecar.Main(m, func(_ context.Context, built, _ string) error {
		binary = built
		return nil
	},
		// Toxiproxy leaves the goroutines of connections behind that it cut.
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
	))
}
