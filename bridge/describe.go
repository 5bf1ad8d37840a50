// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
)

// ContractVersion is the supported version of the canonical contract.
const ContractVersion = "1.0.0"

// Offer is what is offered with one catalog, with counts.
type Offer struct {
	Capabilities *outriggerv1.ServerCapabilities
	// Tools is the number of tools that callers may see. Resources and Prompts are
	// the numbers of listed ones, up to 10,000 each. If the backend has to be asked,
	// that happens at most every ten seconds, without a caller's credentials, and
	// for at most two seconds. If it does not answer, the counts are those of its
	// own description.
	Tools, Resources, Prompts int
}

// Offer returns what is offered with a catalog, with counts, in messages of the
// contract. It is for edges that describe the sidecar. Nil, for a catalog that has not
// been loaded, offers no tools. The caller may change the messages.
func (b *Bridge) Offer(cat *catalog.Catalog) Offer {
	f := b.Features(cat)
	out := Offer{Tools: visibleTools(cat), Capabilities: &outriggerv1.ServerCapabilities{
		Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
		Completions: f.Completions, Logging: f.Logging, Tasks: f.Tasks,
	}}
	if f.Resources {
		out.Capabilities.Resources = &outriggerv1.ResourcesCapability{ListChanged: true, Subscribe: f.ResourcesSubscribe}
	}
	if f.Skills {
		out.Capabilities.Skills = &outriggerv1.SkillsCapability{DirectoryRead: f.Directories}
	}
	if f.Prompts {
		out.Capabilities.Prompts = &outriggerv1.PromptsCapability{ListChanged: f.PromptsChanged}
	}
	listed := b.count(cat)
	out.Resources, out.Prompts = listed.resources, listed.prompts
	return out
}

// visibleTools counts what tools/list shows.
func visibleTools(cat *catalog.Catalog) int {
	if cat == nil {
		return 0
	}
	return len(cat.Tools())
}

// Features is what is offered with one catalog. Operations of what is not offered are
// answered METHOD_NOT_FOUND.
type Features struct {
	Resources, ResourcesSubscribe bool
	Skills, Directories           bool
	Prompts, PromptsChanged       bool
	Completions, Logging, Tasks   bool
}

// featureCache keeps what was worked out for the newest catalog.
type featureCache struct {
	newest atomic.Pointer[offered]
}

type offered struct {
	catalog  *catalog.Catalog
	features Features
}

// Features returns what is offered with a catalog. Nil, for a catalog that has not been
// loaded, offers tools alone.
func (b *Bridge) Features(cat *catalog.Catalog) Features {
	if cat == nil {
		return Features{}
	}
	if o := b.offers.newest.Load(); o != nil && o.catalog == cat {
		return o.features
	}
	native := cat.Description().GetCapabilities()
	hasSkills := !b.opts.Skills.Current().IsEmpty() // which lasts: folders without a skill are refused
	f := Features{
		Skills:             hasSkills || native.GetSkills() != nil && native.GetResources() != nil,
		Directories:        hasSkills || native.GetSkills().GetDirectoryRead() && native.GetResources() != nil,
		Resources:          hasSkills || native.GetResources() != nil || !cat.Resources().IsEmpty() || b.holdsResults(cat),
		ResourcesSubscribe: native.GetResources().GetSubscribe() || cat.Resources().HasWatches(),
		Prompts:            native.GetPrompts() != nil,
		PromptsChanged:     native.GetPrompts().GetListChanged(),
		Completions:        native.GetCompletions(),
		Logging:            native.GetLogging(),
		Tasks:              native.GetTasks() || cat.HasOperations() || b.mayBecomeTasks(cat),
	}
	b.offers.newest.Store(&offered{catalog: cat, features: f})
	return f
}

// mayBecomeTasks reports whether a plain RPC behind a visible tool may run on as
// a task.
func (b *Bridge) mayBecomeTasks(cat *catalog.Catalog) bool {
	for _, tool := range cat.Tools() {
		if _, ok := b.taskAfter(tool); ok && !tool.Native {
			return true
		}
	}
	return false
}

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
	fixed := len(cat.Resources().Fixed()) + len(b.opts.Skills.Current().Resources())
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
			b.log.Info("counting a list failed", logkey.Error(err))
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
