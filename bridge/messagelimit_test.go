// SPDX-License-Identifier: Apache-2.0

package bridge_test

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

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
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
type formEdge func(t *testing.T, b *dialect.Handler, ids []string, each func(formReply))

func formCall(id string) string {
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{"nonce":"n"}}}`
}

// formEdges are the edges that speak the canonical dialect. places bounds the
// requests of a stream that are in flight; 0 is the default.
func formEdges(places int) map[string]formEdge {
	post := func(t *testing.T, b *dialect.Handler, body string) []byte {
		t.Helper()
		url := mcptest.Serve(t, rpchttp.New(b, rpchttp.Options{}))
		_, raw := send(t, mcptest.Client(t, 1), http.MethodPost, url+"/rpc", body)
		return raw
	}
	return map[string]formEdge{
		"/rpc": func(t *testing.T, b *dialect.Handler, ids []string, each func(formReply)) {
			t.Helper()
			for _, id := range ids {
				each(readForm(t, post(t, b, formCall(id))))
			}
		},
		"batch": func(t *testing.T, b *dialect.Handler, ids []string, each func(formReply)) {
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
		"stdio": func(t *testing.T, b *dialect.Handler, ids []string, each func(formReply)) {
			t.Helper()
			in, client := io.Pipe()
			answers, out := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- stdio.Serve(t.Context(), b, in, out, stdio.Options{})
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
		"Exchange": func(t *testing.T, b *dialect.Handler, ids []string, each func(formReply)) {
			t.Helper()
			mux := http.NewServeMux()
			connectapi.New(b, connectapi.Options{MaxConcurrent: places}).Mount(mux)
			stream := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), mcptest.Serve(t, mux)).Exchange(t.Context())
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
	unavailable := errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second))
	over := func(o func() bridge.Options) func(*testing.T) (*dialect.Handler, func()) {
		return func(t *testing.T) (*dialect.Handler, func()) {
			t.Helper()
			return fake(t, mcptest.Echo, o()), func() {}
		}
	}
	limiter := func(o policy.LimitOptions) func() bridge.Options {
		return func() bridge.Options { return bridge.Options{Limiter: policy.NewLimiter(o)} }
	}
	// busy holds calls at the backend until the first reply has come.
	busy := func(t *testing.T) (*dialect.Handler, func()) {
		t.Helper()
		h := newHeld()
		return fake(t, h.call, bridge.Options{}), sync.OnceFunc(func() { close(h.release) })
	}
	for name, tc := range map[string]struct {
		edges  []string
		ids    []string
		bridge func(*testing.T) (b *dialect.Handler, afterFirst func())
		want   errmap.Code
		places int
	}{
		"max_in_flight": {all, one, func(t *testing.T) (*dialect.Handler, func()) {
			t.Helper()
			flights := correlate.New(correlate.Options{MaxInFlight: 1})
			if _, err := flights.Register(t.Context(), flights.NewOrigin(), jsonrpc.ID{}); err != nil {
				t.Fatal(err)
			}
			return dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), flights, bridge.Options{}), dialect.Options{}), func() {}
		}, errmap.Unavailable, 0},
		"drain": {[]string{"/rpc", "batch", "stdio"}, one, func(t *testing.T) (*dialect.Handler, func()) {
			t.Helper()
			b := fake(t, mcptest.Echo, bridge.Options{})
			if err := b.Flights().Drain(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b, func() {}
		}, errmap.Unavailable, 0},
		"caller_rate": {all, []string{"a", "b"}, over(limiter(policy.LimitOptions{Caller: onceInALongTime()})), errmap.RateLimited, 0},
		"tool_rate":   {all, []string{"a", "b"}, over(limiter(policy.LimitOptions{Tool: onceInALongTime()})), errmap.RateLimited, 0},
		"max_memory_bytes": {[]string{"/rpc", "batch", "Exchange"}, one, over(func() bridge.Options {
			return bridge.Options{Shed: func() *errmap.Error { return unavailable }}
		}), errmap.Unavailable, 0},
		"max_queue_wait": {[]string{"/rpc", "batch", "Exchange"}, one, func(t *testing.T) (*dialect.Handler, func()) {
			t.Helper()
			slots := policy.NewSlots(policy.SlotOptions{Most: 1, Wait: time.Millisecond})
			if _, err := slots.Acquire(t.Context(), "somebody", "other"); err != nil {
				t.Fatal(err)
			}
			return fake(t, mcptest.Echo, bridge.Options{Slots: slots}), func() {}
		}, errmap.Unavailable, 0},
		"timeout": {all, one, func(t *testing.T) (*dialect.Handler, func()) {
			t.Helper()
			return fake(t, untilDone, bridge.Options{Timeout: time.Millisecond}), func() {}
		}, errmap.Timeout, 0},
		"max_result_bytes": {all, one, over(func() bridge.Options { return bridge.Options{MaxResult: 4} }), errmap.ResourceExhausted, 0},
		"catalog_wait": {all, one, func(*testing.T) (*dialect.Handler, func()) {
			return dialect.New(bridge.New(loading(), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{CatalogWait: time.Millisecond}), dialect.Options{}), func() {}
		}, errmap.Unavailable, 0},
		"an id in flight, in a batch": {[]string{"batch"}, twice, over(func() bridge.Options { return bridge.Options{} }), errmap.DuplicateRequestID, 0},
		"an id in flight":             {[]string{"stdio"}, twice, busy, errmap.DuplicateRequestID, 0},
		"max_pipelined_requests":      {[]string{"Exchange"}, []string{"a", "b"}, busy, errmap.Unavailable, 1},
	} {
		for _, edge := range tc.edges {
			t.Run(name+" "+edge, func(t *testing.T) {
				t.Parallel()
				b, afterFirst := tc.bridge(t)
				refused := 0
				formEdges(tc.places)[edge](t, b, tc.ids, func(got formReply) {
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
	b := fake(t, mcptest.Echo, bridge.Options{})
	for name, in := range map[string]*dialect.Inbound{
		"the first form":  inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo"}}`),
		"another method":  inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"tool_name":"lab.echo"}}`),
		"a faulty id":     inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"tool_name":"lab.echo"}}`),
		"another dialect": inbound(t, 1, dialect.Modern, `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"tool_name":"lab.echo"}}`),
	} {
		reply := b.Refuse(in, errmap.New(errmap.Unavailable))
		if got := decode(t, reply); got.Error == nil || got.Result != nil {
			t.Errorf("%s: %s", name, reply.Bytes())
		}
	}
}
