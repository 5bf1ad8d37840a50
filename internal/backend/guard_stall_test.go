// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestTimeoutsOfAProcessThatStoodStillDoNotCount makes calls that all run out of
// time: those of one tool open its breaker, those of two the backend's. Where this
// process did not run meanwhile, the answers may wait unread, and nothing opens. A
// clock that has been stopped looks like one whose process has.
func TestTimeoutsOfAProcessThatStoodStillDoNotCount(t *testing.T) {
	t.Parallel()
	runsOut := func(ctx context.Context) (int, *errmap.Error) {
		<-ctx.Done()
		return 0, errmap.New(errmap.Timeout)
	}
	for _, tc := range []struct {
		name    string
		tools   []string
		stopped bool
		// want is the state of the backend's breaker, opened how many tools were held
		// back.
		want   backend.BreakerState
		opened uint64
	}{
		{name: "one tool", tools: []string{"lab.sleep"}, want: backend.BreakerClosed, opened: 1},
		{name: "one tool, and the process stood still", tools: []string{"lab.sleep"}, stopped: true, want: backend.BreakerClosed},
		{name: "two tools", tools: []string{"lab.sleep", "lab.echo"}, want: backend.BreakerOpen},
		{name: "two tools, and the process stood still", tools: []string{"lab.sleep", "lab.echo"}, stopped: true, want: backend.BreakerClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				clock := peer.NewClock()
				defer clock.Stop()
				g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(1))}, Breaker: &configv1.Breaker{MinCalls: new(int32(2)), Window: durationpb.New(time.Minute), OpenFor: durationpb.New(time.Minute)}}), backend.GuardOptions{Clock: clock})
				if tc.stopped {
					clock.Stop()
				}
				for i := range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err := backend.DoGuarded(ctx, g, backend.GuardedCall{Key: tc.tools[i%len(tc.tools)]}, runsOut)
					cancel()
					want := errmap.Timeout
					if i >= 2 && !tc.stopped {
						want = errmap.Unavailable // held back, by one breaker or the other
					}
					if err == nil || err.Code != want {
						t.Errorf("call %d: %v, want %s", i, err, want)
					}
				}
				if s := g.Stats(); s.Breaker != tc.want || s.ToolsOpened != tc.opened {
					t.Errorf("the backend's breaker is %v and %d tools were held back, want %v and %d", s.Breaker, s.ToolsOpened, tc.want, tc.opened)
				}
			})
		})
	}
}
