// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// untilDone is a backend that never answers: the end of the context ends the
// call, as it does in the real client.
func untilDone(ctx context.Context, _ *mcptest.Method, _ []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
	<-ctx.Done()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
}

// held is a backend that echoes when it is let go.
type held struct{ entered, release chan struct{} }

func newHeld() *held { return &held{entered: make(chan struct{}, 16), release: make(chan struct{})} }

func (h *held) call(ctx context.Context, m *mcptest.Method, in []byte, header http.Header) (*mcptest.Answer, *errmap.Error) {
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
		dialect mcptest.Dialect
		status  int
	}{
		{mcptest.Canonical, http.StatusConflict},
		{mcptest.Modern, http.StatusBadRequest},
		{mcptest.Legacy, http.StatusBadRequest},
	} {
		t.Run(d.dialect.String(), func(t *testing.T) {
			t.Parallel()
			backend := newHeld()
			b := fake(t, backend.call, nil)
			origin := b.NewOrigin()
			ctx := context.Background()

			first := b.Begin(ctx, inbound(origin, d.dialect, echoCall))
			second := b.Begin(ctx, inbound(origin, d.dialect, echoCall))
			elsewhere := b.Begin(ctx, inbound(b.NewOrigin(), d.dialect, echoCall))
			got := decode(t, second())
			if got.Error == nil || got.code() != errmap.DuplicateRequestID || got.Status != d.status || string(got.ID) != `"same"` {
				t.Errorf("the second: %+v, want %d DUPLICATE_REQUEST_ID", got, d.status)
			}
			close(backend.release)
			for name, run := range map[string]func() mcptest.Reply{"the first": first, "another origin": elsewhere} {
				if got := decode(t, run()); got.Result == nil || got.Result.IsError {
					t.Errorf("%s is disturbed: %+v", name, got)
				}
			}
			if again := decode(t, b.Send(ctx, inbound(origin, d.dialect, echoCall))); again.Result == nil {
				t.Errorf("after its answer an id may be used again: %+v", again)
			}
		})
	}
}

func TestACancelledRequestIsNotAnswered(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	b := fake(t, backend.call, nil)
	origin := b.NewOrigin()
	ctx := context.Background()

	run := b.Begin(ctx, inbound(origin, mcptest.Modern, echoCall))
	replies := make(chan mcptest.Reply, 1)
	go func() { replies <- run() }()
	<-backend.entered
	for _, ignored := range []string{
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"other"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		`{"jsonrpc":"2.0","method":"notifications/other","params":{"requestId":"same"}}`,
	} {
		reply := b.Send(ctx, inbound(origin, mcptest.Legacy, ignored))
		if reply.Bytes() != nil || reply.Status != http.StatusAccepted {
			t.Errorf("%s is answered: %d %s", ignored, reply.Status, reply.Bytes())
		}
	}
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"same","reason":"changed my mind"}}`
	b.Send(ctx, inbound(b.NewOrigin(), mcptest.Modern, cancel))
	if n := b.InFlight(); n != 1 {
		t.Fatalf("another origin's cancellation counts: %d in flight", n)
	}
	// Whatever dialect the cancellation comes in, it finds the call.
	b.Send(ctx, inbound(origin, mcptest.Canonical, cancel))
	if reply := <-replies; reply.Bytes() != nil {
		t.Errorf("a cancelled request is answered: %s", reply.Bytes())
	}
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
}

func TestACancelThatWinsTheRaceAgainstAResultSilencesIt(t *testing.T) {
	t.Parallel()
	b := fake(t, nil, nil)
	req := toolCall(b, "lab.echo", `{}`)
	run := b.BeginCall(context.Background(), req)
	if !b.Cancel(req) {
		t.Fatal("the request is not found")
	}
	resp := run()
	if !resp.IsSilent || codeOf(resp) != errmap.Cancelled {
		t.Errorf("got %+v, want silence", resp)
	}
}

func TestARequestWithoutIDNeverCollides(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	origin := b.NewOrigin()
	var flights []func() *mcptest.Outcome
	for range 2 {
		req := toolCall(b, "lab.echo", `{}`)
		req.Origin, req.ID = origin, ""
		flights = append(flights, b.BeginCall(context.Background(), req))
	}
	for _, run := range flights {
		if resp := run(); resp.Err != nil {
			t.Errorf("refused: %v", resp.Err)
		}
	}
}

func TestTheEndOfTheConnectionEndsTheCall(t *testing.T) {
	t.Parallel()
	backend := newHeld()
	b := fake(t, backend.call, nil)
	ctx, hangUp := context.WithCancel(context.Background())
	responses := make(chan *mcptest.Outcome, 1)
	go func() { responses <- b.Handle(ctx, toolCall(b, "lab.echo", `{}`)) }()
	<-backend.entered
	hangUp()
	if resp := <-responses; codeOf(resp) != errmap.Cancelled {
		t.Errorf("got %v, want CANCELLED", resp.Err)
	}
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
}

// A full table sheds load. What concerns a call is a tool error in MCP, so that
// a model may wait and try again.
func TestAFullTableIsUnavailable(t *testing.T) {
	t.Parallel()
	for _, d := range []struct {
		dialect mcptest.Dialect
		isError bool
		status  int
	}{
		{mcptest.Canonical, false, http.StatusServiceUnavailable},
		{mcptest.Modern, true, http.StatusOK},
		{mcptest.Legacy, true, http.StatusOK},
	} {
		t.Run(d.dialect.String(), func(t *testing.T) {
			t.Parallel()
			b := mcptest.Pipe(t, mcptest.Parts{Backend: mcptest.Upstream(mcptest.Echo), Configure: inFlight(1)})
			ctx := context.Background()
			first := b.BeginCall(ctx, toolCall(b, "lab.echo", `{}`))
			got := answer(t, b, d.dialect, echoCall)
			if got.code() != errmap.Unavailable || got.Status != d.status || (got.Result != nil) != d.isError {
				t.Errorf("got %+v, want UNAVAILABLE", got)
			}
			if !got.data().Retryable || got.data().RetryAfterMS <= 0 {
				t.Errorf("no retry hint: %+v", got.data())
			}
			if resp := first(); resp.Err != nil {
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
	b := fake(t, mcptest.Echo, nil)
	busy := func() *errmap.Error { return errmap.New(errmap.Unavailable) }
	for _, tc := range []struct {
		name, raw string
		dialect   mcptest.Dialect
		isError   bool
		status    int
	}{
		{"modern call", echoCall, mcptest.Modern, true, 200},
		{"legacy call", echoCall, mcptest.Legacy, true, 200},
		{"canonical call", echoCall, mcptest.Canonical, false, 503},
		{"modern list", `{"jsonrpc":"2.0","id":"same","method":"tools/list"}`, mcptest.Modern, false, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := decode(t, b.Refuse(inbound(0, tc.dialect, tc.raw), busy()))
			if got.Status != tc.status || got.code() != errmap.Unavailable || (got.Result != nil && got.Result.IsError) != tc.isError {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestAResponseIsRefusedWithoutItsID(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":"7","result":{}}`,
		`{"jsonrpc":"2.0","id":"7","error":{"code":1,"message":"m"}}`,
		`{"jsonrpc":"1.0","id":"7","result":{}}`,
	} {
		for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
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

func containsAll(s string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// inBubble makes the bridge inside the bubble of a test, so that its channels
// belong to it, over a catalog that was loaded outside.
func inBubble(t *testing.T, live *mcptest.Tools, call mcptest.Upstream) *mcptest.Rig {
	t.Helper()
	return mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: call})
}

func TestADrainAnswersWhatIsInFlightAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		b := inBubble(t, live, backend.call)
		ctx := context.Background()
		inFlight := b.Begin(ctx, inbound(1, mcptest.Modern, echoCall))
		replies := make(chan mcptest.Reply, 1)
		go func() { replies <- inFlight() }()
		<-backend.entered

		drained := make(chan int, 1)
		grace, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		go func() { drained <- b.Drain(grace) }()
		synctest.Wait()
		for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
			got := answer(t, b, d, echoCall)
			if got.code() != errmap.Unavailable || !got.data().Retryable || got.data().RetryAfterMS <= 0 {
				t.Errorf("%v: got %+v, want UNAVAILABLE with a hint", d, got)
			}
		}
		close(backend.release)
		if got := decode(t, <-replies); got.Result == nil || got.Result.IsError {
			t.Errorf("what was in flight got %+v", got)
		}
		if cut := <-drained; cut != 0 {
			t.Errorf("the drain cut %d calls", cut)
		}
	})
}

// A call that may have run must not be sent twice by a client that trusts the
// retry hint.
func TestACutCallMayBeRetriedWhereThatDoesNoHarm(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for tool, arguments := range map[string]string{
		"lab.echo": `{}`,
		"fleet.place_order": `{"customer":"Clinic","destination":{"stopId":"6"},` +
			`"parcels":[{"contents":"mangoes","weightKg":4,"valueCents":"1200"}]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := inBubble(t, live, untilDone)
			responses := make(chan *mcptest.Outcome, 1)
			go func() { responses <- b.Handle(context.Background(), toolCall(b, tool, arguments)) }()
			synctest.Wait()
			over, cancel := context.WithCancel(context.Background())
			cancel()
			b.Drain(over)
			resp := <-responses
			if codeOf(resp) != errmap.Unavailable || resp.Err.CanRetry(false) != (tool == "lab.echo") {
				t.Errorf("%s: got %v, retryable %v", tool, resp.Err, resp.Err.CanRetry(false))
			}
		})
	}
}

func TestAfterTheGraceTheOutcomeIsUnknown(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := inBubble(t, live, untilDone)
				run := b.Begin(context.Background(), inbound(1, d, echoCall))
				replies := make(chan mcptest.Reply, 1)
				go func() { replies <- run() }()
				synctest.Wait()
				grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				if cut := b.Drain(grace); cut != 1 {
					t.Errorf("the drain cut %d calls, want 1", cut)
				}
				reply := <-replies
				got := decode(t, reply)
				if got.code() != errmap.Unavailable || !strings.Contains(string(reply.Bytes()), "outcome is unknown") {
					t.Errorf("got %s, want UNAVAILABLE with an unknown outcome", reply.Bytes())
				}
			})
		})
	}
}

const placeOrder = `{"customer":"Clinic","destination":{"stopId":"6"},` +
	`"parcels":[{"contents":"mangoes","weightKg":4,"valueCents":"1200"}]}`

// TestOnlyWhatDoesNoHarmIsRepeated has a backend that breaks off every call.
func TestOnlyWhatDoesNoHarmIsRepeated(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for _, tc := range []struct {
		name, tool, arguments, key string
		attempts                   int
	}{
		{"an idempotent tool", "lab.echo", `{}`, "", 3},
		{"one that is not", "fleet.place_order", placeOrder, "", 1},
		{"one that is not, with a key", "fleet.place_order", placeOrder, "order-7", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var keys []string
				b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(func(_ context.Context, _ *mcptest.Method, _ []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
					keys = append(keys, strings.Join(h.Values(idempotencyHeader), ","))
					return nil, errmap.New(errmap.TransportError)
				})})
				req := toolCall(b, tc.tool, tc.arguments)
				if tc.key != "" {
					req.Header = http.Header{idempotencyHeader: {tc.key}}
				}
				if resp := b.Handle(context.Background(), req); codeOf(resp) != errmap.TransportError {
					t.Errorf("got %v", resp.Err)
				}
				if len(keys) != tc.attempts {
					t.Errorf("%d attempts, want %d", len(keys), tc.attempts)
				}
				for _, key := range keys {
					if key != tc.key {
						t.Errorf("the backend gets the key %q", key)
					}
				}
			})
		})
	}
}

// TestKeysInMessages: the key of a message goes on in every dialect, and one that
// is none is refused before anything is sent.
func TestKeysInMessages(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	for value, want := range map[string]string{
		`"k-1"`: "k-1", `""`: "", `7`: "", `"a b"`: "", `"a\nb"`: "", `"` + strings.Repeat("x", 256) + `"`: "", `"é"`: "",
	} {
		var got []string
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(func(_ context.Context, _ *mcptest.Method, in []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
			got = append(got, h.Get(idempotencyHeader))
			return &mcptest.Answer{Body: bytes.Clone(in)}, nil
		})})
		reply := answer(t, b, mcptest.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{},"_meta":{"dev.outrigger/idempotency-key":`+value+`}}}`)
		switch {
		case want != "" && (reply.code() != "" || len(got) != 1 || got[0] != want):
			t.Errorf("%s: %+v, sent %q", value, reply, got)
		case want == "" && (reply.code() != errmap.InvalidParams || len(got) != 0):
			t.Errorf("%s: %+v, sent %q", value, reply, got)
		}
	}
}

// TestWaitingForAPlaceCounts: a call that waited has less time left.
func TestWaitingForAPlaceCounts(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(untilDone), Configure: both(within(10*time.Second), atOnce(1))})
		start := time.Now()
		done := make(chan *mcptest.Outcome, 2)
		for range 2 {
			go func() { done <- b.Handle(context.Background(), toolCall(b, "lab.echo", `{}`)) }()
			synctest.Wait()
			time.Sleep(4 * time.Second)
		}
		for range 2 {
			if resp := <-done; codeOf(resp) != errmap.Timeout {
				t.Errorf("got %v", resp.Err)
			}
		}
		// The second came after 4 s, waited 6 s, and had 4 s of its 10 s left.
		if took := time.Since(start); took != 14*time.Second {
			t.Errorf("it took %v", took)
		}
		if n := b.InFlight(); n != 0 {
			t.Errorf("%d calls are left", n)
		}
	})
}

// panicking answers like an echo, and panics in lab.sleep.
func panicking(_ context.Context, m *mcptest.Method, in []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
	if strings.HasSuffix(m.Procedure, "/Sleep") {
		panic("the handler has a fault: hunter2")
	}
	return &mcptest.Answer{Body: bytes.Clone(in)}, nil
}

func TestAPanicIsOneInternalErrorForOneCaller(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.ErrorLevel)
	b := mcptest.Pipe(t, mcptest.Parts{Backend: mcptest.Upstream(panicking), Log: zap.New(core)})
	origin := b.NewOrigin()
	var others sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d"} {
		others.Go(func() {
			raw := `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"` + id + `"}}}`
			got := decode(t, b.Send(context.Background(), inbound(origin, mcptest.Canonical, raw)))
			if got.Result == nil || !strings.Contains(string(got.Result.StructuredContent), `"nonce":"`+id+`"`) {
				t.Errorf("%s: got %+v, want its own nonce", id, got)
			}
		})
	}
	reply := b.Send(context.Background(), inbound(origin, mcptest.Canonical,
		`{"jsonrpc":"2.0","id":"boom","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"0s"}}}`))
	others.Wait()
	got := decode(t, reply)
	if got.code() != errmap.InternalError || got.Status != http.StatusInternalServerError || string(got.ID) != `"boom"` {
		t.Errorf("got %d %s, want one INTERNAL_ERROR for boom", got.Status, reply.Bytes())
	}
	if strings.Contains(string(reply.Bytes()), "hunter2") || strings.Contains(string(reply.Bytes()), "goroutine") {
		t.Errorf("the panic leaves the process: %s", reply.Bytes())
	}
	if n := b.InFlight(); n != 0 {
		t.Errorf("%d requests are still in flight", n)
	}
	entries := logs.FilterMessage("panic while handling a request").All()
	if len(entries) != 1 {
		t.Fatalf("%d log entries about a panic, want 1", len(entries))
	}
	fields := entries[0].ContextMap()
	stack, _ := fields["exception.stacktrace"].(string)
	if !strings.Contains(stack, "panicking") {
		t.Errorf("the log has no stack that names the culprit: %v", fields)
	}
	if fields["outrigger.tool.name"] != "lab.sleep" || fields["jsonrpc.request.id"] != "boom" {
		t.Errorf("the log does not say which request it was: %v", fields)
	}
}
