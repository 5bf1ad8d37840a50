// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"testing"
	"testing/synctest"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// The owner's functions may change the filter.
func TestWatcherIsChangedByItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.start(tasksFilter("a"), WatcherOptions{Acknowledged: func(asked, _ *outriggerv1.ChangeFilter) {
			if short(asked) == "a" {
				s.watcher.SetFilter(tasksFilter("b"))
			}
		}})
		defer s.watcher.Close()
		s.next(0).acknowledge()
		if p := s.next(0); short(p.filter) != "b" {
			t.Errorf("asked for %v", p.filter)
		}
	})
}

// A wish that is withdrawn and renewed while its acknowledgement is delivered: the
// subscription that was given up counts no more, whatever it still reports.
func TestWatcherForgetsWhatItGaveUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		once := true
		s.start(toolsFilter(), WatcherOptions{Acknowledged: func(_, _ *outriggerv1.ChangeFilter) {
			if once {
				once = false
				s.watcher.SetFilter(nil)
				time.Sleep(time.Second) // until it has effect
				s.watcher.SetFilter(toolsFilter())
				time.Sleep(time.Second)
			}
		}})
		defer s.watcher.Close()
		given := s.next(0)
		given.send <- acknowledgement(given.filter)
		renewed := s.next(time.Second)
		time.Sleep(3 * time.Second)
		if !given.isOver() {
			t.Error("the subscription lives on")
		}
		renewed.breaks(errBroken)
		s.next(4*time.Second + 50*time.Millisecond).acknowledge()
	})
}

// Close waits for the function of the owner that runs, and no other runs after.
func TestWatcherClosesOnItsOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		ready, release := make(chan struct{}, 2), make(chan struct{})
		calls, running := 0, false
		s.start(tasksFilter("a"), WatcherOptions{Changed: func(*outriggerv1.Notification) {
			calls++
			running = true
			ready <- struct{}{}
			<-release
			running = false
		}})
		old := s.next(0)
		old.acknowledge()
		s.watcher.SetFilter(tasksFilter("b"))
		fresh := s.next(0)
		fresh.acknowledge()
		old.send <- change("slow")
		<-ready
		fresh.send <- change("waits for its turn")
		closed := make(chan struct{})
		go func() {
			s.watcher.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close did not wait for the owner")
		default:
		}
		close(release)
		<-closed
		if running || calls != 1 {
			t.Errorf("%d calls, one running: %v", calls, running)
		}
	})
}

// Functions that are not given are not missed, in any state.
func TestWatcherWithoutOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.start(toolsFilter(), WatcherOptions{})
		s.next(0).breaks(errBroken)
		p := s.next(50 * time.Millisecond)
		p.acknowledge()
		p.send <- change("one")
		s.watcher.Close()
	})
}
