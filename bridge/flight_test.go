// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// untilDone is a backend that never answers: the end of the context ends the
// call, as it does in the real client.
func untilDone(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
}

// held is a backend that echoes when it is let go.
type held struct{ entered, release chan struct{} }

func newHeld() *held { return &held{entered: make(chan struct{}, 16), release: make(chan struct{})} }

func (h *held) call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	h.entered <- struct{}{}
	select {
	case <-h.release:
		return mcptest.Echo(ctx, m, in, header)
	case <-ctx.Done():
		return untilDone(ctx, m, in, header)
	}
}

const echoCall = `{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"n"},` + modernMeta + `}}`

func TestOfTwoEqualIDsTheSecondIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		dialect dialect.Dialect
		status  int
	}{
		{dialect.Canonical, http.StatusConflict},
		{dialect.Modern, http.StatusBadRequest},
		{dialect.Legacy, http.StatusBadRequest},
	} {
		t.Run(d.dialect.String(), func(t *testing.T) {
			t.Parallel()
			backend := newHeld()
			b := fake(t, backend.call, bridge.Options{})
			origin := b.Flights().NewOrigin()
			ctx := context.Background()

			first := b.BeginMessage(ctx, inbound(t, origin, d.dialect, echoCall))
			second := b.BeginMessage(ctx, inbound(t, origin, d.dialect, echoCall))
			elsewhere := b.BeginMessage(ctx, inbound(t, b.Flights().NewOrigin(), d.dialect, echoCall))
			got := decode(t, *second())
			if got.Error == nil || got.code() != errmap.DuplicateRequestID || got.Status != d.status || string(got.ID) != `"same"` {
				t.Errorf("the second: %+v, want %d DUPLICATE_REQUEST_ID", got, d.status)
			}
			close(backend.release)
			for name, run := range map[string]func() *dialect.Reply{"the first": first, "another origin": elsewhere} {
				if got := decode(t, *run()); got.Result == nil || got.Result.IsError {
					t.Errorf("%s is disturbed: %+v", name, got)
				}
			}
			if again := decode(t, b.HandleMessage(ctx, inbound(t, origin, d.dialect, echoCall))); again.Result == nil {
				t.Errorf("after its answer an id may be used again: %+v", again)
			}
		})
	}
}

func TestACancelledRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	b := fake(t, backend.call, bridge.Options{})
	origin := b.Flights().NewOrigin()
	ctx := context.Background()

	run := b.BeginMessage(ctx, inbound(t, origin, dialect.Modern, echoCall))
	replies := make(chan dialect.Reply, 1)
	go func() { replies <- *run() }()
	<-backend.entered
	for _, ignored := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":"same"}}`,
	} {
		reply := b.HandleMessage(ctx, inbound(t, origin, dialect.Legacy, ignored))
		if reply.Bytes() != nil || reply.Status != http.StatusAccepted {
			t.Errorf("%s is answered: %d %s", ignored, reply.Status, reply.Bytes())
		}
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same","reason":"changed my mind"}}`
	b.HandleMessage(ctx, inbound(t, b.Flights().NewOrigin(), dialect.Modern, cancel))
	if n := b.Flights().InFlight(); n != 1 {
		t.Fatalf("another origin's cancellation counts: %d in flight", n)
	}
	// Whatever dialect the cancellation comes in, it finds the call.
	b.HandleMessage(ctx, inbound(t, origin, dialect.Canonical, cancel))
	if reply := <-replies; reply.Bytes() != nil {
		t.Errorf("a cancelled request is answered: %s", reply.Bytes())
	}
	if n := b.Flights().InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
}

func TestACancelThatWinsTheRaceAgainstAResultSilencesIt(t *testing.T) {
	t.Parallel()
	b := fake(t, nil, bridge.Options{})
	req := toolCall(b, "lab.echo", `{}`)
	flight := b.Begin(context.Background(), req)
	if !b.Cancel(req.Origin, req.ID, "") {
		t.Fatal("the request is not found")
	}
	resp := flight.Run()
	if !resp.Silent || codeOf(resp) != errmap.Cancelled {
		t.Errorf("got %+v, want silence", resp)
	}
}

func TestARequestWithoutIDNeverCollides(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	origin := b.Flights().NewOrigin()
	var flights []*bridge.Flight
	for range 2 {
		req := toolCall(b, "lab.echo", `{}`)
		req.Origin, req.ID = origin, jsonrpc.ID{}
		flights = append(flights, b.Begin(context.Background(), req))
	}
	for _, f := range flights {
		if resp := f.Run(); resp.Err != nil {
			t.Errorf("refused: %v", resp.Err)
		}
	}
}

func TestTheEndOfTheConnectionEndsTheCall(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	b := fake(t, backend.call, bridge.Options{})
	ctx, hangUp := context.WithCancel(context.Background())
	responses := make(chan *bridge.Response, 1)
	go func() { responses <- b.Handle(ctx, toolCall(b, "lab.echo", `{}`)) }()
	<-backend.entered
	hangUp()
	if resp := <-responses; codeOf(resp) != errmap.Cancelled {
		t.Errorf("got %v, want CANCELLED", resp.Err)
	}
	if n := b.Flights().InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
}

// A full table sheds load. What concerns a call is a tool error in MCP, so that
// a model may wait and try again.
func TestAFullTableIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		dialect dialect.Dialect
		isError bool
		status  int
	}{
		{dialect.Canonical, false, http.StatusServiceUnavailable},
		{dialect.Modern, true, http.StatusOK},
		{dialect.Legacy, true, http.StatusOK},
	} {
		t.Run(d.dialect.String(), func(t *testing.T) {
			t.Parallel()
			b := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{MaxInFlight: 1}), bridge.Options{}), dialect.Options{})
			ctx := context.Background()
			first := b.Begin(ctx, toolCall(b, "lab.echo", `{}`))
			got := answer(t, b, d.dialect, echoCall)
			if got.code() != errmap.Unavailable || got.Status != d.status || (got.Result != nil) != d.isError {
				t.Errorf("got %+v, want UNAVAILABLE", got)
			}
			if !got.data().Retryable || got.data().RetryAfterMS <= 0 {
				t.Errorf("no retry hint: %+v", got.data())
			}
			if resp := first.Run(); resp.Err != nil {
				t.Errorf("the first is disturbed: %v", resp.Err)
			}
			if got := answer(t, b, d.dialect, echoCall); got.code() != "" {
				t.Errorf("there is room again, but: %+v", got)
			}
		})
	}
}

// An edge may refuse a call before the bridge has looked at its method.
func TestARefusedCallIsAToolError(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	busy := func() *errmap.Error { return errmap.New(errmap.Unavailable) }
	for _, tc := range []struct {
		name, raw string
		dialect   dialect.Dialect
		isError   bool
		status    int
	}{
		{"modern call", echoCall, dialect.Modern, true, 200},
		{"legacy call", echoCall, dialect.Legacy, true, 200},
		{"canonical call", echoCall, dialect.Canonical, false, 503},
		{"modern list", `{"jsonrpc":"2.0","id":"same","method":"tools/list"}`, dialect.Modern, false, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := decode(t, b.Refuse(inbound(t, 0, tc.dialect, tc.raw), busy()))
			if got.Status != tc.status || got.code() != errmap.Unavailable || (got.Result != nil && got.Result.IsError) != tc.isError {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAResponseIsRefusedWithoutItsID(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{})
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"7","result":{}}`,
		`{"jsonrpc":"2.0","id":"7","error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"1.0","id":"7","result":{}}`,
	} {
		for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
			got := answer(t, b, d, raw)
			if got.code() != errmap.InvalidEnvelope || got.Status != http.StatusBadRequest {
				t.Errorf("%v %s: got %+v, want 400 INVALID_ENVELOPE", d, raw, got)
			}
			if len(got.ID) > 0 && string(got.ID) != "null" {
				t.Errorf("%v %s: the answer has the id of a call that may be in flight: %s", d, raw, got.ID)
			}
		}
	}
}
