// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestRefreshes share loads: one that is under way is not enough, because it may
// have read what has changed since.
func TestRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r *Refresher
		live := catalog.NewLive([]source.Source{gateSource{}}, catalog.LiveOptions{})
		r = newRefresher(live, zap.NewNop())
		first := r.Begin("first")
		synctest.Wait()
		if loads := live.Status().Loads; loads != 0 {
			t.Errorf("%d loads before anybody listens", loads)
		}
		r.Start()
		synctest.Wait() // it hangs in the source
		second, third := r.Begin("second"), r.Begin("third")
		if first == second || second != third {
			t.Error("loads are not shared as they should be")
		}
		if _, err := r.Now(canceled(t), "fourth"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves gets %v", err)
		}
		r.close()
		for _, run := range []*Refresh{first, second, r.Begin("late")} {
			<-run.done
			if run.err == nil {
				t.Error("a load without an end succeeded")
			}
		}
		if loads := live.Status().Loads; loads > 2 {
			t.Errorf("%d loads for five requests", loads)
		}
	})
}

// gateSource loads until its context ends.
type gateSource struct{}

func (gateSource) Name() string { return "gate" }

func (gateSource) Load(ctx context.Context) (*source.Loaded, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
