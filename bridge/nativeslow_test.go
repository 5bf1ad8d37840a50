// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// One tool of a backend that speaks the tool API always runs out of time. It is held
// back for its own callers; all other tools and questions go on, and so does the
// backend.
func TestOneSlowToolOfANativeBackendClosesNoOther(t *testing.T) {
	t.Parallel()
	const minCalls = 3
	slow := mcptest.NativeTool{
		Declared: mcptest.JSONTool("slow", "Is slow.", mcptest.NoArguments, ""),
		Run: func(ctx context.Context, _ *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}
	slow.Declared.Execution = &outriggerv1.ToolExecution{Timeout: durationpb.New(50 * time.Millisecond)}
	guard := resilience.New(resilience.Options{MinCalls: minCalls, Window: time.Minute, OpenFor: time.Minute})
	rig, ann := deskOf(t, bridge.Options{Guard: guard}, slow)
	ann.heard = func(string) {}
	for i := range minCalls {
		if got := ann.send("tools/call", `"name":"slow"`); got.toolError() != "TIMEOUT" {
			t.Fatalf("call %d: %s, want TIMEOUT", i, got.raw)
		}
	}
	if got := ann.send("tools/call", `"name":"slow"`); got.toolError() != "UNAVAILABLE" || !strings.Contains(got.raw, "circuit breaker of desk.slow open") {
		t.Errorf("the slow tool: %s, want UNAVAILABLE that names its breaker", got.raw)
	}
	for range 2 * minCalls {
		if got := ann.send("tools/call", `"name":"count"`); got.Result["structuredContent"] == nil {
			t.Fatalf("another tool: %s", got.raw)
		}
		if got := ann.send("resources/read", `"uri":"desk://notes/1"`); got.Error != nil {
			t.Fatalf("a question: %s", got.raw)
		}
	}
	if s := guard.Stats(); s.Breaker != resilience.Closed || s.ToolsOpened != 1 {
		t.Errorf("the backend's breaker is %v and %d tools were held back, want closed and 1", s.Breaker, s.ToolsOpened)
	}
	// On a busy machine a call can run out of its 50 ms before it reaches the backend.
	if n := ranTimes(rig.Native, "slow"); n > minCalls {
		t.Errorf("the slow tool ran %d times, want at most %d", n, minCalls)
	}
}
