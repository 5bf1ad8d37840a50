// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

const (
	// linkKeepWarm is how often an idle backend is asked whether it is
	// there. It is below the idle timeout of connections, so that one is always
	// open: its loss is how a restart shows.
	linkKeepWarm = time.Minute
	// linkSettle is the longest pause between a lost connection and the first
	// attempt: many sidecars of one backend do not come back in the same moment.
	linkSettle = 100 * time.Millisecond
	// The pauses between attempts while the backend is away. The longest leaves time
	// for a load within two seconds of its return.
	linkFirstPause   = 250 * time.Millisecond
	linkLongestPause = time.Second
	// linkMinGap is the shortest time between two loads after reconnects, and
	// linkLoadShare how many times as long as a load took it is at least: a
	// connection that flaps makes the backend reflect for 5 % of the time at most.
	linkMinGap    = time.Second
	linkLoadShare = 20
)

// followBackend looks after the connection to the backend until ctx ends. When the
// connection was lost and is there again, the backend may be another version of
// itself: the catalog is loaded again.
func (a *app) followBackend(ctx context.Context) {
	if a.client == nil {
		return
	}
	if _, err := a.live.Wait(ctx); err != nil {
		return // Live.Run tries until then
	}
	lost := a.client.Lost()
	away := !a.askBackend(ctx)
	var nextLoad time.Time
	for {
		if !away {
			timer := time.NewTimer(linkKeepWarm)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-lost:
				timer.Stop()
				if !pauseFor(ctx, rand.N(linkSettle)) { //nolint:gosec // a guess gains nothing
					return
				}
			case <-timer.C:
				away = !a.askBackend(ctx)
				continue
			}
		}
		if !a.awaitBackend(ctx) || !pauseFor(ctx, time.Until(nextLoad)) {
			return
		}
		away = false
		begun := time.Now()
		run, err := a.refresher.now(ctx, "reconnected")
		if err != nil {
			a.log.Debug("catalog load after a reconnect failed", zap.Error(err))
		}
		took := time.Since(begun)
		if run != nil {
			took = run.took
		}
		nextLoad = time.Now().Add(max(linkMinGap, linkLoadShare*took))
	}
}

// awaitBackend asks until the backend answers; false where ctx ended first.
func (a *app) awaitBackend(ctx context.Context) bool {
	for pause := linkFirstPause; !a.askBackend(ctx); pause = min(2*pause, linkLongestPause) {
		if !pauseFor(ctx, pause*3/4+rand.N(pause/4)) { //nolint:gosec // a guess gains nothing
			return false
		}
	}
	return ctx.Err() == nil
}

// askBackend asks once and reports whether the backend answers.
func (a *app) askBackend(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, a.cfg.GetBackend().GetProbeTimeout().AsDuration())
	defer cancel()
	err := a.client.Ping(asking)
	if ctx.Err() == nil {
		a.reach.note(fromConnection, err)
	}
	return err == nil
}

// pauseFor waits and reports whether ctx still lasts.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
