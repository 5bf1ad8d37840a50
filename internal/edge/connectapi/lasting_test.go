// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// bulky is an event that fills a connection's buffers soon: it does not get
// smaller by compression.
func bulky() notify.Event {
	noise := make([]byte, 192<<10)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	return notify.Event{Method: "bulk", Params: json.RawMessage(`{"a":"` + base64.StdEncoding.EncodeToString(noise) + `"}`)}
}

// flood publishes until the bus has dropped a subscriber.
func flood(t *testing.T, s *sidecar) (published int) {
	t.Helper()
	e := bulky()
	for s.bus.Stats().Dropped == 0 {
		if published++; published > 2000 {
			t.Fatal("500 MB were taken from a reader who reads nothing")
		}
		if _, err := s.bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	return published
}

func TestASlowSubscriberIsDroppedAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var missed atomic.Int64
			s := start(t, notify.BusOptions{MaxBacklog: 8, OnDrop: func(e *notify.SlowError) { missed.Add(int64(e.Missed)) }}, connectapi.Options{}, "Take")
			client := dial(t, s.url)
			slow := subscribe(t, client, toEvents("bulk"))
			quick := subscribe(t, s.client(t), toEvents("small"))
			published := flood(t, s)
			if got := publish(t, s.client(t), "small", ""); got != 1 {
				t.Errorf("the quick one is disturbed: %d subscribers", got)
			}
			if got := heard(t, quick); got.GetMethod() != "small" {
				t.Errorf("the quick one got %v", got)
			}

			read := 0
			for slow.Receive() {
				read++
			}
			code, _ := refusal(t, slow.Err())
			if connect.CodeOf(slow.Err()) != connect.CodeResourceExhausted || code != errmap.ResourceExhausted {
				t.Errorf("after %d events the stream ended with %v, want resource_exhausted", read, slow.Err())
			}
			if want := "missed 9 events"; !strings.Contains(slow.Err().Error(), want) || missed.Load() != 9 {
				t.Errorf("told %q, and the bus %d; want 9", slow.Err(), missed.Load())
			}
			if read+9 != published {
				t.Errorf("%d read and 9 missed of %d", read, published)
			}
		})
	}
}

// TestAReaderWhoStopsIsCutOff has a bus that never drops: only the write timeout ends the
// stream.
func TestAReaderWhoStopsIsCutOff(t *testing.T) {
	t.Parallel()
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, notify.BusOptions{MaxBacklog: 1 << 16, MaxBacklogBytes: 1 << 30},
				connectapi.Options{WriteTimeout: time.Second}, "Take")
			stream := subscribe(t, dial(t, s.url), toEvents("bulk"))
			e := bulky()
			for range 100 {
				if _, err := s.bus.Publish(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			testkit.Until(t, "the end of the subscription", func() bool { return s.bus.Stats().Subscribers == 0 })
			for stream.Receive() {
			}
			if stream.Err() == nil {
				t.Error("the stream ended as if everything had been sent")
			}
		})
	}
}

// TestAQuietStreamIsLeftAlone waits longer than the write timeout, and longer than a
// body may take, between two events.
func TestAQuietStreamIsLeftAlone(t *testing.T) {
	t.Parallel()
	tools := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		const limit = 2 * time.Second
		bus := notify.NewBus(notify.BusOptions{})
		b := inFront(bridge.New(tools, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}))
		mux := http.NewServeMux()
		connectapi.New(b.bridge, b.rpc, connectapi.Options{Events: bus, WriteTimeout: limit}).Mount(mux)
		server := backend.NewInProcess(httpbody.Timeout(mux, limit, func(*http.Request) bool { return false }, nil), zap.NewNop())
		t.Cleanup(func() { _ = server.Close() })
		streams := map[string]*connect.ServerStreamForClient[outriggerv1.Notification]{}
		for name, dial := range ways(server.Dial) {
			streams[name] = subscribe(t, dial(t, "http://memory"), toEvents(name))
		}
		for range 2 {
			time.Sleep(5 * limit / 4)
			for name, stream := range streams {
				if _, err := bus.Publish(t.Context(), notify.Event{Method: name}); err != nil {
					t.Fatal(err)
				}
				if !stream.Receive() {
					t.Fatalf("%s: the stream ended: %v", name, stream.Err())
				}
			}
		}
	})
}

func TestACallerWhoLeavesGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{MaxStreams: 1}, "Take")
	client := s.client(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.Subscribe(ctx, connect.NewRequest(toEvents()))
		if err != nil {
			t.Fatal(err)
		}
		stream.ResponseHeader()
		tools, err := client.WatchTools(ctx, connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
		if err == nil {
			err = drained(tools)
			_ = tools.Close()
		}
		if code, _ := refusal(t, err); code != errmap.Unavailable {
			t.Errorf("a stream too many: %v, want UNAVAILABLE", err)
		}
		cancel()
		_ = stream.Close()
		testkit.Until(t, "an empty house", func() bool { return s.bus.Stats().Subscribers == 0 && s.api.Lasting() == 0 })
	}
}

func TestAStreamsDeadlineEndsIt(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	// The deadline goes to the server in the header that the protocol has for it,
	// and not to the client, which would end the stream by itself.
	req := connect.NewRequest(toEvents())
	req.Header().Set("Connect-Timeout-Ms", "30")
	stream, err := connect.NewClient[outriggerv1.SubscribeRequest, outriggerv1.Notification](
		mcptest.Client(t, 2), s.url+"/outrigger.v1.ToolService/Subscribe").CallServerStream(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
	}
	if code, _ := refusal(t, stream.Err()); code != errmap.Timeout {
		t.Errorf("ended with %v, want TIMEOUT", stream.Err())
	}
}

// TestTheEndOfTheServiceEndsItsStreams closes under streams of every kind.
func TestTheEndOfTheServiceEndsItsStreams(t *testing.T) {
	t.Parallel()
	for name, dial := range ways() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
			client := dial(t, s.url)
			events := subscribe(t, client, toEvents())
			changes := subscribe(t, client, toChanges(&outriggerv1.ChangeFilter{ToolsListChanged: true}))
			tools, err := client.WatchTools(t.Context(), connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tools.Close() }()
			heard(t, changes)
			heard(t, tools)
			publish(t, client, "before", "")
			s.api.Close()
			if n := heard(t, events); n.GetMethod() != "before" {
				t.Errorf("got %v", n)
			}
			for kind, err := range map[string]error{"events": drained(events), "changes": drained(changes), "tools": drained(tools)} {
				if code, _ := refusal(t, err); code != errmap.Unavailable {
					t.Errorf("%s: %v, want UNAVAILABLE", kind, err)
				}
			}
			again, err := client.Subscribe(t.Context(), connect.NewRequest(toEvents()))
			if err == nil {
				defer func() { _ = again.Close() }()
				err = drained(again)
			}
			if code, _ := refusal(t, err); code != errmap.Unavailable {
				t.Errorf("after the end: %v, want UNAVAILABLE", err)
			}
			s.bus.Close()
			if _, err = client.Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: "x"})); connect.CodeOf(err) != connect.CodeUnavailable {
				t.Errorf("publish after the end: %v, want unavailable", err)
			}
		})
	}
}

// drained is what a stream ends with that has nothing more to say.
func drained[T any](stream *connect.ServerStreamForClient[T]) error {
	for stream.Receive() {
	}
	return stream.Err()
}

func TestADrainLetsNoStreamIn(t *testing.T) {
	t.Parallel()
	s := start(t, notify.BusOptions{}, connectapi.Options{}, "Take")
	if err := s.rpc.Flights().Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := s.client(t)
	stream, err := client.Subscribe(t.Context(), connect.NewRequest(toEvents()))
	if err == nil {
		defer func() { _ = stream.Close() }()
		err = drained(stream)
	}
	if code, _ := refusal(t, err); code != errmap.Unavailable {
		t.Errorf("got %v, want UNAVAILABLE", err)
	}
	// An event is not a call: what still runs may say what it has done.
	if got := publish(t, client, "x", ""); got != 0 {
		t.Errorf("%d subscribers", got)
	}
}

// TestExchangesAreStreams counts them with the others, for as long as they last.
func TestExchangesAreStreams(t *testing.T) {
	t.Parallel()
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, notify.BusOptions{}, connectapi.Options{MaxStreams: 1}, "Take")
			client := s.client(t)
			for range 3 {
				first := open(t, s.url, p.options...)
				send(t, first, request(text("1"), "ping", ""))
				nextReply(t, first)
				second := open(t, s.url, p.options...)
				_ = second.Send(request(text("1"), "ping", "")) // it may be refused by then
				_, exchange := second.Receive()
				for what, err := range map[string]error{
					"an exchange": exchange, "a subscription": drained(subscribe(t, client, toEvents())), "a watch": drained(watch(t, client)),
				} {
					if code, _ := refusal(t, err); code != errmap.Unavailable {
						t.Errorf("%s too many: %v, want UNAVAILABLE", what, err)
					}
				}
				if err := first.CloseRequest(); err != nil {
					t.Fatal(err)
				}
				if e, err := first.Receive(); !errors.Is(err, io.EOF) {
					t.Errorf("after the half-close: %v, %v", e, err)
				}
				testkit.Until(t, "an empty house", func() bool { return s.api.Lasting() == 0 })
			}
		})
	}
}

// TestTheEndOfTheServiceEndsExchanges closes under one that waits for its caller,
// and one that waits for a call, which is answered first.
func TestTheEndOfTheServiceEndsExchanges(t *testing.T) {
	t.Parallel()
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			backend := newGated("held")
			b := bridgeInMemory(t, backend.call)
			api := connectapi.New(b.bridge, b.rpc, connectapi.Options{})
			mux := http.NewServeMux()
			api.Mount(mux)
			url := mcptest.Serve(t, mux)
			idle, busy := open(t, url, p.options...), open(t, url, p.options...)
			send(t, idle, request(text("1"), "ping", ""))
			nextReply(t, idle)
			send(t, busy, echo(text("1"), "held"))
			<-backend.entered
			api.Close()
			wantEnded := func(name string, stream *calls) {
				t.Helper()
				m, err := stream.Receive()
				if err == nil {
					t.Fatalf("%s: got %v", name, m)
				}
				if code, _ := refusal(t, err); code != errmap.Unavailable {
					t.Errorf("%s: ended with %v, want UNAVAILABLE", name, err)
				}
			}
			wantEnded("idle", idle)
			close(backend.release["held"])
			if _, code, result := nextReply(t, busy); code != "" || !strings.Contains(result, "held") {
				t.Errorf("the call in flight: %s %s", code, result)
			}
			wantEnded("busy", busy)
			late := open(t, url, p.options...)
			_ = late.Send(request(text("1"), "ping", "")) // it may be refused by then
			wantEnded("after the end", late)
			testkit.Until(t, "an empty house", func() bool { return api.Lasting() == 0 })
		})
	}
}

// narrow is a client over h2c that buffers next to nothing of a stream.
func narrow(t *testing.T) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestAnExchangeWhoseReaderStopsIsCutOff asks for more than it reads.
func TestAnExchangeWhoseReaderStopsIsCutOff(t *testing.T) {
	t.Parallel()
	noise := make([]byte, 128<<10)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise)
	body, err := proto.Marshal(&demov1.EchoResponse{Payload: noise})
	if err != nil {
		t.Fatal(err)
	}
	bulky := func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		return &bridge.Answer{Body: body}, nil
	}
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := bridgeInMemory(t, bulky)
			api := connectapi.New(b.bridge, b.rpc, connectapi.Options{WriteTimeout: 500 * time.Millisecond})
			mux := http.NewServeMux()
			api.Mount(mux)
			stream := outriggerv1connect.NewToolServiceClient(narrow(t), mcptest.Serve(t, mux), p.options...).Exchange(t.Context())
			t.Cleanup(func() { _ = stream.CloseRequest(); _ = stream.CloseResponse() })
			send(t, stream, request(text("begun"), "ping", ""))
			nextReply(t, stream)
			const calls = 4
			for id := range calls {
				if stream.Send(echo(integer(int64(id)), "")) != nil {
					break // it was cut off already
				}
			}
			testkit.Until(t, "an empty house", func() bool { return api.Lasting() == 0 && b.bridge.Flights().InFlight() == 0 })
			read := 0
			for {
				if _, err := stream.Receive(); err != nil {
					if errors.Is(err, io.EOF) || read == calls {
						t.Errorf("after %d replies the stream ended as if everything had been sent", read)
					}
					return
				}
				read++
			}
		})
	}
}
