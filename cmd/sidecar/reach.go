// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

// What reach hears from.
const (
	fromConnection = iota // the health check
	fromCatalog           // a load of the catalog
	reachSources
)

// reach logs whether the backend can be used: one warning with the fix when it
// cannot, one for each change of the cause, one line when it can again. Attempts
// that fail like the one before are for the debug log.
type reach struct {
	app  *app
	wake chan struct{}

	mu   sync.Mutex
	last [reachSources]error

	// What was logged, for run alone.
	said  diagnosis
	since time.Time
}

func newReach(a *app) *reach { return &reach{app: a, wake: make(chan struct{}, 1)} }

// note takes what an attempt came to. It returns at once.
func (r *reach) note(source int, err error) {
	if errors.Is(err, context.Canceled) {
		return // the process ends
	}
	r.mu.Lock()
	r.last[source] = err
	r.mu.Unlock()
	wake(r.wake)
}

// loaded takes the end of a load of the catalog.
func (r *reach) loaded(err error) { r.note(fromCatalog, err) }

// current is the error that counts: without a connection nothing else matters.
func (r *reach) current() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.last {
		if err != nil {
			return err
		}
	}
	return nil
}

// run logs until ctx ends.
func (r *reach) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		err := r.current()
		if err == nil {
			r.well()
			continue
		}
		d := r.app.diagnose(ctx, err)
		if ctx.Err() == nil {
			r.ill(d, err)
		}
	}
}

// well says once that the backend can be used again.
func (r *reach) well() {
	if r.said == (diagnosis{}) {
		return
	}
	r.app.log.Info("backend reachable again", zap.Duration("outage_ms", time.Since(r.since)), zap.String("cause", r.said.cause))
	r.said = diagnosis{}
}

// ill says once what is wrong.
func (r *reach) ill(d diagnosis, err error) {
	if d.cause == r.said.cause {
		r.app.log.Debug("backend still unusable", zap.String("cause", d.cause), zap.Error(err))
		return
	}
	if r.said == (diagnosis{}) {
		r.since = time.Now()
	}
	r.said = d
	fields := []zap.Field{zap.String("cause", d.cause), zap.String("what", d.what), zap.String("fix", d.fix)}
	if r.app.client != nil {
		fields = append(fields, zap.Stringer("backend", r.app.client.Target()))
	}
	if err.Error() != d.what {
		fields = append(fields, zap.Error(err))
	}
	r.app.log.Warn(d.event, fields...)
}
