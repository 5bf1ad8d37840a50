// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
)

// TestRefreshes share loads: one that is under way is not enough, because it may
// have read what has changed since.
func TestRefreshes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r *refresher
		a := &app{log: zap.NewNop(), live: catalog.NewLive([]catalog.Source{gateSource{}}, catalog.LiveOptions{})}
		r = newRefresher(a)
		first := r.begin("first")
		synctest.Wait()
		if loads := a.live.Status().Loads; loads != 0 {
			t.Errorf("%d loads before anybody listens", loads)
		}
		close(r.started)
		synctest.Wait() // it hangs in the source
		second, third := r.begin("second"), r.begin("third")
		if first == second || second != third {
			t.Error("loads are not shared as they should be")
		}
		if _, err := r.now(canceled(t), "fourth"); !errors.Is(err, context.Canceled) {
			t.Errorf("a caller that leaves gets %v", err)
		}
		r.close()
		for _, run := range []*refresh{first, second, r.begin("late")} {
			<-run.done
			if run.err == nil {
				t.Error("a load without an end succeeded")
			}
		}
		if loads := a.live.Status().Loads; loads > 2 {
			t.Errorf("%d loads for five requests", loads)
		}
	})
}

// gateSource loads until its context ends.
type gateSource struct{}

func (gateSource) Name() string { return "gate" }

func (gateSource) Load(ctx context.Context) (*catalog.Loaded, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
