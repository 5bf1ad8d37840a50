// SPDX-License-Identifier: Apache-2.0

package feed

import "sync"

// Interest returns the union of what all subscriptions ask for, URIs and task
// ids in order and each once, without a principal; nothing once the hub is
// closed. It takes a look at everything that is subscribed to.
func (h *Hub) Interest() Filter {
	h.mu.RLock()
	defer h.mu.RUnlock()
	has := func(kind Kind) bool { return h.index.topics[topicKey{kind: kind}] != nil }
	return Filter{
		Tools:        has(ToolsListChanged),
		Prompts:      has(PromptsListChanged),
		Resources:    has(ResourcesListChanged),
		ResourceURIs: h.index.names(ResourceUpdated),
		TaskIDs:      h.index.names(TaskChanged),
	}
}

// OnInterest names who is to be told that what [Hub.Interest] returns has
// changed; at once where it already had. It replaces the one before.
//
// The calls come one after the other, on the goroutine that subscribes or
// closes, with no lock of the hub held. Changes during a call lead to one more
// call together. So changed should do no more than wake its owner, who asks for
// the Interest at its own pace. After [Hub.Close] no further call begins.
func (h *Hub) OnInterest(changed func()) {
	h.watcher.set(changed)
}

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
