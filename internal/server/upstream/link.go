// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

const (
	// linkKeepWarm is how often an idle backend is asked whether it is
	// there. It is below the idle timeout of connections, so that one is always
	// open: its loss is how a restart shows.
	linkKeepWarm = time.Minute
	// linkKeepWarmHTTP1 is the same over HTTP/1.1, where servers close connections after
	// seconds without a request, so that none may be open whose loss would show.
	linkKeepWarmHTTP1 = 10 * time.Second
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
	// linkCompare bounds one comparison of the descriptors with what the backend serves.
	linkCompare = 10 * time.Second
)

// Link looks after the connection to the backend. A Link without a client does nothing.
type Link struct {
	Client    *backend.Client
	Live      *catalog.Live
	Refresher *Refresher
	Reach     *Reach
	// Asked is called with each answer to the question whether the backend is there: nil for yes.
	Asked func(error)
	// Offered names how the descriptors of the catalog differ from what the backend serves,
	// as [Diagnoser.Offered] does. It is nil where the catalog comes from the backend itself.
	Offered func(context.Context, *catalog.Catalog) []string
	// ProbeTimeout bounds one question to the backend.
	ProbeTimeout time.Duration
	Log          *zap.Logger

	// compared is the catalog of the last comparison, and differences what it found.
	compared    *catalog.Catalog
	differences []string
}

// Run looks after the connection to the backend until ctx ends. When the
// connection was lost and is there again, the backend may be another version of
// itself: the catalog is loaded again.
func (l *Link) Run(ctx context.Context) {
	if l.Client == nil {
		return
	}
	// A protocol that is not declared may take methods of the catalog to find.
	isAsked := l.Client.Protocol() != backend.ProtocolUnknown
	away := isAsked && !l.ask(ctx)
	if _, err := l.Live.Wait(ctx); err != nil {
		return // Live.Run tries until then
	}
	lost := l.Client.Lost()
	if away || !isAsked {
		away = !l.ask(ctx)
	}
	var nextLoad time.Time
	for {
		if !away {
			l.compare(ctx)
			warm := linkKeepWarm
			if l.Client.LacksHTTP2() {
				warm = linkKeepWarmHTTP1
			}
			timer := time.NewTimer(warm)
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
				away = !l.ask(ctx)
				continue
			}
		}
		if !l.await(ctx) || !pauseFor(ctx, time.Until(nextLoad)) {
			return
		}
		away = false
		l.compared = nil // the backend may be another version
		begun := time.Now()
		run, err := l.Refresher.Now(ctx, "reconnected")
		if err != nil {
			l.Log.Debug("catalog load after a reconnect failed", logkey.Error(err))
		}
		took := time.Since(begun)
		if run != nil {
			took = run.Took
		}
		nextLoad = time.Now().Add(max(linkMinGap, linkLoadShare*took))
	}
}

// compare warns where the backend does not serve what the descriptors have, once for each catalog and connection. What was
// said about the one before is not said again.
func (l *Link) compare(ctx context.Context) {
	now := l.Live.Current()
	if l.Offered == nil || now == l.compared {
		return
	}
	asking, cancel := context.WithTimeout(ctx, linkCompare)
	defer cancel()
	found := l.Offered(asking, now)
	if ctx.Err() != nil {
		return
	}
	for _, text := range found {
		if !slices.Contains(l.differences, text) {
			l.Log.Warn("descriptors differ from the backend", zap.String("warning", text), zap.String("fix", FixOffered))
		}
	}
	l.compared, l.differences = now, found
}

// await asks until the backend answers; false where ctx ended first.
func (l *Link) await(ctx context.Context) bool {
	for pause := linkFirstPause; !l.ask(ctx); pause = min(2*pause, linkLongestPause) {
		if !pauseFor(ctx, pause*3/4+rand.N(pause/4)) { //nolint:gosec // a guess gains nothing
			return false
		}
	}
	return ctx.Err() == nil
}

// ask asks once and reports whether the backend answers.
func (l *Link) ask(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, l.ProbeTimeout)
	defer cancel()
	err := l.Client.Ping(asking)
	if ctx.Err() == nil {
		l.Reach.note(fromConnection, err)
		l.Asked(err)
	}
	if err != nil {
		l.Client.Rediscover()
	} else if l.Live.IsStale() {
		l.Refresher.Begin("backend examined")
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

// Seek asks a backend that is away whether it is back, so that callers need not try,
// and readiness does not wait for calls, which do not come where there is no readiness.
// wake makes it ask at once. It returns when ctx ends.
func (l *Link) Seek(ctx context.Context, guard *resilience.Guard, wake <-chan struct{}) {
	guard.Seek(ctx, wake, func(ctx context.Context) *errmap.Error {
		ctx, cancel := context.WithTimeout(ctx, l.ProbeTimeout)
		defer cancel()
		if err := l.Client.Ping(ctx); err != nil {
			l.Log.Debug("backend still unreachable", logkey.Error(err))
			return errmap.Wrap(errmap.Unavailable, err)
		}
		return nil
	})
}
