// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// formReply is the reply to a call in the message form, as its caller reads it.
type formReply struct {
	ID     string `json:"id"`
	Error  any    `json:"error"`
	Result *struct {
		Status string `json:"status"`
		Error  struct {
			Details struct {
				Code errmap.Code `json:"code"`
			} `json:"error_details"`
		} `json:"error"`
		Explanation string `json:"explanation"`
	} `json:"result"`
}

func readForm(t *testing.T, raw []byte) formReply {
	t.Helper()
	var reply formReply
	if err := json.Unmarshal(raw, &reply); err != nil {
		t.Errorf("%v: %s", err, raw)
	}
	return reply
}

// formEdge sends calls in the message form, one for each id, and passes on the
// replies as they come.
type formEdge func(t *testing.T, b *mcptest.Rig, ids []string, each func(formReply))

func formCall(id string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":"n"}}}`
}

// formEdges are the edges that speak the canonical dialect.
func formEdges() map[string]formEdge {
	post := func(t *testing.T, b *mcptest.Rig, body string) []byte {
		t.Helper()
		_, raw := send(t, mcptest.Client(t, 1), http.MethodPost, b.Serve(t)+"/rpc", body)
		return raw
	}
	return map[string]formEdge{
		"/rpc": func(t *testing.T, b *mcptest.Rig, ids []string, each func(formReply)) {
			t.Helper()
			for _, id := range ids {
				each(readForm(t, post(t, b, formCall(id))))
			}
		},
		"batch": func(t *testing.T, b *mcptest.Rig, ids []string, each func(formReply)) {
			t.Helper()
			calls := make([]string, len(ids))
			for i, id := range ids {
				calls[i] = formCall(id)
			}
			var replies []json.RawMessage
			if err := json.Unmarshal(post(t, b, "["+strings.Join(calls, ",")+"]"), &replies); err != nil {
				t.Fatal(err)
			}
			for _, raw := range replies {
				each(readForm(t, raw))
			}
		},
		"stdio": func(t *testing.T, b *mcptest.Rig, ids []string, each func(formReply)) {
			t.Helper()
			in, client := io.Pipe()
			answers, out := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- b.Stdio(t.Context(), in, out)
				_ = out.Close()
			}()
			go func() {
				for _, id := range ids {
					_, _ = fmt.Fprintln(client, formCall(id))
				}
			}()
			lines := bufio.NewScanner(answers)
			for range ids {
				if !lines.Scan() {
					t.Fatal("no reply")
				}
				each(readForm(t, bytes.Clone(lines.Bytes())))
			}
			_ = client.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		},
		"Exchange": func(t *testing.T, b *mcptest.Rig, ids []string, each func(formReply)) {
			t.Helper()
			stream := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), b.Serve(t)).Exchange(t.Context())
			for _, id := range ids {
				if err := stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
					Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: id}}, Method: "tools/call",
					ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(`{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`)},
				}}}); err != nil {
					t.Fatal(err)
				}
			}
			for range ids {
				got, err := stream.Receive()
				if err != nil {
					t.Fatal(err)
				}
				if failed := got.GetErrorResponse(); failed != nil {
					each(formReply{ID: failed.GetId().GetText(), Error: failed.GetError().GetMessage()})
					continue
				}
				ok := got.GetSuccessResponse()
				each(readForm(t, fmt.Appendf(nil, `{"id":%q,"result":%s}`, ok.GetId().GetText(), ok.GetResultJson())))
			}
			_ = stream.CloseRequest()
			_ = stream.CloseResponse()
		},
	}
}

// TestTheMessageFormIsAnsweredInKindOverEveryLimit: a caller who uses the message
// form reads results. Whatever limit its call meets, the answer is one.
func TestTheMessageFormIsAnsweredInKindOverEveryLimit(t *testing.T) {
	t.Parallel()
	one, twice := []string{"a"}, []string{"a", "a"}
	all := []string{"/rpc", "batch", "stdio", "Exchange"}
	over := func(configure func(*configv1.Config)) func(*testing.T) (*mcptest.Rig, func()) {
		return func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			return fake(t, mcptest.Echo, configure), func() {}
		}
	}
	// busy holds calls at the backend until the first reply has come.
	busy := func(configure func(*configv1.Config)) func(*testing.T) (*mcptest.Rig, func()) {
		return func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			h := newHeld()
			return fake(t, h.call, configure), sync.OnceFunc(func() { close(h.release) })
		}
	}
	onePlace := func(c *configv1.Config) { c.Limits.MaxPipelinedRequests = proto.Int32(1) }
	for name, tc := range map[string]struct {
		edges  []string
		ids    []string
		bridge func(*testing.T) (b *mcptest.Rig, afterFirst func())
		want   errmap.Code
	}{
		"max_in_flight": {all, one, func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			b := fake(t, mcptest.Echo, inFlight(1))
			other := b.BeginCall(t.Context(), toolCall(b, "lab.echo", ""))
			t.Cleanup(func() { other() })
			return b, func() {}
		}, errmap.Unavailable},
		"drain": {[]string{"/rpc", "batch", "stdio"}, one, func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			b := fake(t, mcptest.Echo, nil)
			b.Drain(t.Context())
			return b, func() {}
		}, errmap.Unavailable},
		"caller_rate": {all, []string{"a", "b"}, over(callerRate(onceInALongTime())), errmap.RateLimited},
		"tool_rate":   {all, []string{"a", "b"}, over(toolRate(onceInALongTime())), errmap.RateLimited},
		"max_queue_wait": {[]string{"/rpc", "batch", "Exchange"}, one, func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			h := newHeld()
			b := fake(t, h.call, both(atOnce(1), func(c *configv1.Config) { c.Limits.MaxQueueWait = durationpb.New(time.Millisecond) }))
			ended := make(chan *mcptest.Outcome, 1)
			go func() { ended <- b.Handle(t.Context(), toolCall(b, "lab.echo", "")) }()
			<-h.entered
			t.Cleanup(func() {
				close(h.release)
				<-ended
			})
			return b, func() {}
		}, errmap.Unavailable},
		"timeout": {all, one, func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			return fake(t, untilDone, within(time.Millisecond)), func() {}
		}, errmap.Timeout},
		"max_result_bytes": {all, one, over(resultBytes(4)), errmap.ResourceExhausted},
		"catalog_wait": {all, one, func(t *testing.T) (*mcptest.Rig, func()) {
			t.Helper()
			return mcptest.Pipe(t, mcptest.Parts{Tools: loading(), Backend: mcptest.Upstream(mcptest.Echo), Configure: catalogWait(time.Millisecond)}), func() {}
		}, errmap.Unavailable},
		"an id in flight, in a batch": {[]string{"batch"}, twice, over(nil), errmap.DuplicateRequestID},
		"an id in flight":             {[]string{"stdio"}, twice, busy(nil), errmap.DuplicateRequestID},
		"max_pipelined_requests":      {[]string{"Exchange"}, []string{"a", "b"}, busy(onePlace), errmap.Unavailable},
	} {
		for _, edge := range tc.edges {
			t.Run(name+" "+edge, func(t *testing.T) {
				t.Parallel()
				b, afterFirst := tc.bridge(t)
				refused := 0
				formEdges()[edge](t, b, tc.ids, func(got formReply) {
					defer afterFirst()
					if got.Error != nil || got.Result == nil {
						t.Errorf("not answered in kind: %+v", got)
						return
					}
					if got.Result.Status != "failure" {
						return
					}
					refused++
					if got.Result.Error.Details.Code != tc.want || got.Result.Explanation == "" {
						t.Errorf("got %+v, want %s", got.Result, tc.want)
					}
				})
				if refused != 1 {
					t.Errorf("%d are refused, want 1", refused)
				}
			})
		}
	}
}

// A message that cannot be read as a call is answered with an error, and so is
// one in another dialect.
func TestWhatIsNoMessageFormIsAnsweredWithAnError(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for name, in := range map[string]*mcptest.Message{
		"the first form":  inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo"}}`),
		"another method":  inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"tool_name":"lab.echo"}}`),
		"a faulty id":     inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"tool_name":"lab.echo"}}`),
		"another dialect": inbound(1, mcptest.Modern, `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"tool_name":"lab.echo"}}`),
	} {
		reply := b.Refuse(in, errmap.New(errmap.Unavailable))
		if got := decode(t, reply); got.Error == nil || got.Result != nil {
			t.Errorf("%s: %s", name, reply.Bytes())
		}
	}
}
