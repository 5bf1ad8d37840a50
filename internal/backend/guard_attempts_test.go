// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"strings"
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
