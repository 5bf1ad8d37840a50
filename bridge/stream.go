// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

var (
	// errEnough ends a stream that has more to say than a result may hold.
	errEnough = errors.New("bridge: the result is full")
	// errStreamTime ends a stream that is still open when its time is over.
	errStreamTime = errors.New("bridge: the stream time is over")
)

// streamer calls RPCs that take or answer with a stream, and gathers the answers to one result.
type streamer struct {
	encoder  *encoder
	rulebook *rulebook
	sender   *sender
	decoder  *decoder
	panics   *panics

	maxItems int
}

// invoke calls an RPC that takes a stream, answers with one, or both.
//
// The answers of a stream are gathered to one result. Where a bound is met, or the stream time is over, the stream is ended and the
// result says so: a stream that watches something never ends, and what it has brought is worth more than a TIMEOUT.
//
// Items are sent one after the other, each checked right before it is sent, while the answers are read. Once an item is refused the
// backend's stream is reset, so that the backend cannot take the items before it for all there were. The call ends when the backend
// has ended it, whether or not all items were sent: its status counts then.
func (s *streamer) invoke(ctx context.Context, c *toolCall) *errmap.Error {
	var g *gathering // nil: the RPC answers with one message
	var x *itemCall  // nil: it takes one
	events := c.events(ctx)
	if c.tool.Streams() {
		g = &gathering{ctx: ctx, via: s, call: c, events: events, items: catalog.NewItems()}
		if c.tool.IsDocument() {
			g.document = content.NewDocumentWriter(s.decoder.keeper.Store, c.req.Caller, s.decoder.keeper.Most())
			defer g.document.Release()
		}
	}
	at := s.sender.of(c)
	header, risk := at.Metadata.OfCall(c.req.Header), s.sender.risk(c)
	ctx, err := at.onBehalf(ctx, c.req)
	if err != nil {
		return err
	}
	// The backend keeps the whole deadline: it must not end the stream first.
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	most := s.sender.deadlines.streamTime(c)
	if g != nil {
		timer := time.AfterFunc(most, func() { stop(errStreamTime) })
		defer timer.Stop()
	}
	var call func(ctx context.Context) (*Answer, *errmap.Error)
	upstream := s.sender.upstream(ctx, at, c)
	if c.tool.TakesStream() {
		x = &itemCall{via: s, call: c, upstream: upstream, gathering: g, events: events, reset: stop}
		// What was sent is gone, so there is one attempt.
		risk.Repeatable, risk.Answered = false, func() bool { return true }
		call = func(ctx context.Context) (*Answer, *errmap.Error) {
			c.sent = true
			return x.run(ctx, header)
		}
	} else {
		risk.Answered = func() bool { return g.items.Len() > 0 || g.hasPart || g.full != "" || g.failed != nil }
		call = func(ctx context.Context) (*Answer, *errmap.Error) {
			c.sent = true
			return upstream.Stream(ctx, c.tool.Method, c.wire, header, g.addAnswer)
		}
	}
	c.answer, err = guarded(ctx, at, c.req, risk, call)
	s.sender.keepMetadata(c)
	isOver, isRefused := err != nil && err.Code == errmap.Cancelled, false
	if isOver && errors.Is(context.Cause(ctx), errItem) {
		err, isRefused = x.failed, true
	}
	switch {
	case g != nil && isRefused:
		err = g.partial(err)
	case g != nil:
		if isOver && errors.Is(context.Cause(ctx), errStreamTime) && g.full == "" {
			g.full = fmt.Sprintf("the stream did not end within %v", most)
		}
		err = g.finish(err, x.unsent())
	}
	return x.told(err)
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
			return g.readDocument()
		}
		resp.Truncated = true
		resp.Explanation = fmt.Sprintf("This result is incomplete: %s. It has the first %d messages.%s", g.full, g.items.Len(), more)
		resp.Result.Bytes = g.items.Close(true)
	case err != nil:
		return g.partial(err)
	case g.call.tool.IsDocument():
		return g.readDocument()
	default:
		resp.Result.Bytes = g.items.Close(false)
	}
	return nil
}

// readDocument makes the document that came in parts the result.
func (g *gathering) readDocument() *errmap.Error {
	return g.via.decoder.document(g.call, g.mediaType, g.document.Bytes(), g.document, g.full)
}

// partial adds to the error of a stream the messages before it, which a caller may need as much as those of a stream that was cut:
// the fields that are wanted, within the budget of a result.
func (g *gathering) partial(err *errmap.Error) *errmap.Error {
	c := g.call
	if g.items.Len() == 0 || !c.isJSON() || err.Code == errmap.PermissionDenied {
		return err
	}
	sent := g.items.Close(true)
	if c.fit.mask != nil {
		sent = c.fit.mask.Append(nil, sent)
	}
	if budget := g.via.decoder.budget(c); budget > 0 && len(sent) > budget {
		cut, _, ok := content.AppendCut(nil, sent, budget, resultView(c.tool))
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
	via    *streamer
	call   *toolCall
	events func(*outriggerv1.ToolEvent)
	items  *catalog.Items

	progress progress

	// mediaType and document are what has come of a document, if hasPart is set.
	hasPart   bool
	mediaType string
	document  *content.DocumentWriter

	// full is why no more is taken, empty while more is.
	full   string
	failed *errmap.Error
}

// addAnswer adds one answer, or ends the stream with its own error.
func (g *gathering) addAnswer(message []byte) error {
	if g.call.tool.IsDocument() {
		return g.takePart(message)
	}
	if g.items.Len() >= g.via.maxItems {
		g.full = "the stream has more messages than fit into one result (--max-items)"
		g.via.decoder.limit.stats.Over(errmap.LimitResultItems)
		return errEnough
	}
	before := g.items.Next()
	g.call.fit.itemNumber = int32(g.items.Len() + 1)
	body, err := g.via.decoder.answerJSON(g.ctx, g.call, before, message)
	if err != nil {
		g.failed = outputError(err)
		return g.failed
	}
	if limit := g.via.decoder.limit.most; limit > 0 && g.items.Size(body) > limit {
		g.full = "the stream has more bytes than fit into one result (--max-result-bytes)"
		g.via.decoder.limit.stats.Over(errmap.LimitResultBytes)
		return errEnough
	}
	g.items.Keep(body)
	g.tell(body[len(before):])
	return nil
}

// tell reports an answer and, now and then, how many there are.
func (g *gathering) tell(item []byte) {
	g.call.req.items.add(item)
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
		data, isRead = content.BytesField(message, number)
	} else {
		mediaType, data, isRead = content.HTTPBody(message)
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

// errItem resets a stream whose next item must not be sent.
var errItem = errors.New("bridge: an item was refused")

// itemCall is one call of an RPC that takes a stream of requests. Until run has returned, its sender owns position, sent and
// failed, and of the call the repairs and the decision.
type itemCall struct {
	via       *streamer
	call      *toolCall
	upstream  Upstream
	gathering *gathering // nil: the RPC answers with one message
	events    func(*outriggerv1.ToolEvent)
	reset     func(cause error)
	progress  progress

	// position is that of the next item, sent how many were sent. ended is set once the input has ended.
	position, sent int
	ended          bool
	failed         *errmap.Error
}

// run opens the stream, and sends and receives until the backend has ended it or it is reset.
func (x *itemCall) run(ctx context.Context, header http.Header) (*Answer, *errmap.Error) {
	stream, err := x.upstream.Open(ctx, x.call.tool.Method, header)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	sending, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				x.refuse(x.via.panics.recovered(p))
			}
		}()
		x.send(sending, stream)
	}()
	answer, err := x.receive(stream)
	stop()
	stream.Close() // so that a Send that waits returns
	<-done
	return answer, err
}

// send sends all messages. It returns early when one is refused, or when the stream has ended.
func (x *itemCall) send(ctx context.Context, stream BackendStream) {
	c := x.call
	isFirst, isItem := c.input.hasFirst, c.input.header == nil || !c.input.hasFirst
	err := x.via.sender.pump(stream, func() (wire []byte, pooled bool, err error) {
		if isFirst {
			wire, pooled = c.wire, c.pooled
			c.wire, c.pooled, isFirst = nil, false, false
			return wire, pooled, nil
		}
		wire, err = x.message(ctx)
		return wire, true, err
	}, func() {
		if isItem {
			x.position++
			x.sent++
		}
		isItem = true
		if x.gathering == nil {
			x.progress.tell(x.events, x.sent, " items sent")
		}
	})
	if err != nil && ctx.Err() == nil {
		x.refuse(errmap.From(err))
	}
}

// next is the JSON of the next item: those of the arguments, then those that follow. The error is io.EOF at the end.
func (x *itemCall) next(ctx context.Context) ([]byte, error) {
	switch c := x.call; {
	case x.position < len(c.input.items):
		return c.input.items[x.position], ctx.Err()
	case c.req.Items == nil:
		return nil, io.EOF
	default:
		raw, err := c.req.Items(ctx)
		c.resp.passed.in += len(raw)
		if err == nil && x.position >= x.via.encoder.maxInputItems {
			x.via.decoder.limit.stats.Over(errmap.LimitInputItems)
			return nil, errmap.InvalidInput(c.tool.Name, false, tooManyItems(x.position+1, x.via.encoder.maxInputItems))
		}
		return raw, err //nolint:wrapcheck // its type says what is wrong
	}
}

// message is the next item, encoded, which the rules have been asked about. About a stream without any message they are asked as
// about an empty one, so that no rule is passed by. The error is io.EOF at the end.
func (x *itemCall) message(ctx context.Context) ([]byte, error) {
	via, c := x.via, x.call
	raw, err := x.next(ctx)
	if errors.Is(err, io.EOF) {
		if x.sent == 0 && !c.input.hasFirst && c.req.Items != nil {
			if failed := via.rulebook.permitMessage(ctx, c, nil); failed != nil {
				return nil, failed
			}
		}
		x.ended = true
	}
	if err != nil {
		return nil, err
	}
	if len(raw) >= policy.LargeMessage {
		defer via.encoder.slots.TurnForRequest(ctx, c.req.Caller, c.tool.Name, len(raw)).End()
	}
	before := len(c.repair.places)
	wire, failed := via.encoder.encodeItem(ctx, c, x.position, raw)
	if failed == nil && before == 0 && len(c.repair.places) > 0 {
		via.encoder.repaired.Add(1)
	}
	if failed == nil {
		failed = via.rulebook.permitMessage(ctx, c, wire)
	}
	if failed != nil {
		return nil, failed
	}
	return wire, nil
}

// refuse resets the stream because of what is next.
func (x *itemCall) refuse(err *errmap.Error) {
	x.failed = err
	x.reset(errItem)
}

// receive reads the answers until the backend has ended the stream.
func (x *itemCall) receive(stream BackendStream) (*Answer, *errmap.Error) {
	for {
		message, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return metadataOfStream(stream, nil), nil
		case err != nil:
			return metadataOfStream(stream, err), errmap.From(err)
		case x.gathering == nil:
			answer := metadataOfStream(stream, nil)
			answer.Body = slices.Clone(message)
			return answer, nil
		}
		if err := x.gathering.addAnswer(message); err != nil {
			return metadataOfStream(stream, nil), errmap.Wrap(errmap.Cancelled, err)
		}
	}
}

// metadataOfStream is the metadata of an RPC that has ended with err, nil for well.
func metadataOfStream(stream BackendStream, err error) *Answer {
	if err != nil {
		return backend.FailedAnswer(err)
	}
	header, _ := stream.Header()
	return &Answer{Header: header, Trailer: stream.Trailer()}
}

// unsent says that items were left over, empty where none were.
func (x *itemCall) unsent() string {
	if x == nil || x.ended {
		return ""
	}
	return fmt.Sprintf(" It ended after the first %d items were sent.", x.sent)
}

// told adds to an error how many items the backend may have.
func (x *itemCall) told(err *errmap.Error) *errmap.Error {
	if err == nil || x == nil {
		return err
	}
	out := *err // an open circuit breaker may give one error to many calls
	out.ItemsSent = &x.sent
	return &out
}

// tooManyItems is the violation of a call that sends more items than it may.
func tooManyItems(n, most int) errmap.Violation {
	return errmap.Violation{Path: "/items", Keyword: "maxItems", Message: fmt.Sprintf("%d items; at most %d are allowed (--max-input-items)", n, most)}
}

// progressEvery is the least time between two reports about one stream:
// often enough for a person to see it move, too seldom to cost anything.
const progressEvery = 100 * time.Millisecond

// progress reports how far a stream has come. The zero value has reported nothing.
type progress struct{ last time.Time }

// tell reports a count with its unit, unless it has done so just before or no one listens.
func (p *progress) tell(events func(*outriggerv1.ToolEvent), n int, unit string) {
	if events == nil {
		return
	}
	now := time.Now()
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: &outriggerv1.Progress{
		Progress: float64(n), Message: strconv.Itoa(n) + unit,
	}}})
}

// maxPages bounds the pages of one call: more than any result holds, and an end to a list that goes in circles.
const maxPages = 1000

// tellPages says how to go on where the answer is one page of more.
func (c *toolCall) tellPages() {
	p := c.tool.Paging
	if p == nil || !c.isJSON() || c.resp.Explanation != "" || p.Read(c.answer.Body).Next == "" {
		return
	}
	c.resp.Explanation = fmt.Sprintf("There are more. For the next page call again with %s set to the %s of this result.", p.Token, p.Next)
}

// pager calls RPCs that list in pages.
type pager struct {
	rates   *rates
	sender  *sender
	decoder *decoder

	maxItems int
}

// invokePages calls an RPC that lists in pages, and puts all of them into one answer. Where a bound is met the list ends with the
// page before it, and its token says where to go on.
func (g *pager) invokePages(ctx context.Context, c *toolCall) *errmap.Error {
	p, request := c.tool.Paging, c.wire
	defer func() {
		if c.pooled {
			g.sender.buffers.Put(request)
		}
		c.wire, c.pooled = nil, false
	}()
	until := time.Now().Add(streamTime(g.sender.deadlines.timeout(c), 0))
	c.forgetArguments()
	var all []byte
	items, size, next, why := 0, 0, "", ""
	for n := 1; ; n++ {
		one := &toolCall{req: c.req, tool: c.tool, catalog: c.catalog, deadline: c.deadline, wire: request}
		if n > 1 {
			one.wire = p.Request(request, next)
		}
		failed := g.sender.callRPC(ctx, one)
		c.view, c.isSeen, c.sent = one.view, one.isSeen, c.sent || one.sent
		if one.answer != nil {
			c.answer = one.answer
			g.sender.keepMetadata(c)
		}
		if failed != nil && n == 1 {
			return failed
		}
		if failed != nil {
			why = "the next page failed: " + failed.Redacted().Message
			break
		}
		page := p.Read(one.answer.Body)
		had, ok := g.sizeOf(ctx, one, nil)
		if !ok {
			had = len(one.answer.Body) // which the whole answer will be refused for
		}
		if size += had; n > 1 && g.decoder.limit.most > 0 && size > g.decoder.limit.most {
			why = "there are more bytes than fit into one result (--max-result-bytes)"
			g.decoder.limit.stats.Over(errmap.LimitResultBytes)
			break
		}
		if items += page.Items; n > 1 && items > g.maxItems {
			why = "there are more items than fit into one result (--max-items)"
			g.decoder.limit.stats.Over(errmap.LimitResultItems)
			break
		}
		all = p.Append(all, one.answer.Body)
		isSame := page.Next == next
		if next = page.Next; next == "" {
			break
		}
		if why = g.endOfPages(ctx, c, n, isSame, until); why != "" {
			break
		}
	}
	if next != "" {
		all = p.AppendNext(all, next)
		c.resp.Truncated = true
		c.resp.Explanation = fmt.Sprintf("This result is incomplete: %s. For the rest call again with %s set to the %s of this result.", why, p.Token, p.Next)
	}
	c.answer = &Answer{Body: all}
	return nil
}

// endOfPages says why no further page is asked for; empty where one is.
func (g *pager) endOfPages(ctx context.Context, c *toolCall, n int, isSame bool, until time.Time) string {
	switch {
	case isSame:
		return "the service named the same page twice"
	case n >= maxPages:
		return fmt.Sprintf("it has %d pages", n)
	case !time.Now().Before(until):
		return "the time of the call is over"
	case g.rates.limiter.Check(c.req.Caller, c.tool.Name) != nil:
		return "the rate of calls is reached"
	}
	if err := g.rates.share(ctx, c); err != nil && err.Code == errmap.RateLimited {
		return "the rate of calls is reached"
	} else if err != nil {
		return "the rate of calls is not known"
	}
	return ""
}

// pageMargin is the part of a budget that a smaller page aims at, in percent: its items may be larger than those of the first.
const pageMargin = 90

// fitPage asks for a smaller page where the page of a listing RPC exceeds the budget of the call, and the caller left its size to
// the service. So the token of the result goes on where the result ends. It takes a second call, which only a method that may be
// called again gets. Where that does not help, the first page stays, and is cut.
func (g *pager) fitPage(ctx context.Context, c *toolCall) {
	p, budget := c.tool.Paging, g.decoder.budget(c)
	if budget == 0 || p == nil || p.Size == "" || !c.isJSON() || !c.tool.IsIdempotent() || p.HasSize(c.wire) || backend.IdempotencyKey(c.req.Header) != "" {
		return
	}
	first := p.Read(c.answer.Body)
	size, ok := g.sizeOf(ctx, c, c.fit.mask)
	if !ok || size <= budget || first.Items <= 1 {
		return
	}
	if g.rates.limiter.Check(c.req.Caller, c.tool.Name) != nil || g.rates.share(ctx, c) != nil {
		return
	}
	n := max(first.Items*budget/size*pageMargin/100, 1)
	one := &toolCall{req: c.req, tool: c.tool, catalog: c.catalog, deadline: c.deadline, wire: p.WithSize(c.wire, n)}
	if g.sender.callRPC(ctx, one) != nil || one.answer == nil {
		return
	}
	if got := p.Read(one.answer.Body); got.Items > n || got.Next == "" {
		return // the service does not keep to the size
	}
	c.answer = one.answer
	c.note(fmt.Sprintf("The page was made smaller to fit into %d bytes: %s was set to %d, where the service returned %d.", budget, p.Size, n, first.Items))
}

// sizeOf is how many bytes the fields of an answer have as JSON that a mask selects; nil is all. It reports false for an answer that
// cannot be read.
func (g *pager) sizeOf(ctx context.Context, c *toolCall, mask *content.Mask) (int, bool) {
	text, _, err := g.decoder.translate(ctx, c, nil, c.answer.Body)
	if err != nil {
		return 0, false
	}
	defer g.sender.buffers.Put(text)
	if mask == nil {
		return len(text), true
	}
	chosen := mask.Append(g.sender.buffers.Get(len(text)), text)
	defer g.sender.buffers.Put(chosen)
	return len(chosen), true
}

// rpcs calls RPCs of every kind.
type rpcs struct {
	sender   *sender
	streamer *streamer
	pager    *pager
}

// invoke calls an RPC of any kind.
func (r *rpcs) invoke(ctx context.Context, c *toolCall) *errmap.Error {
	switch rpcKind(c) {
	case streamCall:
		return r.streamed(ctx, c)
	case pagedCall:
		return r.paged(ctx, c)
	default:
		return r.sender.unary(ctx, c)
	}
}

// paged calls an RPC that lists in pages: all of them, or one that fits.
func (r *rpcs) paged(ctx context.Context, c *toolCall) *errmap.Error {
	if !c.isJSON() {
		return r.sender.unary(ctx, c)
	}
	invoke := r.onePage
	if c.tool.Paging.FetchesAll() {
		invoke = r.pager.invokePages
	}
	err := r.sender.within(ctx, c, invoke)
	if err == nil {
		c.tellPages()
	}
	return err
}

// onePage is once for a page, which is made smaller if it does not fit.
func (r *rpcs) onePage(ctx context.Context, c *toolCall) *errmap.Error {
	c.forgetArguments()
	err := r.sender.callRPC(ctx, c)
	if err == nil {
		r.pager.fitPage(ctx, c)
	}
	r.sender.recycle(c)
	r.sender.keepMetadata(c)
	return err
}

// streamed calls an RPC that takes or answers with a stream.
func (r *rpcs) streamed(ctx context.Context, c *toolCall) *errmap.Error {
	return r.sender.within(ctx, c, r.streamer.invoke)
}
