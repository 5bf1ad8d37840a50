// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

const modelBacklog = 3

// busModel says what every reader has to see, in the simplest words.
type busModel struct {
	bus     *notify.Bus
	readers []*busReader
	sent    int
	dropped uint64
}

type busReader struct {
	sub    notify.EventSubscription
	odd    bool // wants the odd publisher only
	unread []string
	missed int
	closed bool
}

func (r *busReader) wants(publisher int) bool { return !r.odd || publisher%2 == 1 }

func (m *busModel) publish(t *rapid.T) {
	publisher := rapid.IntRange(0, 3).Draw(t, "publisher")
	m.sent++
	params := strconv.Itoa(m.sent)
	want := 0
	for _, r := range m.readers {
		if r.closed || r.missed > 0 || !r.wants(publisher) {
			continue
		}
		if len(r.unread) == modelBacklog {
			r.missed, r.unread = modelBacklog+1, nil
			m.dropped++
			continue
		}
		r.unread = append(r.unread, params)
		want++
	}
	got, err := m.bus.Publish(context.Background(), notify.Event{
		Method: "from/" + strconv.Itoa(publisher), Params: json.RawMessage(params), Publisher: uint64(publisher),
	})
	if err != nil || got != want {
		t.Fatalf("publish: %d, %v; want %d", got, err, want)
	}
}

func (m *busModel) subscribe(t *rapid.T) {
	r := &busReader{odd: rapid.Bool().Draw(t, "odd")}
	var patterns []string
	if r.odd {
		patterns = []string{"from/1", "*/3"}
	}
	var err error
	if r.sub, err = m.bus.Subscribe(patterns); err != nil {
		t.Fatal(err)
	}
	m.readers = append(m.readers, r)
}

func (m *busModel) draw(t *rapid.T) *busReader {
	if len(m.readers) == 0 {
		t.Skip("no listener")
	}
	return m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")]
}

// read ends at once: a context that has ended still gets what is queued.
func (m *busModel) read(t *rapid.T) {
	r := m.draw(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e, err := r.sub.Next(ctx)
	var slow *notify.SlowError
	switch {
	case r.closed:
		if !errors.Is(err, notify.ErrClosed) {
			t.Fatalf("closed: %v, %v", e, err)
		}
	case r.missed > 0:
		if !errors.As(err, &slow) || slow.Missed != r.missed {
			t.Fatalf("slow: %v, %v; want %d missed", e, err, r.missed)
		}
	case len(r.unread) == 0:
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("nothing unread: %v, %v", e, err)
		}
	default:
		if err != nil || string(e.Params) != r.unread[0] {
			t.Fatalf("got %v, %v; want event %s", e, err, r.unread[0])
		}
		r.unread = r.unread[1:]
	}
}

func (m *busModel) unsubscribe(t *rapid.T) {
	r := m.draw(t)
	r.sub.Close()
	// Who was dropped keeps being told so.
	if r.missed == 0 {
		r.closed = true
	}
	r.unread = nil
}

func (m *busModel) check(t *rapid.T) {
	want := 0
	for _, r := range m.readers {
		if !r.closed && r.missed == 0 {
			want++
		}
	}
	if got := m.bus.Stats(); got.Subscribers != want || got.Dropped != m.dropped || got.Published != uint64(m.sent) {
		t.Fatalf("stats %+v, want %d subscribers, %d dropped, %d published", got, want, m.dropped, m.sent)
	}
}

// TestNothingIsLostOrOutOfOrder drives the bus beside a busModel of it.
func TestNothingIsLostOrOutOfOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &busModel{bus: notify.NewBus(notify.BusOptions{MaxBacklog: modelBacklog})}
		defer m.bus.Close()
		t.Repeat(map[string]func(*rapid.T){
			"publish": m.publish, "subscribe": m.subscribe, "read": m.read, "unsubscribe": m.unsubscribe, "": m.check,
		})
	})
}

// TestBusOrderPerPublisherHolds has publishers and readers at work together, and
// subscribers that come and go.
func TestBusOrderPerPublisherHolds(t *testing.T) {
	t.Parallel()
	const publishers, readers, events = 8, 6, 400
	bus := notify.NewBus(notify.BusOptions{MaxBacklog: publishers * events})
	var reading, passing, publishing sync.WaitGroup
	for range readers {
		s := subscribeBus(t, bus)
		reading.Go(func() {
			last := map[uint64]int{}
			for range publishers * events {
				e, err := s.Next(context.Background())
				if err != nil {
					t.Errorf("a reader that keeps up: %v", err)
					return
				}
				var got struct{ N int }
				if err := json.Unmarshal(e.Params, &got); err != nil || got.N != last[e.Publisher]+1 {
					t.Errorf("publisher %d: event %d after %d (%v)", e.Publisher, got.N, last[e.Publisher], err)
					return
				}
				last[e.Publisher] = got.N
			}
		})
	}
	done := make(chan struct{})
	passing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			s, err := bus.Subscribe([]string{"count"})
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		}
	})
	for p := range publishers {
		publishing.Go(func() {
			for n := range events {
				if got, err := bus.Publish(context.Background(), numbered(uint64(p), n+1)); err != nil || got < readers {
					t.Errorf("publish: %d, %v", got, err)
				}
			}
		})
	}
	publishing.Wait()
	close(done)
	passing.Wait()
	reading.Wait()
	if n := bus.Stats().Dropped; n != 0 {
		t.Errorf("%d readers were dropped", n)
	}
}

// TestCloseWhileAllAreAtWork ends a bus under its publishers and readers.
func TestCloseWhileAllAreAtWork(t *testing.T) {
	t.Parallel()
	bus := notify.NewBus(notify.BusOptions{MaxBacklog: 4})
	var working sync.WaitGroup
	for range 4 {
		s := subscribeBus(t, bus)
		working.Go(func() {
			for {
				if _, err := s.Next(context.Background()); err != nil {
					var slow *notify.SlowError
					if !errors.Is(err, notify.ErrClosed) && !errors.As(err, &slow) {
						t.Errorf("the end of a reader: %v", err)
					}
					return
				}
			}
		})
	}
	started := make(chan struct{}, 4)
	for p := range 4 {
		working.Go(func() {
			for n := range 1_000_000 {
				if n == 100 {
					started <- struct{}{}
				}
				if _, err := bus.Publish(context.Background(), numbered(uint64(p), n)); err != nil {
					if !errors.Is(err, notify.ErrClosed) {
						t.Errorf("publish: %v", err)
					}
					return
				}
			}
			t.Error("the bus was never closed")
		})
	}
	for range 4 {
		<-started
	}
	bus.Close()
	working.Wait()
}
