// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

// maxPages bounds the pages of one call: more than any result holds, and an end to a list that goes in circles.
const maxPages = 1000

// isJSON holds for calls of tools, whose results are for models, and not for typed callers.
func (c *toolCall) isJSON() bool {
	return c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == ""
}

// tellPages says how to go on where the answer is one page of more.
func (c *toolCall) tellPages() {
	p := c.tool.Paging
	if p == nil || !c.isJSON() || c.resp.Explanation != "" || p.Read(c.answer.Body).Next == "" {
		return
	}
	c.resp.Explanation = fmt.Sprintf("There are more. For the next page call again with %s set to the %s of this result.", p.Token, p.Next)
}

// invokePages calls an RPC that lists in pages, and puts all of them into one answer. Where a bound is met the list ends with the
// page before it, and its token says where to go on.
func (b *Bridge) invokePages(ctx context.Context, c *toolCall) *errmap.Error {
	p, request := c.tool.Paging, c.wire
	defer func() {
		if c.pooled {
			b.buffers.Put(request)
		}
		c.wire, c.pooled = nil, false
	}()
	until := time.Now().Add(streamTime(b.timeout(c), 0))
	c.forgetArguments()
	var all []byte
	items, size, next, why := 0, 0, "", ""
	for n := 1; ; n++ {
		one := &toolCall{req: c.req, tool: c.tool, catalog: c.catalog, deadline: c.deadline, wire: request}
		if n > 1 {
			one.wire = p.Request(request, next)
		}
		failed := b.callRPC(ctx, one)
		if one.answer != nil {
			c.answer = one.answer
			b.keepMetadata(c)
		}
		if failed != nil && n == 1 {
			return failed
		}
		if failed != nil {
			why = "the next page failed: " + failed.Redacted().Message
			break
		}
		page := p.Read(one.answer.Body)
		if size += b.pageSizeOf(ctx, one); n > 1 && b.opts.MaxResult > 0 && size > b.opts.MaxResult {
			why = "there are more bytes than fit into one result (--max-result-bytes)"
			b.opts.Stats.Over(errmap.LimitResultBytes)
			break
		}
		if items += page.Items; n > 1 && items > b.opts.MaxItems {
			why = "there are more items than fit into one result (--max-items)"
			b.opts.Stats.Over(errmap.LimitResultItems)
			break
		}
		all = p.Append(all, one.answer.Body)
		isSame := page.Next == next
		if next = page.Next; next == "" {
			break
		}
		if why = b.endOfPages(ctx, c, n, isSame, until); why != "" {
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
func (b *Bridge) endOfPages(ctx context.Context, c *toolCall, n int, isSame bool, until time.Time) string {
	switch {
	case isSame:
		return "the service named the same page twice"
	case n >= maxPages:
		return fmt.Sprintf("it has %d pages", n)
	case !time.Now().Before(until):
		return "the time of the call is over"
	case b.opts.Limiter.Check(c.req.Caller, c.tool.Name) != nil:
		return "the rate of calls is reached"
	}
	if err := b.share(ctx, c); err != nil && err.Code == errmap.RateLimited {
		return "the rate of calls is reached"
	} else if err != nil {
		return "the rate of calls is not known"
	}
	return ""
}

// pageSizeOf is how many bytes a page has as JSON.
func (b *Bridge) pageSizeOf(ctx context.Context, one *toolCall) int {
	text, _, err := b.translate(ctx, one, nil, one.answer.Body)
	if err != nil {
		return len(one.answer.Body) // which the whole answer will be refused for
	}
	defer b.buffers.Put(text)
	return len(text)
}

// pageMargin is the part of a budget that a smaller page aims at, in percent: its items may be larger than those of the first.
const pageMargin = 90

// fitPage asks for a smaller page where the page of a listing RPC exceeds the budget of the call, and the caller left its size to
// the service. So the token of the result goes on where the result ends. It takes a second call, which only a method that may be
// called again gets. Where that does not help, the first page stays, and is cut.
func (b *Bridge) fitPage(ctx context.Context, c *toolCall) {
	p, budget := c.tool.Paging, b.budget(c)
	if budget == 0 || p == nil || p.Size == "" || !c.isJSON() || !c.tool.IsIdempotent() || p.HasSize(c.wire) || metadata.IdempotencyKey(c.req.Header) != "" {
		return
	}
	first := p.Read(c.answer.Body)
	size, ok := b.wantedSize(ctx, c)
	if !ok || size <= budget || first.Items <= 1 {
		return
	}
	if b.opts.Limiter.Check(c.req.Caller, c.tool.Name) != nil || b.share(ctx, c) != nil {
		return
	}
	n := max(first.Items*budget/size*pageMargin/100, 1)
	one := &toolCall{req: c.req, tool: c.tool, catalog: c.catalog, deadline: c.deadline, wire: p.WithSize(c.wire, n)}
	if b.callRPC(ctx, one) != nil || one.answer == nil {
		return
	}
	if got := p.Read(one.answer.Body); got.Items > n || got.Next == "" {
		return // the service does not keep to the size
	}
	c.answer = one.answer
	c.note(fmt.Sprintf("The page was made smaller to fit into %d bytes: %s was set to %d, where the service returned %d.", budget, p.Size, n, first.Items))
}

// wantedSize is how many bytes the fields that the caller wants have as JSON. It reports false for an answer that cannot be read.
func (b *Bridge) wantedSize(ctx context.Context, c *toolCall) (int, bool) {
	text, _, err := b.translate(ctx, c, nil, c.answer.Body)
	if err != nil {
		return 0, false
	}
	defer b.buffers.Put(text)
	if c.mask == nil {
		return len(text), true
	}
	chosen := c.mask.Append(b.buffers.Get(len(text)), text)
	defer b.buffers.Put(chosen)
	return len(chosen), true
}
