// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// eventLog has what was published, and what each subscriber heard.
type eventLog struct {
	mu        sync.Mutex
	published []publication
	// at is the place of each event in the stream, as subscribers heard it.
	at map[string]uint64
	// publishing is the number of publishers that go on.
	publishing int
}

// publication is one call of Publish. Its output says whether it was acknowledged.
type publication struct {
	name         string
	op           porcupine.Operation
	acknowledged bool
}

// publishes is a publisher, which uses any replica.
func (w *world) publishes(a *actor) {
	defer func() {
		w.events.mu.Lock()
		w.events.publishing--
		w.events.mu.Unlock()
	}()
	for n := 0; a.step(10*time.Millisecond, time.Second); n++ {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		p := publication{name: fmt.Sprintf("%s-%d", a.name, n), op: porcupine.Operation{ClientId: a.id, Call: w.now(), Return: math.MaxInt64}}
		var err error
		if a.ask(r, "publish", func(ctx context.Context) {
			_, err = r.bus.Publish(ctx, notify.Event{Method: "orders/changed", Params: json.RawMessage(`{"n":"` + p.name + `"}`)})
		}) && err == nil {
			p.acknowledged, p.op.Return = true, w.now()
		}
		if err != nil && !errors.Is(err, notify.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, correlate.ErrDrainCut) {
			w.violate(propertyErrors, "publish at %s: %v", r.name, err)
		}
		w.events.mu.Lock()
		w.events.published = append(w.events.published, p)
		w.events.mu.Unlock()
	}
}

// subscribes reads the events from the first one. It goes on after the last one that it has, at another replica each time.
func (w *world) subscribes(a *actor) {
	s := subscriber{actor: a, heard: map[string]bool{}}
	for a.step(10*time.Millisecond, 500*time.Millisecond) {
		if w.isCalm() && s.hasAll() {
			return
		}
		if r := a.pick(); r != nil {
			s.read(r)
		}
	}
	if w.isCalm() && !w.isOver() {
		w.violate(propertyKept, "%s has not heard all events", a.name)
	}
}

type subscriber struct {
	*actor
	last  uint64
	heard map[string]bool
}

// hasAll reports whether nothing is published any more, and everything acknowledged was heard.
func (s *subscriber) hasAll() bool {
	l := &s.w.events
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.publishing == 0 && !slices.ContainsFunc(l.published, func(p publication) bool { return p.acknowledged && !s.heard[p.name] })
}

// read subscribes once, for a while.
func (s *subscriber) read(r *replica) {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond+time.Duration(s.rand.Int64N(int64(6*time.Second))))
	defer cancel()
	w := s.w
	sub, err := r.bus.SubscribeAfter(ctx, []string{"orders/*"}, s.last)
	var gap *notify.GapError
	switch {
	case errors.As(err, &gap):
		w.violate(propertyKept, "%s, after %d: %v", s.name, s.last, err)
		return
	case err != nil:
		w.unansweredEvent(r, err)
		return
	}
	defer sub.Close()
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			var slow *notify.SlowError
			if errors.As(err, &slow) {
				w.violate(propertyKept, "%s, after %d: %v", s.name, s.last, err)
			}
			return
		}
		s.hear(e)
	}
}

func (w *world) unansweredEvent(r *replica, err error) {
	switch {
	case errors.Is(err, notify.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		w.reach("a subscriber finds the bus unavailable")
	case errors.Is(err, notify.ErrClosed): // the replica has ended
	default:
		w.violate(propertyErrors, "subscribe at %s: %v", r.name, err)
	}
}

// hear notes an event. Its order, and that of all subscribers, is that of the stream; none comes twice.
func (s *subscriber) hear(e *notify.Event) {
	var params struct{ N string }
	if err := json.Unmarshal(e.Params, &params); err != nil || params.N == "" {
		s.w.violate(propertyIDs, "%s heard %s", s.name, e.Params)
		return
	}
	s.w.reach("an event is heard")
	if e.Sequence <= s.last || s.heard[params.N] {
		s.w.violate(propertyAnswer, "%s heard %s at %d, after %d", s.name, params.N, e.Sequence, s.last)
	}
	s.last, s.heard[params.N] = e.Sequence, true
	l := &s.w.events
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.at[params.N]; ok && at != e.Sequence {
		s.w.violate(propertyKept, "event %s is at %d and at %d", params.N, at, e.Sequence)
	}
	l.at[params.N] = e.Sequence
}

// operations are the history of the events: what was published, and the place of each event in the stream.
func (l *eventLog) operations() []porcupine.Operation {
	order := slices.Sorted(maps.Values(l.at))
	var out []porcupine.Operation
	for _, p := range l.published {
		if at, ok := l.at[p.name]; ok {
			place, _ := slices.BinarySearch(order, at)
			p.op.Input = models.EventInput{Name: p.name, Place: place}
			out = append(out, p.op)
		}
	}
	return out
}
