// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// stream runs a call to its end and tells what was heard, event by event in a few
// letters, and what it ended with.
func stream(t *testing.T, client outriggerv1connect.ToolServiceClient, call *outriggerv1.ToolCall) ([]string, *outriggerv1.ToolOutcome, error) {
	t.Helper()
	events, err := client.CallToolStream(t.Context(), connect.NewRequest(call))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	var heard []string
	var outcome *outriggerv1.ToolOutcome
	for events.Receive() {
		if outcome != nil {
			t.Errorf("after the outcome: %v", events.Msg())
		}
		heard = append(heard, brief(events.Msg()))
		outcome = events.Msg().GetOutcome()
	}
	return heard, outcome, events.Err()
}

func brief(e *outriggerv1.ToolEvent) string {
	switch e := e.GetEvent().(type) {
	case *outriggerv1.ToolEvent_Progress:
		return fmt.Sprintf("progress %v/%v %s", e.Progress.GetProgress(), e.Progress.GetTotal(), e.Progress.GetMessage())
	case *outriggerv1.ToolEvent_Log:
		return fmt.Sprintf("log %d %s", e.Log.GetLevel(), e.Log.GetDataJson())
	case *outriggerv1.ToolEvent_Partial:
		return fmt.Sprintf("partial %s", e.Partial.GetDataJson())
	case *outriggerv1.ToolEvent_Quiet:
		return fmt.Sprintf("quiet %v", e.Quiet.GetDuration().AsDuration())
	}
	return "outcome"
}

// reporting is a desk with more tools that say something while they run, and a
// first tool that says more of itself.
func reporting() *mcptest.Native {
	desk := mcptest.Desk()
	first := desk.Tools[0].Declared
	first.Tags = []string{"paper", "show"}
	first.Examples = []*outriggerv1.ToolExample{{Name: "plain", Description: "All.", ArgumentsJson: `{}`, DataJson: `{"n":9007199254740993}`}}
	events := []*outriggerv1.ToolEvent{
		{Event: &outriggerv1.ToolEvent_Quiet{Quiet: &outriggerv1.Quiet{Duration: durationpb.New(time.Second)}}},
		{Event: &outriggerv1.ToolEvent_Partial{Partial: &outriggerv1.PartialData{
			DataForm: &outriggerv1.PartialData_DataJson{DataJson: []byte(`{"n":18446744073709551615}`)},
		}}},
		mcptest.Progress(0, "nothing yet"),
	}
	desk.Tools = append(desk.Tools,
		mcptest.NativeTool{Declared: mcptest.JSONTool("stack", "Stack papers.", mcptest.NoArguments, ""), Events: events, Outcome: mcptest.Success(`7`)},
		mcptest.NativeTool{Declared: mcptest.JSONTool("topple", "Stack too many.", mcptest.NoArguments, ""), Events: events,
			Err: connect.NewError(connect.CodeAborted, errors.New("the stack fell over"))},
	)
	return desk
}

func with(call *outriggerv1.ToolCall, c *outriggerv1.RequestContext) *outriggerv1.ToolCall {
	call.Context = c
	return call
}

func callToolStream(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	token := text("token")
	const debug, warning = outriggerv1.LogLevel_LOG_LEVEL_DEBUG, outriggerv1.LogLevel_LOG_LEVEL_WARNING
	progress := []string{"progress 1/10 a start", "progress 4/10 ", "progress 10/10 done"}
	warned := `log 4 {"drawer":3,"letters":9007199254740993}`
	for _, tc := range []struct {
		name string
		call *outriggerv1.ToolCall
		want []string
		// shows is a part of the result; else says and code are those of the error.
		shows string
		code  connect.Code
		says  errmap.Code
		path  string
	}{
		{name: "nothing is wanted", call: toolCall("sort", `{}`), want: []string{"outcome"}, shows: "Sorted."},
		{name: "progress", call: with(toolCall("sort", `{}`), &outriggerv1.RequestContext{ProgressToken: token}),
			want: append(slices.Clone(progress), "outcome"), shows: "Sorted."},
		{name: "warnings", call: with(toolCall("sort", `{}`), &outriggerv1.RequestContext{LogLevel: warning}),
			want: []string{warned, "outcome"}, shows: "Sorted."},
		{name: "everything", call: with(toolCall("sort", `{}`), &outriggerv1.RequestContext{ProgressToken: integer(7), LogLevel: debug}),
			want: []string{progress[0], `log 1 "Opened the drawer."`, progress[1], warned, progress[2], "outcome"}, shows: "Sorted."},
		{name: "parts come unasked", call: toolCall("stack", `{}`), want: []string{"quiet 1s", `partial {"n":18446744073709551615}`, "outcome"}, shows: "7"},
		{name: "progress from zero", call: with(toolCall("stack", `{}`), &outriggerv1.RequestContext{ProgressToken: token}),
			want: []string{"quiet 1s", `partial {"n":18446744073709551615}`, "progress 0/10 nothing yet", "outcome"}, shows: "7"},
		{name: "a plain RPC", call: toolCall("lab.echo", `{"nonce":"n"}`), want: []string{"outcome"}, shows: `"nonce":"n"`},
		{name: "a failure of the tool's own", call: toolCall("write", `{}`), want: []string{"outcome"}, shows: "There is no ink left."},
		{name: "a failure", call: toolCall("refuse", `{}`), code: connect.CodePermissionDenied, says: errmap.ToolExecutionFailed},
		{name: "a failure after some events", call: toolCall("topple", `{}`), want: []string{"quiet 1s", `partial {"n":18446744073709551615}`},
			code: connect.CodeAborted, says: errmap.ToolExecutionFailed},
		{name: "a plain RPC's failure", call: toolCall("lab.fail", `{"code":"FAIL_CODE_ABORTED"}`), code: connect.CodeAborted, says: errmap.ToolExecutionFailed},
		{name: "an unknown tool", call: toolCall("lab.ecko", `{}`), code: connect.CodeNotFound, says: errmap.ToolNotFound, path: "tool_name"},
		{name: "no name", call: toolCall("", `{}`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "tool_name"},
		{name: "not JSON", call: toolCall("sort", `{`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "arguments_json"},
		{name: "wrong arguments", call: toolCall("sort", `{"x":1}`), code: connect.CodeInvalidArgument, says: errmap.InvalidToolInput, path: "x"},
		{name: "a destructive tool", call: toolCall("wipe", `{}`), code: connect.CodePermissionDenied, says: errmap.DestructiveBlocked},
		{name: "a wrong result", call: toolCall("misweigh", `{}`), code: connect.CodeInternal, says: errmap.InvalidToolOutput, path: "grams"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			heard, outcome, err := stream(t, client, tc.call)
			if diff := cmp.Diff(tc.want, heard); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if tc.says == "" {
				if err != nil || !strings.Contains(shown(outcome.GetResult()), tc.shows) {
					t.Errorf("got %v, %v, want %s", outcome, err, tc.shows)
				}
				return
			}
			if connect.CodeOf(err) != tc.code || reason(t, err) != tc.says {
				t.Fatalf("got %v (%s), want %v (%s)", err, reason(t, err), tc.code, tc.says)
			}
			if detail[*outriggerv1.ErrorDetail](t, err).GetErrorMessage() == "" {
				t.Error("the error has no ErrorDetail")
			}
			if _, paths := refusal(t, err); tc.path != "" && !slices.Contains(paths, tc.path) {
				t.Errorf("violations at %q, want %s", paths, tc.path)
			}
		})
	}
}

// shown is all that a result says.
func shown(r *outriggerv1.ToolResult) string {
	return string(r.GetDataJson()) + blockText(r) + r.GetError().GetErrorMessage()
}

// A server-streaming RPC is heard item by item, and its outcome is complete
// without what was heard.
func aStreamingRPCIsHeardItemByItem(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	call := toolCall("fleet.watch_vehicles", `{"vehicleIds":["101"],"rounds":3,"interval":"0s"}`)
	heard, outcome, err := stream(t, client, with(call, &outriggerv1.RequestContext{ProgressToken: text("p")}))
	if err != nil {
		t.Fatal(err)
	}
	if len(heard) < 4 || !strings.HasPrefix(heard[0], `partial {"round":1,`) || !strings.HasPrefix(heard[1], "progress 1/0 ") {
		t.Errorf("heard %q", heard)
	}
	var items []string
	for _, event := range heard {
		if part, ok := strings.CutPrefix(event, "partial "); ok {
			items = append(items, part)
		}
	}
	if want := `{"items":[` + strings.Join(items, ",") + `],"truncated":false}`; len(items) != 3 || string(outcome.GetResult().GetDataJson()) != want {
		t.Errorf("the outcome is %s, want %s", outcome.GetResult().GetDataJson(), want)
	}
}

// One tool may report nothing that a unary call would not, and tell the same in
// the end.
func bothCallsTellTheSame(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	for _, name := range []string{"show_everything", "weigh", "count", "tidy", "write", "sort"} {
		arguments := `{}`
		if name == "weigh" {
			arguments = `{"parcel":"p"}`
		}
		unary, err := client.CallTool(t.Context(), connect.NewRequest(toolCall(name, arguments)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, outcome, err := stream(t, client, toolCall(name, arguments))
		if err != nil || !proto.Equal(unary.Msg, outcome) {
			t.Errorf("%s: CallTool %v, CallToolStream %v (%v)", name, unary.Msg, outcome, err)
		}
	}
}

func metadataOfAStreamedCall(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	req := connect.NewRequest(toolCall("lab.inspect", `{"replyHeaders":{"x-reply-h":"1","x-other":"2"},"replyTrailers":{"x-reply-t":"3"}}`))
	req.Header().Set("X-Tenant", "blue")
	req.Header().Set("Authorization", "Bearer hunter2")
	events, err := client.CallToolStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	body := string(heard(t, events).GetOutcome().GetResult().GetDataJson())
	if !strings.Contains(body, `"x-tenant":{"values":["blue"]}`) || strings.Contains(body, "hunter2") {
		t.Errorf("the backend saw %s", body)
	}
	if events.Receive() || events.Err() != nil {
		t.Errorf("after the outcome: %v, %v", events.Msg(), events.Err())
	}
	got := []string{events.ResponseHeader().Get("X-Reply-H"), events.ResponseTrailer().Get("X-Reply-T"), events.ResponseHeader().Get("X-Other")}
	if diff := cmp.Diff([]string{"1", "3", ""}, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

// patient is a tool that runs until its caller leaves.
func patient() (desk *mcptest.Native, begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}, 100), make(chan error, 100)
	return &mcptest.Native{Tools: []mcptest.NativeTool{{
		Declared: mcptest.JSONTool("wait", "Wait.", mcptest.NoArguments, ""),
		Run: func(ctx context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
			err := send(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Quiet{Quiet: &outriggerv1.Quiet{}}})
			begun <- struct{}{}
			<-ctx.Done()
			ended <- errors.Join(err, ctx.Err())
			return nil, ctx.Err()
		},
	}}}, begun, ended
}

func TestACallerWhoLeavesEndsItsRun(t *testing.T) {
	t.Parallel()
	for name, height := range floors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, begun, ended := patient()
			tw := buildDesk(t, height, desk)
			for _, p := range wires() {
				ctx, leave := context.WithCancel(t.Context())
				client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), tw.url, p.options...)
				events, err := client.CallToolStream(ctx, connect.NewRequest(toolCall("wait", `{}`)))
				if err != nil {
					t.Fatal(err)
				}
				heard(t, events)
				<-begun
				leave()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("%s: the run ended with %v", p.name, err)
				}
				_ = events.Close()
			}
		})
	}
}

func TestTheDeadlineOfAStreamedCall(t *testing.T) {
	t.Parallel()
	for name, height := range floors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			desk, _, ended := patient()
			tw := buildDesk(t, height, desk)
			// In the header alone, so that it is not the client who notices.
			req := connect.NewRequest(toolCall("wait", `{}`))
			req.Header().Set("Connect-Timeout-Ms", "200")
			events, err := connect.NewClient[outriggerv1.ToolCall, outriggerv1.ToolEvent](
				mcptest.Client(t, 2), tw.url+outriggerv1connect.ToolServiceCallToolStreamProcedure).CallServerStream(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = events.Close() }()
			if code, _ := refusal(t, drained(events)); code != errmap.Timeout {
				t.Errorf("ended with %v, want TIMEOUT", events.Err())
			}
			<-ended
		})
	}
}

// TestAReaderWhoStopsEndsItsRun has a tool that never stops talking to a caller
// who does not listen.
func TestAReaderWhoStopsEndsItsRun(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 192<<10)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	part := &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Partial{Partial: &outriggerv1.PartialData{
		DataForm: &outriggerv1.PartialData_DataJson{DataJson: []byte(`"` + base64.StdEncoding.EncodeToString(noise) + `"`)},
	}}}
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan int, 1)
			desk := &mcptest.Native{Tools: []mcptest.NativeTool{{
				Declared: mcptest.JSONTool("talk", "Talk.", mcptest.NoArguments, ""),
				Run: func(_ context.Context, _ *outriggerv1.ToolCall, send func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
					for sent := 0; ; sent++ {
						if err := send(part); err != nil || sent > 2000 {
							ended <- sent
							return nil, err
						}
					}
				},
			}}}
			rig := mcptest.Start(t, mcptest.Options{Native: desk, NoDemo: true})
			url := mount(t, ofRig(rig), connectapi.Options{WriteTimeout: time.Second})
			events, err := dial(t, url).CallToolStream(t.Context(), connect.NewRequest(toolCall("talk", `{}`)))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = events.Close() }()
			if sent := <-ended; sent > 2000 {
				t.Error("500 MB were taken for a reader who reads nothing")
			}
			testkit.Until(t, "an empty house", func() bool { return rig.Bridge.Flights().InFlight() == 0 })
			for events.Receive() {
			}
			if events.Err() == nil {
				t.Error("the stream ended as if everything had been sent")
			}
		})
	}
}

func TestADrainWaitsForStreamedCalls(t *testing.T) {
	t.Parallel()
	desk, begun, _ := patient()
	rig := mcptest.Start(t, mcptest.Options{Native: desk, NoDemo: true})
	client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), mount(t, ofRig(rig), connectapi.Options{}), connect.WithGRPC())
	events, err := client.CallToolStream(t.Context(), connect.NewRequest(toolCall("wait", `{}`)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Close() }()
	heard(t, events)
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it has no time at all
	if err := rig.Bridge.Flights().Drain(ctx); err == nil {
		t.Error("the drain ended before the call did")
	}
	if code, _ := refusal(t, drained(events)); code != errmap.Unavailable {
		t.Errorf("ended with %v, want UNAVAILABLE", events.Err())
	}
}
