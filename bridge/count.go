// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const (
	// countTTL is how long a count is shown again. A description is asked for by
	// people, at start and by monitors, and its counts are for the eye: ten seconds
	// keep any number of them from costing the backend more than one listing.
	countTTL = 10 * time.Second
	// countTimeout bounds one count. A description has to come although the backend
	// hangs, and soon enough for a probe.
	countTimeout = 2 * time.Second
	// maxCounted is where counting stops: the contract's bound of one page.
	maxCounted = 10_000
)

// countCache keeps the counts that took RPCs.
type countCache struct {
	mu      sync.Mutex
	catalog *catalog.Catalog
	until   time.Time
	counts  counts
}

// counts are how many resources and prompts are listed.
type counts struct{ resources, prompts int }

// count counts what is listed besides tools, for a caller without credentials.
// What descriptors say costs nothing. What only the backend knows is listed
// there, within bounds, and at most once in a while; where that fails, the count
// is the one that the backend gave with its description.
//
// It has a time of its own, because its result is everybody's: one caller who
// leaves must not spoil it for others.
func (b *Bridge) count(cat *catalog.Catalog) counts {
	f := b.Features(cat)
	if !f.Resources && !f.Prompts {
		return counts{}
	}
	fixed := len(cat.Resources().Fixed())
	if b.isView(cat) || cat.Description() == nil && len(cat.Resources().Listings()) == 0 {
		return counts{resources: fixed}
	}
	c := &b.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.catalog == cat && time.Now().Before(c.until) {
		return c.counts
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	said := cat.Description()
	c.catalog, c.counts = cat, counts{
		resources: b.countList(ctx, cat, f.Resources, fixed+int(said.GetResourcesCount()), b.resourcesPage),
		prompts:   b.countList(ctx, cat, f.Prompts, int(said.GetPromptsCount()), b.promptsPage),
	}
	c.until = time.Now().Add(countTTL)
	return c.counts
}

// countedPage is one page of a list: how long it is, and where the list goes on.
type countedPage func(ctx context.Context, cat *catalog.Catalog, cursor *string) (length int, next *string, err *errmap.Error)

// countList counts a list page by page; otherwise is what it is taken for where
// it cannot be read.
func (b *Bridge) countList(ctx context.Context, cat *catalog.Catalog, isOffered bool, otherwise int, page countedPage) int {
	if !isOffered {
		return 0
	}
	total := 0
	var cursor *string
	for ctx.Err() == nil { // pages without entries could go on for ever
		length, next, err := page(ctx, cat, cursor)
		if err != nil {
			b.log.Info("counting a list failed", zap.NamedError("cause", err))
			return otherwise
		}
		total += length
		if next == nil || total >= maxCounted {
			return min(total, maxCounted)
		}
		cursor = next
	}
	return otherwise
}

func (b *Bridge) resourcesPage(ctx context.Context, cat *catalog.Catalog, cursor *string) (int, *string, *errmap.Error) {
	resp := b.listResources(ctx, &Request{Op: OpListResources, Message: &outriggerv1.ListResourcesRequest{Cursor: cursor}}, cat)
	got, _ := resp.Message.(*outriggerv1.ListResourcesResponse)
	if resp.Err != nil {
		return 0, nil, resp.Err
	}
	return len(got.GetResources()), got.NextCursor, nil
}

func (b *Bridge) promptsPage(ctx context.Context, cat *catalog.Catalog, cursor *string) (int, *string, *errmap.Error) {
	resp := b.listPrompts(ctx, &Request{Op: OpListPrompts, Message: &outriggerv1.ListPromptsRequest{Cursor: cursor}}, cat)
	got, _ := resp.Message.(*outriggerv1.ListPromptsResponse)
	if resp.Err != nil {
		return 0, nil, resp.Err
	}
	return len(got.GetPrompts()), got.NextCursor, nil
}
