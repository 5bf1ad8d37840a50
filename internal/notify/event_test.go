// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

func TestEverySubscriberGetsItsEventsInOrder(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{})
	all, some, none := subscribeBus(t, bus), subscribeBus(t, bus, "c*"), subscribeBus(t, bus, "other")
	const events = 100
	for n := range events {
		publishEvent(t, bus, numbered(7, n), 2)
	}
	for _, s := range []notify.EventSubscription{all, some} {
		for n := range events {
			want := numbered(7, n)
			if diff := cmp.Diff(&want, nextEvent(t, s)); diff != "" {
				t.Fatalf("event %d (-want +got):\n%s", n, diff)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e, err := none.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v from a filter that nothing passed", e, err)
	}
}

func TestWhoComesLaterGetsNothingOld(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{})
	publishEvent(t, bus, numbered(1, 0), 0)
	s := subscribeBus(t, bus)
	publishEvent(t, bus, numbered(1, 1), 1)
	if got := string(nextEvent(t, s).Params); got != `{"n":1}` {
		t.Errorf("the first event is %s", got)
	}
}

func TestTheBusKeepsItsOwnCopy(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{})
	s := subscribeBus(t, bus)
	params := json.RawMessage(`{"a":1}`)
	publishEvent(t, bus, notify.Event{Method: "m", Params: params}, 1)
	copy(params, `{"b":2}`)
	if got := string(nextEvent(t, s).Params); got != `{"a":1}` {
		t.Errorf("the event changed with its publisher's buffer: %s", got)
	}
}

func TestSlowSubscribersAreDropped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		options notify.BusOptions
		params  string
		fit     int
	}{
		{"by the number of events", notify.BusOptions{MaxBacklog: 3}, `{}`, 3},
		{"by their bytes", notify.BusOptions{MaxEventBytes: 20, MaxBacklogBytes: 50}, `{"a":"0123456789"}`, 2},
		{"the largest event always fits", notify.BusOptions{MaxEventBytes: 20, MaxBacklogBytes: 1}, `{"a":"0123456789"}`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var told []int
			tt.options.OnDrop = func(e *notify.SlowError) { told = append(told, e.Missed) }
			bus := notify.NewBus(tt.options)
			slow, quick := subscribeBus(t, bus), subscribeBus(t, bus)
			e := notify.Event{Method: "m", Params: json.RawMessage(tt.params)}
			for range tt.fit {
				publishEvent(t, bus, e, 2)
				nextEvent(t, quick)
			}
			publishEvent(t, bus, e, 1)
			nextEvent(t, quick)
			publishEvent(t, bus, e, 1)
			nextEvent(t, quick)

			var end *notify.SlowError
			if got, err := slow.Next(t.Context()); got != nil || !errors.As(err, &end) || end.Missed != tt.fit+1 {
				t.Errorf("the slow one got %v, %v; want to have missed %d", got, err, tt.fit+1)
			}
			if _, err := slow.Next(t.Context()); !errors.As(err, &end) {
				t.Errorf("the end does not last: %v", err)
			}
			if diff := cmp.Diff([]int{tt.fit + 1}, told); diff != "" {
				t.Errorf("drops (-want +got):\n%s", diff)
			}
			events := uint64(tt.fit + 2)
			want := notify.Stats{Subscribers: 1, Published: events, Queued: events + uint64(tt.fit), Dropped: 1}
			if diff := cmp.Diff(want, bus.Stats()); diff != "" {
				t.Errorf("stats (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAReaderWhoCatchesUpStays reads now and then, with a queue that wraps
// around many times.
func TestAReaderWhoCatchesUpStays(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{MaxBacklog: 100})
	s := subscribeBus(t, bus)
	read := 0
	for n := range 5000 {
		publishEvent(t, bus, numbered(1, n), 1)
		if n < 90 || n%3 == 0 {
			continue
		}
		for range 2 {
			if read > n {
				break
			}
			want := numbered(1, read)
			if diff := cmp.Diff(&want, nextEvent(t, s)); diff != "" {
				t.Fatalf("event %d (-want +got):\n%s", read, diff)
			}
			read++
		}
	}
	if read < 3000 {
		t.Errorf("only %d events were read", read)
	}
}

func TestBusBounds(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{MaxSubscribers: 2, MaxEventBytes: 10})
	first := subscribeBus(t, bus)
	subscribeBus(t, bus)
	if _, err := bus.Subscribe(nil); !errors.Is(err, notify.ErrFull) {
		t.Errorf("the third subscriber: %v, want ErrFull", err)
	}
	first.Close()
	subscribeBus(t, bus)

	var large *notify.TooLargeError
	if _, err := bus.Publish(t.Context(), notify.Event{Method: "m", Params: json.RawMessage(`{"a":1234}`)}); !errors.As(err, &large) || large.Size != 11 {
		t.Errorf("an event of 11 bytes: %v", err)
	}
	publishEvent(t, bus, notify.Event{Method: "m", Params: json.RawMessage(`{"a":123}`)}, 2)
	if _, err := bus.Publish(t.Context(), notify.Event{Method: strings.Repeat("m", notify.MaxMethodBytes+1)}); !errors.As(err, &large) || large.Part != "method" {
		t.Errorf("a long method: %v", err)
	}
	if _, err := bus.Publish(t.Context(), notify.Event{}); !errors.Is(err, notify.ErrNoMethod) {
		t.Errorf("no method: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := bus.Publish(ctx, numbered(1, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("a publisher that has gone: %v", err)
	}
}

func TestTheEndOfTheBusLetsReadersFinish(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{})
	s := subscribeBus(t, bus)
	publishEvent(t, bus, numbered(1, 0), 1)
	bus.Close()
	bus.Close()
	nextEvent(t, s)
	if e, err := s.Next(t.Context()); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("after the last event: %v, %v", e, err)
	}
	if _, err := bus.Publish(t.Context(), numbered(1, 1)); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("publish: %v, want ErrClosed", err)
	}
	if _, err := bus.Subscribe(nil); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("subscribe: %v, want ErrClosed", err)
	}
	if n := bus.Stats().Subscribers; n != 0 {
		t.Errorf("%d subscribers of a closed bus", n)
	}
}

func TestAClosedSubscriptionGetsNothing(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{})
	s := subscribeBus(t, bus)
	publishEvent(t, bus, numbered(1, 0), 1)
	s.Close()
	s.Close()
	publishEvent(t, bus, numbered(1, 1), 0)
	if e, err := s.Next(t.Context()); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("got %v, %v, want ErrClosed and nothing unread", e, err)
	}
}

// TestACloseBesideAPublisher: an event that is published while a subscription closes reaches it before, or not at all.
func TestACloseBesideAPublisher(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{MaxBacklog: 1 << 20})
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	for range 2 {
		publishing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					_, _ = bus.Publish(context.Background(), numbered(1, n))
				}
			}
		})
	}
	for range 20_000 {
		s := subscribeBus(t, bus)
		s.Close()
		if e, err := s.Next(t.Context()); err == nil {
			t.Errorf("got %v, want nothing unread", e)
			break
		}
	}
	close(stop)
	publishing.Wait()
}

func TestBusNextWaits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(bus *notify.Bus, s notify.EventSubscription, cancel context.CancelFunc)
		want error
	}{
		{"for an event", func(bus *notify.Bus, _ notify.EventSubscription, _ context.CancelFunc) {
			_, _ = bus.Publish(context.Background(), numbered(1, 1))
		}, nil},
		{"until its context ends", func(_ *notify.Bus, _ notify.EventSubscription, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"until the bus is closed", func(bus *notify.Bus, _ notify.EventSubscription, _ context.CancelFunc) { bus.Close() }, notify.ErrClosed},
		{"until it is closed itself", func(_ *notify.Bus, s notify.EventSubscription, _ context.CancelFunc) { s.Close() }, notify.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bus := notify.NewBus(notify.BusOptions{})
				s := subscribeBus(t, bus)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				start := time.Now()
				go func() {
					time.Sleep(time.Hour)
					tt.end(bus, s, cancel)
				}()
				e, err := s.Next(ctx)
				if !errors.Is(err, tt.want) || (e != nil) != (tt.want == nil) {
					t.Errorf("got %v, %v", e, err)
				}
				if waited := time.Since(start); waited != time.Hour {
					t.Errorf("waited %v, want an hour", waited)
				}
			})
		})
	}
}
