// SPDX-License-Identifier: Apache-2.0

package behalf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

const (
	// awayAfter is the number of consecutive failures after which the authorization server
	// counts as away.
	awayAfter = 3
	// awayMin and awayMax bound the pause before the next attempt.
	awayMin = time.Second
	awayMax = 10 * time.Second
)

// away knows whether the authorization server is away. While it is, calls fail at once
// instead of waiting for a timeout each, and one attempt per pause finds out.
type away struct {
	mu     sync.Mutex
	failed int
	until  time.Time
}

// wait returns how long nothing is to be attempted; 0 admits an attempt.
func (a *away) wait(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failed < awayAfter {
		return 0
	}
	if wait := a.until.Sub(now); wait > 0 {
		return wait
	}
	a.until = now.Add(a.pause()) // the others wait for this attempt
	return 0
}

// saw takes note of how an attempt ended.
func (a *away) saw(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.failed = 0
		return
	}
	a.failed++
	pause := a.pause()
	var said *awayError
	if errors.As(err, &said) {
		pause = max(pause, min(said.after, awayMax))
	}
	a.until = now.Add(pause)
}

func (a *away) pause() time.Duration {
	pause := awayMin
	for range max(a.failed-awayAfter, 0) {
		if pause *= 2; pause >= awayMax {
			return awayMax
		}
	}
	return pause
}

// awayError says that the authorization server gave no usable answer.
type awayError struct {
	why   string
	after time.Duration // when to try again; 0 if unknown
	cause error
}

func (e *awayError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %v", e.why, e.cause)
	}
	return e.why
}

func (e *awayError) Unwrap() error { return e.cause }

// unavailable is the canonical error of an exchange without an outcome.
func (x *Exchanger) unavailable(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, err)
	}
	after, why := awayMin, "the exchange failed"
	var said *awayError
	if errors.As(err, &said) {
		after, why = max(said.after, awayMin), said.why
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(after),
		errmap.Message("Tool service unavailable: the authorization server gave no token for the backend: "+why))
}
