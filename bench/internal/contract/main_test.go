// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bench/internal/peer"
)

// TestMain lets the test binary be the backend that the measurements start.
func TestMain(m *testing.M) {
	if played, err := peer.Main(os.Args[1:], os.Stdout); played {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}
