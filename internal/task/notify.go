// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime/debug"
	"sync"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// teller calls the hook for changes, on a goroutine that runs only while there are changes to
// report.
type teller struct {
	hook    func(string, *outriggerv1.Task)
	onPanic func(any, []byte)

	mu    sync.Mutex
	queue []*news
	// newest is the last in the queue of each task.
	newest map[string]*news
	// quiet is closed when every change has been reported; nil if there is none.
	quiet chan struct{}
}

// news is one change to report.
type news struct {
	principal string
	task      *outriggerv1.Task
}

func newTeller(hook func(string, *outriggerv1.Task), onPanic func(any, []byte)) *teller {
	return &teller{hook: hook, onPanic: onPanic, newest: map[string]*news{}}
}

// tell queues a change and returns at once. A change that leaves the status as it
// is takes the place of one that was not told yet, so that work which reports all
// the time does not fill the queue.
func (t *teller) tell(principal string, task *outriggerv1.Task) {
	if t.hook == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := task.GetTaskId()
	if last := t.newest[id]; last != nil && last.task.GetStatus() == task.GetStatus() {
		last.task = task
		return
	}
	n := &news{principal: principal, task: task}
	t.queue = append(t.queue, n)
	t.newest[id] = n
	if t.quiet == nil {
		t.quiet = make(chan struct{})
		go t.run()
	}
}

func (t *teller) run() {
	for {
		n, ok := t.next()
		if !ok {
			return
		}
		t.call(n)
	}
}

// next takes the oldest change out of the queue.
func (t *teller) next() (news, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) == 0 {
		t.queue = nil // a burst must not be paid for until the end
		close(t.quiet)
		t.quiet = nil
		return news{}, false
	}
	n := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	if id := n.task.GetTaskId(); t.newest[id] == n {
		delete(t.newest, id)
	}
	return *n, true
}

// call gives the hook its own message. What a hook breaks is not the work's
// fault.
func (t *teller) call(n news) {
	defer func() {
		if p := recover(); p != nil {
			t.onPanic(p, debug.Stack())
		}
	}()
	t.hook(n.principal, copyTask(n.task))
}

// idle is closed once everything has been told that was to be.
func (t *teller) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.quiet != nil {
		return t.quiet
	}
	done := make(chan struct{})
	close(done)
	return done
}
