// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/peer"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// stoppedFor is longer than everything after which a silent connection is given up
// by new calls, and than the time for a dial.
const stoppedFor = 6 * time.Second

// TestASidecarThatWasStoppedLosesNothing stops the sidecar in the middle of its work,
// as a debugger, a virtual machine or a machine without a processor to spare does.
// What the backend said meanwhile waits in the kernel; every call whose time is not
// over has its own answer.
func TestASidecarThatWasStoppedLosesNothing(t *testing.T) {
	t.Parallel()
	demo := peer.Demo(t)
	server := serve(t, "--backend", demo.URL)
	for _, edge := range caller.Edges() {
		if edge.Name != "rpc-h2c" && edge.Name != "tool-grpc-go" {
			continue
		}
		t.Run(edge.Name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*testkit.Limit())
			defer cancel()
			var running sync.WaitGroup
			var rounds atomic.Int64
			over := make(chan struct{})
			for i := range 16 {
				agent := edge.Dial(t, target(server))
				running.Go(func() {
					defer agent.Close()
					for round := 0; ; round++ {
						select {
						case <-over:
							return
						default:
						}
						calls := make([]caller.Call, 10)
						wants := make([]echoed, len(calls))
						for j := range calls {
							calls[j], wants[j] = echoCall(edge, edge.IDs == caller.AnyIDs, i+1, j)
						}
						for j, answer := range agent.CallAll(ctx, calls) {
							checkEcho(t, edge, calls[j], wants[j], answer)
						}
						rounds.Add(1)
					}
				})
			}
			for rounds.Load() < 32 { // all are at work
				time.Sleep(10 * time.Millisecond)
			}
			server.Signal(t, syscall.SIGSTOP)
			time.Sleep(stoppedFor) // the fault itself
			server.Signal(t, syscall.SIGCONT)
			for now := rounds.Load(); rounds.Load() < now+64 && ctx.Err() == nil; {
				time.Sleep(10 * time.Millisecond)
			}
			close(over)
			running.Wait()
		})
	}
}
