// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"os"
	"testing"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// built is what TestMain made; it is written before the first test starts.
var built struct {
	// binary is the sidecar, examples the directory of the example servers.
	binary, examples string
}

func TestMain(m *testing.M) {
	os.Exit(sidecar.Main(m, func(ctx context.Context, binary, dir string) error {
		built.binary, built.examples = binary, dir
		return peer.BuildExamples(ctx, dir)
	}))
}

// serve starts the sidecar and waits until it is ready.
func serve(tb testing.TB, args ...string) *sidecar.Server {
	tb.Helper()
	return sidecar.ServeReady(tb, built.binary, args...)
}

// target is what agents of any edge call: s over the network, and processes
// with args over stdio.
func target(s *sidecar.Server, args ...string) caller.Target {
	return caller.Target{Addr: s.Addr(), Binary: built.binary, Args: args}
}

// Procedures of the Lab and the tools that they are.
const (
	toolEcho, procEcho       = "lab.echo", "/outrigger.demo.v1.Lab/Echo"
	toolSleep, procSleep     = "lab.sleep", "/outrigger.demo.v1.Lab/Sleep"
	toolFail, procFail       = "lab.fail", "/outrigger.demo.v1.Lab/Fail"
	toolInspect, procInspect = "lab.inspect", "/outrigger.demo.v1.Lab/Inspect"
)
