// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// encodeStream checks the arguments of a tool that takes a stream, and encodes the first message. The others are checked
// when they are sent.
func (b *Bridge) encodeStream(ctx context.Context, c *toolCall) *errmap.Error {
	failed := b.splitItems(ctx, c)
	if failed == nil {
		failed = b.encodeFirst(ctx, c)
	}
	if failed != nil {
		failed.ItemsSent = new(int)
	}
	return failed
}

// splitItems checks the arguments around the messages.
func (b *Bridge) splitItems(ctx context.Context, c *toolCall) *errmap.Error {
	arguments := c.arguments()
	if c.req.Items != nil && c.req.Arguments.Bytes == nil {
		arguments = []byte(schema.NoItems) // the items follow
	}
	if failed := declaredInput(ctx, c.tool, arguments); failed != nil {
		return failed
	}
	var err error
	c.header, c.items, err = c.tool.Stream.Split(arguments, b.opts.MaxInputItems)
	if err == nil {
		return nil
	}
	failed := inputError(c.tool, err)
	var broken *transcode.InputError
	if errors.As(err, &broken) && transcode.TooManyItems(broken.Violations) {
		failed.Limit = errmap.LimitInputItems
		failed.Violations[0].Message += " (--max-input-items)"
	}
	return failed
}

// encodeFirst encodes the header, or else the first item.
func (b *Bridge) encodeFirst(ctx context.Context, c *toolCall) (failed *errmap.Error) {
	switch {
	case c.header != nil:
		c.wire, failed = b.encodeHeader(ctx, c)
	case len(c.items) > 0:
		c.wire, failed = b.encodeItem(ctx, c, 0, c.items[0])
		c.pooled = failed == nil
	default:
		c.wire, c.hasFirst = nil, false
		return nil
	}
	c.hasFirst = failed == nil
	return failed
}

func (b *Bridge) encodeHeader(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	wire, err := c.tool.Stream.HeaderToWire(ctx, nil, c.header)
	if b.mayRepair(err) {
		if plain, places := c.tool.Stream.UnquoteHeader(c.header); len(places) > 0 {
			if wire, err = c.tool.Stream.HeaderToWire(ctx, nil, plain); err == nil {
				c.header, c.repairs = plain, append(c.repairs, places...)
			}
		}
	}
	if err != nil {
		return nil, inputError(c.tool, err)
	}
	return wire, nil
}

// encodeItem encodes the item with a position, after a repair where the sidecar repairs arguments and the item is wrong as
// it is.
func (b *Bridge) encodeItem(ctx context.Context, c *toolCall, position int, raw []byte) ([]byte, *errmap.Error) {
	wire, err := c.tool.Stream.ItemToWire(ctx, &b.buffers, nil, position, raw)
	if b.mayRepair(err) {
		if plain, places := c.tool.Stream.UnquoteItem(position, raw); len(places) > 0 {
			if wire, err = c.tool.Stream.ItemToWire(ctx, &b.buffers, nil, position, plain); err == nil {
				c.repairs = append(c.repairs, places...)
			}
		}
	}
	if err != nil {
		return nil, inputError(c.tool, err)
	}
	return wire, nil
}

func (b *Bridge) mayRepair(err error) bool {
	var broken *transcode.InputError
	return b.opts.RepairArguments && errors.As(err, &broken)
}

// keepItems copies what is to be sent, for a call that outlives its request.
func (c *toolCall) keepItems() [][]byte {
	if len(c.items) == 0 {
		return nil
	}
	out := make([][]byte, len(c.items))
	for i, item := range c.items {
		out[i] = bytes.Clone(item)
	}
	return out
}
