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

// Counts implements [hub.Keyed]: of the lists there is one each.
func (it item) Counts() bool { return !it.kind.isList() }

// Subscription is one reader's view of the changes. It has to be closed. It has
// one reader at a time.
type Subscription struct {
	feed      *Hub
	principal string
	sub       hub.Subscription[topicKey, item]
	pending   hub.Merging[itemKey, item]
}

// Ready returns the channel that has something to receive while a change is
// pending or the subscription has ended. Who has received from it calls Poll,
// which makes it ready again where more is pending: so one call for each receive
// is enough. It is the same channel every time, and never closed.
func (s *Subscription) Ready() <-chan struct{} { return s.sub.Ready() }

// Poll returns the oldest pending change. It reports false where there is none
// yet. Its error says that the subscription is over, with nothing pending any
// more: a *[SlowError] where the reader fell behind, and [ErrClosed] where the
// subscription or the hub was closed. It never waits.
func (s *Subscription) Poll() (Change, bool, error) {
	it, ok, err := s.sub.Poll()
	return s.change(&it), ok, err
}

// Next returns the oldest pending change, or waits for one until ctx ends: then
// its error is the context's cause. Its other errors are those of Poll. What is
// pending comes first, even where ctx has ended.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	it, err := s.sub.Next(ctx)
	return s.change(&it), err
}

// Close gives up what is pending. It may be called again, and by others than the
// reader.
func (s *Subscription) Close() { s.sub.Close() }

// Refilter makes the subscription ask for f from now on, in one step: what it
// asked for before and f does, too, is neither missed nor told twice. What is
// pending and not asked for any more is given up. The principal stays as it was,
// whatever f says. Its error is [ErrFull], a *[FilterError], or [ErrClosed] where
// the subscription is over; then nothing has changed.
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
		return slices.ContainsFunc(f.ResourceURIs, func(wanted string) bool { return covers(wanted, it.name) })
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
