// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

const (
	// maxUnknownKids bounds the kids of one issuer that are known to be unknown.
	maxUnknownKids = 1024
	// unknownFor is how long a kid is taken to be unknown without another look.
	unknownFor = time.Minute
)

// keys are the keys of one issuer. All fetches go through it: at most one runs, and those that
// tokens cause keep an interval.
type keys struct {
	// life ends fetches that run.
	life context.Context //nolint:containedctx // a fetch belongs to no request
	// fetch gets a set; it is bounded in time.
	fetch    func(ctx context.Context, before *keySet) (*keySet, error)
	interval time.Duration
	counts   *counts

	set atomic.Pointer[keySet]

	mu      sync.Mutex
	running chan struct{} // closed at the end of the fetch that runs; nil if none does
	began   time.Time     // the last fetch
	failed  error         // of the last fetch
	unknown map[string]time.Time
}

// find returns the keys that may have signed a token. The error is a fault of the token, or
// *access.Unavailable.
func (k *keys) find(ctx context.Context, kid, alg string) ([]*key, error) {
	if found := k.set.Load().find(kid, alg); len(found) > 0 {
		return found, nil
	}
	start := time.Now()
	if k.isUnknown(kid, start) {
		return nil, unknownKey()
	}
	for {
		began, err := k.look(ctx)
		if err != nil {
			return nil, err
		}
		if found := k.set.Load().find(kid, alg); len(found) > 0 {
			return found, nil
		}
		if start.Sub(began) < k.interval {
			if !began.Before(start) {
				k.remember(kid)
			}
			return nil, unknownKey()
		}
		// The fetch had begun long before the token came: the key may be newer.
	}
}

func unknownKey() *fault { return bad(UnknownKey, "the key of the token is unknown") }

// look makes sure that the set is not older than the interval: it fetches, waits for a fetch
// that runs, or does nothing. It returns when the fetch began that the set is from.
func (k *keys) look(ctx context.Context) (began time.Time, err error) {
	k.mu.Lock()
	running := k.running
	if running == nil {
		if !k.began.IsZero() && time.Since(k.began) < k.interval {
			defer k.mu.Unlock()
			return k.began, k.verdict()
		}
		running = k.begin()
	}
	k.mu.Unlock()
	select {
	case <-running:
	case <-ctx.Done():
		return began, context.Cause(ctx)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.began, k.verdict()
}

// verdict is the outcome of the last fetch, for a token that needs it. The caller holds mu.
func (k *keys) verdict() error {
	if k.failed == nil {
		return nil
	}
	return &access.Unavailable{Retry: max(time.Second, time.Until(k.began.Add(k.interval))), Cause: k.failed}
}

// begin starts a fetch. It does not depend on the request that caused it. The caller holds mu.
func (k *keys) begin() chan struct{} {
	done := make(chan struct{})
	k.running, k.began = done, time.Now()
	go func() {
		set, err := k.fetch(k.life, k.set.Load())
		k.end(set, err)
		close(done)
	}()
	return done
}

// end takes what a fetch has brought. After an error the last good set stays.
func (k *keys) end(set *keySet, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running, k.failed = nil, err
	if err != nil {
		k.counts.keyFetchesFailed.Add(1)
		return
	}
	k.counts.keyFetches.Add(1)
	k.set.Swap(set).replacedBy(set)
}

// refresh fetches regardless of the interval, unless a fetch runs, and waits for the end.
func (k *keys) refresh() error {
	k.mu.Lock()
	running := k.running
	if running == nil {
		running = k.begin()
	}
	k.mu.Unlock()
	<-running
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

func (k *keys) isUnknown(kid string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return now.Before(k.unknown[kid])
}

// remember notes that a kid is unknown. A full list drops any one entry: what it costs is a
// fetch, which has an interval of its own.
func (k *keys) remember(kid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unknown == nil {
		k.unknown = map[string]time.Time{}
	}
	for old := range k.unknown {
		if len(k.unknown) < maxUnknownKids {
			break
		}
		delete(k.unknown, old)
	}
	k.unknown[kid] = time.Now().Add(unknownFor)
}
