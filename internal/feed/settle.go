// SPDX-License-Identifier: Apache-2.0

package feed

import "context"

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
