// SPDX-License-Identifier: Apache-2.0

// Package lastresort ends a process that does not end after a shutdown request: it
// writes the stacks of all goroutines and exits.
package lastresort

import (
	"bytes"
	"fmt"
	"io"
	"runtime/pprof"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// lastResortAfter is how long the end of the process may take beyond the grace
	// period, stacks included.
	lastResortAfter = 5 * time.Second
	// dumpTime is the part of it in which the stacks are written. No reader may be
	// reading standard error.
	dumpTime = 500 * time.Millisecond
	// maxStacks bounds what is written of the stacks.
	maxStacks = 64 << 10
)

// exitCode is the code that the process ends with.
const exitCode = 1

// Timer ends a process that was asked to end and does not, whatever holds it
// up: it logs the stacks of all goroutines and exits with 1. Make one with [New]; its
// methods are safe for concurrent use.
type Timer struct {
	exit func(code int)

	mu    sync.Mutex
	grace time.Duration
	say   func(stacks string, after time.Duration)
	begun time.Time
	timer *time.Timer
	over  bool
}

// New returns a timer that writes to stderr and calls exit, unless [Timer.Configure]
// says otherwise.
func New(stderr io.Writer, exit func(int)) *Timer {
	return &Timer{exit: exit, grace: defaults.DrainGrace, say: func(stacks string, after time.Duration) {
		fmt.Fprintf(stderr, "sidecar: %s %v after the shutdown request\n%s", stuck, after, stacks)
	}}
}

const stuck = "the process did not exit"

// Configure takes the grace period and the logger of a process once they are known.
func (r *Timer) Configure(grace time.Duration, log *zap.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grace = grace
	r.say = func(stacks string, after time.Duration) {
		log.Error(stuck, zap.Duration("after_ms", after), zap.String(logkey.CodeStacktrace, stacks))
	}
	if r.timer != nil {
		r.timer.Reset(time.Until(r.begun.Add(r.timeLeft())))
	}
}

// Begin starts the clock. Only the first call counts.
func (r *Timer) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && !r.over {
		r.begun = time.Now()
		r.timer = time.AfterFunc(r.timeLeft(), r.expire)
	}
}

func (r *Timer) timeLeft() time.Duration { return r.grace + lastResortAfter - dumpTime }

// Disarm tells that the process ends by itself.
func (r *Timer) Disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (r *Timer) expire() {
	r.mu.Lock()
	say, after, over := r.say, time.Since(r.begun), r.over
	r.mu.Unlock()
	if over {
		return
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		say(stacks(), after.Round(time.Millisecond))
	}()
	select {
	case <-written:
	case <-time.After(dumpTime):
	}
	r.exit(exitCode)
}

// stacks returns the stacks of all goroutines, equal ones once with their number,
// and no more than maxStacks bytes of it.
func stacks() string {
	dump := &boundedText{left: maxStacks}
	_ = pprof.Lookup("goroutine").WriteTo(dump, 1) // an error is the bound
	return dump.text.String()
}

// boundedText keeps the first bytes that are written to it.
type boundedText struct {
	text bytes.Buffer
	left int
}

// Write implements [io.Writer].
func (b *boundedText) Write(p []byte) (int, error) {
	kept, _ := b.text.Write(p[:min(len(p), b.left)])
	if b.left -= kept; kept < len(p) {
		return kept, io.ErrShortWrite
	}
	return kept, nil
}
