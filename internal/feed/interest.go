// SPDX-License-Identifier: Apache-2.0

package feed

import "context"

// Interest returns the union of all subscriptions' filters, with URIs and task ids
// sorted and without duplicates, without a principal and without scoped resources. It is empty once the hub is
// closed. Its cost grows with everything that is subscribed to.
func (h *Hub) Interest() Filter {
	var f Filter
	h.hub.View(func() {
		f = Filter{
			Tools:        h.index.has(ToolsListChanged),
			Prompts:      h.index.has(PromptsListChanged),
			Resources:    h.index.has(ResourcesListChanged),
			ResourceURIs: h.index.names(ResourceUpdated),
			TaskIDs:      h.index.names(TaskChanged),
		}
	})
	return f
}

// OnInterest sets a function that is called when the result of [Hub.Interest] has
// changed. It is called at once if the result already had changed. It replaces the
// previous function.
//
// The calls are sequential, on the goroutine that subscribes or closes, and without a
// lock of the hub. Changes during a call cause one more call for all of them. So changed
// should only wake its owner, which then calls Interest when it is ready. No call begins
// after [Hub.Close].
func (h *Hub) OnInterest(changed func()) { h.hub.OnTopics(changed) }

// OnSettle sets a function that waits until the source of the hub's changes reports the
// current [Hub.Interest], or until its context ends. It replaces the previous function.
// Nil removes it.
func (h *Hub) OnSettle(settle func(context.Context)) {
	h.settle.Store(&settle)
}

// Settle waits until the source reports everything that is subscribed to now, as far as
// the function of [Hub.OnSettle] can tell. Without such a function it returns at once. A
// subscriber that gets its acknowledgement afterwards misses nothing from then on,
// although the changes come from elsewhere. Settle returns early when ctx ends.
func (h *Hub) Settle(ctx context.Context) {
	if settle := h.settle.Load(); settle != nil && *settle != nil {
		(*settle)(ctx)
	}
}
