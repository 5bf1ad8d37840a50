// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// buildTimeout bounds the build of the sidecar, from an empty cache.
const buildTimeout = 8 * time.Minute

// binary is the sidecar. TestMain writes it before the first test starts.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "abuse")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// A binary without the race detector leaves more of the machine to the attackers.
	if binary = os.Getenv("OUTRIGGER_TEST_BINARY"); binary == "" {
		ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
		defer cancel()
		if binary, err = sidecar.Build(ctx, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
