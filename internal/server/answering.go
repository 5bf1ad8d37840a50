// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/server/route"
)

// answering counts the HTTP requests whose answers are being made or written. The
// table of calls forgets a call before its reply is written, so that a drain that
// looked there alone could end a stream under a reply.
//
// Requests that come after a drain has begun to wait are not counted: they are
// refused, and callers that come again and again would keep it waiting.
type answering struct {
	now      atomic.Int64
	watching atomic.Bool
	idle     chan struct{}
}

func newAnswering() *answering { return &answering{idle: make(chan struct{}, 1)} }

// wrap counts the requests of a handler, except those that last as long as their
// readers like.
func (a *answering) wrap(next http.Handler) http.Handler { return &counted{by: a, next: next} }

// counted is a handler whose requests are counted. Its frame is small, because a
// stream waits on top of it for hours.
type counted struct {
	by   *answering
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if route.IsLasting(r) || h.by.watching.Load() {
		h.next.ServeHTTP(w, r)
		return
	}
	h.by.now.Add(1)
	defer h.by.done()
	h.next.ServeHTTP(w, r)
}

func (a *answering) done() {
	if a.now.Add(-1) == 0 && a.watching.Load() {
		select {
		case a.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns once no request that came before it is being answered, or when ctx
// ends.
func (a *answering) wait(ctx context.Context) {
	a.watching.Store(true)
	for a.now.Load() > 0 {
		select {
		case <-a.idle:
		case <-ctx.Done():
			return
		}
	}
}
