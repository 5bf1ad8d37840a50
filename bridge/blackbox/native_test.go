// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// The faults of a backend that speaks the tool API are told apart as it
// is with any other, whether a call is one answer or a stream of events.
func TestFaultsOfABackendThatSpeaksTheToolAPI(t *testing.T) {
	t.Parallel()
	outcome := func(result *outriggerv1.ToolResult) *outriggerv1.ToolOutcome {
		return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
	}
	waits := func(ctx context.Context, _ *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	cases := []struct {
		name string
		tool mcptest.NativeTool
		want string
	}{
		{"slow", mcptest.NativeTool{Run: waits}, "TIMEOUT"},
		{"no outcome", mcptest.NativeTool{Outcome: &outriggerv1.ToolOutcome{}}, "INVALID_TOOL_OUTPUT"},
		{"no such status", mcptest.NativeTool{Outcome: outcome(&outriggerv1.ToolResult{Status: "fine"})}, "INVALID_TOOL_OUTPUT"},
		{"a failure without an error", mcptest.NativeTool{Outcome: outcome(&outriggerv1.ToolResult{Status: "failure"})}, "INVALID_TOOL_OUTPUT"},
		{"data that are no JSON", mcptest.NativeTool{Outcome: mcptest.Success(`{"a":`)}, "INVALID_TOOL_OUTPUT"},
		{"data with a name twice", mcptest.NativeTool{Outcome: mcptest.Success(`{"a":1,"a":2}`)}, "INVALID_TOOL_OUTPUT"},
		{"an unexpected task", mcptest.NativeTool{Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{
			Task: mcptest.Desk().Tasks["printing"][0],
		}}}, "INVALID_TOOL_OUTPUT"},
		{"too much", mcptest.NativeTool{Outcome: mcptest.Success(`"` + strings.Repeat("x", 2000) + `"`)}, "RESOURCE_EXHAUSTED"},
		{"an unknown status of the RPC", mcptest.NativeTool{Err: connect.NewError(connect.CodeUnknown, errors.New("x"))}, "TOOL_EXECUTION_FAILED"},
		{"a panic of the backend", mcptest.NativeTool{Run: func(context.Context, *outriggerv1.ToolCall, func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			panic("the backend's own")
		}}, "TRANSPORT_ERROR"},
	}
	var tools []mcptest.NativeTool
	for i, tc := range cases {
		tc.tool.Declared = mcptest.JSONTool(fmt.Sprintf("faulty_%d", i), "Is faulty.", mcptest.NoArguments, "")
		if tc.want == "TIMEOUT" {
			tc.tool.Declared.Execution = &outriggerv1.ToolExecution{Timeout: durationpb.New(100 * time.Millisecond)}
		}
		tools = append(tools, tc.tool)
	}
	_, ann := deskOf(t, mcptest.Options{Configure: func(c *configv1.Config) { c.Limits.MaxResultBytes = proto.Int64(1 << 10) }}, tools...)
	ann.heard = func(string) {}
	for i, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, more := range []string{"", `,"progressToken":1`} {
				got := ann.sendRaw(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"faulty_%d",%s%s}}}`, i, strings.TrimSuffix(modernMeta, "}"), more))
				if got.toolError() != tc.want || got.status != 200 || string(got.Result["isError"]) != "true" {
					t.Errorf("with %q: %d %s, want %s", more, got.status, got.raw, tc.want)
				}
			}
		})
	}
}

// A backend that is gone is UNAVAILABLE, one that goes in mid-call is another
// thing: the call may have had its effect.
// A number that JSON does not have costs nothing else of the result, and is named.
func TestDataWithoutAFormInJSON(t *testing.T) {
	t.Parallel()
	data := structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"level": structpb.NewNumberValue(math.NaN()), "kept": structpb.NewNumberValue(7),
	}})
	_, ann := deskOf(t, mcptest.Options{}, mcptest.NativeTool{
		Declared: mcptest.JSONTool("odd", "Is odd.", mcptest.NoArguments, ""),
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
			Status: "success", Explanation: "Read the level.", DataForm: &outriggerv1.ToolResult_Data{Data: data},
		}}},
	})
	got := ann.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"odd",` + modernMeta + `}}`)
	if data := string(got.Result["structuredContent"]); data != `{"kept":7,"level":"NaN"}` {
		t.Errorf("got %s of %s", data, got.raw)
	}
	if want := "Read the level. /data/level is a value that JSON does not have, shown as a word."; !strings.Contains(got.raw, want) {
		t.Errorf("%s does not say %q", got.raw, want)
	}
}

func TestABackendThatSpeaksTheToolAPIGoesAway(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 1)
	rig, ann := deskOf(t, mcptest.Options{}, mcptest.NativeTool{
		Declared: mcptest.JSONTool("wait", "Wait.", mcptest.NoArguments, ""),
		Run: func(ctx context.Context, _ *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	go func() {
		<-entered
		rig.Native.Cut()
	}()
	if got := ann.send("tools/call", `"name":"wait"`); got.toolError() != "TRANSPORT_ERROR" || !strings.Contains(got.raw, `"retryable":false`) {
		t.Errorf("in mid-call: %s", got.raw)
	}
	// A connection that was idle when the backend cut it may not be known to be dead yet. Each such costs one call, of
	// which the outcome is unknown, and is not used again.
	send := func(method, params string) modernAnswer {
		got := ann.send(method, params)
		for range 8 {
			if got.toolError() != "TRANSPORT_ERROR" && (got.Error == nil || got.Error.Data.Code != "TRANSPORT_ERROR") {
				break
			}
			got = ann.send(method, params)
		}
		return got
	}
	if got := send("tools/call", `"name":"count"`); got.Result["structuredContent"] == nil {
		t.Errorf("on a new connection: %s", got.raw)
	}
	rig.Native.Stop()
	for method, params := range map[string]string{
		"tools/call": `"name":"count"`, "resources/read": `"uri":"desk://notes/1"`, "resources/list": ``, "prompts/get": `"name":"greet","arguments":{"name":"Ann"}`,
		"completion/complete": `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":""}`,
	} {
		got := send(method, params)
		if got.toolError() != "UNAVAILABLE" && (got.Error == nil || got.Error.Data.Code != "UNAVAILABLE" || got.status != 503) {
			t.Errorf("%s: %d %s", method, got.status, got.raw)
		}
	}
	// What needs no backend is still there.
	if got := ann.send("tools/list", ""); len(got.names("tools")) == 0 {
		t.Errorf("the last good catalog: %s", got.raw)
	}
}

// A backend without a stream of events is called without one, which
// changes nothing else.
func TestABackendWithoutEventsIsCalledWithoutThem(t *testing.T) {
	t.Parallel()
	backend := mcptest.Desk()
	backend.NoStream = true
	rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true})
	c := modernClient{t: t, bridge: rig, heard: func(message string) { t.Errorf("heard %s", message) }}
	for range 2 {
		got := c.sendRaw(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sort",` + strings.TrimSuffix(modernMeta, "}") + `,"progressToken":1}}}`)
		if !strings.Contains(got.raw, "Sorted.") {
			t.Errorf("got %s", got.raw)
		}
	}
	if n := ranTimes(backend, "sort"); n != 2 {
		t.Errorf("the tool ran %d times", n)
	}
}

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
