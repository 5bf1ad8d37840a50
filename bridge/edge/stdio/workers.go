// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"sync"
	"sync/atomic"
)

// idleWorkers is how many goroutines without work are kept: what ends between two
// reads of a peer that keeps some hundred calls in flight.
const idleWorkers = 32

// workers run functions, each at once on a goroutine of its own, and keep a few of
// those that are done for the next ones: a fresh goroutine begins with a stack of a
// few KiB and copies it at each doubling, until a call fits. They bound what is
// kept; who calls run bounds what runs. Make them with newWorkers.
type workers struct {
	keep    int32
	idle    atomic.Int32
	jobs    chan func()
	closed  chan struct{}
	running sync.WaitGroup
}

func newWorkers(keep int32) *workers {
	return &workers{keep: keep, jobs: make(chan func()), closed: make(chan struct{})}
}

// run begins f and returns at once.
func (w *workers) run(f func()) {
	select {
	case w.jobs <- f:
	default:
		w.running.Go(func() { w.work(f) })
	}
}

// close lets go of those without work, and returns when the others are done. It is
// called once, and run not any more.
func (w *workers) close() {
	close(w.closed)
	w.running.Wait()
}

func (w *workers) work(f func()) {
	for f != nil {
		f()
		f = w.next()
	}
}

// next waits for work. It returns nil where enough others wait, or none will come.
func (w *workers) next() func() {
	defer w.idle.Add(-1)
	if w.idle.Add(1) > w.keep {
		return nil
	}
	select {
	case f := <-w.jobs:
		return f
	case <-w.closed:
		return nil
	}
}
