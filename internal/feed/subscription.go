// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"context"
	"slices"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/hub"
)

// item is what is kept of a pending change.
type item struct {
	kind Kind
	name string // the URI, or the task's id
	task *outriggerv1.Task
}

type itemKey struct {
	kind Kind
	name string
}

// Key implements [hub.Keyed].
func (it item) Key() itemKey { return itemKey{kind: it.kind, name: it.name} }

// Counts implements [hub.Keyed]. Lists do not count, because each list is pending at
// most once.
func (it item) Counts() bool { return !it.kind.isList() }

// Subscription is one reader's view of the changes. It must be closed. It has one reader
// at a time.
type Subscription struct {
	feed      *Hub
	principal string
	sub       hub.Subscription[topicKey, item]
	pending   hub.Merging[itemKey, item]
}

// Ready returns a channel that has a value to receive while a change is pending or the
// subscription has ended. After each receive, call Poll once: Poll makes the channel
// ready again if more changes are pending. Ready always returns the same channel, which
// is never closed.
func (s *Subscription) Ready() <-chan struct{} { return s.sub.Ready() }

// Poll returns the oldest pending change, or false if there is none yet. It never waits.
// An error means that the subscription has ended and no changes are pending: a
// *[SlowError] if the reader fell behind, or [ErrClosed] if the subscription or the hub
// was closed.
func (s *Subscription) Poll() (Change, bool, error) {
	it, ok, err := s.sub.Poll()
	return s.change(&it), ok, err
}

// Next returns the oldest pending change, or waits for one until ctx ends. Then the
// error is the context's cause. Other errors are those of Poll. Pending changes come
// first, even if ctx has ended.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	it, err := s.sub.Next(ctx)
	return s.change(&it), err
}

// Close discards the pending changes. It may be called again, and by other goroutines
// than the reader.
func (s *Subscription) Close() { s.sub.Close() }

// Refilter replaces the filter of the subscription with f, in one step. Changes that
// both filters select are neither missed nor delivered twice. Pending changes that f
// does not select are discarded. The principal does not change, whatever f says. The
// error is [ErrFull], a *[FilterError], or [ErrClosed] if the subscription has ended.
// After an error nothing has changed.
func (s *Subscription) Refilter(f Filter) error {
	f.Principal = s.principal
	wants, err := f.wants()
	if err != nil {
		return err
	}
	return s.feed.hub.Reseat(&s.sub, wants, func() { s.pending.Retain(f.chooses) })
}

// chooses reports whether a pending change is one of those that f asks for.
func (f *Filter) chooses(it item) bool {
	switch it.kind {
	case ToolsListChanged:
		return f.Tools
	case PromptsListChanged:
		return f.Prompts
	case ResourcesListChanged:
		return f.Resources
	case ResourceUpdated:
		return slices.ContainsFunc(f.ResourceURIs, func(wanted string) bool { return covers(wanted, it.name) }) ||
			slices.ContainsFunc(f.Scoped, func(wanted Scoped) bool { return wanted.URI == it.name })
	default:
		return slices.Contains(f.TaskIDs, it.name)
	}
}

// change is the pending item as the reader gets it; no item is no change.
func (s *Subscription) change(it *item) Change {
	switch it.kind {
	case ResourceUpdated:
		return Change{Kind: it.kind, URI: it.name}
	case TaskChanged:
		return Change{Kind: it.kind, Task: it.task, Principal: s.principal}
	default:
		return Change{Kind: it.kind}
	}
}
