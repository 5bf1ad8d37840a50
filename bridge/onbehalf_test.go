// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/operationtest"
	"github.com/outrigger-mcp/outrigger/internal/source"
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
	b := bridge.New(mcptest.Memory(t), upstream, correlate.New(correlate.Options{}), bridge.Options{
		OnBehalf: s, Guard: backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(3)), Backoff: durationpb.New(time.Millisecond)}}), backend.GuardOptions{}),
	})
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
	guard := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), FailurePercent: new(int32(1))}}), backend.GuardOptions{})
	b := bridge.New(mcptest.Memory(t), upstream, correlate.New(correlate.Options{}), bridge.Options{
		OnBehalf: &speaker{err: errmap.New(errmap.Unavailable, errmap.RetryAfter(7*time.Second))}, Guard: guard,
	})
	for range 10 {
		resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`))
		if resp.Err == nil || resp.Err.Code != errmap.Unavailable || resp.Err.RetryAfter != 7*time.Second {
			t.Fatalf("%v", resp.Err)
		}
	}
	if guard.Stats().Breaker != backend.BreakerClosed {
		t.Error("the circuit breaker of the backend opened")
	}
}

// steps is a backend in a bubble: an operation that ends after so long.
type steps struct {
	takes     time.Duration
	begun     time.Time
	asked     []time.Duration
	cancelled atomic.Int64
}

func (s *steps) call(_ context.Context, m *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	switch m.Procedure {
	case operationtest.Procedure + "PublishVideos":
		s.begun = time.Now()
	case "/google.longrunning.Operations/GetOperation":
		s.asked = append(s.asked, time.Since(s.begun))
	case "/google.longrunning.Operations/CancelOperation":
		s.cancelled.Add(1)
		return &bridge.Answer{}, nil
	default:
		return nil, errmap.FromBackendStatus(connect.CodeUnimplemented, "no such RPC", nil)
	}
	wire, err := proto.Marshal(&longrunningpb.Operation{Name: "operations/1", Done: time.Since(s.begun) >= s.takes})
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &bridge.Answer{Body: wire}, nil
}

func (s *steps) bridge(t *testing.T, o bridge.Options) *bridge.Bridge {
	t.Helper()
	live := catalog.NewLive([]source.Source{source.NewDescriptors("studio", operationtest.Files(t), operationtest.Service)}, catalog.LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return bridge.New(live, mcptest.Upstream(s.call), correlate.New(correlate.Options{}), o)
}

// Without WaitOperation the questions come after 250 ms, and then each time later, in the caller's name. The deadline is that of
// the call; a drain ends the wait at once, since another replica can go on; and a caller that cancels has the operation cancelled.
func TestHowACallWaitsForAnOperation(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		takes     time.Duration
		meanwhile func(b *bridge.Bridge, cancel context.CancelFunc)
		want      time.Duration
		cancelled int64
	}{
		{name: "until it is done", takes: 9 * time.Second, want: 15750 * time.Millisecond},
		{name: "until the time is over", takes: time.Hour, want: 29 * time.Second},
		{name: "until the sidecar drains", takes: time.Hour, want: 5 * time.Second, meanwhile: func(b *bridge.Bridge, _ context.CancelFunc) { b.EndListens() }},
		{name: "until the caller cancels", takes: time.Hour, want: 5 * time.Second, cancelled: 1, meanwhile: func(_ *bridge.Bridge, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, who := &steps{takes: tc.takes}, &speaker{}
				b := s.bridge(t, bridge.Options{Timeout: 30 * time.Second, OnBehalf: who})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.meanwhile != nil {
					time.AfterFunc(5*time.Second, func() { tc.meanwhile(b, cancel) })
				}
				start := time.Now()
				resp := b.Handle(ctx, toolCall(b, "studio.publish_videos", `{}`))
				if took := time.Since(start); took != tc.want {
					t.Errorf("took %v, want %v", took, tc.want)
				}
				if (resp.Err != nil) != (tc.cancelled > 0) || s.cancelled.Load() != tc.cancelled {
					t.Errorf("%v; cancelled %d times, want %d", resp.Err, s.cancelled.Load(), tc.cancelled)
				}
				first := []time.Duration{0, 250 * time.Millisecond, 750 * time.Millisecond, 1750 * time.Millisecond, 3750 * time.Millisecond}
				if diff := cmp.Diff(first, s.asked[:len(first)]); diff != "" {
					t.Errorf("asked after (-want +got):\n%s", diff)
				}
				if who.asked.Load() < int64(len(s.asked)+1) {
					t.Errorf("asked %d times in whose name, for %d calls", who.asked.Load(), len(s.asked)+1)
				}
			})
		})
	}
}
