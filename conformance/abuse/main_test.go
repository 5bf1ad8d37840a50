// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"os"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// binary is the sidecar. TestMain writes it before the first test starts.
var binary string

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(_ context.Context, built, _ string) error {
		binary = built
		return nil
	}))
}
