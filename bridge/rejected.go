// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

// rejected returns the response to a request that rates, shares or a full queue turn away, and nil for the others. It
// waits for nothing, and ctx is that of the edge: the one of the request, with which others may end it, is not made yet.
// So it costs little to say no.
//
// A call that is not turned away keeps what was found out; see [Request.taken].
func (b *Bridge) rejected(ctx context.Context, req *Request) *Response {
	if req.Op != OpCall {
		if err := b.limitOther(req); err != nil {
			return &Response{Err: err}
		}
		return nil
	}
	if req.meter == nil || b.catalogs.Current() == nil {
		return nil // resolve would wait
	}
	c := &toolCall{req: req}
	if resp := b.steps(ctx, c, b.resolve, b.gate, b.limit, b.room); resp != nil {
		return resp
	}
	c.isChecked, req.meter.checked = true, c
	return nil
}

// room refuses a call that admit would refuse at once.
func (b *Bridge) room(ctx context.Context, c *toolCall) *errmap.Error {
	if c.req.Paced {
		return nil
	}
	if err := b.admitted(ctx, c); err != nil {
		return err
	}
	if err := metadata.CheckIdempotencyKey(c.req.Header); err != nil {
		return err
	}
	if c.req.Exchange != nil {
		return nil // it takes no slot
	}
	return b.opts.Slots.Reject(c.req.Caller, c.tool.Name)
}

// taken returns the call that rejected has begun, once: a request that is made again after a question begins anew.
func (r *Request) taken() *toolCall {
	if r.meter == nil || r.meter.checked == nil {
		return &toolCall{req: r}
	}
	c := r.meter.checked
	r.meter.checked = nil
	return c
}
