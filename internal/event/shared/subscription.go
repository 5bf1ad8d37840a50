// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// subscription is a reader of the bus: first of what is kept, if it asked for that, then of what comes.
type subscription struct {
	live event.Subscription
	// lost is what the replica had lost when the reader was told last.
	lost uint64
	// kept are the events of the past; nil where none were asked for. until is the last of them, and caughtUp is what only the
	// reader knows: they have been read.
	kept     *history
	until    uint64
	caughtUp bool
}

// Next implements [event.Subscription].
func (s *subscription) Next(ctx context.Context) (*event.Event, error) {
	if s.kept != nil && !s.caughtUp {
		e, err := s.kept.next(ctx)
		if e != nil || err != nil {
			return e, err
		}
		s.caughtUp = true
	}
	for {
		e, err := s.live.Next(ctx)
		if err != nil {
			return nil, err
		}
		if e.Sequence <= s.until {
			continue // it was among those of the past
		}
		if e.Lost > s.lost {
			s.Close()
			return nil, slow(e.Lost - s.lost)
		}
		return e, nil
	}
}

// Close implements [event.Subscription].
func (s *subscription) Close() {
	s.live.Close()
	if s.kept != nil {
		s.kept.close()
	}
}

// heard is the last event that has arrived here from the stream that was made at a time; 0 if none has.
func (b *Bus) heard(created time.Time) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == 0 || !b.created.Equal(created) {
		return 0
	}
	return b.next - 1
}

// SubscribeAfter returns the events behind a sequence that match f: first those that are kept, then those that come. The error is
// a *[event.GapError] if some of them have been dropped, or the sequence is none yet, and those of [Bus.Subscribe].
func (b *Bus) SubscribeAfter(ctx context.Context, f event.Filter, after uint64) (event.Subscription, error) {
	fits, err := f.Matcher()
	if err != nil {
		return nil, err
	}
	// What comes is heard before the end of the past is known, so that nothing is between the two.
	sub, err := b.Subscribe(f)
	if err != nil {
		return nil, err
	}
	s, _ := sub.(*subscription)
	is, err := b.stream.Bounds(ctx)
	// What has arrived here is in the stream, also where a server that is behind says otherwise.
	is.Last = max(is.Last, b.heard(is.Created))
	switch {
	case err != nil:
		err = failed(err)
	case after > is.Last && !is.Led:
		err = fmt.Errorf("%w: no majority of the NATS servers confirms that event %d is none yet", event.ErrUnavailable, after)
	case after > is.Last, after+1 < is.First:
		err = &event.GapError{After: after, First: is.First, Last: is.Last}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if s.until = is.Last; after < is.Last {
		s.kept = b.read(fits, after, is.Last)
	}
	return s, nil
}

// history reads events of the past for one subscriber, no faster than that one takes them.
type history struct {
	events chan *event.Event
	// failed is set before events is closed.
	failed error
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func (b *Bus) read(fits func(string) bool, after, last uint64) *history {
	ctx, stop := context.WithCancel(context.Background())
	h := &history{events: make(chan *event.Event), stop: stop}
	h.done.Go(func() {
		defer close(h.events)
		for next := after + 1; ctx.Err() == nil; {
			if next, h.failed = b.readOn(ctx, h, fits, next, last); h.failed != nil || next > last {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
	return h
}

// readOn reads events of the past from next on, as far as it comes, and returns where to go on. The error is what ends the reader.
func (b *Bus) readOn(ctx context.Context, h *history, fits func(string) bool, next, last uint64) (uint64, error) {
	is, err := b.stream.Bounds(ctx)
	if err != nil {
		return next, nil // NATS is away, and the reader waits
	}
	if is.First > next { // dropped while the reader was at others
		return next, slow(min(is.First, last+1) - next)
	}
	within, cancel := context.WithTimeout(ctx, atOnce)
	defer cancel()
	expected := next
	next, err = b.stream.Read(within, subject, next, func(m state.Message) error {
		if m.Sequence > expected {
			return slow(min(m.Sequence, last+1) - expected)
		}
		expected++
		if err := h.take(ctx, fits, m); err != nil || m.Sequence < last {
			return err
		}
		return errCaughtUp
	})
	isOver := new(event.SlowError)
	switch {
	case errors.Is(err, errCaughtUp):
		return last + 1, nil
	case errors.As(err, &isOver):
		return next, err
	case errors.Is(err, state.ErrUnreadable):
		return next, slow(1)
	}
	return next, nil
}

// errCaughtUp ends the reading of the past where it is complete.
var errCaughtUp = errors.New("event: caught up")

// atOnce is how long the past is read without looking whether it is still there.
const atOnce = 30 * time.Second

func slow(missed uint64) *event.SlowError {
	return &event.SlowError{Missed: int(min(missed, 1<<30))}
}

// take hands one event to the reader.
func (h *history) take(ctx context.Context, fits func(string) bool, m state.Message) error {
	e, err := decode(m)
	if err != nil {
		return fmt.Errorf("%w: %w", state.ErrUnreadable, err)
	}
	if !fits(e.Method) {
		return nil
	}
	select {
	case h.events <- &e:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// next returns the next event of the past; nil behind the last one.
func (h *history) next(ctx context.Context) (*event.Event, error) {
	select {
	case e, ok := <-h.events:
		if !ok {
			return nil, h.failed
		}
		return e, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (h *history) close() {
	h.stop()
	h.done.Wait()
}
