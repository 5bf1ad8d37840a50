// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// How often a task is asked for: as its sidecar suggests, within bounds, else more and more rarely.
const (
	firstPoll    = 250 * time.Millisecond
	leastPoll    = 100 * time.Millisecond
	rarestPoll   = 5 * time.Second
	longestPoll  = 30 * time.Second
	pollGrowthBy = 2
)

// Wait asks for a task until it has ended. It calls seen with each state that it sees. Questions of the task are for the user.
func Wait(ctx context.Context, c Client, id string, seen func(*Task)) (*Task, error) {
	rounds := 0
	for next := firstPoll; ; next = min(next*pollGrowthBy, rarestPoll) {
		t, err := c.Task(ctx, id)
		if err != nil {
			return nil, err
		}
		if t.IsOver() {
			return t, nil
		}
		seen(t)
		if t.Status == statusInputRequired {
			if rounds++; rounds > maxRounds {
				return nil, tooManyRounds()
			}
			if err := c.AnswerTask(ctx, t); err != nil {
				return nil, err
			}
		}
		pause := next
		if t.Poll > 0 {
			pause = min(max(t.Poll, leastPoll), longestPoll)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, stillRuns(ctx)
		}
	}
}

// stillRuns is the error of a wait that is over before its task.
func stillRuns(ctx context.Context) *Error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Canonical(errmap.New(errmap.Cancelled, errmap.Message("the wait was interrupted; the task goes on")))
	}
	return Canonical(errmap.New(errmap.Timeout, errmap.Message("the task still runs, and goes on"), errmap.Advice("Wait again, or longer with --timeout.")))
}
