// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// TestEverybodyAtOnce has callers open, use, leave and end sessions, with
// streams, readers, questions and changes, under bounds that are met all the
// time, until the manager is closed under them. In the end nothing is left.
func TestEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: 4})
	m := session.New(session.Options{
		Max: 20, Idle: time.Millisecond, Keep: time.Millisecond, MaxStreams: 3, MaxEvents: 4, MaxBytes: 200, MaxKept: 2000,
		AskTimeout: time.Millisecond, MaxWatched: 3, Feed: hub,
	})
	var working sync.WaitGroup
	begun := make(chan struct{}, 64)
	for w := range 16 {
		working.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(w)))
			for n := range 300 {
				if n == 100 {
					begun <- struct{}{}
				}
				visit(t, m, hub, random)
			}
		})
	}
	for range 8 {
		<-begun
	}
	m.Close()
	working.Wait()
	if got := m.Stats(); got.Sessions != 0 || got.Kept != 0 || got.Opened == 0 || got.Expired+got.Evicted == 0 {
		t.Errorf("%+v", got)
	}
	if got := hub.Stats(); got.Subscribers != 0 || got.Bytes != 0 {
		t.Errorf("%+v", got)
	}
}

// visit is one client for a while. That a session is gone, or there is no room,
// is part of life.
func visit(t *testing.T, m *session.Manager, hub *notify.Feed, random *rand.Rand) {
	s, err := m.Open(alice, client(), 7)
	if err != nil {
		if !errors.Is(err, session.ErrFull) && !errors.Is(err, session.ErrClosed) {
			t.Error(err)
		}
		return
	}
	s.Release()
	var together sync.WaitGroup
	for range 3 {
		if _, err = m.Use(t.Context(), alice, s.ID()); err != nil {
			break
		}
		together.Go(func() { defer s.Release(); stay(t, s) })
		together.Go(func() {
			_ = s.Watch(t.Context(), fmt.Sprint("x:", random.Uint32()%4))
			_ = hub.Publish(notify.Change{Kind: notify.ResourceUpdated, URI: "x:1"})
			_, _, _ = s.PollChange()
		})
		together.Wait()
	}
	if random.Uint32()%2 == 0 {
		_ = m.End(t.Context(), s)
	}
}

// stay makes a call that streams and asks.
func stay(t *testing.T, s *session.Session) {
	st := s.NewStream()
	r := st.Read()
	var reading sync.WaitGroup
	reading.Go(func() {
		defer r.Close()
		for n := 0; ; n++ {
			e, err := nextEvent(context.Background(), r)
			switch {
			case err == nil:
				if n%3 == 2 { // the connection breaks
					if next, err := s.Resume(e.ID); err == nil {
						r = next
					}
				}
			case errors.Is(err, session.ErrEnded), errors.Is(err, session.ErrLost), errors.Is(err, session.ErrTaken):
				return
			default:
				t.Error(err)
				return
			}
		}
	})
	for range 6 {
		_ = st.Send(make([]byte, 60))
	}
	if _, err := s.Ask(context.Background(), st.Send, "roots/list", nil); !errors.Is(err, session.ErrNoAnswer) && !errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrEnded) {
		t.Error(err)
	}
	st.End()
	reading.Wait()
}

// TestOneStreamManyConnections has connections that take a stream over from each
// other all the time while it is written: together they get each message once,
// in order, because each goes on where the one before it stopped.
func TestOneStreamManyConnections(t *testing.T) {
	t.Parallel()
	const messages = 2000
	s := open(t, manage(t, session.Options{MaxEvents: messages + 2}))
	st := s.Main()
	var mu sync.Mutex
	var got []int
	var connections sync.WaitGroup
	for range 4 {
		connections.Go(func() {
			for {
				r := st.Greet()
				for {
					mu.Lock() // a message counts as received in the order in which it was taken
					e, ok, err := r.Poll()
					if ok && len(e.Message) > 0 {
						var n int
						_, _ = fmt.Sscan(string(e.Message), &n)
						got = append(got, n)
					}
					mu.Unlock()
					if errors.Is(err, session.ErrEnded) {
						return
					}
					if err != nil {
						break
					}
					if !ok {
						break
					}
				}
				r.Close()
			}
		})
	}
	for n := range messages {
		send(t, st, fmt.Sprint(n))
	}
	st.End()
	connections.Wait()
	if len(got) != messages || !slices.IsSorted(got) {
		t.Errorf("%d messages were received of %d, in order: %v", len(got), messages, slices.IsSorted(got))
	}
}
