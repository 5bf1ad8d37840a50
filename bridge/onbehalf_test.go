// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// speaker makes credentials, or an error.
type speaker struct {
	asked atomic.Int64
	err   *errmap.Error
}

func (s *speaker) Authorization(context.Context) (string, *errmap.Error) {
	s.asked.Add(1)
	return "Bearer x", s.err
}

// TestAttemptsShareTheirCredentials: a call asks once in whose name it is, however often
// it is made.
func TestAttemptsShareTheirCredentials(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int64
	upstream := mcptest.Upstream(func(ctx context.Context, m *catalog.Method, in []byte, h http.Header) (*bridge.Answer, *errmap.Error) {
		if !backend.HasAuthorization(ctx) {
			t.Error("an attempt without credentials")
		}
		if attempts.Add(1) < 3 {
			return nil, errmap.Wrap(errmap.Unavailable, errors.New("not yet"))
		}
		return mcptest.Echo(ctx, m, in, h)
	})
	s := &speaker{}
	b := dialect.New(bridge.New(mcptest.Memory(t), upstream, correlate.New(correlate.Options{}), bridge.Options{
		OnBehalf: s, Guard: resilience.New(resilience.Options{MaxAttempts: 3, Backoff: time.Millisecond}),
	}), dialect.Options{})
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`)); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	if s.asked.Load() != 1 || attempts.Load() != 3 {
		t.Errorf("asked %d times for %d attempts", s.asked.Load(), attempts.Load())
	}
}

// TestNoCredentialsNoCall: the backend is not reached where the caller has no credentials
// for it, and that is no failure of the backend.
func TestNoCredentialsNoCall(t *testing.T) {
	t.Parallel()
	upstream := mcptest.Upstream(func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		t.Error("the backend is called")
		return nil, errmap.New(errmap.InternalError)
	})
	guard := resilience.New(resilience.Options{MinCalls: 1, FailurePercent: 1})
	b := dialect.New(bridge.New(mcptest.Memory(t), upstream, correlate.New(correlate.Options{}), bridge.Options{
		OnBehalf: &speaker{err: errmap.New(errmap.Unavailable, errmap.RetryAfter(7*time.Second))}, Guard: guard,
	}), dialect.Options{})
	for range 10 {
		resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`))
		if resp.Err == nil || resp.Err.Code != errmap.Unavailable || resp.Err.RetryAfter != 7*time.Second {
			t.Fatalf("%v", resp.Err)
		}
	}
	if guard.Stats().Breaker != resilience.Closed {
		t.Error("the circuit breaker of the backend opened")
	}
}
