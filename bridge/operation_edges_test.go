// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// An operation that was begun over one edge of a replica is finished over the ToolService of another one, after the first has
// stopped.
func TestOperationsOverToolService(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, first, _ := studio(t, replicaOf(key, time.Minute))
	second := first.With(t, replicaOf(key, time.Minute), server.Adjust{})
	here := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), first.Serve(t), connect.WithGRPC())
	there := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 1), second.Serve(t))
	call := &outriggerv1.ToolCall{
		ToolName: "studio.import_video", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"uri":"x"}`)},
		Context: &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}},
	}
	begun, err := here.CallTool(t.Context(), connect.NewRequest(call))
	if err != nil || begun.Msg.GetTask().GetStatus() != outriggerv1.TaskStatus_TASK_STATUS_WORKING {
		t.Fatalf("%v: %v", begun, err)
	}
	first.End()
	s.Finish(s.Last(), s.Video("videos/1", 3))
	who := &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
	got, err := there.GetTask(t.Context(), connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: begun.Msg.GetTask().GetTaskId(), Context: who}))
	if err != nil || string(got.Msg.GetResult().GetDataJson()) != `{"name":"videos/1","seconds":3}` {
		t.Errorf("%v: %v", got, err)
	}
	if _, err := there.CancelTask(t.Context(), connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: begun.Msg.GetTask().GetTaskId(), Context: who})); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// Clients of the legacy era and of the canonical dialect get a handle: there are no tasks for them.
func TestOperationsInOtherDialects(t *testing.T) {
	t.Parallel()
	_, rig, _ := studio(t, replicaOf("", 3*short))
	for d, name := range map[dialect.Dialect]string{dialect.Legacy: "studio_get_operation", dialect.Canonical: "studio.get_operation"} {
		got := answer(t, rig.Bridge, d, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"studio_import_video","arguments":{}}}`)
		if got.Result == nil || got.Result.IsError || !strings.Contains(string(got.Result.StructuredContent), `"outrigger_operation":{"done":false,"handle":"v1.`) ||
			len(got.Result.Content) != 2 || !strings.Contains(got.Result.Content[1].Text, name) {
			t.Errorf("%v: %+v", d, got)
		}
	}
}

// steps is a backend in a bubble: an operation that ends after so long.
type steps struct {
	takes     time.Duration
	begun     time.Time
	asked     []time.Duration
	cancelled atomic.Int64
}

func (s *steps) call(_ context.Context, m *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	switch m.Procedure {
	case operationtest.Procedure + "PublishVideos":
		s.begun = time.Now()
	case "/google.longrunning.Operations/GetOperation":
		s.asked = append(s.asked, time.Since(s.begun))
	case "/google.longrunning.Operations/CancelOperation":
		s.cancelled.Add(1)
		return &bridge.Answer{}, nil
	default:
		return nil, errmap.FromBackendStatus(connect.CodeUnimplemented, "no such RPC", nil)
	}
	wire, err := proto.Marshal(&longrunningpb.Operation{Name: "operations/1", Done: time.Since(s.begun) >= s.takes})
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &bridge.Answer{Body: wire}, nil
}

func (s *steps) bridge(t *testing.T, o bridge.Options) *dialect.Handler {
	t.Helper()
	live := catalog.NewLive([]source.Source{source.NewDescriptors("studio", operationtest.Files(t), operationtest.Service)}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dialect.New(bridge.New(live, mcptest.Upstream(s.call), correlate.New(correlate.Options{}), o), dialect.Options{})
}

// Without WaitOperation the questions come after 250 ms, and then each time later, in the caller's name. The deadline is that of
// the call; a drain ends the wait at once, since another replica can go on; and a caller that cancels has the operation cancelled.
func TestHowACallWaitsForAnOperation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		takes     time.Duration
		meanwhile func(b *dialect.Handler, cancel context.CancelFunc)
		want      time.Duration
		cancelled int64
	}{
		{name: "until it is done", takes: 9 * time.Second, want: 15750 * time.Millisecond},
		{name: "until the time is over", takes: time.Hour, want: 29 * time.Second},
		{name: "until the sidecar drains", takes: time.Hour, want: 5 * time.Second, meanwhile: func(b *dialect.Handler, _ context.CancelFunc) { b.EndListens() }},
		{name: "until the caller cancels", takes: time.Hour, want: 5 * time.Second, cancelled: 1, meanwhile: func(_ *dialect.Handler, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, who := &steps{takes: tc.takes}, &speaker{}
				b := s.bridge(t, bridge.Options{Timeout: 30 * time.Second, OnBehalf: who})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.meanwhile != nil {
					time.AfterFunc(5*time.Second, func() { tc.meanwhile(b, cancel) })
				}
				start := time.Now()
				resp := b.Handle(ctx, toolCall(b, "studio.publish_videos", `{}`))
				if took := time.Since(start); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
				if (resp.Err != nil) != (tc.cancelled > 0) || s.cancelled.Load() != tc.cancelled {
					t.Errorf("%v; cancelled %d times, want %d", resp.Err, s.cancelled.Load(), tc.cancelled)
				}
				first := []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond, 3750 * time.Millisecond}
				if diff := cmp.Diff(first, s.asked[:len(first)]); diff != "" {
					t.Errorf("asked after (-want +got):\n%s", diff)
				}
				if who.asked.Load() < int64(len(s.asked)+1) {
					t.Errorf("asked %d times in whose name, for %d calls", who.asked.Load(), len(s.asked)+1)
				}
			})
		})
	}
}

// Each poll is held to the policy: who may not use the tool any more does not hear of its operations.
func TestPollsAreHeldToThePolicy(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	s, rig, ann := studio(t, replicaOf(key, short))
	id := `"taskId":` + string(ann.send("tools/call", importVideo).Result["taskId"])
	ann.bridge = rig.With(t, func(c *configv1.Config) {
		replicaOf(key, short)(c)
		ruled(rule("r", "deny", `true`, "studio.import_video"))(c)
	}, server.Adjust{}).Bridge
	before := s.Calls("GetOperation")
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := id
		if method == "tasks/update" {
			params += `,"inputResponses":{}`
		}
		if got := ann.send(method, params); !strings.Contains(got.raw, string(errmap.PermissionDenied)) && got.status != http.StatusForbidden {
			t.Errorf("%s: %s", method, got.raw)
		}
	}
	if s.Calls("GetOperation") != before || s.Calls("CancelOperation") != 0 {
		t.Error("the backend was called")
	}
}
