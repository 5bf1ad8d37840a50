// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

const (
	// subject is where all events are: one subject has one order.
	subject = "all"
	// pause is between two attempts to read the stream.
	pause = 250 * time.Millisecond
	// recent is how many events a replica remembers the subscribers of. A publisher looks for its own right after the append.
	recent = 1024
	// maxAhead and maxAheadBytes bound the kept events that are read at once for one subscriber.
	maxAhead      = 256
	maxAheadBytes = 1 << 20
	// readAtOnce is how long kept events are read without looking whether they are still there.
	readAtOnce = 5 * time.Second
)

// SharedBus is the event bus of all replicas of a deployment, in a stream of NATS JetStream (package state). Make one with
// [NewSharedBus], and run [SharedBus.Run]. It is safe for concurrent use.
//
// A publisher appends to the stream. Each replica reads the stream once, and hands what it reads to its own subscribers through
// a [Bus]. So every subscriber gets every event, in the order of the stream, which is that of each publisher. Events are kept
// for a while: a subscriber may go on after the last one that it has ([SharedBus.SubscribeAfter]), at any replica.
//
// While NATS is away, publishing and new subscriptions are [ErrUnavailable]. Subscribers that are there get what they missed
// when it is back. If events were dropped meanwhile, their next event is preceded by a [SlowError].
type SharedBus struct {
	stream *state.Stream
	local  *Bus

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

// NewSharedBus returns a bus that keeps events in stream and hands them to the subscribers of local.
func NewSharedBus(stream *state.Stream, local *Bus) *SharedBus {
	return &SharedBus{stream: stream, local: local, waiting: map[uint64]chan int{}}
}

// Run reads the stream until ctx ends. Without it, nothing arrives.
func (b *SharedBus) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if next := b.place(ctx); next > 0 {
			// The place is kept in b, and why reading ended makes no difference: it begins again there.
			_, _ = b.stream.Read(ctx, subject, next, b.arrived)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// place finds out where to read on. It returns 0 while NATS is away.
func (b *SharedBus) place(ctx context.Context) uint64 {
	is, err := b.stream.Bounds(ctx)
	if err != nil {
		return 0
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
	return b.next
}

// arrived hands an event to the subscribers of this replica.
func (b *SharedBus) arrived(m state.Message) error {
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
		n, err = b.local.Publish(context.Background(), e)
	} else {
		err = nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !errors.Is(err, ErrClosed) { // it is above the limits of this replica
		b.lose(1)
	}
	b.next = m.Sequence + 1
	b.reached[m.Sequence%recent] = n
	if waits, ok := b.waiting[m.Sequence]; ok {
		delete(b.waiting, m.Sequence)
		waits <- n
	}
	return nil
}

// lose counts events that subscribers will not get. The bus is locked.
func (b *SharedBus) lose(n uint64) {
	b.lost += n
	b.lostTotal.Add(n)
}

// Publish stores an event for the subscribers of all replicas, and returns the number of those of this replica that want it. It
// returns when they have it in their queues. The error is that of [Bus.Publish], [ErrTooLarge] or [ErrUnavailable].
func (b *SharedBus) Publish(ctx context.Context, e Event) (subscribers int, err error) {
	if err := b.local.check(ctx, &e); err != nil {
		return 0, err
	}
	data, err := encode(&e)
	if err != nil {
		return 0, err
	}
	sequence, err := b.stream.Append(ctx, subject, data)
	if err != nil {
		return 0, ofBus(err)
	}
	return b.await(ctx, sequence), nil
}

// await waits until an event that is stored has arrived here, and returns how many subscribers it has reached; 0 where that takes
// longer than ctx allows, or than a reader needs to begin again.
func (b *SharedBus) await(ctx context.Context, sequence uint64) int {
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

// Close ends each subscription once its queue has been read. Nothing is published from then on.
func (b *SharedBus) Close() { b.local.Close() }

// Stats returns the counts of this replica.
func (b *SharedBus) Stats() Stats { return b.local.Stats() }

// Lost returns the number of events that this replica never saw.
func (b *SharedBus) Lost() uint64 { return b.lostTotal.Load() }

// ofBus turns an error of the store into one of a bus.
func ofBus(err error) error {
	switch {
	case errors.Is(err, state.ErrTooLarge):
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	case errors.Is(err, state.ErrUnavailable), errors.Is(err, state.ErrFull):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func encode(e *Event) ([]byte, error) {
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

func decode(m state.Message) (Event, error) {
	record := new(statev1.EventRecord)
	if err := proto.Unmarshal(m.Data, record); err != nil {
		return Event{}, fmt.Errorf("event: decode: %w", err)
	}
	e := Event{Method: record.GetMethod(), Sequence: m.Sequence}
	if record.Params != nil {
		e.Params = record.Params
	}
	return e, nil
}

// Subscribe returns the events from now on that match one of the patterns. The error is that of [Bus.Subscribe], or
// [ErrUnavailable] as long as this replica has not been able to read the stream yet.
func (b *SharedBus) Subscribe(patterns []string) (EventSubscription, error) {
	return b.subscribe(patterns)
}

func (b *SharedBus) subscribe(patterns []string) (*sharedSubscription, error) {
	b.mu.Lock()
	next, lost := b.next, b.lost
	b.mu.Unlock()
	if next == 0 {
		return nil, fmt.Errorf("%w: its stream was not found yet", ErrUnavailable)
	}
	live, err := b.local.Subscribe(patterns)
	if err != nil {
		return nil, err
	}
	s := &sharedSubscription{bus: b, live: live, lost: lost, next: 1}
	s.closed, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// SubscribeAfter returns the events behind a sequence that match one of the patterns: first those that are kept, then those that
// come. The error is a *[GapError] if some of them have been dropped, or the sequence is none yet, and those of
// [SharedBus.Subscribe].
func (b *SharedBus) SubscribeAfter(ctx context.Context, patterns []string, after uint64) (EventSubscription, error) {
	// What comes is heard before the end of the past is known, so that nothing is between the two.
	s, err := b.subscribe(patterns)
	if err != nil {
		return nil, err
	}
	is, err := b.stream.Bounds(ctx)
	b.mu.Lock()
	if b.created.Equal(is.Created) {
		// What has arrived here is in the stream, also where a server that is behind says otherwise.
		is.Last = max(is.Last, b.next-1)
	}
	b.mu.Unlock()
	switch {
	case err != nil:
		err = ofBus(err)
	case after > is.Last && !is.Led:
		err = fmt.Errorf("%w: no majority of the NATS servers confirms that event %d is none yet", ErrUnavailable, after)
	case after > is.Last, after+1 < is.First:
		err = &GapError{After: after, First: is.First, Last: is.Last}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.patterns, s.next, s.until = wantOf(patterns).patterns, after+1, is.Last
	return s, nil
}

// sharedSubscription is a reader of the bus: first of kept events, if it asked for them, then of those that come.
type sharedSubscription struct {
	bus  *SharedBus
	live EventSubscription
	// lost is what the replica had lost at the start.
	lost uint64
	// next to until are the kept events that are left to read, those that match patterns. kept have been read and not returned.
	patterns    patterns
	next, until uint64
	kept        []*Event
	closed      context.Context //nolint:containedctx // the end of the subscription
	stop        context.CancelFunc
}

// Close implements [EventSubscription].
func (s *sharedSubscription) Close() {
	s.stop()
	s.live.Close()
}

// Next implements [EventSubscription].
func (s *sharedSubscription) Next(ctx context.Context) (*Event, error) {
	for s.closed.Err() == nil {
		if len(s.kept) > 0 {
			e := s.kept[0]
			s.kept = s.kept[1:]
			return e, nil
		}
		if s.next > s.until {
			break
		}
		if err := s.readOn(ctx); err != nil {
			return nil, err
		}
	}
	for {
		e, err := s.live.Next(ctx)
		switch {
		case err != nil:
			return nil, err
		case e.Sequence <= s.until: // it was among the kept ones
		case e.Lost > s.lost:
			s.Close()
			return nil, slow(e.Lost - s.lost)
		default:
			return e, nil
		}
	}
}

// readOn reads some of the kept events. It waits while NATS is away, until ctx or the subscription ends.
func (s *sharedSubscription) readOn(ctx context.Context) error {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closed, cancel)()
	for {
		if err := s.read(within); err != nil || len(s.kept) > 0 || s.next > s.until {
			return err
		}
		select {
		case <-within.Done():
			return context.Cause(ctx) // nil after Close
		case <-time.After(pause):
		}
	}
}

// errEnough ends the reading of kept events.
var errEnough = errors.New("event: read enough")

// read reads kept events as far as it comes. The error is what ends the subscription.
func (s *sharedSubscription) read(ctx context.Context) error {
	is, err := s.bus.stream.Bounds(ctx)
	if err != nil {
		return nil // NATS is away
	}
	if is.First > s.next { // dropped while the reader was at others
		return slow(min(is.First, s.until+1) - s.next)
	}
	ctx, cancel := context.WithTimeout(ctx, readAtOnce)
	defer cancel()
	missed := uint64(0)
	bytes := 0
	_, err = s.bus.stream.Read(ctx, subject, s.next, func(m state.Message) error {
		if m.Sequence > s.next {
			missed = min(m.Sequence, s.until+1) - s.next
			return errEnough
		}
		e, err := decode(m)
		if err != nil {
			return fmt.Errorf("%w: %w", state.ErrUnreadable, err)
		}
		s.next++
		if s.patterns.match(e.Method) {
			s.kept = append(s.kept, &e)
			bytes += e.size()
		}
		if s.next > s.until || len(s.kept) >= maxAhead || bytes >= maxAheadBytes {
			return errEnough
		}
		return nil
	})
	switch {
	case len(s.kept) > 0: // what ended the reading does so again
		return nil
	case missed > 0:
		return slow(missed)
	case errors.Is(err, state.ErrUnreadable):
		return slow(1)
	}
	return nil
}

func slow(missed uint64) *SlowError { return &SlowError{Missed: int(min(missed, 1<<30))} }
