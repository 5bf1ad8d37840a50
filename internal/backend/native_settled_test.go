// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// settles waits on its own goroutine.
func (s *stage) settles(ctx context.Context, filter *outriggerv1.ChangeFilter) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.watcher.Settled(ctx, filter) }()
	return done
}

// isSettled reports whether that is over.
func (s *stage) isSettled(done <-chan error) bool {
	s.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			s.Errorf("settled: %v", err)
		}
		return true
	default:
		return false
	}
}

func TestWatcherSettles(t *testing.T) {
	play(t, tasksFilter("a"), WatcherOptions{}, func(s *stage) {
		if !s.isSettled(s.settles(s.Context(), nil)) {
			s.Error("nothing at all had to be waited for")
		}
		a := s.settles(s.Context(), tasksFilter("a"))
		p := s.next(0)
		if s.isSettled(a) {
			s.Error("settled before the acknowledgement")
		}
		p.acknowledge()
		if !s.isSettled(a) {
			s.Error("not settled by the acknowledgement")
		}

		// More than there is, and what becomes of it meanwhile.
		more := s.settles(s.Context(), &outriggerv1.ChangeFilter{TaskIds: []string{"b", "a", "b"}, ToolsListChanged: true})
		s.watcher.SetFilter(tasksFilter("a", "b"))
		s.next(0).acknowledge()
		if s.isSettled(more) {
			s.Error("settled without the tools")
		}
		s.watcher.SetFilter(&outriggerv1.ChangeFilter{TaskIds: []string{"a", "b", "c"}, ToolsListChanged: true, PromptsListChanged: true})
		p = s.next(0)
		p.acknowledge()
		if !s.isSettled(more) {
			s.Error("not settled by more than was asked for")
		}

		// What breaks holds no longer.
		p.breaks(errBroken)
		again := s.settles(s.Context(), tasksFilter("a"))
		if s.isSettled(again) {
			s.Error("settled by a subscription that broke")
		}
		s.next(watchBackoffMin / 2).acknowledge()
		if !s.isSettled(again) {
			s.Error("not settled by the next subscription")
		}
		s.watcher.SetFilter(nil)
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(s.Context(), time.Second, gone)
		defer cancel()
		if err := s.watcher.Settled(ctx, tasksFilter("a")); !errors.Is(err, gone) {
			s.Errorf("settled by a watcher that wants nothing: %v", err)
		}
	})
}

func TestIncludes(t *testing.T) {
	t.Parallel()
	all := &outriggerv1.ChangeFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true,
		ResourceUris: []string{"x:a", "x:b"}, TaskIds: []string{"t"},
	}
	for _, tt := range []struct {
		all, some *outriggerv1.ChangeFilter
		want      bool
	}{
		{nil, nil, true},
		{nil, &outriggerv1.ChangeFilter{}, true},
		{all, nil, true},
		{all, all, true},
		{all, &outriggerv1.ChangeFilter{ResourceUris: []string{"x:b"}}, true},
		{all, &outriggerv1.ChangeFilter{ResourceUris: []string{"x:c"}}, false},
		{all, &outriggerv1.ChangeFilter{TaskIds: []string{"t", "u"}}, false},
		{nil, &outriggerv1.ChangeFilter{ToolsListChanged: true}, false},
		{nil, &outriggerv1.ChangeFilter{PromptsListChanged: true}, false},
		{nil, &outriggerv1.ChangeFilter{ResourcesListChanged: true}, false},
	} {
		if got := includes(tt.all, tt.some); got != tt.want {
			t.Errorf("%v includes %v: %t", tt.all, tt.some, got)
		}
	}
}
