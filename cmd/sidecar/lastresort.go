// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"runtime/pprof"
	"sync"
	"time"

	"go.uber.org/zap"
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
	// defaultGrace counts until the configuration has been read.
	defaultGrace = 25 * time.Second
)

// lastResort ends a process that was asked to end and does not, whatever holds it
// up: it logs the stacks of all goroutines and exits with 1.
type lastResort struct {
	exit func(code int)

	mu    sync.Mutex
	grace time.Duration
	say   func(stacks string, after time.Duration)
	begun time.Time
	timer *time.Timer
	over  bool
}

func newLastResort(stderr io.Writer, exit func(int)) *lastResort {
	return &lastResort{exit: exit, grace: defaultGrace, say: func(stacks string, after time.Duration) {
		fmt.Fprintf(stderr, "sidecar: %s %v after the shutdown request\n%s", stuck, after, stacks)
	}}
}

const stuck = "the process did not exit"

// configure takes the grace period and the logger of a process once they are known.
func (r *lastResort) configure(grace time.Duration, log *zap.Logger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grace = grace
	r.say = func(stacks string, after time.Duration) {
		log.Error(stuck, zap.Duration("after_ms", after), zap.String("stacks", stacks))
	}
	if r.timer != nil {
		r.timer.Reset(time.Until(r.begun.Add(r.patience())))
	}
}

// begin starts the clock. Only the first call counts.
func (r *lastResort) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer == nil && !r.over {
		r.begun = time.Now()
		r.timer = time.AfterFunc(r.patience(), r.end)
	}
}

func (r *lastResort) patience() time.Duration { return r.grace + lastResortAfter - dumpTime }

// disarm tells that the process ends by itself.
func (r *lastResort) disarm() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (r *lastResort) end() {
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
	r.exit(exitToolFailed)
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
