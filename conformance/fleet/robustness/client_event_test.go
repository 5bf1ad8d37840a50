// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// eventLog has what was published, and what each subscriber heard.
type eventLog struct {
	odd *oddities

	mu sync.Mutex
	// acknowledged are the events that must be heard.
	acknowledged map[string]bool
	published    []publication
	// at is the place of each event in the stream, as the first subscriber to hear it was told.
	at map[string]uint64
	// over is closed when nothing is published any more.
	over chan struct{}
}

// publication is one call of Publish.
type publication struct {
	client       int
	name         string
	call, done   int64
	acknowledged bool
}

func newEventLog(odd *oddities) *eventLog {
	return &eventLog{odd: odd, acknowledged: map[string]bool{}, at: map[string]uint64{}, over: make(chan struct{})}
}

// publishes calls Publish until the context ends.
func publishes(ctx context.Context, c *client, log *eventLog) {
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("%d-%d", c.id, n)
		p := publication{client: c.id, name: name, call: c.h.now()}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), opTimeout)
		_, err := c.tools.Publish(within, connect.NewRequest(&outriggerv1.Notification{
			Method: "orders/changed", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"n":"` + name + `"}`)},
		}))
		cancel()
		p.done, p.acknowledged = c.h.now(), err == nil
		if err != nil && !isUncertain(err) {
			log.odd.add("publish: %v", err)
		}
		log.mu.Lock()
		log.published = append(log.published, p)
		if p.acknowledged {
			log.acknowledged[name] = true
		}
		log.mu.Unlock()
		pause(ctx, c.between(10*time.Millisecond, 200*time.Millisecond))
	}
}

// subscriber reads the events from the first one. It goes on after the last one that it has, at another replica each
// time.
type subscriber struct {
	*client
	log   *eventLog
	last  uint64
	heard map[string]bool
}

// run reads until it has heard all that was acknowledged, or gives up when the context ends.
func (s *subscriber) run(ctx context.Context) {
	s.heard = map[string]bool{}
	for !s.hasAll() {
		if ctx.Err() != nil {
			s.log.odd.add("subscriber %d never heard %v", s.id, s.missing())
			return
		}
		s.read(ctx)
		pause(ctx, s.between(time.Millisecond, 100*time.Millisecond))
	}
}

// hasAll reports whether nothing is published any more, and everything acknowledged was heard.
func (s *subscriber) hasAll() bool {
	select {
	case <-s.log.over:
		return len(s.missing()) == 0
	default:
		return false
	}
}

func (s *subscriber) missing() []string {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	var out []string
	for name := range s.log.acknowledged {
		if !s.heard[name] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// read subscribes once, for a while.
func (s *subscriber) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.between(200*time.Millisecond, 15*time.Second))
	defer cancel()
	after := s.last
	stream, err := s.tools.Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{
		Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{Methods: []string{"orders/*"}, After: &after}},
	}))
	if err != nil {
		return
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		s.hear(stream.Msg())
	}
	if err := stream.Err(); err != nil && !isUncertain(err) {
		s.log.odd.add("subscriber %d, after %d: %v", s.id, s.last, err)
	}
}

// hear notes an event. Its order, and that of all subscribers, is that of the stream; none comes twice.
func (s *subscriber) hear(e *outriggerv1.Notification) {
	var params struct{ N string }
	if err := json.Unmarshal(e.GetParamsJson(), &params); err != nil || params.N == "" {
		s.log.odd.add("subscriber %d heard %v", s.id, e)
		return
	}
	name := params.N
	if e.GetSequence() <= s.last {
		s.log.odd.add("subscriber %d heard %s at %d after %d", s.id, name, e.GetSequence(), s.last)
	}
	if s.heard[name] {
		s.log.odd.add("subscriber %d heard %s twice, now at %d", s.id, name, e.GetSequence())
	}
	s.last, s.heard[name] = e.GetSequence(), true
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	if at, ok := s.log.at[name]; ok && at != e.GetSequence() {
		s.log.odd.add("event %s is at %d and at %d", name, at, e.GetSequence())
	}
	s.log.at[name] = e.GetSequence()
}

// operations are the history of the events: what was published, and the place of each event in the stream. An event
// that was not acknowledged may be in the stream or not.
func (l *eventLog) operations(h *history) {
	l.mu.Lock()
	defer l.mu.Unlock()
	order := slices.Sorted(maps.Values(l.at))
	for _, p := range l.published {
		at, ok := l.at[p.name]
		if !ok {
			continue // a subscriber that did not hear what it had to has said so
		}
		place, _ := slices.BinarySearch(order, at)
		op := models.EventInput{Name: p.name, Place: place}
		if p.acknowledged {
			h.put("events", operation(p.client, p.call, p.done, op, nil))
		} else {
			h.open("events", p.client, p.call, op, nil)
		}
	}
}
