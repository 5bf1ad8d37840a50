// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"sync"
)

// Drain stops new work, stops calls from becoming tasks, and waits until all work has
// returned and every change was reported. If ctx ends first, the remaining work ends as
// UNAVAILABLE with an unknown outcome, and its context ends with [ErrClosed]. Work that waits and has not begun ends so at once. Drain then
// returns the amount of that work without waiting for it. Where processes share the
// store, they run again what of it may be run again; that is not in the amount. Drain may be called again, and
// concurrently. Callers can still get, answer and cancel tasks.
func (m *Manager) Drain(ctx context.Context) (cut int) {
	m.mu.Lock()
	if !m.closing {
		m.closing = true
		if len(m.runs) == 0 {
			close(m.idle)
		}
	}
	m.mu.Unlock()
	var waiting sync.WaitGroup
	for _, r := range m.running() {
		if r.waits() {
			waiting.Go(func() { r.cut() }) // nothing is lost with it
		}
	}
	waiting.Wait()
	select {
	case <-m.idle:
	case <-ctx.Done():
		for _, r := range m.running() {
			if r.cut() {
				cut++
			}
		}
	}
	select {
	case <-m.told.idle():
	case <-ctx.Done():
	}
	return cut
}

// running returns all work that has not returned.
func (m *Manager) running() []*run {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*run, 0, len(m.runs))
	for _, r := range m.runs {
		all = append(all, r)
	}
	return all
}
