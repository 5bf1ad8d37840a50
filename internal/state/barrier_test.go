// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestWritesAreShared: who comes while a write is on its way shares the next one, by the link of the first of them. A link that is
// gone fails those who came with it, and no one after them.
func TestWritesAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fresh{}
		gone := errors.New("the link is gone")
		writes := 0
		var all sync.WaitGroup
		ask := func(write func() (uint64, error), want uint64, fails error) {
			all.Go(func() {
				if got, err := f.behind(t.Context(), write); got != want || !errors.Is(err, fails) {
					t.Errorf("got %d, %v; want %d, %v", got, err, want, fails)
				}
			})
			synctest.Wait()
		}
		ask(func() (uint64, error) {
			writes++
			time.Sleep(time.Second)
			return 0, gone
		}, 0, gone)
		for range 1000 {
			ask(func() (uint64, error) {
				writes++
				time.Sleep(time.Second)
				return 7, nil
			}, 7, nil)
		}
		all.Wait()
		if writes != 2 {
			t.Errorf("%d writes, want 2", writes)
		}
		left, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.behind(left, func() (uint64, error) { time.Sleep(time.Second); return 1, nil }); !errors.Is(err, context.Canceled) {
			t.Errorf("who has left gets %v", err)
		}
		time.Sleep(2 * time.Second) // the write that no one waits for ends
	})
}
