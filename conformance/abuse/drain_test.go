// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

const (
	// grace is the default of --grace.
	grace = 25 * time.Second
	// traffic is how long callers have been at it when the sidecar gets SIGTERM.
	traffic = 400 * time.Millisecond
)

// rounds is how often a row is tried: all of them for OUTRIGGER_FULL=1.
func rounds(sample, all int) int {
	if os.Getenv("OUTRIGGER_FULL") == "1" {
		return all
	}
	return sample
}

// TestSIGTERMNeverHangs ends the sidecar under eight HTTP/1.1 callers that reconnect
// for each request.
func TestSIGTERMNeverHangs(t *testing.T) {
	t.Parallel()
	for i := range rounds(4, 500) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			drained(t, crew{{8, "fresh", reconnecting}})
		})
	}
}

// TestDrainLosesNoCall ends the sidecar under fifty callers of every kind. Each of
// their calls gets an answer, until connecting is refused.
func TestDrainLosesNoCall(t *testing.T) {
	t.Parallel()
	for i := range rounds(3, 200) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			drained(t, crew{
				{12, "kept-alive", keptAlive},
				{4, "kept-alive, with pauses", pausing},
				{10, "fresh", reconnecting},
				{4, "connected early", hesitant},
				{4, "HTTP/2", multiplexed},
				{4, "HTTP/2 streams", streams},
				{6, "gRPC", grpcUnary},
				{3, "gRPC streams", grpcStreams},
				{3, "MCP streams", mcpStreams},
			})
		})
	}
}

// crew is who calls: how many of which kind.
type crew []struct {
	n    int
	kind string
	call calling
}

// calling calls until connecting is refused, which it returns as nil. Every other
// error is a call without an answer.
type calling func(ctx context.Context, addr string, seen *callStats) error

// callStats counts calls.
type callStats struct {
	mu                sync.Mutex
	answered, refused int
}

func (s *callStats) count(unavailable bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered++
	if unavailable {
		s.refused++
	}
}

// drained runs a sidecar under callers and ends it.
func drained(t *testing.T, crew crew) {
	t.Helper()
	server := sidecar.ServeReady(t, binary, "--demo")
	ctx, cancel := context.WithTimeout(t.Context(), 2*grace)
	defer cancel()
	var seen callStats
	var callers sync.WaitGroup
	for _, part := range crew {
		for range part.n {
			callers.Go(func() {
				if err := part.call(ctx, server.Addr(), &seen); err != nil {
					t.Errorf("%s: %v", part.kind, err)
				}
			})
		}
	}
	timer := time.NewTimer(traffic)
	defer timer.Stop()
	<-timer.C
	told := time.Now()
	server.Signal(t, syscall.SIGTERM)
	select {
	case <-server.Done():
	case <-ctx.Done():
		t.Fatal("the process hangs")
	}
	took := time.Since(told)
	callers.Wait()
	if took > grace {
		t.Errorf("the drain took %v", took)
	}
	t.Logf("%d calls answered, %d of them UNAVAILABLE; the drain took %v", seen.answered, seen.refused, took.Round(time.Millisecond))
}
