// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// watchAhead is how many changes the server may send before they were told.
	watchAhead = 64
	// watchPause is between two attempts to watch.
	watchPause = 250 * time.Millisecond
)

// Watcher learns the contents of a bucket and every change. Its functions are called one
// at a time and must return quickly. Nil functions are not called.
type Watcher struct {
	// Changed gets every value that there is, and then every change, in the order of
	// revisions. Of several changes of a key that came while the watcher was away it gets
	// the last.
	Changed func(Entry)
	// Loaded is called when everything that was there at the start has been told.
	Loaded func()
	// Reset is called when the bucket is another one: what was told holds no longer. Values
	// follow as at the start.
	Reset func()
}

// Watch watches the bucket until ctx ends. It waits while NATS is away, and goes on where
// it was.
func (b *Bucket) Watch(ctx context.Context, w Watcher) {
	progress := &cursor{}
	for ctx.Err() == nil {
		at, changed := b.here()
		if at != nil {
			b.follow(ctx, at, changed, progress, w)
		}
		if at == nil {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(watchPause):
		}
	}
}

// cursor is how far a watcher has read.
type cursor struct {
	created time.Time
	last    uint64
	loaded  bool
}

// follow tells changes until the link or the stream changes, or the watch fails.
func (b *Bucket) follow(ctx context.Context, at *found, changed <-chan struct{}, c *cursor, w Watcher) {
	ctx, stop := untilChanged(ctx, changed)
	defer stop()
	if !c.created.Equal(at.created) {
		if !c.created.IsZero() && w.Reset != nil {
			w.Reset()
		}
		*c = cursor{created: at.created}
	}
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{b.prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	if c.last > 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, c.last+1
	}
	consumer, messages, err := consume(ctx, b.client.timeout, at.stream, watchAhead, config)
	if err != nil {
		b.broken(ctx, err)
		return
	}
	arriving := receive(ctx, at.link, consumer, messages)
	if info := consumer.CachedInfo(); info != nil && info.NumPending == 0 {
		c.load(w)
	}
	for {
		m, meta, err := nextOf(ctx, arriving)
		if err != nil {
			b.broken(ctx, err)
			return
		}
		b.tell(m, meta, w)
		c.last = meta.Sequence.Stream
		if meta.NumPending == 0 {
			c.load(w)
		}
	}
}

// tell tells one change.
func (b *Bucket) tell(m jetstream.Msg, meta *jetstream.MsgMetadata, w Watcher) {
	e := Entry{Key: strings.TrimPrefix(m.Subject(), b.prefix), Revision: meta.Sequence.Stream, At: meta.Timestamp, Gone: isMarker(m.Headers()), Expired: isExpiry(m.Headers())}
	if !e.Gone {
		e.Value, e.Err = decode(b.client.opts.Sealer, b.kind, e.Key, m.Data())
	}
	b.counts.out.Add(uint64(len(m.Data())))
	b.counts.observed.Add(1)
	if w.Changed != nil && !isFresh(e.Key) {
		w.Changed(e)
	}
}

// load tells once that everything was told.
func (c *cursor) load(w Watcher) {
	if !c.loaded && w.Loaded != nil {
		w.Loaded()
	}
	c.loaded = true
}

// broken notes a watch that failed. One that no one wants any more has not.
func (b *Bucket) broken(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, jetstream.ErrMsgIteratorClosed) {
		return
	}
	if isGone(err) {
		b.set(nil)
	}
	b.client.wake()
}
