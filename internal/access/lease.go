// SPDX-License-Identifier: Apache-2.0

package access

import (
	"sync"
	"time"
)

// Renewal decides what happens when a lease is due. It returns the new end of the lease, and
// when to ask again. A due time that is not before the end asks no more.
type Renewal func() (due, ends time.Time)

// Lease is the time for which an identity holds. It has a timer only while something
// watches it, so that thousands of cached tokens cost none. Make one with [NewLease].
type Lease struct {
	// renew is nil where the end is final.
	renew Renewal

	mu       sync.Mutex
	due      time.Time // the next renewal; the end where there is none
	ends     time.Time
	ended    bool
	timer    *time.Timer
	watchers map[*watcher]struct{}
	// leave releases what the lease depends on.
	leave func() bool
	// above ends this lease too; nil for none.
	above *Identity
}

// watcher is a function that runs at the end.
type watcher struct{ run func() }

// NewLease returns a lease that ends at a time. If renew is not nil, it is called at due while
// something watches the lease, and may move the end.
func NewLease(due, ends time.Time, renew Renewal) *Lease {
	if renew == nil {
		due = ends
	}
	return &Lease{renew: renew, due: due, ends: ends, watchers: map[*watcher]struct{}{}}
}

// NewLeased returns an identity that ends with a lease, and with above, if that is not nil: the
// entry of the callers file that claims the caller. Do not change the facts afterwards.
func NewLeased(g Grant, f Facts, l *Lease, above *Identity) *Identity {
	i := newLastingOf(g, f)
	l.above = above
	i.lease = l
	return i
}

// Grant returns the permissions of the caller. Do not change what it refers to.
func (i *Identity) Grant() Grant { return i.grant }

// Expires returns the end of the lease as it is now, and the zero time for an identity without
// one.
func (i *Identity) Expires() time.Time {
	if i == nil || i.lease == nil {
		return time.Time{}
	}
	i.lease.mu.Lock()
	defer i.lease.mu.Unlock()
	return i.lease.ends
}

// Extend moves the next renewal and the end, because the credentials were verified again. It
// does nothing once the lease has ended.
func (l *Lease) Extend(due, ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.due, l.ends = due, ends
	if l.timer != nil {
		l.timer.Reset(time.Until(l.next()))
	}
}

// End ends the lease now: the credentials were revoked.
func (l *Lease) End() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	gone := l.watchers
	l.watchers = nil
	l.release()
	l.mu.Unlock()
	for w := range gone {
		w.run()
	}
}

// Ended reports whether the lease has ended.
func (l *Lease) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// next is when the timer is due.
func (l *Lease) next() time.Time {
	if l.due.Before(l.ends) {
		return l.due
	}
	return l.ends
}

// watch runs f when the lease ends. The first watcher starts the timer, and the last one that
// stops takes it along.
func (l *Lease) watch(f func()) (stop func() bool) {
	w := &watcher{run: f}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		go f()
		return func() bool { return false }
	}
	l.watchers[w] = struct{}{}
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.next()), l.tick)
		l.leave = l.above.WhenRevoked(l.End)
	}
	return func() bool { return l.unwatch(w) }
}

func (l *Lease) unwatch(w *watcher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.watchers[w]; !ok {
		return false
	}
	delete(l.watchers, w)
	if len(l.watchers) == 0 {
		l.release()
	}
	return true
}

// release stops the timer and leaves the entry above.
func (l *Lease) release() {
	if l.timer != nil {
		l.timer.Stop()
		l.leave()
		l.timer, l.leave = nil, nil
	}
}

// tick is the timer: it renews the lease, or ends it.
func (l *Lease) tick() {
	l.mu.Lock()
	renew, over := l.renew, !time.Now().Before(l.ends)
	watched := l.timer != nil && !l.ended
	l.mu.Unlock()
	switch {
	case !watched:
	case over || renew == nil:
		l.End()
	default:
		l.Extend(renew())
	}
}

// Renew returns a new lease with the same end and renewal.
func (l *Lease) Renew() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return NewLease(l.due, l.ends, l.renew)
}
