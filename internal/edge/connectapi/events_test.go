// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

func TestPublishedEventsReachSubscribersInOrder(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := dial(t, s.url)
			topic := strings.NewReplacer(" ", "", ",", "").Replace(name)
			stream := subscribe(t, client, toEvents(topic+"/*"))
			const events = 100
			for n := range events {
				// 2^64-1 does not survive as a double.
				params := `{"n":` + strconv.Itoa(n) + `,"big":18446744073709551615}`
				if got := publish(t, client, topic+"/new", params); got != 1 {
					t.Fatalf("event %d went to %d subscribers, want 1", n, got)
				}
			}
			for n := range events {
				got := heard(t, stream)
				want := `{"n":` + strconv.Itoa(n) + `,"big":18446744073709551615}`
				if string(got.GetParamsJson()) != want || got.GetMethod() != topic+"/new" {
					t.Fatalf("event %d is %v", n, got)
				}
			}
		})
	}
}

func TestEveryFormOfParams(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	stream := subscribe(t, client, toEvents())
	people, err := structpb.NewStruct(map[string]any{"a": []any{"b", 1.5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*outriggerv1.Notification{
		{Method: "none"},
		{Method: "text", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(" {\"a\": 1}\n")}},
		{Method: "people", ParamsForm: &outriggerv1.Notification_Params{Params: people}},
	} {
		if _, err := client.Publish(t.Context(), connect.NewRequest(n)); err != nil {
			t.Fatalf("publish %s: %v", n.GetMethod(), err)
		}
	}
	var got []string
	for range 3 {
		n := heard(t, stream)
		if n.GetParams() != nil {
			t.Errorf("%s comes as a Struct", n.GetMethod())
		}
		got = append(got, n.GetMethod()+strings.ReplaceAll(string(n.GetParamsJson()), " ", ""))
	}
	if diff := cmp.Diff([]string{"none", `text{"a":1}`, `people{"a":["b",1.5]}`}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestNotificationsFromEveryEdgeArrive sends the same notifications wherever the
// canonical dialect is spoken, and MCP's, which are none of the bus's business.
func TestNotificationsFromEveryEdgeArrive(t *testing.T) {
	t.Parallel()
	const one, two = `{"jsonrpc":"2.0","method":"orders/new","params":{"n":1}}`, `{"jsonrpc":"2.0","method":"tools/call"}`
	const cancelled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`
	tests := []struct {
		name string
		send func(t *testing.T, s *sidecar)
		want []string
	}{
		{"/rpc", func(t *testing.T, s *sidecar) {
			for _, raw := range []string{one, cancelled, two} {
				postJSON(t, s.url+"/rpc", raw, http.StatusAccepted)
			}
		}, []string{`orders/new{"n":1}`, "tools/call"}},
		{"a batch on /rpc", func(t *testing.T, s *sidecar) {
			postJSON(t, s.url+"/rpc", "["+one+","+cancelled+","+two+"]", http.StatusAccepted)
			postJSON(t, s.url+"/rpc", "["+two+`,{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}]`, http.StatusOK)
		}, []string{`orders/new{"n":1}`, "tools/call", "tools/call"}},
		{"invalid ones are refused", func(t *testing.T, s *sidecar) {
			postJSON(t, s.url+"/rpc", `{"jsonrpc":"2.0","method":"x","params":[]}`, http.StatusBadRequest)
			postJSON(t, s.url+"/rpc", `{"jsonrpc":"2.0","method":""}`, http.StatusBadRequest)
		}, nil},
		{"stdio", func(t *testing.T, s *sidecar) {
			if out := talk(t, s.rpc, one, cancelled, two); out != "" {
				t.Errorf("answered: %s", out)
			}
			if out := talk(t, s.rpc, `{"jsonrpc":"2.0","method":7}`); strings.Count(out, "\n") != 1 || !strings.Contains(out, "INVALID_ENVELOPE") {
				t.Errorf("an invalid one is answered %q, want one error line", out)
			}
		}, []string{`orders/new{"n":1}`, "tools/call"}},
		{"Exchange", func(t *testing.T, s *sidecar) {
			exchange(t, s,
				&outriggerv1.Notification{Method: "orders/new", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"n":1}`)}},
				&outriggerv1.Notification{Method: "notifications/cancelled"},
				&outriggerv1.Notification{Method: "tools/call"})
		}, []string{`orders/new{"n":1}`, "tools/call"}},
		{"MCP over HTTP", func(t *testing.T, s *sidecar) {
			postJSON(t, s.url+"/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, http.StatusAccepted)
		}, nil},
		{"MCP over stdio", func(t *testing.T, s *sidecar) {
			talk(t, s.rpc, `{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
			client := s.client(t)
			stream := subscribe(t, client, toEvents())
			tt.send(t, s)
			publish(t, client, "last", "")
			var got []string
			for n := heard(t, stream); n.GetMethod() != "last"; n = heard(t, stream) {
				got = append(got, n.GetMethod()+string(n.GetParamsJson()))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// postJSON sends one body and wants a status; 202 has no body.
func postJSON(t *testing.T, url, body string, want int) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != want || (want == http.StatusAccepted && len(answer) > 0) {
		t.Errorf("%s: %d %s (%v), want %d", body, resp.StatusCode, answer, err, want)
	}
}

// talk says lines on standard input and returns what was answered.
func talk(t *testing.T, b *dialect.Handler, lines ...string) string {
	t.Helper()
	var out strings.Builder
	if err := stdio.Serve(t.Context(), b, strings.NewReader(strings.Join(lines, "\n")), &out, stdio.Options{}); err != nil {
		t.Errorf("stdio: %v", err)
	}
	return out.String()
}

// exchange sends notifications on one stream and wants it to end in silence.
func exchange(t *testing.T, s *sidecar, notifications ...*outriggerv1.Notification) {
	t.Helper()
	stream := s.client(t).Exchange(t.Context())
	for _, n := range notifications {
		if err := stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: n}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if answer, err := stream.Receive(); err == nil {
		t.Errorf("answered: %v", answer)
	}
	_ = stream.CloseResponse()
}

func TestNotificationsOfExchangeAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	stream := subscribe(t, client, toEvents())
	for name, n := range map[string]*outriggerv1.Notification{
		"an array":           {Method: "x", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`[]`)}},
		"null":               {Method: "x", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`null`)}},
		"no method":          {},
		"a task":             {Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: &outriggerv1.Task{}}},
		"an acknowledgement": {Method: "notifications/subscriptions/acknowledged", ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: &outriggerv1.ChangeFilter{}}},
	} {
		exchanged := client.Exchange(t.Context())
		if err := exchanged.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: n}}); err != nil {
			t.Fatal(err)
		}
		answer, err := exchanged.Receive()
		if err != nil || answer.GetErrorResponse().GetError().GetCode() != -32600 {
			t.Errorf("%s: %v, %v; want -32600", name, answer, err)
		}
		_ = exchanged.CloseRequest()
		_ = exchanged.CloseResponse()
	}
	publish(t, client, "last", "")
	if n := heard(t, stream); n.GetMethod() != "last" {
		t.Errorf("an invalid notification reached the bus: %v", n)
	}
}

func TestManySubscribersHearTheSame(t *testing.T) {
	t.Parallel()
	const subscribers, events = 100, 30
	s := start(t, notify.BusOptions{MaxBacklog: events}, connectapi.Options{}, "Take")
	client := s.client(t)
	var reading sync.WaitGroup
	for i := range subscribers {
		filter := toEvents()
		if i%2 == 1 {
			filter = toEvents("count")
		}
		stream := subscribe(t, client, filter)
		reading.Go(func() {
			for n := range events {
				if !stream.Receive() {
					t.Errorf("subscriber %d lost its stream at event %d: %v", i, n, stream.Err())
					return
				}
				if got := string(stream.Msg().GetParamsJson()); got != fmt.Sprintf(`{"n":%d}`, n) {
					t.Errorf("subscriber %d: event %d is %s", i, n, got)
					return
				}
			}
		})
	}
	sender := s.client(t)
	for n := range events {
		if got := publish(t, sender, "count", fmt.Sprintf(`{"n":%d}`, n)); got != subscribers {
			t.Fatalf("event %d went to %d subscribers", n, got)
		}
	}
	reading.Wait()
}

func TestOrderPerPublisherHoldsOnEveryStream(t *testing.T) {
	t.Parallel()
	const publishers, events = 6, 60
	s := start(t, notify.BusOptions{MaxBacklog: publishers * events}, connectapi.Options{}, "Take")
	stream := subscribe(t, s.client(t), toEvents())
	var publishing sync.WaitGroup
	for p := range publishers {
		client := s.client(t)
		publishing.Go(func() {
			for n := range events {
				_, err := client.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{
					Method: strconv.Itoa(p), ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: fmt.Appendf(nil, `{"n":%d}`, n)},
				}))
				if err != nil {
					t.Errorf("publish: %v", err)
					return
				}
			}
		})
	}
	next := map[string]int{}
	for range publishers * events {
		n := heard(t, stream)
		if want := fmt.Sprintf(`{"n":%d}`, next[n.GetMethod()]); string(n.GetParamsJson()) != want {
			t.Fatalf("publisher %s: %s, want %s", n.GetMethod(), n.GetParamsJson(), want)
		}
		next[n.GetMethod()]++
	}
	publishing.Wait()
}

func TestPublishRefusesWhatIsNoEvent(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{MaxEventBytes: 1000}, connectapi.Options{Limits: jsonrpc.Limits{MaxDepth: 8}}, "Take")
	client := s.client(t)
	text := func(raw string) *outriggerv1.Notification {
		return &outriggerv1.Notification{Method: "x", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(raw)}}
	}
	tests := []struct {
		name string
		n    *outriggerv1.Notification
		code errmap.Code
		path string
	}{
		{"no method", &outriggerv1.Notification{}, errmap.InvalidParams, "method"},
		{"a long method", &outriggerv1.Notification{Method: strings.Repeat("m", 1025)}, errmap.InvalidParams, "method"},
		{"a cancellation", &outriggerv1.Notification{Method: "notifications/cancelled"}, errmap.InvalidParams, "method"},
		{"an array", text(`[1]`), errmap.InvalidParams, "params_json"},
		{"null", text(`null`), errmap.InvalidParams, "params_json"},
		{"not JSON", text(`{"a":}`), errmap.InvalidParams, "params_json"},
		{"a name twice", text(`{"a":1,"a":2}`), errmap.InvalidParams, "params_json.a"},
		{"deep", text(strings.Repeat(`{"a":`, 9) + `1` + strings.Repeat(`}`, 9)), errmap.InvalidParams, ""},
		{"large", text(`{"a":"` + strings.Repeat("x", 1000) + `"}`), errmap.PayloadTooLarge, ""},
		{"an acknowledgement", &outriggerv1.Notification{
			Method:     "notifications/subscriptions/acknowledged",
			ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: &outriggerv1.ChangeFilter{}},
		}, errmap.InvalidParams, "acknowledged"},
		{"a number that the caller set", &outriggerv1.Notification{Method: "x", Sequence: 7}, errmap.InvalidParams, "sequence"},
		{"an acknowledgement under another method", &outriggerv1.Notification{
			Method: "x", ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: &outriggerv1.ChangeFilter{}},
		}, errmap.InvalidParams, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := client.Publish(context.Background(), connect.NewRequest(tt.n))
			code, paths := refusal(t, err)
			if code != tt.code || (tt.path != "" && (len(paths) != 1 || !strings.HasPrefix(paths[0], tt.path))) {
				t.Errorf("got %s at %q (%v), want %s at %s", code, paths, err, tt.code, tt.path)
			}
		})
	}
}

func TestSubscribeRefusesABadFilter(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	client := s.client(t)
	tests := []struct {
		name   string
		filter *outriggerv1.SubscribeRequest
		path   string
	}{
		{"none", &outriggerv1.SubscribeRequest{}, "filter"},
		{"an empty pattern", toEvents("a", ""), "events.methods[1]"},
		{"many patterns", toEvents(strings.Split(strings.Repeat("a,", 256)+"a", ",")...), "events.methods"},
		{"after an event, where none are kept", afterEvent(0), "events.after"},
		{"no URI", toChanges(&outriggerv1.ChangeFilter{ResourceUris: []string{"not a uri"}}), "changes.resource_uris[0]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stream, err := client.Subscribe(context.Background(), connect.NewRequest(tt.filter))
			if err == nil {
				defer func() { _ = stream.Close() }()
				if stream.Receive() {
					t.Fatalf("got %v", stream.Msg())
				}
				err = stream.Err()
			}
			if code, paths := refusal(t, err); code != errmap.InvalidParams || len(paths) != 1 || paths[0] != tt.path {
				t.Errorf("got %s at %q (%v), want INVALID_PARAMS at %s", code, paths, err, tt.path)
			}
		})
	}
}

// afterEvent asks for the events behind one.
func afterEvent(sequence uint64) *outriggerv1.SubscribeRequest {
	return &outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{After: &sequence}}}
}

func TestWithoutABusNothingIsPublished(t *testing.T) {
	t.Parallel()
	b := inFront(bridge.New(mcptest.Memory(t), bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}))
	mux := http.NewServeMux()
	connectapi.New(b.bridge, b.rpc, connectapi.Options{}).Mount(mux)
	client := (&sidecar{url: mcptest.Serve(t, mux)}).client(t)
	_, err := client.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: "x"}))
	if connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("publish: %v, want unimplemented", err)
	}
	stream, err := client.Subscribe(t.Context(), connect.NewRequest(toEvents()))
	if err == nil {
		defer func() { _ = stream.Close() }()
		stream.Receive()
		err = stream.Err()
	}
	if connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("subscribe: %v, want unimplemented", err)
	}
}
