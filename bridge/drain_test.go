// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

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
func inBubble(live *catalog.Live, call mcptest.Upstream) *dialect.Handler {
	return dialect.New(bridge.New(live, call, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
}

func TestADrainAnswersWhatIsInFlightAndRefusesTheRest(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		backend := newHeld()
		b := inBubble(live, backend.call)
		ctx := context.Background()
		inFlight := b.BeginMessage(ctx, inbound(t, 1, dialect.Modern, echoCall))
		replies := make(chan dialect.Reply, 1)
		go func() { replies <- *inFlight() }()
		<-backend.entered

		drained := make(chan error, 1)
		grace, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		go func() { drained <- b.Flights().Drain(grace) }()
		synctest.Wait()
		for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
			got := answer(t, b, d, echoCall)
			if got.code() != errmap.Unavailable || !got.data().Retryable || got.data().RetryAfterMS <= 0 {
				t.Errorf("%v: got %+v, want UNAVAILABLE with a hint", d, got)
			}
		}
		close(backend.release)
		if got := decode(t, <-replies); got.Result == nil || got.Result.IsError {
			t.Errorf("what was in flight got %+v", got)
		}
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
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
			b := inBubble(live, untilDone)
			responses := make(chan *bridge.Response, 1)
			go func() { responses <- b.Handle(context.Background(), toolCall(b, tool, arguments)) }()
			synctest.Wait()
			over, cancel := context.WithCancel(context.Background())
			cancel()
			_ = b.Flights().Drain(over)
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
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := inBubble(live, untilDone)
				run := b.BeginMessage(context.Background(), inbound(t, 1, d, echoCall))
				replies := make(chan dialect.Reply, 1)
				go func() { replies <- *run() }()
				synctest.Wait()
				grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				defer cancel()
				var cut *correlate.DrainError
				if err := b.Flights().Drain(grace); !errors.As(err, &cut) || cut.Cut != 1 {
					t.Errorf("drain: %v, want one call cut", err)
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
