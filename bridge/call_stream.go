// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/truncate"
)

// streamReserve is the part of a call's deadline that is left to answer with what
// a stream without an end has brought.
const streamReserve = time.Second

var (
	// errEnough ends a stream that has more to say than a result may hold.
	errEnough = errors.New("bridge: the result is full")
	// errStreamTime ends a stream that is still open when its time is over.
	errStreamTime = errors.New("bridge: the stream time is over")
)

// streamTime is how long the stream of a call is read: as long as its tool allows, or less if its caller wants less.
func (b *Bridge) streamTime(c *toolCall) time.Duration {
	most := streamTime(b.timeout(c), c.tool.StreamTime)
	if asked := c.req.Wanted.StreamTime; asked > 0 {
		return min(most, asked)
	}
	return most
}

// streamTime is how long a stream is read: to its deadline less a second, at least
// half of that, and no longer than its tool says.
func streamTime(deadline, declared time.Duration) time.Duration {
	most := max(deadline-streamReserve, deadline/2)
	if declared > 0 {
		return min(most, declared)
	}
	return most
}

// invokeStream calls an RPC that answers with a stream, and gathers its answers
// to one result. Where a bound is met, or the stream time
// is over, the stream is ended and the result says so: a stream that watches
// something never ends, and what it has brought is worth more than a TIMEOUT.
func (b *Bridge) invokeStream(ctx context.Context, c *toolCall) *errmap.Error {
	g := &gathering{ctx: ctx, bridge: b, call: c, events: b.events(ctx, c), items: catalog.NewItems()}
	if c.tool.IsDocument() {
		g.document = held.NewWriter(b.opts.Held, c.req.Caller, b.mostDocument())
		defer g.document.Release()
	}
	header, risk := b.sentHeader(c.req.Header), b.risk(c)
	ctx, err := b.onBehalf(ctx, c.req)
	if err != nil {
		return err
	}
	risk.Answered = func() bool { return g.items.Len() > 0 || g.hasPart || g.full != "" || g.failed != nil }
	most := b.streamTime(c)
	// The backend keeps the whole deadline: it must not end the stream first.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	timer := time.AfterFunc(most, func() { stop(errStreamTime) })
	defer timer.Stop()
	ctx = c.req.calling(ctx, &risk)
	c.answer, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return b.upstream.Stream(ctx, c.tool.Method, c.wire, header, g.take)
	})
	b.keepMetadata(c)
	if err != nil && err.Code == errmap.Cancelled && errors.Is(context.Cause(ctx), errStreamTime) && g.full == "" {
		g.full = fmt.Sprintf("the stream did not end within %v", most)
	}
	return g.finish(err, "")
}

// finish makes the result of what was gathered, unless the stream failed. An incomplete result is explained, with more at
// the end of the text.
func (g *gathering) finish(err *errmap.Error, more string) *errmap.Error {
	resp := &g.call.resp
	switch {
	case g.failed != nil:
		return g.partial(g.failed)
	case g.full != "":
		if g.call.tool.IsDocument() {
			return g.bridge.documentOf(g.call, g)
		}
		resp.Truncated = true
		resp.Explanation = fmt.Sprintf("This result is incomplete: %s. It has the first %d messages.%s", g.full, g.items.Len(), more)
		resp.Result.Bytes = g.items.Close(true)
	case err != nil:
		return g.partial(err)
	case g.call.tool.IsDocument():
		return g.bridge.documentOf(g.call, g)
	default:
		resp.Result.Bytes = g.items.Close(false)
	}
	return nil
}

// partial adds to the error of a stream the messages before it, which a caller may need as much as those of a stream that was cut:
// the fields that are wanted, within the budget of a result.
func (g *gathering) partial(err *errmap.Error) *errmap.Error {
	c := g.call
	if g.items.Len() == 0 || !c.isJSON() {
		return err
	}
	sent := g.items.Close(true)
	if c.mask != nil {
		sent = c.mask.Append(nil, sent)
	}
	if budget := g.bridge.budget(c); budget > 0 && len(sent) > budget {
		cut, _, ok := truncate.Append(nil, sent, budget, resultView(c.tool))
		if !ok {
			return err
		}
		sent = cut
	}
	return err.With(sent)
}

// gathering is a result that grows answer by answer.
type gathering struct {
	ctx    context.Context
	bridge *Bridge
	call   *toolCall
	events func(*outriggerv1.ToolEvent)
	items  *catalog.Items

	progress progress

	// mediaType and document are what has come of a document, if hasPart is set.
	hasPart   bool
	mediaType string
	document  *held.Writer

	// full is why no more is taken, empty while more is.
	full   string
	failed *errmap.Error
}

// take adds one answer, or ends the stream with an error of its own.
func (g *gathering) take(message []byte) error {
	if g.call.tool.IsDocument() {
		return g.takePart(message)
	}
	if g.items.Len() >= g.bridge.opts.MaxItems {
		g.full = "the stream has more messages than fit into one result (--max-items)"
		g.bridge.opts.Stats.Over(errmap.LimitResultItems)
		return errEnough
	}
	before := g.items.Next()
	g.call.itemNumber = g.items.Len() + 1
	body, err := g.bridge.answerJSON(g.ctx, g.call, before, message)
	if err != nil {
		g.failed = outputError(err)
		return g.failed
	}
	if limit := g.bridge.opts.MaxResult; limit > 0 && g.items.Size(body) > limit {
		g.full = "the stream has more bytes than fit into one result (--max-result-bytes)"
		g.bridge.opts.Stats.Over(errmap.LimitResultBytes)
		return errEnough
	}
	g.items.Keep(body)
	g.tell(body[len(before):])
	return nil
}

// tell reports an answer and, now and then, how many there are.
func (g *gathering) tell(item []byte) {
	if g.events == nil {
		return
	}
	g.events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Partial{Partial: &outriggerv1.PartialData{
		DataForm: &outriggerv1.PartialData_DataJson{DataJson: item},
	}}})
	g.progress.tell(g.events, g.items.Len(), " items so far")
}

// takePart adds one part of a document, or ends the stream where it gets too large.
func (g *gathering) takePart(message []byte) error {
	var mediaType string
	var data []byte
	var isRead bool
	if number := g.call.tool.BytesField; number != 0 {
		data, isRead = readBytes(message, number)
	} else {
		mediaType, data, isRead = readHTTPBody(message)
	}
	if !isRead {
		g.failed = errmap.Because(errmap.SerializationError, "a response is not a "+string(g.call.tool.Method.Descriptor.Output().FullName()))
		return g.failed
	}
	if !g.hasPart {
		g.hasPart, g.mediaType = true, mediaType // that of the first response counts
	}
	if !g.document.Write(data) {
		g.full = "there is no room for more bytes (--max-held-bytes, --caller-share)"
		return errEnough
	}
	g.progress.tell(g.events, g.document.Len(), " bytes so far")
	return nil
}
