// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
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
	rig, ann := deskOf(t, mcptest.Options{Configure: func(c *configv1.Config) {
		b := c.Resilience.Breaker
		b.MinCalls, b.Window, b.OpenFor = proto.Int32(minCalls), durationpb.New(time.Minute), durationpb.New(time.Minute)
	}}, slow)
	ann.heard = func(string) {}
	// A call during which this process stood still, on a busy machine, says nothing about the tool.
	calls := 0
	testkit.Until(t, "the slow tool is held back", func() bool {
		got := ann.send("tools/call", `"name":"slow"`)
		if calls++; got.toolError() == "TIMEOUT" {
			return false
		}
		if calls <= minCalls || got.toolError() != "UNAVAILABLE" || !strings.Contains(got.raw, "circuit breaker of desk.slow open") {
			t.Fatalf("call %d: %s, want %d of TIMEOUT, then UNAVAILABLE that names its breaker", calls, got.raw, minCalls)
		}
		return true
	})
	for range 2 * minCalls {
		if got := ann.send("tools/call", `"name":"count"`); got.Result["structuredContent"] == nil {
			t.Fatalf("another tool: %s", got.raw)
		}
		if got := ann.send("resources/read", `"uri":"desk://notes/1"`); got.Error != nil {
			t.Fatalf("a question: %s", got.raw)
		}
	}
	_, ready := send(t, mcptest.Client(t, 1), http.MethodGet, rig.Operators(t)+"/readyz?verbose", "")
	for text, n := range map[string]int{"circuit breaker closed, opened 0 times": 1, "circuit breaker open: calls time out": 1, "tool desk.slow": 1} {
		if got := strings.Count(string(ready), text); got != n {
			t.Errorf("%q is there %d times, want %d:\n%s", text, got, n, ready)
		}
	}
	// On a busy machine a call can run out of its 50 ms before it reaches the backend.
	if n := ranTimes(rig.Native, "slow"); n >= calls {
		t.Errorf("the slow tool ran %d times in %d calls, the last of which was held back", n, calls)
	}
}
