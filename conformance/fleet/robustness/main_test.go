// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

var (
	duration = flag.Duration("duration", 20*time.Second, "`time` during which faults are injected")
	seed     = flag.Int64("seed", 0, "`number` that the schedule of faults is drawn from; 0 draws one")
	only     = flag.String("faults", "", "`names` of the faults to inject, separated by commas; empty is all")
	out      = flag.String("out", "", "`folder` for the histories of a run that fails; empty is one in the folder for temporary files")
	sessions = flag.String("sessions", "any", "`where` legacy sessions are used: at any replica; at one, which takes no faults of replicas; or none")
)

// built is what TestMain made; it is written before the first test starts.
var built struct {
	sidecar, nats string
}

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(ctx context.Context, binary, dir string) error {
		built.sidecar, built.nats = binary, filepath.Join(dir, "nats-server")
		cmd := exec.CommandContext(ctx, "go", "build", "-o", built.nats, "github.com/nats-io/nats-server/v2")
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the NATS server: %w\n%s", err, text)
		}
		return nil
	}, proxies()...))
}

// proxies are goroutines that toxiproxy leaves of connections that end while a toxic is added or removed.
func proxies() []goleak.Option {
	const module = "github.com/Shopify/toxiproxy/v2"
	return []goleak.Option{
		goleak.IgnoreAnyFunction(module + "/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction(module + ".(*ToxicLink).read"),
		goleak.IgnoreAnyFunction(module + ".(*ToxicLink).write"),
	}
}
