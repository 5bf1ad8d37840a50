// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

type eventSender = connect.ServerStream[outriggerv1.ToolEvent]

func outcomeEvent(o *outriggerv1.ToolOutcome) *outriggerv1.ToolEvent {
	return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Outcome{Outcome: o}}
}

func progress(at float64) *outriggerv1.ToolEvent {
	return &outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{Progress: at}}}
}

// meanwhile is one event of each kind but the outcome.
func meanwhile() []*outriggerv1.ToolEvent {
	return []*outriggerv1.ToolEvent{
		progress(1),
		{Event: &outriggerv1.ToolEvent_Log{Log: &outriggerv1.LogMessage{Level: outriggerv1.LogLevel_LOG_LEVEL_INFO, DataForm: &outriggerv1.LogMessage_DataJson{DataJson: []byte(`"working"`)}}}},
		{Event: &outriggerv1.ToolEvent_Partial{Partial: &outriggerv1.PartialData{DataForm: &outriggerv1.PartialData_DataJson{DataJson: []byte(`{"n":12345678901234567890}`)}}}},
		{Event: &outriggerv1.ToolEvent_Quiet{Quiet: &outriggerv1.Quiet{}}},
		progress(2),
	}
}

// sending is a stream of these events, then end.
func sending(events []*outriggerv1.ToolEvent, end error) func(context.Context, *connect.Request[outriggerv1.ToolCall], *eventSender) error {
	return func(_ context.Context, req *connect.Request[outriggerv1.ToolCall], out *eventSender) error {
		out.ResponseHeader().Set("X-Tool", req.Msg.GetToolName()+"/"+req.Header().Get("Authorization"))
		out.ResponseTrailer().Set("X-Tail", "end")
		for _, event := range events {
			if err := out.Send(event); err != nil {
				return err
			}
		}
		return end
	}
}

// keep collects events.
func keep(into *[]*outriggerv1.ToolEvent) func(*outriggerv1.ToolEvent) {
	return func(e *outriggerv1.ToolEvent) { *into = append(*into, e) }
}

func TestCallToolWithEvents(t *testing.T) {
	t.Parallel()
	want := success("done")
	addr := serve(t, &service{stream: sending(append(meanwhile(), outcomeEvent(want)), nil)})
	for _, scheme := range allSchemes() {
		c := dial(t, scheme+"://"+addr, nativeLimits{})
		var got []*outriggerv1.ToolEvent
		outcome, md, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, http.Header{"Authorization": {"Bearer t"}}, keep(&got))
		if err != nil {
			t.Fatalf("%s: %v", scheme, err)
		}
		if diff := cmp.Diff(meanwhile(), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", scheme, diff)
		}
		if !proto.Equal(outcome, want) {
			t.Errorf("%s: outcome %v", scheme, outcome)
		}
		if diff := cmp.Diff(&Answer{Header: http.Header{"X-Tool": {"t/Bearer t"}}, Trailer: http.Header{"X-Tail": {"end"}}}, md); diff != "" {
			t.Errorf("%s: metadata (-want +got):\n%s", scheme, diff)
		}
	}
}

// What comes instead of a good end.
func TestCallToolStreamFaults(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		events  []*outriggerv1.ToolEvent
		end     error
		heard   int
		keyword string // of an *InvalidAnswerError; "": a status
		code    connect.Code
	}{
		{name: "no event at all", keyword: keywordOutcome},
		{name: "no outcome", events: meanwhile(), heard: 5, keyword: keywordOutcome},
		{name: "an event of no kind", events: []*outriggerv1.ToolEvent{progress(1), {}, progress(2)}, heard: 1, keyword: "required"},
		{name: "an outcome of no kind", events: []*outriggerv1.ToolEvent{progress(1), outcomeEvent(&outriggerv1.ToolOutcome{})}, heard: 1, keyword: "required"},
		{name: "a bad result", events: []*outriggerv1.ToolEvent{outcomeEvent(&outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{Status: "great"}}})}, keyword: "string.in"},
		{name: "an error before any event", end: connect.NewError(connect.CodeNotFound, errors.New("no such tool")), code: connect.CodeNotFound},
		{name: "an error after events", events: meanwhile(), heard: 5, end: connect.NewError(connect.CodeAborted, errors.New("lost")), code: connect.CodeAborted},
		{name: "unimplemented after an event", events: meanwhile()[:1], heard: 1, end: connect.NewError(connect.CodeUnimplemented, errors.New("not that")), code: connect.CodeUnimplemented},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, &service{
				stream: sending(tc.events, tc.end),
				unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) {
					t.Error("the tool was run again")
					return success("again"), nil
				},
			})
			for _, scheme := range allSchemes() {
				c := dial(t, scheme+"://"+addr, nativeLimits{})
				var got []*outriggerv1.ToolEvent
				outcome, md, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, keep(&got))
				if outcome != nil || len(got) != tc.heard {
					t.Errorf("%s: %v, %d events", scheme, outcome, len(got))
				}
				if tc.keyword != "" {
					if e := refusal(t, err); e.Violations[0].Keyword != tc.keyword || !strings.HasSuffix(e.Procedure, "/CallToolStream") || md.Header.Get("X-Tool") != "t/" {
						t.Errorf("%s: got %v, %v", scheme, err, md)
					}
				} else if e := failure(t, err); e.Kind != KindStatus || e.Code != tc.code {
					t.Errorf("%s: got %v", scheme, err)
				}
			}
		})
	}
}

// The outcome ends the call, whatever a backend does afterwards.
func TestNothingMattersAfterTheOutcome(t *testing.T) {
	t.Parallel()
	over := make(chan error, 3)
	done := outcomeEvent(success("done"))
	for name, stream := range map[string]func(context.Context, *connect.Request[outriggerv1.ToolCall], *eventSender) error{
		"another event":   sending([]*outriggerv1.ToolEvent{progress(1), done, progress(2)}, nil),
		"another outcome": sending([]*outriggerv1.ToolEvent{progress(1), done, outcomeEvent(success("again"))}, nil),
		"a bad event":     sending([]*outriggerv1.ToolEvent{progress(1), done, {}}, nil),
		"an error":        sending([]*outriggerv1.ToolEvent{progress(1), done}, connect.NewError(connect.CodeInternal, errors.New("late"))),
		"no end": func(ctx context.Context, req *connect.Request[outriggerv1.ToolCall], out *eventSender) error {
			err := sending([]*outriggerv1.ToolEvent{progress(1), done}, nil)(ctx, req, out)
			<-ctx.Done()
			over <- ctx.Err()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, &service{stream: stream})
			for _, scheme := range allSchemes() {
				c := dial(t, scheme+"://"+addr, nativeLimits{endGrace: 50 * time.Millisecond})
				var got []*outriggerv1.ToolEvent
				outcome, md, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, keep(&got))
				if err != nil || !proto.Equal(outcome, success("done")) || len(got) != 1 || md.Header.Get("X-Tool") != "t/" {
					t.Errorf("%s: got %v, %v, %v after %d events", scheme, outcome, md, err, len(got))
				}
				if name == "no end" {
					if err := <-over; !errors.Is(err, context.Canceled) {
						t.Errorf("%s: the backend's context ended with %v", scheme, err)
					}
				}
			}
		})
	}
}

// The caller's end reaches the backend in the middle of a call.
func TestCancelledCallTool(t *testing.T) {
	t.Parallel()
	over := make(chan error, 1)
	addr := serve(t, &service{stream: func(ctx context.Context, _ *connect.Request[outriggerv1.ToolCall], out *eventSender) error {
		err := out.Send(progress(1))
		<-ctx.Done()
		over <- ctx.Err()
		return err
	}})
	for _, scheme := range allSchemes() {
		c := dial(t, scheme+"://"+addr, nativeLimits{})
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := c.callTool(ctx, &outriggerv1.ToolCall{ToolName: "t"}, nil, func(*outriggerv1.ToolEvent) { cancel() })
		if e := failure(t, err); e.Kind != KindCancelled || !e.Sent {
			t.Errorf("%s: got %v", scheme, err)
		}
		<-over
	}
}

// counts says how often each procedure was called.
type counts struct{ stream, unary atomic.Int64 }

func (n *counts) is(t *testing.T, stream, unary int64) {
	t.Helper()
	if s, u := n.stream.Load(), n.unary.Load(); s != stream || u != unary {
		t.Errorf("CallToolStream was called %d times, CallTool %d; want %d and %d", s, u, stream, unary)
	}
}

// counting counts the calls on their way to a handler.
func (n *counts) counting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case outriggerv1connect.ToolServiceCallToolStreamProcedure:
			n.stream.Add(1)
		case outriggerv1connect.ToolServiceCallToolProcedure:
			n.unary.Add(1)
		}
		next.ServeHTTP(w, r)
	})
}

// A backend without CallToolStream is called without it, at once and for a while.
func TestFallback(t *testing.T) {
	t.Parallel()
	s := &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) { return success("unary"), nil }}
	mux := http.NewServeMux()
	mux.Handle(outriggerv1connect.NewToolServiceHandler(s))
	alone := http.NewServeMux() // answers 404 to everything else
	alone.Handle(outriggerv1connect.ToolServiceCallToolProcedure, mux)
	call := func(t *testing.T, c *NativeClient) {
		t.Helper()
		outcome, md, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, http.Header{"X-One": {"1"}}, func(*outriggerv1.ToolEvent) { t.Error("an event") })
		if err != nil || !proto.Equal(outcome, success("unary")) || md.Header.Get("X-One") != "1" || md.Trailer.Get("X-Tail") != "end" {
			t.Errorf("got %v, %v, %v", outcome, md, err)
		}
	}
	for name, handler := range map[string]http.Handler{"unimplemented": mux, "not mounted": alone} {
		for _, scheme := range allSchemes() {
			t.Run(name+", "+scheme, func(t *testing.T) {
				t.Parallel()
				n := new(counts)
				addr := serveHandler(t, n.counting(handler))
				c := dial(t, scheme+"://"+addr, nativeLimits{})
				for range 3 {
					call(t, c)
				}
				n.is(t, 1, 3)
				forgetful := dial(t, scheme+"://"+addr, nativeLimits{streamRetry: time.Nanosecond})
				for range 3 {
					call(t, forgetful)
				}
				n.is(t, 4, 6)
			})
		}
	}
}

// A backend that learns to stream is noticed.
func TestFallbackIsForgotten(t *testing.T) {
	t.Parallel()
	s := &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) { return success("unary"), nil }}
	c := dial(t, "grpc://"+serve(t, s), nativeLimits{streamRetry: time.Hour})
	call := func() *outriggerv1.ToolOutcome {
		outcome, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, func(*outriggerv1.ToolEvent) {})
		if err != nil {
			t.Fatal(err)
		}
		return outcome
	}
	if got := call(); !proto.Equal(got, success("unary")) {
		t.Errorf("got %v", got)
	}
	past := time.Now().Add(-time.Second)
	if till := *c.unaryTill.Load(); till.Before(time.Now().Add(59 * time.Minute)) {
		t.Errorf("CallToolStream is left alone until %v only", till)
	}
	c.unaryTill.Store(&past)
	s.stream = sending([]*outriggerv1.ToolEvent{outcomeEvent(success("stream"))}, nil)
	if got := call(); !proto.Equal(got, success("stream")) {
		t.Errorf("got %v", got)
	}
}

// Where a tool says of itself that it is unimplemented, nothing is learnt about
// streams.
func TestUnimplementedToolIsNoMissingStream(t *testing.T) {
	t.Parallel()
	n := new(counts)
	mux := http.NewServeMux()
	mux.Handle(outriggerv1connect.NewToolServiceHandler(&service{})) // both are unimplemented
	c := dial(t, "grpc://"+serveHandler(t, n.counting(mux)), nativeLimits{})
	for range 3 {
		_, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, func(*outriggerv1.ToolEvent) {})
		if e := failure(t, err); e.Code != connect.CodeUnimplemented {
			t.Errorf("got %v", err)
		}
	}
	n.is(t, 3, 3)
}

// Without events there is no need for a stream.
func TestCallToolWithoutEvents(t *testing.T) {
	t.Parallel()
	n := new(counts)
	mux := http.NewServeMux()
	mux.Handle(outriggerv1connect.NewToolServiceHandler(&service{
		unary:  func(context.Context, proto.Message, http.Header) (proto.Message, error) { return success("unary"), nil },
		stream: sending([]*outriggerv1.ToolEvent{outcomeEvent(success("stream"))}, nil),
	}))
	c := dial(t, "grpc://"+serveHandler(t, n.counting(mux)), nativeLimits{})
	if outcome, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, nil); err != nil || !proto.Equal(outcome, success("unary")) {
		t.Errorf("got %v, %v", outcome, err)
	}
	n.is(t, 0, 1)
}

// A slow receiver of events holds up nothing but its own call.
func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	addr := serve(t, &service{stream: sending(append(slices.Repeat(meanwhile(), 20), outcomeEvent(success("done"))), nil)})
	c := dial(t, "grpc://"+addr, nativeLimits{})
	held, release := make(chan struct{}), make(chan struct{})
	slow := make(chan error, 1)
	go func() {
		first := true
		_, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, func(*outriggerv1.ToolEvent) {
			if first {
				first = false
				close(held)
				<-release
			}
		})
		slow <- err
	}()
	<-held
	done := make(chan error)
	for range 20 {
		go func() {
			n := 0
			_, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, func(*outriggerv1.ToolEvent) { n++ })
			if err == nil && n != 100 {
				err = errors.New("events are missing")
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	close(release)
	if err := <-slow; err != nil {
		t.Error(err)
	}
}

// grpc-go's way of saying no, and of streaming.
func TestCallToolOfGRPCGo(t *testing.T) {
	t.Parallel()
	streams := atomic.Bool{}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: outriggerv1connect.ToolServiceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "CallTool", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return success("unary"), decode(new(outriggerv1.ToolCall))
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "CallToolStream", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			if !streams.Load() {
				return status.Error(codes.Unimplemented, "not here")
			}
			for _, event := range append(meanwhile(), outcomeEvent(success("stream"))) {
				if err := stream.SendMsg(event); err != nil {
					return err
				}
			}
			return nil
		}}},
	}, nil)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(lis) }()
	t.Cleanup(func() { server.Stop(); <-done })
	c := dial(t, "http://"+lis.Addr().String(), nativeLimits{streamRetry: time.Nanosecond})
	for _, want := range []string{"unary", "stream"} {
		streams.Store(want == "stream")
		var got []*outriggerv1.ToolEvent
		outcome, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, keep(&got))
		if err != nil || !proto.Equal(outcome, success(want)) || (len(got) != 0) != (want == "stream") {
			t.Errorf("%s: got %v, %v after %d events", want, outcome, err, len(got))
		}
	}
}
