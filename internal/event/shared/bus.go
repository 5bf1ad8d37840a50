// SPDX-License-Identifier: Apache-2.0

// Package shared is the event bus of all replicas of a deployment, in a stream of NATS JetStream (package state).
//
// A publisher appends to the stream. Each replica reads the stream once, and hands what it reads to its own subscribers through
// an [event.Memory]. So every subscriber gets every event, in the order of the stream, which is that of each publisher. Events
// are kept for a while: a subscriber may go on after the last one that it has ([Bus.SubscribeAfter]), at any replica.
//
// While NATS is away, publishing and new subscriptions are [event.ErrUnavailable]. Subscribers that are there get what they
// missed when it is back. If events were dropped meanwhile, their next event is preceded by an [event.SlowError].
package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

const (
	// subject is where all events are: one subject has one order.
	subject = "all"
	// pause is between two attempts to read the stream.
	pause = 250 * time.Millisecond
	// recent is how many events a replica remembers the subscribers of. A publisher looks for its own right after the append.
	recent = 1024
)

// Bus is the event bus of all replicas. Make one with [New], and run [Bus.Run]. It is safe for concurrent use.
type Bus struct {
	stream *state.Stream
	local  *event.Memory

	mu sync.Mutex
	// next is the sequence that is read next; 0 until the place of "now" is known.
	next uint64
	// created is when the stream was made.
	created time.Time
	// lost counts events that were dropped before they were read.
	lost uint64
	// reached are the numbers of subscribers of the events before next, by their sequence modulo recent.
	reached [recent]int
	// waiting are publishers that wait for their event to arrive here.
	waiting map[uint64]chan int

	lostTotal atomic.Uint64
}

// New returns a bus that keeps events in stream and hands them to the subscribers of local.
func New(stream *state.Stream, local *event.Memory) *Bus {
	return &Bus{stream: stream, local: local, waiting: map[uint64]chan int{}}
}

// Run reads the stream until ctx ends. Without it, nothing arrives.
func (b *Bus) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if b.place(ctx) {
			// The place is kept in b, and why reading ended makes no difference: it begins again there.
			_, _ = b.stream.Read(ctx, subject, b.position(), b.arrived)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// place finds out where to read on. It reports false while NATS is away.
func (b *Bus) place(ctx context.Context) bool {
	is, err := b.stream.Bounds(ctx)
	if err != nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.next == 0: // from now on
		b.next = is.Last + 1
	case !b.created.Equal(is.Created): // the stream is another one
		b.next = 1
	}
	b.created = is.Created
	return true
}

func (b *Bus) position() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.next
}

// arrived hands an event to the subscribers of this replica.
func (b *Bus) arrived(m state.Message) error {
	e, err := decode(m)
	b.mu.Lock()
	if m.Sequence > b.next {
		b.lose(m.Sequence - b.next)
	}
	if err != nil { // sealed with a key that is not known here, or by a release of another time
		b.lose(1)
	}
	e.Lost = b.lost
	b.mu.Unlock()
	n := 0
	if err == nil {
		// The error is that of a bus that was closed, or of an event above the limits of this replica.
		if n, err = b.local.Publish(context.Background(), e); err != nil && !errors.Is(err, event.ErrClosed) {
			b.mu.Lock()
			b.lose(1)
			b.mu.Unlock()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = m.Sequence + 1
	b.reached[m.Sequence%recent] = n
	if waits, ok := b.waiting[m.Sequence]; ok {
		delete(b.waiting, m.Sequence)
		waits <- n
	}
	return nil
}

// lose counts events that subscribers will not get; b.mu is held.
func (b *Bus) lose(n uint64) {
	b.lost += n
	b.lostTotal.Add(n)
}

// Publish stores an event for the subscribers of all replicas, and returns the number of those of this replica that want it. It
// returns when they have it in their queues. The error is that of [event.Memory.Publish], [event.ErrTooLarge] or
// [event.ErrUnavailable].
func (b *Bus) Publish(ctx context.Context, e event.Event) (subscribers int, err error) {
	if err := b.local.Check(ctx, &e); err != nil {
		return 0, err
	}
	data, err := encode(&e)
	if err != nil {
		return 0, err
	}
	sequence, err := b.stream.Append(ctx, subject, data, state.AppendOptions{})
	if err != nil {
		return 0, failed(err)
	}
	return b.await(ctx, sequence), nil
}

// await waits until an event that is stored has arrived here, and returns how many subscribers it has reached; 0 where that takes
// longer than ctx allows, or than a reader needs to begin again.
func (b *Bus) await(ctx context.Context, sequence uint64) int {
	b.mu.Lock()
	if b.next > sequence {
		defer b.mu.Unlock()
		if b.next-sequence > recent {
			return 0
		}
		return b.reached[sequence%recent]
	}
	arrives := make(chan int, 1)
	b.waiting[sequence] = arrives
	b.mu.Unlock()
	late := time.NewTimer(4 * pause)
	defer late.Stop()
	select {
	case n := <-arrives:
		return n
	case <-ctx.Done():
	case <-late.C:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, sequence)
	return 0
}

// Subscribe returns the events from now on that match f. The error is that of [event.Memory.Subscribe], or
// [event.ErrUnavailable] as long as this replica has not been able to read the stream yet.
func (b *Bus) Subscribe(f event.Filter) (event.Subscription, error) {
	b.mu.Lock()
	next, lost := b.next, b.lost
	b.mu.Unlock()
	if next == 0 {
		return nil, fmt.Errorf("%w: its stream was not found yet", event.ErrUnavailable)
	}
	live, err := b.local.Subscribe(f)
	if err != nil {
		return nil, err
	}
	return &subscription{live: live, lost: lost}, nil
}

// Close ends each subscription once its queue has been read. Nothing is published from then on.
func (b *Bus) Close() { b.local.Close() }

// Stats returns the counts of this replica.
func (b *Bus) Stats() event.Stats { return b.local.Stats() }

// Lost returns the number of events that this replica never saw.
func (b *Bus) Lost() uint64 { return b.lostTotal.Load() }

// failed turns an error of the store into one of a bus.
func failed(err error) error {
	switch {
	case errors.Is(err, state.ErrTooLarge):
		return fmt.Errorf("%w: %w", event.ErrTooLarge, err)
	case errors.Is(err, state.ErrUnavailable), errors.Is(err, state.ErrFull):
		return fmt.Errorf("%w: %w", event.ErrUnavailable, err)
	}
	return err
}

func encode(e *event.Event) ([]byte, error) {
	record := &statev1.EventRecord{Method: e.Method}
	if e.Params != nil {
		record.Params = e.Params
	}
	data, err := proto.Marshal(record)
	if err != nil {
		return nil, fmt.Errorf("event: encode: %w", err)
	}
	return data, nil
}

func decode(m state.Message) (event.Event, error) {
	record := new(statev1.EventRecord)
	if err := proto.Unmarshal(m.Data, record); err != nil {
		return event.Event{}, fmt.Errorf("event: decode: %w", err)
	}
	e := event.Event{Method: record.GetMethod(), Sequence: m.Sequence}
	if record.Params != nil {
		e.Params = record.Params
	}
	return e, nil
}
