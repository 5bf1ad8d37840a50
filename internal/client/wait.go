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

// firstContact is how long to look for a sidecar that has not answered yet: a wrong URL is likelier than a restart.
const firstContact = 30 * time.Second

// Watcher follows a wait. Each function may be nil.
type Watcher struct {
	// Seen takes each state of the task, and Away why the sidecar is asked again, once until it answers.
	Seen func(*Task)
	Away func(*Error)
}

// Wait asks for a task until it has ended. Questions of the task are for the user. A sidecar that restarts, drains or limits the caller
// is asked again until ctx ends, one that never answered for [firstContact].
func Wait(ctx context.Context, c Client, id string, watcher Watcher) (*Task, error) {
	w := &wait{Watcher: watcher, began: time.Now()}
	for rounds, next := 0, firstPoll; ; next = min(next*pollGrowthBy, rarestPoll) {
		var t *Task
		err := w.insist(ctx, func() (err error) {
			t, err = c.Task(ctx, id)
			return err
		})
		if err != nil {
			return nil, err
		}
		if t.IsOver() {
			return t, nil
		}
		if w.Seen != nil {
			w.Seen(t)
		}
		if t.Status == statusInputRequired {
			if rounds++; rounds > maxRounds {
				return nil, tooManyRounds()
			}
			if err := w.insist(ctx, func() error { return c.AnswerTask(ctx, t) }); err != nil {
				return nil, err
			}
		}
		pause := next
		if t.Poll > 0 {
			pause = min(max(t.Poll, leastPoll), longestPoll)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// wait is one wait for a task.
type wait struct {
	Watcher

	began time.Time
	// isMet: the sidecar has answered.
	isMet bool
}

// insist makes a request until the sidecar takes it.
func (w *wait) insist(ctx context.Context, request func() error) error {
	for tries, next := 0, firstPoll; ; tries, next = tries+1, min(next*pollGrowthBy, rarestPoll) {
		err := request()
		var told *Error
		switch {
		case err == nil:
			w.isMet = true
			return nil
		case ctx.Err() != nil:
			return stillRuns(ctx)
		case !errors.As(err, &told) || !told.mayPass() || told.isAway && !w.isMet && time.Since(w.began) >= firstContact:
			return err
		}
		w.isMet = w.isMet || !told.isAway
		if tries == 0 && w.Away != nil {
			w.Away(told)
		}
		after, _ := number(told.Data, "retryAfterMs")
		if err := sleep(ctx, min(max(next, time.Duration(after)*time.Millisecond), longestPoll)); err != nil {
			return err
		}
	}
}

// mayPass reports whether the request may succeed later, without a change of it.
func (e *Error) mayPass() bool {
	return e.isAway || e.Code == errmap.Unavailable || e.Code == errmap.RateLimited
}

// sleep is a pause between two requests about a task that runs.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return stillRuns(ctx)
	}
}

// stillRuns is the error of a wait that is over before its task.
func stillRuns(ctx context.Context) *Error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return Canonical(errmap.New(errmap.Cancelled, errmap.Message("the wait was interrupted; the task goes on")))
	}
	return Canonical(errmap.New(errmap.Timeout, errmap.Message("the task still runs, and goes on"), errmap.Advice("Wait again, or longer with --timeout.")))
}
