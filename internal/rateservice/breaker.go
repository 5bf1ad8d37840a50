// SPDX-License-Identifier: Apache-2.0

package rateservice

import (
	"sync"
	"time"
)

// result is what a question says about the service.
type result uint8

const (
	// undecided: its caller went away first.
	undecided result = iota
	succeeded
	broke
)

// breaker keeps a service that fails from costing every request its timeout. After most
// consecutive failures nothing is asked for openFor, and then one question at a time until
// one is answered.
type breaker struct {
	most    int
	openFor time.Duration

	mu       sync.Mutex
	failures int
	// until is when the next question may be asked; zero while all may.
	until   time.Time
	probing bool
}

// permit is the right to ask one question.
type permit struct{ isProbe bool }

// enter permits a question, or says in how long one may be asked. leave must follow a permit.
func (b *breaker) enter(now time.Time) (p permit, wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.until.IsZero():
		return permit{}, 0, true
	case now.Before(b.until):
		return permit{}, b.until.Sub(now), false
	case b.probing:
		return permit{}, b.openFor, false
	}
	b.probing = true
	return permit{isProbe: true}, 0, true
}

// leave is told how a question ended. Questions that were open when the breaker opened
// count like others: an answer is an answer.
func (b *breaker) leave(p permit, now time.Time, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.isProbe {
		b.probing = false
	}
	switch r {
	case succeeded:
		b.failures, b.until = 0, time.Time{}
	case broke:
		b.failures++
		if b.failures >= b.most {
			b.until = now.Add(b.openFor)
		}
	case undecided:
	}
}

// isOpen reports whether questions are held back.
func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.until.IsZero()
}
