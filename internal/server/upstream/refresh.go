// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// Refresher loads the catalog on demand. One load runs at a time, and one more may
// wait: concurrent requests share that one, so that everybody gets a load that
// began after they asked, and no number of requests makes more than two.
type Refresher struct {
	live *catalog.Live
	log  *zap.Logger
	base context.Context // ends with stop
	stop context.CancelFunc
	runs sync.WaitGroup
	// started is closed once everybody who has to hear of the first catalog listens.
	started chan struct{}

	mu            sync.Mutex
	running, next *Refresh
	ended         bool
}

// Refresh is one load.
type Refresh struct {
	why  string
	done chan struct{}

	// Valid once done is closed. Changed reports whether the catalog is another one.
	Changed bool
	Took    time.Duration
	err     error
}

// errRefreshEnded is the end of loads that the process no longer begins.
var errRefreshEnded = errors.New("the process is shutting down")

// NewRefresher returns one that makes no load before [Refresher.Start].
func NewRefresher(live *catalog.Live, log *zap.Logger) *Refresher {
	r := &Refresher{live: live, log: log, started: make(chan struct{})}
	r.base, r.stop = context.WithCancel(context.Background())
	return r
}

// Start lets loads begin: everybody who has to hear of the first catalog listens. It is
// called once.
func (r *Refresher) Start() { close(r.started) }

// Begin asks for a load and returns it without waiting.
func (r *Refresher) Begin(why string) *Refresh {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		over := &Refresh{why: why, done: make(chan struct{}), err: errRefreshEnded}
		close(over.done)
		return over
	case r.next != nil:
		return r.next
	}
	run := &Refresh{why: why, done: make(chan struct{})}
	if r.running != nil {
		r.next = run
		return run
	}
	r.running = run
	r.runs.Go(r.work)
	return run
}

// Now asks for a load and waits for its end. A caller that leaves does not end it.
func (r *Refresher) Now(ctx context.Context, why string) (*Refresh, error) {
	run := r.Begin(why)
	select {
	case <-run.done:
		return run, run.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// work makes the loads that were asked for, one after the other.
func (r *Refresher) work() {
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
func (r *Refresher) load(run *Refresh) {
	select {
	case <-r.started:
	case <-r.base.Done():
		run.err = errRefreshEnded
		return
	}
	live := r.live
	before, begun := live.Current(), time.Now()
	run.err = live.Refresh(r.base)
	run.Took = time.Since(begun)
	if run.err != nil {
		r.log.Debug("catalog refresh failed", zap.String("reason", run.why), logkey.Error(run.err))
		return
	}
	now := live.Current()
	run.Changed = before == nil || before.Fingerprint() != now.Fingerprint()
	r.log.Info("catalog refreshed", zap.String("reason", run.why), zap.Bool("changed", run.Changed),
		zap.Int("tools", len(now.Tools())), zap.Duration("duration_ms", run.Took))
}

// Close ends the loads. Calls after it get an error.
func (r *Refresher) Close() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	r.stop()
	r.runs.Wait()
}
