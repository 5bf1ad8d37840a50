// SPDX-License-Identifier: Apache-2.0

package feed

import "context"

// Interest returns the union of what all subscriptions ask for, URIs and task
// ids in order and each once, without a principal; nothing once the hub is
// closed. It takes a look at everything that is subscribed to.
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

// OnInterest names who is to be told that what [Hub.Interest] returns has
// changed; at once where it already had. It replaces the one before.
//
// The calls come one after the other, on the goroutine that subscribes or
// closes, with no lock of the hub held. Changes during a call lead to one more
// call together. So changed should do no more than wake its owner, who asks for
// the Interest at its own pace. After [Hub.Close] no further call begins.
func (h *Hub) OnInterest(changed func()) { h.hub.OnTopics(changed) }

// OnSettle names who can wait until the source of the hub's changes reports what
// [Hub.Interest] returned when it was called, or until its context ends. It
// replaces the one before; nil names none.
func (h *Hub) OnSettle(settle func(context.Context)) {
	h.settle.Store(&settle)
}

// Settle waits until what is subscribed to by now is reported to the hub as well,
// as far as the function of [Hub.OnSettle] can tell: at once where there is none.
// A subscriber that is told afterwards that it is one misses nothing from then
// on, although the changes come from elsewhere. It returns early with ctx.
func (h *Hub) Settle(ctx context.Context) {
	if settle := h.settle.Load(); settle != nil && *settle != nil {
		(*settle)(ctx)
	}
}
