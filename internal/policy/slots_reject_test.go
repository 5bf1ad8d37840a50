// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestRejectIsWhatAcquireWouldSay: the same error and the same count while the queue is full, and nothing before.
func TestRejectIsWhatAcquireWouldSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(1)), MaxQueuedCalls: new(int32(1)), MaxQueueWait: durationpb.New(time.Minute)}, policy.SlotOptions{})
		silent := func(when string) {
			if err := s.Reject("c", "t"); err != nil || s.Stats().Full != 0 {
				t.Errorf("%s: %v, %+v", when, err, s.Stats())
			}
		}
		silent("while nothing runs")
		running, err := s.Acquire(t.Context(), "c", "t")
		if err != nil {
			t.Fatal(err)
		}
		silent("while the queue is empty")
		queued := make(chan *errmap.Error, 1)
		go func() {
			place, err := s.Acquire(t.Context(), "c", "t")
			place.Release(false)
			queued <- err
		}()
		synctest.Wait()
		early := s.Reject("c", "t")
		_, late := s.Acquire(t.Context(), "c", "t")
		if early == nil || late == nil || early.Code != errmap.Unavailable || early.Error() != late.Error() || early.RetryAfter != late.RetryAfter {
			t.Errorf("Reject says %v, Acquire %v", early, late)
		}
		if got := s.Stats(); got.Full != 2 || got.Running != 1 || got.Waiting != 1 {
			t.Errorf("%+v", got)
		}
		running.Release(false)
		if err := <-queued; err != nil {
			t.Error(err)
		}
		if err := s.Reject("c", "t"); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
	if err := (*policy.Slots)(nil).Reject("c", "t"); err != nil {
		t.Errorf("without slots: %v", err)
	}
}
