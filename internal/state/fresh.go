// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// freshFor is for how long after the start of a write that a majority took a read is believed. A leader that is cut off from
	// the others goes on answering reads for ten seconds or more, from what it has. But the others elect a leader after four
	// seconds without its word at the earliest, so for this long there is no other one that may have taken a write.
	freshFor = 3 * time.Second
	// freshAgain is the age at which a read renews that write, before others have to wait for it.
	freshAgain = time.Second
	// freshPrefix begins the keys of such writes.
	freshPrefix = "fresh."
)

// fresh is what a bucket knows of the leader that answers its reads.
type fresh struct {
	mu sync.Mutex
	// on is the connection on which a write was acknowledged last, and since when it began.
	on    connection
	since time.Time
	// asking is closed when the write that is on its way has been answered; nil without one.
	asking chan struct{}
}

// connection is a connection to one server: another one may be cut off together with a leader of its own.
type connection struct {
	link       *link
	reconnects uint64
}

func (l *link) connection() connection { return connection{l, l.nc.Stats().Reconnects} }

// confirmed notes that a majority has taken a write that began at a time, on a connection that is still the same.
func (f *fresh) confirmed(on connection, began time.Time) {
	if on != on.link.connection() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.on != on || f.since.Before(began) {
		f.on, f.since = on, began
	}
}

// holds reports whether such a write began on a connection less than a time before a moment.
func (f *fresh) holds(on connection, at time.Time, within time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.on == on && at.Sub(f.since) < within
}

// believed runs a read whose answer is believed: that of a leader whom a majority follows. A stream with one copy has no other.
// The error is classified.
func (b *Bucket) believed(ctx context.Context, l *link, s jetstream.Stream, read func() error) error {
	if s.CachedInfo().Config.Replicas <= 1 {
		return classify(ctx, read())
	}
	on := l.connection()
	var renewing sync.WaitGroup
	defer renewing.Wait()
	if !b.fresh.holds(on, time.Now(), freshAgain) {
		renewing.Go(func() { b.confirm(ctx, l) })
	}
	err := classify(ctx, read())
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnreadable) {
		return err
	}
	answered := time.Now()
	if b.fresh.holds(on, answered, freshFor) {
		return err
	}
	renewing.Wait()
	if b.fresh.holds(on, answered, freshFor) {
		return err
	}
	return fmt.Errorf("%w: no majority of the NATS servers confirms the answer of this one", ErrUnavailable)
}

// confirm makes a write that changes nothing, or waits for the one that is on its way.
func (b *Bucket) confirm(ctx context.Context, l *link) {
	f := &b.fresh
	f.mu.Lock()
	asking := f.asking
	if asking == nil {
		f.asking = make(chan struct{})
	}
	f.mu.Unlock()
	if asking != nil {
		select {
		case <-asking:
		case <-ctx.Done():
		}
		return
	}
	// Others may wait for it, too.
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.client.opts.Timeout)
	defer cancel()
	on, began := l.connection(), time.Now()
	// Reads go on where there is no room for a write, as well as they can.
	if err := classify(within, b.purge(within, l, freshPrefix+b.client.id)); err == nil || errors.Is(err, ErrFull) {
		f.confirmed(on, began)
	}
	f.mu.Lock()
	close(f.asking)
	f.asking = nil
	f.mu.Unlock()
}

// isFresh reports whether a key is that of a write that changes nothing.
func isFresh(key string) bool { return strings.HasPrefix(key, freshPrefix) }
