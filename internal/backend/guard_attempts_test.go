// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestACallIsToldOfItsAttempts reads the spans of three attempts that fail, and of a call that the breaker holds.
func TestACallIsToldOfItsAttempts(t *testing.T) {
	t.Parallel()
	g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(3)), Backoff: durationpb.New(time.Millisecond)}, Breaker: &configv1.Breaker{MinCalls: new(int32(3)), FailurePercent: new(int32(1)), OpenFor: durationpb.New(time.Hour)}}), backend.GuardOptions{})
	for _, want := range [][]string{
		{"try []", "try [{outrigger.retry.attempt 1}]", "try [{outrigger.retry.attempt 2}]", "call []"},
		{"call [], outrigger.breaker_open [{outrigger.retry.attempt 0}]"},
	} {
		spans := tracetest.NewInMemoryExporter()
		tracer := telemetry.NewTracer(telemetry.TracerOptions{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))})
		span := tracer.Start(telemetry.Arrival{Method: "call"})
		ctx, calls := span.Calls(t.Context())
		_, _ = backend.DoGuarded(ctx, g, backend.GuardedCall{Repeatable: true, Attempts: calls}, func(ctx context.Context) (int, *errmap.Error) {
			telemetry.CallsOf(ctx).Attempt("try").End(telemetry.Outcome{})
			return 0, errmap.New(errmap.Unavailable)
		})
		span.End(telemetry.Outcome{})
		var got []string
		for _, s := range spans.GetSpans() {
			text := fmt.Sprint(s.Name, " ", pairs(s.Attributes))
			for _, e := range s.Events {
				text += fmt.Sprint(", ", e.Name, " ", pairs(e.Attributes))
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// pairs are attributes as text.
func pairs(all []telemetry.Attribute) []string {
	out := []string{}
	for _, a := range all {
		out = append(out, fmt.Sprintf("{%s %s}", a.Key, a.Value.String()))
	}
	return out
}

// TestABackendHasNoMoreThanItsCalls refuses at once what is over the bound, without asking the backend, and takes calls again when one ends.
func TestABackendHasNoMoreThanItsCalls(t *testing.T) {
	t.Parallel()
	g := backend.NewGuard(configtest.Filled(t, (*configv1.Resilience)(nil)), backend.GuardOptions{MaxCalls: 2})
	asked := 0
	var nested func(left int) *errmap.Error
	nested = func(left int) *errmap.Error {
		_, err := backend.DoGuarded(t.Context(), g, backend.GuardedCall{Key: "shop.get", Repeatable: true}, func(context.Context) (int, *errmap.Error) {
			asked++
			if left == 0 {
				return 0, nil
			}
			return 0, nested(left - 1)
		})
		return err
	}
	if err := nested(1); err != nil || asked != 2 {
		t.Fatalf("two calls at once: %v, %d of them", err, asked)
	}
	asked = 0
	err := nested(2)
	if err == nil || err.Code != errmap.Unavailable || err.RetryAfter <= 0 || !strings.Contains(err.Message, "2 calls of its backend are running") {
		t.Errorf("three calls at once: %v", err)
	}
	if asked < 2 || g.Stats().Running != 0 || g.Stats().Full == 0 {
		t.Errorf("the backend was asked %d times; %+v", asked, g.Stats())
	}
	if err := nested(1); err != nil {
		t.Errorf("after they ended: %v", err)
	}
}

// TestBackendsKeepACallOfTheirOwn has three backends with ten calls in all, of which each has two for itself and at most five. Two that
// hang take their own and all of the rest; the third still has its own, and gets more when a call of theirs ends.
func TestBackendsKeepACallOfTheirOwn(t *testing.T) {
	t.Parallel()
	shared := new(atomic.Int64)
	shared.Store(10 - 3*2)
	guards := make([]*backend.Guard, 3)
	for i := range guards {
		guards[i] = backend.NewGuard(configtest.Filled(t, (*configv1.Resilience)(nil)), backend.GuardOptions{MaxCalls: 5, OwnCalls: 2, SharedCalls: shared})
	}
	var ends []chan struct{}
	call := func(i int) *errmap.Error {
		began, end, failed := make(chan struct{}), make(chan struct{}), make(chan *errmap.Error, 1)
		go func() {
			_, err := backend.DoGuarded(t.Context(), guards[i], backend.GuardedCall{Key: "a.b"}, func(context.Context) (int, *errmap.Error) {
				close(began)
				<-end
				return 0, nil
			})
			failed <- err
		}()
		select {
		case <-began:
			ends = append(ends, end)
			return nil
		case err := <-failed:
			return err
		}
	}
	running := func(i, want int) string {
		t.Helper()
		for n := 0; ; n++ {
			if err := call(i); err != nil {
				if n != want {
					t.Errorf("backend %d began %d calls, want %d", i, n, want)
				}
				return err.Message
			}
		}
	}
	if why := running(0, 5); !strings.Contains(why, "(backends[].limits.max_concurrent_calls)") {
		t.Errorf("one alone: %s", why)
	}
	if why := running(1, 3); !strings.Contains(why, "3 calls of its backend are running (limits.max_concurrent_calls: other backends have the rest)") {
		t.Errorf("a second one: %s", why)
	}
	running(2, 2)
	close(ends[0])
	testkit.Until(t, "the call has ended", func() bool { return shared.Load() == 1 })
	running(2, 1)
	for _, end := range ends[1:] {
		close(end)
	}
	testkit.Until(t, "all calls have ended", func() bool { return shared.Load() == 4 })
}
