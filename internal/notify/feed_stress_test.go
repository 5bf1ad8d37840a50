// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestOrderPerPublisherHolds has publishers and readers at work together, and
// subscribers that come and go. Readers that keep up with a bound far away see
// the newest state of every task, and never an older one after a newer.
func TestOrderPerPublisherHolds(t *testing.T) {
	t.Parallel()
	const publishers, readers, changes = 6, 6, 500
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: publishers * changes})
	filter := notify.Filter{ResourceURIs: []string{"x:/"}, Tools: true}
	for p := range publishers {
		filter.TaskIDs = append(filter.TaskIDs, strconv.Itoa(p))
	}
	var reading, passing, publishing sync.WaitGroup
	for range readers {
		s := subscribe(t, hub, filter)
		reading.Go(func() {
			updates, states := map[string]int{}, map[string]int{}
			for {
				c, err := s.Next(context.Background())
				if err != nil {
					checkLast(t, err, updates, states, publishers, changes)
					return
				}
				seen := updates
				var who, text string
				switch c.Kind {
				case notify.ResourceUpdated:
					who, text, _ = strings.Cut(strings.TrimPrefix(c.URI, "x:/"), "/")
				case notify.TaskChanged:
					seen, who, text = states, c.Task.GetTaskId(), c.Task.GetStatusMessage()
				default:
					continue
				}
				n, err := strconv.Atoi(text)
				if last := seen[who]; err != nil || n <= last || (c.Kind == notify.ResourceUpdated && n != last+1) {
					t.Errorf("publisher %s: %s after %d", who, shown(c), last)
					return
				}
				seen[who] = n
			}
		})
	}
	stop := make(chan struct{})
	for range 2 {
		passing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s, err := hub.Subscribe(filter)
				if err != nil {
					t.Error(err)
					return
				}
				if _, _, err := s.Poll(); err != nil {
					t.Error(err)
				}
				s.Close()
			}
		})
	}
	for p := range publishers {
		publishing.Go(func() {
			for n := range changes {
				publish(t, hub, updated(fmt.Sprintf("x:/%d/%d", p, n+1)), task("", strconv.Itoa(p), strconv.Itoa(n+1)), list(notify.ToolsListChanged))
			}
		})
	}
	publishing.Wait()
	close(stop)
	passing.Wait()
	hub.Close()
	reading.Wait()
	if n := hub.Stats().Dropped; n != 0 {
		t.Errorf("%d readers were dropped", n)
	}
}

func checkLast(t *testing.T, err error, updates, states map[string]int, publishers, changes int) {
	t.Helper()
	if !errors.Is(err, notify.ErrClosed) || len(updates) != publishers || len(states) != publishers {
		t.Errorf("%v after updates of %d and tasks of %d publishers", err, len(updates), len(states))
	}
	for who, n := range states {
		if n != changes || updates[who] != changes {
			t.Errorf("publisher %s: update %d, state %d; want %d", who, updates[who], n, changes)
		}
	}
}

// TestEverybodyAtOnce has a small hub with readers that fall behind, publishers
// of everything, and closes of subscriptions by others than their readers, until
// the hub is closed under them. That is once some have fallen behind.
func TestEverybodyAtOnce(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: 12, MaxPending: 4})
	var working sync.WaitGroup
	started := make(chan struct{}, 64)
	start := sync.OnceFunc(func() { started <- struct{}{} })
	for w := range 16 {
		working.Go(func() {
			for round := 0; ; round++ {
				filter := notify.Filter{
					Tools: true, ResourceURIs: []string{"x:/" + strconv.Itoa(round%7), "x:/"}, TaskIDs: []string{strconv.Itoa(w)}, Principal: "p",
				}
				s, err := hub.Subscribe(filter)
				if errors.Is(err, notify.ErrFull) {
					continue
				}
				if err != nil {
					if !errors.Is(err, notify.ErrClosed) {
						t.Error(err)
					}
					return
				}
				read(t, s, round%9)
			}
		})
	}
	for p := range 4 {
		working.Go(func() {
			for n := 0; ; n++ {
				if n >= 2000 && hub.Stats().Dropped > 0 {
					start()
				}
				for _, c := range []notify.Change{
					list(notify.ToolsListChanged), list(notify.PromptsListChanged), updated(fmt.Sprintf("x:/%d/%d", n%7, n%11)), task("p", strconv.Itoa(n%16), strconv.Itoa(p)),
				} {
					if err := hub.Publish(c); err != nil {
						if !errors.Is(err, notify.ErrClosed) {
							t.Error(err)
						}
						return
					}
				}
			}
		})
	}
	<-started
	hub.Close()
	working.Wait()
	if got := hub.Stats(); got.Subscribers != 0 || got.Bytes != 0 || got.Dropped == 0 {
		t.Errorf("stats %+v", got)
	}
}

// read reads some changes while somebody else closes the subscription.
func read(t *testing.T, s *notify.Subscription, most int) {
	var closing sync.WaitGroup
	closing.Go(func() {
		if most%2 == 0 {
			s.Close()
		}
	})
	for range most {
		_, err := s.Next(context.Background())
		var slow *notify.SlowError
		if err != nil {
			if !errors.Is(err, notify.ErrClosed) && !errors.As(err, &slow) {
				t.Errorf("the end of a reader: %v", err)
			}
			break
		}
	}
	closing.Wait()
	s.Close()
}
