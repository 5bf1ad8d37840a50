// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
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

// fresh tells whether the leader that answers a bucket's reads is still the leader.
type fresh struct {
	mu sync.Mutex
	// on is the connection on which a write was last acknowledged, and since when that write began.
	on    connection
	since time.Time
	// asking is closed when the write in flight has been answered; nil without one.
	asking chan struct{}

	// next is the write that readers of missing keys wait for; isWriting is set while there may be one.
	next      *barrier
	isWriting bool
}

// barrier is a write whose acknowledgement shows that all writes before it can be read.
type barrier struct {
	write    func() (uint64, error) // that of the first who waits: the link of those before may be gone
	done     chan struct{}          // closed when it has been answered
	sequence uint64
	err      error
}

// connection is a connection to one server: another one may be cut off together with its own leader.
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
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.client.timeout)
	defer cancel()
	on, began := l.connection(), time.Now()
	// Reads go on where there is no room for a write, as well as they can.
	_, err := b.pulse(within, l)
	if err = classify(within, err); err == nil || errors.Is(err, ErrFull) {
		f.confirmed(on, began)
	}
	f.mu.Lock()
	close(f.asking)
	f.asking = nil
	f.mu.Unlock()
}

// pulse writes something that no one reads, and returns its sequence.
func (b *Bucket) pulse(ctx context.Context, l *link) (sequence uint64, err error) {
	return b.purge(ctx, l, b.prefix+freshPrefix+b.client.id, markerTTL, nats.Header{})
}

// staleAgain is the pause before a server that is behind is asked again.
const staleAgain = 20 * time.Millisecond

// exists reports whether a key has a value or the end of one, by the word of a server that knows of everything that was acknowledged
// before. Where reads are believed because a majority follows a leader, a former one may have answered instead, which was stopped,
// goes on, and has not heard of its successor. What it has of a key was true once; that it has nothing may never have been. The
// error is classified.
func (b *Bucket) exists(ctx context.Context, l *link, s jetstream.Stream, key string) (bool, error) {
	if s.CachedInfo().Config.Replicas <= 1 {
		return false, nil
	}
	least, err := b.fresh.behind(ctx, func() (uint64, error) {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.client.timeout)
		defer cancel()
		sequence, err := b.pulse(within, l)
		return sequence, classify(within, err)
	})
	if errors.Is(err, ErrFull) { // as in confirm
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(b.prefix+key))
		if err != nil {
			return false, classify(ctx, err)
		}
		if info.State.LastSeq >= least {
			return info.State.Subjects[b.prefix+key] > 0, nil
		}
		select {
		case <-ctx.Done():
			return false, classify(ctx, context.Cause(ctx))
		case <-time.After(staleAgain):
		}
	}
}

// behind returns the sequence of a write that began after the call. Those who call while one is on its way share the next one.
func (f *fresh) behind(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	f.mu.Lock()
	if f.next == nil {
		f.next = &barrier{write: write, done: make(chan struct{})}
	}
	mine := f.next
	if !f.isWriting {
		f.isWriting = true
		go f.writeAll()
	}
	f.mu.Unlock()
	select {
	case <-mine.done:
		return mine.sequence, mine.err
	case <-ctx.Done():
		return 0, classify(ctx, context.Cause(ctx))
	}
}

// writeAll writes as long as somebody waits.
func (f *fresh) writeAll() {
	for {
		f.mu.Lock()
		now := f.next
		f.next, f.isWriting = nil, now != nil
		f.mu.Unlock()
		if now == nil {
			return
		}
		now.sequence, now.err = now.write()
		close(now.done)
	}
}

// isFresh reports whether a key is that of a write that changes nothing.
func isFresh(key string) bool { return strings.HasPrefix(key, freshPrefix) }
