// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// tracker is a backend on loopback for the demo's two RPCs that take a stream. It notes what it receives.
type tracker struct {
	demov1connect.UnimplementedFleetHandler
	demov1connect.UnimplementedLabHandler
	opened   atomic.Int64
	received atomic.Int64
	// ended is how each stream of requests has ended: nil after a half-close.
	ended chan error
	// after is how many messages are read before answer is returned; 0 reads all.
	after  int
	answer error
	// hold keeps the response back until the stream is reset.
	hold bool
}

// read reads messages until the input ends, or enough are there.
func (s *tracker) read(ctx context.Context, next func() error) error {
	s.opened.Add(1)
	for s.after == 0 || int(s.received.Load()) < s.after {
		if err := next(); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			s.ended <- err
			break
		}
		s.received.Add(1)
	}
	if s.hold {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.answer
}

func (s *tracker) ReportPositions(ctx context.Context, in *connect.ClientStream[demov1.PositionReport]) (*connect.Response[demov1.ReportPositionsResponse], error) {
	err := s.read(ctx, func() error {
		if in.Receive() {
			return nil
		}
		if in.Err() != nil {
			return in.Err()
		}
		return io.EOF
	})
	out := connect.NewResponse(&demov1.ReportPositionsResponse{Received: s.received.Load()})
	return out, err
}

func (s *tracker) Relay(ctx context.Context, stream *connect.BidiStream[demov1.EchoRequest, demov1.EchoResponse]) error {
	return s.read(ctx, func() error {
		m, err := stream.Receive()
		if err != nil {
			return err
		}
		return stream.Send(&demov1.EchoResponse{Nonce: m.GetNonce(), Signed: m.GetSigned()})
	})
}

// tracked is a sidecar in front of a tracker.
func tracked(t *testing.T, s *tracker, configure func(*configv1.Config)) *mcptest.Rig {
	t.Helper()
	s.ended = make(chan error, 100)
	mux := http.NewServeMux()
	mux.Handle(demov1connect.NewFleetHandler(s))
	mux.Handle(demov1connect.NewLabHandler(s))
	return mcptest.Pipe(t, mcptest.Parts{Behind: "grpc://" + strings.TrimPrefix(mcptest.Serve(t, mux), "http://"), Configure: configure})
}

const (
	goodReport = `{"vehicleId":"7","position":{"latitude":1,"longitude":2},"observedAt":"2026-06-01T06:00:00Z"}`
	badReport  = `{"vehicleId":"0","position":{"latitude":1,"longitude":2},"observedAt":"2026-06-01T06:00:00Z"}`
)

// items are arguments with items.
func items(list ...string) string { return `{"items":[` + strings.Join(list, ",") + `]}` }

// callOf calls a tool with JSON arguments.
func callOf(t *testing.T, b *mcptest.Rig, tool, arguments string) *mcptest.Outcome {
	t.Helper()
	return b.Handle(t.Context(), &mcptest.Call{
		Origin: b.NewOrigin(), Tool: tool, Arguments: arguments,
	})
}

// sentOf is how many items an error says were sent; -1 for nothing said.
func sentOf(resp *mcptest.Outcome) int {
	if resp.Err == nil || resp.Err.ItemsSent == nil {
		return -1
	}
	return *resp.Err.ItemsSent
}

func pathsOf(err *errmap.Error) (out []string) {
	if err == nil {
		return nil
	}
	for _, v := range err.Violations {
		out = append(out, v.Path)
	}
	return out
}

func TestItemsAreSentAndTheOneAnswerIsTheResult(t *testing.T) {
	t.Parallel()
	for n := range 4 {
		s := &tracker{}
		b := tracked(t, s, nil)
		var list []string
		for range n {
			list = append(list, goodReport)
		}
		resp := callOf(t, b, "fleet.report_positions", items(list...))
		want := fmt.Sprintf(`{"received":"%d","distanceKm":{}}`, n)
		if resp.Err != nil || string(resp.Result) != want || int(s.received.Load()) != n {
			t.Errorf("%d items: %v %s, the backend received %d", n, resp.Err, resp.Result, s.received.Load())
		}
		if err := <-s.ended; err != nil {
			t.Errorf("%d items: the input ended with %v, want a half-close", n, err)
		}
	}
}

func TestAStreamInBothDirectionsIsGathered(t *testing.T) {
	t.Parallel()
	var list, want []string
	for i := range 20 {
		list = append(list, fmt.Sprintf(`{"nonce":"n%d","signed":"9007199254740993"}`, i))
		want = append(want, fmt.Sprintf(`{"nonce":"n%d","signed":"9007199254740993","unsigned":"0","payload":""}`, i))
	}
	var told []*outriggerv1.ToolEvent
	s := &tracker{}
	b := tracked(t, s, nil)
	resp := b.Handle(t.Context(), &mcptest.Call{
		Origin: b.NewOrigin(), Tool: "lab.relay", Arguments: items(list...),
		Events: func(e *outriggerv1.ToolEvent) { told = append(told, e) },
	})
	if got := `{"items":[` + strings.Join(want, ",") + `],"truncated":false}`; resp.Err != nil || string(resp.Result) != got {
		t.Errorf("got %v %s, want %s", resp.Err, resp.Result, got)
	}
	partial, progress := 0, 0
	for _, e := range told {
		if e.GetPartial() != nil {
			partial++
		}
		if e.GetProgress() != nil {
			progress++
		}
	}
	if partial != len(list) || progress == 0 {
		t.Errorf("%d partial answers and %d reports of progress", partial, progress)
	}
	// The bound of results cuts it off, and says so.
	s = &tracker{hold: true}
	resp = callOf(t, tracked(t, s, resultItems(3)), "lab.relay", items(list...))
	if resp.Err != nil || !resp.Truncated || strings.Count(string(resp.Result), `"nonce"`) != 3 || !strings.Contains(resp.Explanation, "--max-items") {
		t.Errorf("got %v %s %q", resp.Err, resp.Result, resp.Explanation)
	}
}

// TestAWrongItemResetsTheStream: the backend may have what was sent before, and cannot take it for all.
func TestAWrongItemResetsTheStream(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		tool, arguments, path string
		sent                  int
	}{
		{"fleet.report_positions", items(goodReport, goodReport, badReport, goodReport), "/items/2/vehicleId", 2},
		{"fleet.report_positions", items(goodReport, `{"vehicleID":"1"}`), "/items/1/observedAt", 1},
		{"fleet.report_positions", items(goodReport, `null`), "/items/1", 1},
		{"lab.relay", items(`{"nonce":"a"}`, `{"nonce":"b"}`, `{"nonce":"c"}`, `{"nonce":7}`), "/items/3/nonce", 3},
	} {
		s := &tracker{}
		resp := callOf(t, tracked(t, s, nil), tc.tool, tc.arguments)
		if codeOf(resp) != errmap.InvalidToolInput || sentOf(resp) != tc.sent || len(pathsOf(resp.Err)) == 0 || pathsOf(resp.Err)[0] != tc.path {
			t.Errorf("%s %s: %v, %d sent, paths %v", tc.tool, tc.arguments, resp.Err, sentOf(resp), pathsOf(resp.Err))
		}
		if data := string(resp.Err.Data(errmap.About{})); !strings.Contains(data, fmt.Sprintf(`"itemsSent":%d`, tc.sent)) {
			t.Errorf("data %s", data)
		}
		if s.opened.Load() == 0 {
			continue // the reset was first
		}
		if err := <-s.ended; err == nil || s.received.Load() > int64(tc.sent) {
			t.Errorf("%s: the backend received %d messages, and then %v", tc.tool, s.received.Load(), err)
		}
	}
}

// TestWrongArgumentsOpenNoStream: what is wrong around the items, or with the first, is found before.
func TestWrongArgumentsOpenNoStream(t *testing.T) {
	t.Parallel()
	s := &tracker{}
	b := tracked(t, s, inputItems(3))
	for _, tc := range []struct {
		arguments string
		paths     []string
	}{
		{`{}`, []string{"/items"}},
		{`{"items":null}`, []string{"/items"}},
		{`{"items":{}}`, []string{"/items"}},
		{`{"items":"[]"}`, []string{"/items"}},
		{`{"itmes":[]}`, []string{"/items", "/itmes"}},
		{`{"items":[],"header":{}}`, []string{"/header"}},
		{items(badReport), []string{"/items/0/vehicleId"}},
		{items(goodReport, goodReport, goodReport, goodReport), []string{"/items"}},
		{`{"items":[],"items":[]}`, []string{"/items"}},
	} {
		resp := callOf(t, b, "fleet.report_positions", tc.arguments)
		if codeOf(resp) != errmap.InvalidToolInput || sentOf(resp) != 0 {
			t.Errorf("%s: %v, %d sent", tc.arguments, resp.Err, sentOf(resp))
		}
		if diff := cmp.Diff(tc.paths, pathsOf(resp.Err)); diff != "" {
			t.Errorf("%s: paths (-want +got):\n%s", tc.arguments, diff)
		}
	}
	resp := callOf(t, b, "fleet.report_positions", items(goodReport, goodReport, goodReport, goodReport))
	if resp.Err.Limit != errmap.LimitInputItems || !strings.Contains(resp.Err.Violations[0].Message, "--max-input-items") {
		t.Errorf("over the bound: %v, limit %q", resp.Err.Violations, resp.Err.Limit)
	}
	if n := s.opened.Load(); n > 0 {
		t.Errorf("%d streams were opened", n)
	}
}

// TestTheBackendsStatusCounts where it ends the stream before the input has ended.
func TestTheBackendsStatusCounts(t *testing.T) {
	t.Parallel()
	many := make([]string, 500)
	for i := range many {
		many[i] = goodReport
	}
	s := &tracker{after: 2, answer: connect.NewError(connect.CodeNotFound, errors.New("no such vehicle"))}
	resp := callOf(t, tracked(t, s, nil), "fleet.report_positions", items(many...))
	if codeOf(resp) != errmap.ToolExecutionFailed || resp.Err.BackendCode != "not_found" || sentOf(resp) < 2 {
		t.Errorf("got %v, %d sent", resp.Err, sentOf(resp))
	}
	s = &tracker{after: 2}
	resp = callOf(t, tracked(t, s, nil), "fleet.report_positions", items(many...))
	if resp.Err != nil || string(resp.Result) != `{"received":"2","distanceKm":{}}` {
		t.Errorf("a response before the end of the input: %v %s", resp.Err, resp.Result)
	}
}

// TestABackendThatNeverAnswers meets the deadline, or the stream time where answers are gathered.
func TestABackendThatNeverAnswers(t *testing.T) {
	t.Parallel()
	s := &tracker{hold: true}
	b := tracked(t, s, within(2*time.Second))
	if resp := callOf(t, b, "fleet.report_positions", items(goodReport)); codeOf(resp) != errmap.Timeout || sentOf(resp) != 1 {
		t.Errorf("one answer: %v, %d sent", resp.Err, sentOf(resp))
	}
	resp := callOf(t, b, "lab.relay", items(`{"nonce":"a"}`))
	if resp.Err != nil || !resp.Truncated || !strings.HasSuffix(string(resp.Result), `],"truncated":true}`) || !strings.Contains(resp.Explanation, "did not end within 1s") {
		t.Errorf("a stream: %v %s %q", resp.Err, resp.Result, resp.Explanation)
	}
}

// TestItemsThatFollow come one after the other, and are bounded like those of the arguments.
func TestItemsThatFollow(t *testing.T) {
	t.Parallel()
	follow := func(list ...string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			if len(list) == 0 {
				return nil, io.EOF
			}
			next := list[0]
			list = list[1:]
			if next == "wait" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return []byte(next), nil
		}
	}
	for _, tc := range []struct {
		what, arguments string
		follow          []string
		s               *tracker
		want            errmap.Code
		sent            int
		result          string
	}{
		{"items of both", items(goodReport), []string{goodReport, goodReport}, &tracker{}, "", -1, `"received":"3"`},
		{"no arguments", "", []string{goodReport}, &tracker{}, "", -1, `"received":"1"`},
		{"none at all", "", nil, &tracker{}, "", -1, `"received":"0"`},
		{"a wrong one", "", []string{goodReport, badReport}, &tracker{}, errmap.InvalidToolInput, 1, ""},
		{"too many", "", []string{goodReport, goodReport, goodReport, goodReport}, &tracker{}, errmap.InvalidToolInput, 3, ""},
		{"the backend ends first", items(goodReport), []string{"wait"}, &tracker{after: 1}, "", -1, `"received":"1"`},
	} {
		b := tracked(t, tc.s, inputItems(3))
		req := &mcptest.Call{Origin: b.NewOrigin(), Tool: "fleet.report_positions", Items: follow(tc.follow...)}
		if tc.arguments != "" {
			req.Arguments = tc.arguments
		}
		resp := b.Handle(t.Context(), req)
		if codeOf(resp) != tc.want || sentOf(resp) != tc.sent || !strings.Contains(string(resp.Result), tc.result) {
			t.Errorf("%s: %v, %d sent, result %s", tc.what, resp.Err, sentOf(resp), resp.Result)
		}
	}
	b := tracked(t, &tracker{}, nil)
	resp := b.Handle(t.Context(), &mcptest.Call{Origin: b.NewOrigin(), Tool: "lab.echo", Items: follow()})
	if codeOf(resp) != errmap.InvalidParams {
		t.Errorf("a tool that takes no stream: %v", resp.Err)
	}
}

// TestACallersCancellationResetsTheStream.
func TestACallersCancellationResetsTheStream(t *testing.T) {
	t.Parallel()
	s := &tracker{}
	b := tracked(t, s, nil)
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan struct{})
	resp := make(chan *mcptest.Outcome, 1)
	go func() {
		resp <- b.Handle(ctx, &mcptest.Call{
			Origin: b.NewOrigin(), Tool: "fleet.report_positions", Arguments: items(goodReport),
			Items: func(ctx context.Context) ([]byte, error) {
				close(waits)
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
	}()
	<-waits
	cancel()
	if got := <-resp; codeOf(got) != errmap.Cancelled {
		t.Errorf("got %v", got.Err)
	}
	if s.opened.Load() > 0 {
		if err := <-s.ended; err == nil {
			t.Error("the input was half-closed")
		}
	}
}

// TestItemsAreRepaired like other arguments, where that is asked for.
func TestItemsAreRepaired(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		arguments string
		places    []string
	}{
		{items(goodReport), nil},
		{items(quoted(goodReport), goodReport, quoted(goodReport)), []string{"/items/0", "/items/2"}},
		{`{"items":` + quoted("["+goodReport+"]") + `}`, []string{"/items"}},
		{items(goodReport, `{"vehicleId":"7","position":"{\"latitude\":1,\"longitude\":2}","observedAt":"2026-06-01T06:00:00Z"}`), []string{"/items/1/position"}},
	} {
		resp := callOf(t, tracked(t, &tracker{}, repairs), "fleet.report_positions", tc.arguments)
		if resp.Err != nil {
			t.Errorf("%s: %v %v", tc.arguments, resp.Err, resp.Err.Violations)
		}
		if diff := cmp.Diff(tc.places, resp.Repaired); diff != "" {
			t.Errorf("%s: repaired (-want +got):\n%s", tc.arguments, diff)
		}
		if tc.places != nil {
			if resp := callOf(t, tracked(t, &tracker{}, nil), "fleet.report_positions", tc.arguments); codeOf(resp) != errmap.InvalidToolInput {
				t.Errorf("unasked: %s: %v", tc.arguments, resp.Err)
			}
		}
	}
}

// What holds for unary calls holds for tools that take a stream. Each test has a whole sidecar in front of the demo service.

// TestRulesDecideAboutEachItem: a rule sees one message as args. It is asked about every one of them, and about a stream
// without any as about an empty message.
func TestRulesDecideAboutEachItem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what      string
		rule      *configv1.PolicyRule
		arguments string
		want      errmap.Code
		sent      int
	}{
		{"denied at the third", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"a"},{"nonce":"b"},{"nonce":"bad"}]}`, errmap.PermissionDenied, 2},
		{"denied at the first", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"bad"},{"nonce":"b"}]}`, errmap.PermissionDenied, -1},
		{"nothing to deny", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[{"nonce":"a"}]}`, "", -1},
		{"not all are allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[{"nonce":"good"},{"nonce":"a"}]}`, errmap.PermissionDenied, 1},
		{"all are allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[{"nonce":"good"},{"nonce":"good"}]}`, "", -1},
		{"an empty stream is not allowed", rule("r", "allow", `args.nonce == "good"`, "lab.relay"), `{"items":[]}`, errmap.PermissionDenied, -1},
		{"an empty stream is not denied", rule("r", "deny", `args.nonce == "bad"`, "lab.relay"), `{"items":[]}`, "", -1},
	} {
		rig := mcptest.Start(t, mcptest.Options{Configure: ruled(tc.rule)})
		resp := rig.Handle(t.Context(), toolCall(rig, "lab.relay", tc.arguments))
		if codeOf(resp) != tc.want || sentOf(resp) != tc.sent {
			t.Errorf("%s: %v, %d sent", tc.what, resp.Err, sentOf(resp))
		}
		if wantRule := tc.want != "" && tc.rule.GetEffect() == "deny"; wantRule && resp.Rule != "r" {
			t.Errorf("%s: decided by %+v", tc.what, resp.Rule)
		}
	}
}

// TestAStreamIsHeldBackByTheGate before its arguments are looked at.
func TestAStreamIsHeldBackByTheGate(t *testing.T) {
	t.Parallel()
	yes := true
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Relay", Tool: &configv1.ToolOptions{Destructive: &yes, ReadOnly: proto.Bool(false)}})
	}})
	for _, arguments := range []string{`{"items":[]}`, `{"items":7}`} {
		if resp := rig.Handle(t.Context(), toolCall(rig, "lab.relay", arguments)); codeOf(resp) != errmap.DestructiveBlocked {
			t.Errorf("%s: %v", arguments, resp.Err)
		}
	}
}

// TestAStreamRunsOnAsATask, with items that outlive the request.
func TestAStreamRunsOnAsATask(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Relay", Tool: &configv1.ToolOptions{TaskSupport: "optional"}})
	}})
	call := toolCall(rig, "lab.relay", "")
	call.Buffer = []byte(`{"items":[{"nonce":"a"},{"nonce":"b"}]}`)
	call.Tasks = true
	resp := rig.Handle(t.Context(), call)
	id := resp.Outcome.GetTask().GetTaskId()
	if resp.Err != nil || id == "" {
		t.Fatalf("%v %v", resp.Err, resp.Outcome)
	}
	for i := range call.Buffer { // as an edge would use its buffer again
		call.Buffer[i] = 'x'
	}
	testkit.Until(t, "the task ends", func() bool {
		got := rig.Handle(t.Context(), &mcptest.Call{
			Origin: rig.NewOrigin(), Tasks: true, Question: &outriggerv1.GetTaskRequest{TaskId: id},
		})
		task, _ := got.Answer.(*outriggerv1.Task)
		return task.GetStatus() == outriggerv1.TaskStatus_TASK_STATUS_COMPLETED && strings.Count(task.String(), "nonce") == 2
	})
}

// TestAStreamIsAudited once, with what was sent and without secrets.
func TestAStreamIsAudited(t *testing.T) {
	t.Parallel()
	path, configure := audited(t, func(a *configv1.Audit) { a.Payloads = true })
	rig := mcptest.Start(t, mcptest.Options{Configure: configure})
	for _, arguments := range []string{`{"items":[{"nonce":"a"}]}`, `{"items":[{"nonce":"a"},{"nonce":7}]}`} {
		rig.Handle(t.Context(), toolCall(rig, "lab.relay", arguments))
	}
	rig.End()
	lines := linesWith(trail(t, path), "tool", "lab.relay")
	if len(lines) != 2 || lines[0]["code"] != "OK" || lines[1]["code"] != string(errmap.InvalidToolInput) {
		t.Errorf("%v", lines)
	}
}

// TestTheRateCountsAStreamOnce, whatever the number of its items; and a call under way holds its slot.
func TestTheRateCountsAStreamOnce(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) {
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(2)}
		c.Timeout = durationpb.New(time.Minute)
	}})
	const many = `{"items":[{},{},{},{},{},{},{},{}]}`
	for i, want := range []errmap.Code{"", "", errmap.RateLimited} {
		if resp := rig.Handle(t.Context(), toolCall(rig, "lab.relay", many)); codeOf(resp) != want {
			t.Errorf("call %d: %v, want %q", i, resp.Err, want)
		}
	}
}
