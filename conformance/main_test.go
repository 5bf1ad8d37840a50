// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// buildTimeout bounds all builds together: from an empty cache, the race
// detector's variant of every package has to be compiled.
const buildTimeout = 8 * time.Minute

// built is what TestMain made; it is written before the first test starts.
var built struct {
	// binary is the sidecar, examples the directory of the example servers.
	binary, examples string
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "conformance")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	if built.binary, err = sidecar.Build(ctx, dir); err == nil {
		built.examples, err = dir, peer.BuildExamples(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
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
