// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// stage is a watcher in a bubble, where time is the test's: streams are functions
// instead of connections, and what happens is written down.
type stage struct {
	*testing.T

	watcher *Watcher
	begun   time.Time
	opened  chan *feedPeer
	story   []string // what the owner was told; one function at a time
}

// newStage prepares a test within a bubble.
func newStage(t *testing.T) *stage {
	return &stage{T: t, begun: time.Now(), opened: make(chan *feedPeer, 100)}
}

// start starts the watcher, which shortens no pause.
func (s *stage) start(filter *outriggerv1.ChangeFilter, opts WatcherOptions) {
	s.watcher = newWatcher(s.watch, func() float64 { return 0 }, filter, opts)
}

// feedPeer is the backend's side of one subscription.
type feedPeer struct {
	filter *outriggerv1.ChangeFilter
	at     time.Duration // when it was opened
	send   chan *outriggerv1.Notification
	fail   chan error
	over   chan struct{}
}

// play runs a test in a bubble. opts may leave all functions out.
func play(t *testing.T, filter *outriggerv1.ChangeFilter, opts WatcherOptions, test func(*stage)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		tell := func(format string, args ...any) { s.story = append(s.story, fmt.Sprintf(format, args...)) }
		opts.Changed = func(n *outriggerv1.Notification) {
			tell("changed %s", strings.TrimPrefix(n.GetMethod(), "notifications/"))
		}
		opts.Acknowledged = func(asked, honoured *outriggerv1.ChangeFilter) {
			tell("acknowledged %s of %s", short(honoured), short(asked))
		}
		opts.Resynced = func() { tell("resynced") }
		opts.Failed = func(err error, pause time.Duration) { tell("failed, %v: %v", pause, reason(err)) }
		s.start(filter, opts)
		defer s.watcher.Close()
		test(s)
	})
}

// short writes a filter in a few letters.
func short(f *outriggerv1.ChangeFilter) string {
	out := ""
	if f.GetToolsListChanged() {
		out = "tools"
	}
	return out + strings.Join(f.GetTaskIds(), "")
}

// reason shortens errors to what the test gave.
func reason(err error) string {
	if err == nil {
		return "a good end"
	}
	lines := strings.Split(err.Error(), "\n")
	return lines[0]
}

// watch is Client.Watch without a connection.
func (s *stage) watch(ctx context.Context, filter *outriggerv1.ChangeFilter, on func(*outriggerv1.Notification)) error {
	p := &feedPeer{filter: filter, at: time.Since(s.begun), send: make(chan *outriggerv1.Notification), fail: make(chan error), over: make(chan struct{})}
	defer close(p.over)
	s.opened <- p
	for {
		select {
		case n := <-p.send:
			on(n)
		case err := <-p.fail:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// next is the subscription that is opened next, at this time.
func (s *stage) next(at time.Duration) *feedPeer {
	s.Helper()
	p := <-s.opened
	if p.at != at {
		s.Errorf("a subscription was opened after %v, want %v", p.at, at)
	}
	return p
}

// none asserts that no subscription is opened for a time.
func (s *stage) none(during time.Duration) {
	s.Helper()
	time.Sleep(during)
	synctest.Wait()
	if len(s.opened) != 0 {
		s.Errorf("a subscription was opened at %v", (<-s.opened).at)
	}
}

// acknowledge acknowledges all that is wanted.
func (p *feedPeer) acknowledge() {
	p.send <- acknowledgement(p.filter)
	synctest.Wait()
}

// breaks ends the subscription.
func (p *feedPeer) breaks(err error) {
	p.fail <- err
	synctest.Wait()
}

func (p *feedPeer) isOver() bool {
	synctest.Wait()
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// told asserts what the owner was told since the last time.
func (s *stage) told(want ...string) {
	s.Helper()
	synctest.Wait()
	if got := strings.Join(s.story, "\n"); got != strings.Join(want, "\n") {
		s.Errorf("the owner was told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	s.story = nil
}

func tasksFilter(ids ...string) *outriggerv1.ChangeFilter {
	return &outriggerv1.ChangeFilter{TaskIds: ids}
}

// growing are the first pauses, shortened as much as they can be.
func growing() []time.Duration {
	out := make([]time.Duration, 9)
	for i := range out {
		out[i] = min(watchBackoffMin/2<<i, watchBackoffMax/2)
	}
	return out
}

var errBroken = errors.New("broken")

func TestWatcherTellsInOrder(t *testing.T) {
	play(t, toolsFilter(), WatcherOptions{}, func(s *stage) {
		p := s.next(0)
		s.told()
		p.send <- acknowledgement(&outriggerv1.ChangeFilter{})
		p.send <- change("one")
		p.send <- change("two")
		s.told("acknowledged  of tools", "changed one", "changed two")
		s.none(24 * time.Hour) // silence is no fault
		s.watcher.Close()
		if !p.isOver() {
			s.Error("the subscription outlives its watcher")
		}
		s.watcher.Close()
		s.watcher.SetFilter(tasksFilter("a"))
		s.none(time.Hour)
		s.told()
	})
}

// Pauses double, the first success after failures is a resync, and only a
// subscription that held starts the pauses over.
func TestWatcherBacksOff(t *testing.T) {
	play(t, toolsFilter(), WatcherOptions{}, func(s *stage) {
		at := time.Duration(0)
		for _, pause := range growing() {
			s.next(at).breaks(errBroken)
			s.told(fmt.Sprintf("failed, %v: broken", pause))
			at += pause
		}
		p := s.next(at)
		p.acknowledge()
		s.told("acknowledged tools of tools", "resynced")

		time.Sleep(time.Second) // not long enough
		p.breaks(nil)
		s.told("failed, 5s: a good end")
		p = s.next(at + 6*time.Second)
		p.acknowledge()
		s.told("acknowledged tools of tools", "resynced")

		time.Sleep(watchBackoffMax)
		p.breaks(errBroken)
		s.told("failed, 50ms: broken")
		p = s.next(at + 16*time.Second + 50*time.Millisecond)
		p.acknowledge()
		p.send <- change("one")
		s.told("acknowledged tools of tools", "resynced", "changed one")
	})
}

// A backend that acknowledges and breaks again and again is not asked more and
// more often.
func TestWatcherOfAFlappingBackend(t *testing.T) {
	play(t, toolsFilter(), WatcherOptions{}, func(s *stage) {
		at := time.Duration(0)
		for _, pause := range growing() {
			p := s.next(at)
			p.acknowledge()
			p.breaks(errBroken)
			at += pause
		}
	})
}

func TestWatcherWhereNothingIsOffered(t *testing.T) {
	play(t, toolsFilter(), WatcherOptions{}, func(s *stage) {
		no := &Error{Kind: KindStatus, Code: connect.CodeUnimplemented, PeerCode: "unimplemented"}
		s.next(0).breaks(no)
		s.told("failed, 5m0s: backend: status (unimplemented)")
		s.watcher.SetFilter(tasksFilter("a")) // no reason to ask earlier
		s.none(5*time.Minute - 1)
		s.next(5 * time.Minute).breaks(no)
		s.told("failed, 5m0s: backend: status (unimplemented)")
		p := s.next(10 * time.Minute)
		p.acknowledge()
		s.told("acknowledged a of a", "resynced")
	})
}

// The new subscription is in effect before the old one ends, and what the old
// one had on its way still arrives.
func TestWatcherChangesItsFilter(t *testing.T) {
	play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
		old := s.next(0)
		old.acknowledge()
		s.watcher.SetFilter(tasksFilter("b", "a", "b"))
		fresh := s.next(0)
		old.send <- change("before")
		if old.isOver() {
			s.Error("the old subscription ended before the new one was acknowledged")
		}
		fresh.acknowledge()
		old.send <- change("on its way")
		synctest.Wait()
		fresh.send <- change("after")
		s.told("acknowledged a of a", "changed before", "acknowledged ab of ab", "changed on its way", "changed after")
		time.Sleep(watchOverlap - 1)
		if old.isOver() {
			s.Error("the old subscription ended early")
		}
		time.Sleep(time.Nanosecond)
		if !old.isOver() || fresh.isOver() {
			s.Error("the old subscription lives on, or the new one does not")
		}
		s.watcher.SetFilter(tasksFilter("a", "b")) // the same wish in other words
		s.none(time.Hour)
		s.told()
	})
}

// While a subscription is being opened, only the latest wish is remembered.
func TestWatcherSkipsOvertakenFilters(t *testing.T) {
	play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
		first := s.next(0)
		for _, id := range []string{"b", "c", "d"} {
			s.watcher.SetFilter(tasksFilter(id))
		}
		s.none(0)
		first.acknowledge()
		s.next(0).acknowledge()
		s.none(time.Hour)
		s.told("acknowledged a of a", "acknowledged d of d")
	})
}

// A new filter that the backend refuses leaves the old one in effect, and is
// tried ever more seldom.
func TestWatcherKeepsTheOldFilter(t *testing.T) {
	play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
		old := s.next(0)
		old.acknowledge()
		s.told("acknowledged a of a")
		time.Sleep(time.Minute)
		s.watcher.SetFilter(tasksFilter("b"))
		at := time.Minute
		for _, pause := range growing() {
			s.next(at).breaks(errBroken)
			at += pause
		}
		s.story = nil
		old.send <- change("still")
		synctest.Wait()
		s.next(at).acknowledge()
		s.told("changed still", "acknowledged b of b") // nothing was missed
	})
}

// A break while a new subscription is on its way is a gap, whichever comes first.
func TestWatcherMissesNoGap(t *testing.T) {
	t.Run("broken before", func(t *testing.T) {
		play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
			old := s.next(0)
			old.acknowledge()
			s.watcher.SetFilter(tasksFilter("b"))
			fresh := s.next(0)
			old.breaks(errBroken)
			fresh.acknowledge()
			s.told("acknowledged a of a", "failed, 50ms: broken", "acknowledged b of b", "resynced")
			s.none(time.Hour)
		})
	})
	t.Run("broken after", func(t *testing.T) {
		play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
			old := s.next(0)
			old.acknowledge()
			s.watcher.SetFilter(tasksFilter("b"))
			s.next(0).acknowledge()
			old.breaks(errBroken)
			s.told("acknowledged a of a", "acknowledged b of b", "resynced")
			s.none(time.Hour)
		})
	})
	t.Run("both broken", func(t *testing.T) {
		play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
			old := s.next(0)
			old.acknowledge()
			s.watcher.SetFilter(tasksFilter("b"))
			fresh := s.next(0)
			fresh.acknowledge()
			fresh.breaks(errBroken)
			old.breaks(errBroken)
			s.told("acknowledged a of a", "acknowledged b of b", "failed, 50ms: broken")
			s.next(50 * time.Millisecond).acknowledge()
			s.told("acknowledged b of b", "resynced")
		})
	})
}

// Where nothing is wanted, nothing is asked; what is wanted later is new, not
// missed.
func TestWatcherWithoutWishes(t *testing.T) {
	play(t, nil, WatcherOptions{}, func(s *stage) {
		s.none(time.Hour)
		s.watcher.SetFilter(toolsFilter())
		p := s.next(time.Hour)
		p.acknowledge()
		s.watcher.SetFilter(&outriggerv1.ChangeFilter{})
		if !p.isOver() {
			s.Error("a subscription to nothing lives on")
		}
		s.none(time.Hour)
		s.watcher.SetFilter(toolsFilter())
		dropped := s.next(2 * time.Hour)
		s.watcher.SetFilter(nil) // before it is acknowledged
		if !dropped.isOver() {
			s.Error("a subscription to nothing is waited for")
		}
		s.none(time.Hour)
		s.told("acknowledged tools of tools")
		s.watcher.SetFilter(tasksFilter("a"))
		s.next(3 * time.Hour).breaks(errBroken)
		s.watcher.SetFilter(nil)
		s.none(time.Hour)
		s.watcher.SetFilter(toolsFilter())
		s.next(4 * time.Hour).acknowledge()
		s.told("failed, 50ms: broken", "acknowledged tools of tools")
	})
}

// A backend that takes the subscription and never acknowledges it.
func TestWatcherWaitsSoLongForTheAcknowledgement(t *testing.T) {
	play(t, toolsFilter(), WatcherOptions{}, func(s *stage) {
		p := s.next(0)
		time.Sleep(ackTimeout)
		if !p.isOver() {
			s.Error("it is waited for still")
		}
		s.told("failed, 50ms: native: no acknowledgement within 10s: context deadline exceeded")
		s.next(ackTimeout + 50*time.Millisecond).acknowledge()
		s.none(24 * time.Hour)
		s.told("acknowledged tools of tools", "resynced")
	})
}

// Filters that change all the time hold a few streams, not one for each.
func TestWatcherHoldsFewStreams(t *testing.T) {
	play(t, tasksFilter("x0"), WatcherOptions{}, func(s *stage) {
		var all []*feedPeer
		for i := range 20 {
			s.watcher.SetFilter(tasksFilter(fmt.Sprint("x", i)))
			p := s.next(0)
			p.acknowledge()
			all = append(all, p)
		}
		alive := 0
		for _, p := range all {
			if !p.isOver() {
				alive++
			}
		}
		if alive != maxRetiring+1 || all[len(all)-1].isOver() {
			s.Errorf("%d streams are open", alive)
		}
		time.Sleep(watchOverlap)
		for i, p := range all {
			if p.isOver() != (i < len(all)-1) {
				s.Errorf("stream %d: over is %v", i, p.isOver())
			}
		}
	})
}
