// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	ratelimitv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/ratelimit/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// hashOf is what docs/limits.md tells operators to compute: the first 32 digits of sha256sum.
func hashOf(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:])[:32]
}

// bubblePeer is a service inside a bubble, where there are no sockets.
type bubblePeer struct {
	asked atomic.Int64
	// takes is how long an answer takes, and broken whether it is an error.
	takes  atomic.Int64
	broken atomic.Bool
}

// Call implements policy.RateCaller.
func (p *bubblePeer) Call(ctx context.Context, _ string, _ []byte, _ http.Header) (*backend.Answer, error) {
	p.asked.Add(1)
	select {
	case <-time.After(time.Duration(p.takes.Load())):
	case <-ctx.Done():
		return nil, &backend.Error{Kind: backend.KindTimeout}
	}
	if p.broken.Load() {
		return nil, errors.New("broken")
	}
	body, err := proto.Marshal(&ratelimitv1.RateLimitResponse{OverallCode: ratelimitv1.RateLimitResponse_OK})
	return &backend.Answer{Body: body}, err
}

// TestADeadServiceCostsLittle: five calls wait for their 20 ms, the others for nothing, except one in a second.
func TestADeadServiceCostsLittle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(bubblePeer)
		p.takes.Store(int64(time.Hour))
		s := policy.NewRateService(p, asked(20*time.Millisecond), zap.NewNop())
		begun := time.Now()
		for range 1000 {
			if err := s.Check(t.Context(), "a", "b", false); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(begun); waited != 100*time.Millisecond || p.asked.Load() != 5 {
			t.Errorf("waited %v for %d questions", waited, p.asked.Load())
		}
		if got := s.Stats(); got.Timeouts != 5 || got.SkippedBreaker != 995 || !got.Failing {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Second)
		for range 10 {
			_ = s.Check(t.Context(), "a", "b", false)
		}
		if p.asked.Load() != 6 {
			t.Errorf("%d questions, want one more after a second", p.asked.Load())
		}
		p.takes.Store(0)
		time.Sleep(time.Second)
		for range 10 {
			_ = s.Check(t.Context(), "a", "b", false)
		}
		if p.asked.Load() != 16 || s.Stats().Failing {
			t.Errorf("%d questions, want all after an answer", p.asked.Load())
		}
	})
}

// TestOneQuestionTries: while a service is tried again, other calls do not wait for it, and a call that ends early
// leaves its turn to another.
func TestOneQuestionTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(bubblePeer)
		p.broken.Store(true)
		r := asked(20 * time.Millisecond)
		r.MaxFailures, r.Failure = new(int32(1)), new("closed")
		s := policy.NewRateService(p, r, zap.NewNop())
		if err := s.Check(t.Context(), "a", "b", false); err == nil || err.Code != errmap.Unavailable || err.RetryAfter != time.Second {
			t.Fatalf("got %v", err)
		}
		time.Sleep(400 * time.Millisecond)
		if err := s.Check(t.Context(), "a", "b", false); err == nil || err.RetryAfter != 600*time.Millisecond {
			t.Errorf("got %+v, want the time until the next question", err)
		}
		time.Sleep(600 * time.Millisecond)
		p.takes.Store(int64(time.Hour))
		ctx, leave := context.WithCancel(t.Context())
		var trying sync.WaitGroup
		trying.Go(func() {
			if err := s.Check(ctx, "a", "b", false); err == nil || err.Code != errmap.Cancelled {
				t.Errorf("left: %v", err)
			}
		})
		synctest.Wait()
		if err := s.Check(t.Context(), "a", "b", false); err == nil || err.RetryAfter != time.Second {
			t.Errorf("beside the one that tries: %+v", err)
		}
		leave()
		trying.Wait()
		p.takes.Store(0)
		p.broken.Store(false)
		if err := s.Check(t.Context(), "a", "b", false); err != nil || p.asked.Load() != 3 {
			t.Errorf("after the one that left: %v, %d questions", err, p.asked.Load())
		}
		if got := s.Stats(); got.Cancelled != 1 || got.OK != 1 || got.Errors != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// TestACallersEndIsNoFaultOfTheService, however often it happens.
func TestACallersEndIsNoFaultOfTheService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(bubblePeer)
		p.takes.Store(int64(10 * time.Millisecond))
		s := policy.NewRateService(p, asked(20*time.Millisecond), zap.NewNop())
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := s.Check(ctx, "a", "b", false); err == nil || err.Code != errmap.Timeout {
				t.Errorf("got %v", err)
			}
			cancel()
		}
		if got := s.Stats(); got.Failing || got.Cancelled != 20 || got.Timeouts != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestQuestionsAreBounded: beyond the bound, calls do not wait.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := new(bubblePeer)
		p.takes.Store(int64(10 * time.Millisecond))
		r := asked(20 * time.Millisecond)
		r.MaxInFlight, r.Failure = new(int32(2)), new("closed")
		s := policy.NewRateService(p, r, zap.NewNop())
		var calls sync.WaitGroup
		var refused atomic.Int64
		for range 5 {
			calls.Go(func() {
				if err := s.Check(t.Context(), "a", "b", false); err != nil && err.Code == errmap.Unavailable {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if got := s.Stats(); got.InFlight != 2 || got.MaxInFlight != 2 || refused.Load() != 3 || got.SkippedFull != 3 {
			t.Errorf("%d refused, %+v", refused.Load(), got)
		}
		calls.Wait()
		if got := s.Stats(); got.InFlight != 0 || got.OK != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneLineEach: a failure and a recovery are logged once, and a service that comes and goes once a minute.
func TestOneLineEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		p := new(bubblePeer)
		s := policy.NewRateService(p, asked(20*time.Millisecond), zap.New(core))
		check := func(broken bool) {
			p.broken.Store(broken)
			_ = s.Check(t.Context(), "a", "b", false)
		}
		want := func(messages ...string) {
			t.Helper()
			all := lines.TakeAll()
			if len(all) != len(messages) {
				t.Fatalf("%v, want %q", all, messages)
			}
			for i, m := range messages {
				if all[i].Message != m {
					t.Errorf("%q, want %q", all[i].Message, m)
				}
			}
		}
		const failing, again = "rate limit service failing; requests run without shared limits", "rate limit service answers again"
		check(false)
		want()
		check(true)
		check(true)
		want(failing)
		check(false)
		check(false)
		want(again)
		for range 59 {
			check(true)
			check(false)
			time.Sleep(time.Second)
		}
		want()
		time.Sleep(time.Second)
		check(true)
		check(false)
		want(failing, again)
		s.Warm(t.Context())
		want()
	})
}
