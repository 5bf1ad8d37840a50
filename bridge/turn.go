// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// requestTurn waits until the arguments of a call may be translated, which counts towards its deadline. The turn is for the CPU
// alone: its holder waits for nothing.
func (b *Bridge) requestTurn(ctx context.Context, c *toolCall) policy.Turn {
	n := len(c.arguments())
	if n < policy.LargeMessage {
		return policy.Turn{}
	}
	defer func(asked time.Time) { c.place.Waited += time.Since(asked) }(time.Now())
	return b.opts.Slots.TurnForRequest(ctx, c.req.Caller, c.tool.Name, n)
}

// answerTurn waits until a message of the backend may be translated. The turn of a unary call goes on to its end: what else is
// to be done for the answer is no less work.
func (b *Bridge) answerTurn(ctx context.Context, c *toolCall, wire []byte) policy.Turn {
	return b.opts.Slots.TurnForAnswer(ctx, c.req.Caller, c.tool.Name, len(wire))
}

// endTurn ends the turn of a call, if it has one.
func (c *toolCall) endTurn() {
	c.turn.End()
	c.turn = policy.Turn{}
}

// translate appends the JSON of a message of the backend to dst: in the turn of the call, else in one of its own.
func (b *Bridge) translate(ctx context.Context, c *toolCall, dst, wire []byte) (out []byte, noted transcode.Noted, err error) {
	if c.turn == (policy.Turn{}) {
		defer b.answerTurn(ctx, c, wire).End()
	}
	return c.tool.Out.ToJSONNoting(ctx, &b.buffers, dst, wire) //nolint:wrapcheck // its type says what is wrong
}
