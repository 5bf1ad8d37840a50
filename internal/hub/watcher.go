// SPDX-License-Identifier: Apache-2.0

package hub

import "sync"

// watcher tells one other of changes, and is told of them by many.
type watcher struct {
	mu   sync.Mutex
	tell func()
	// due: something has changed that was not told yet. telling: somebody is at
	// it, and will see due.
	due, telling bool
	stopped      bool
}

func (w *watcher) set(tell func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.tell = tell
		w.run()
	}
}

// stop lets no further call begin.
func (w *watcher) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell, w.stopped = nil, true
}

func (w *watcher) changed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
	w.run()
}

// run tells what is due, unless somebody does. The caller holds the lock, which
// is free meanwhile.
func (w *watcher) run() {
	if w.telling {
		return
	}
	w.telling = true
	defer func() { w.telling = false }()
	for w.due && w.tell != nil {
		w.due = false
		w.unlocked(w.tell)
	}
}

// unlocked leaves the watcher usable where f panics, too.
func (w *watcher) unlocked(f func()) {
	w.mu.Unlock()
	defer w.mu.Lock()
	f()
}
