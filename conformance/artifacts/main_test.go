// SPDX-License-Identifier: Apache-2.0

package artifacts_test

import (
	"context"
	"os"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// built is what TestMain made; it is written before the first test starts.
var built struct{ binary string }

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(_ context.Context, binary, _ string) error {
		built.binary = binary
		return nil
	}))
}
