// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/admin"
)

// refresher loads the catalog on demand. One load runs at a time, and one more may
// wait: concurrent requests share that one, so that everybody gets a load that
// began after they asked, and no number of requests makes more than two.
type refresher struct {
	app  *app
	base context.Context // ends with stop
	stop context.CancelFunc
	runs sync.WaitGroup
	// started is closed once everybody who has to hear of the first catalog listens.
	started chan struct{}

	mu            sync.Mutex
	running, next *refresh
	ended         bool
}

// refresh is one load.
type refresh struct {
	why  string
	done chan struct{}

	// Valid once done is closed.
	changed bool
	took    time.Duration
	err     error
}

// errRefreshEnded is the end of loads that the process no longer begins.
var errRefreshEnded = errors.New("the process is shutting down")

func newRefresher(a *app) *refresher {
	r := &refresher{app: a, started: make(chan struct{})}
	r.base, r.stop = context.WithCancel(context.Background())
	return r
}

// begin asks for a load and returns it without waiting.
func (r *refresher) begin(why string) *refresh {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		over := &refresh{why: why, done: make(chan struct{}), err: errRefreshEnded}
		close(over.done)
		return over
	case r.next != nil:
		return r.next
	}
	run := &refresh{why: why, done: make(chan struct{})}
	if r.running != nil {
		r.next = run
		return run
	}
	r.running = run
	r.runs.Go(r.work)
	return run
}

// now asks for a load and waits for its end. A caller that leaves does not end it.
func (r *refresher) now(ctx context.Context, why string) (*refresh, error) {
	run := r.begin(why)
	select {
	case <-run.done:
		return run, run.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// work makes the loads that were asked for, one after the other.
func (r *refresher) work() {
	for {
		r.mu.Lock()
		run := r.running
		r.mu.Unlock()
		r.load(run)
		close(run.done)
		r.mu.Lock()
		r.running, r.next = r.next, nil
		more := r.running != nil
		r.mu.Unlock()
		if !more {
			return
		}
	}
}

// load makes one load.
func (r *refresher) load(run *refresh) {
	select {
	case <-r.started:
	case <-r.base.Done():
		run.err = errRefreshEnded
		return
	}
	live := r.app.live
	before, begun := live.Current(), time.Now()
	run.err = live.Refresh(r.base)
	run.took = time.Since(begun)
	if run.err != nil {
		r.app.log.Debug("catalog refresh failed", zap.String("reason", run.why), zap.Error(run.err))
		return
	}
	now := live.Current()
	run.changed = before == nil || before.Fingerprint() != now.Fingerprint()
	r.app.log.Info("catalog refreshed", zap.String("reason", run.why), zap.Bool("changed", run.changed),
		zap.Int("tools", len(now.Tools())), zap.Duration("duration_ms", run.took))
}

// close ends the loads. Calls after it get an error.
func (r *refresher) close() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.stop()
	r.runs.Wait()
}

// operatorRefresh is POST /refresh.
func (a *app) operatorRefresh(ctx context.Context) admin.Refreshed {
	run, err := a.refresher.now(ctx, "POST /refresh")
	if err != nil {
		d := a.diagnose(ctx, err)
		return admin.Refreshed{Error: err.Error(), Cause: d.cause, Fix: d.fix}
	}
	now := a.live.Current()
	return admin.Refreshed{
		OK: true, Changed: run.changed, Tools: len(now.Tools()), Fingerprint: now.Fingerprint(),
		TookMS: float64(run.took.Microseconds()) / 1e3,
	}
}
