// SPDX-License-Identifier: Apache-2.0

// Package offer answers what a sidecar offers besides calls: lists of tools, resources, templates, prompts and skills, the
// reading of each, completion, and streams of changes.
//
// A [Service] is what package bridge calls [bridge.Offers]: the bridge registers, authorizes, counts and observes each request,
// and the service answers it. What is offered comes from four places, in this order: the descriptors of the catalog (methods
// that are annotated as resources), results that are held, folders of skills, and the native backend. One list serves
// every kind: its parts follow each other, and a sealed cursor says in which part a page begins, and where.
//
// Everything is safe for concurrent use.
package offer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// ContractVersion is the supported version of the canonical contract.
const ContractVersion = "1.0.0"

// Options configure a Service. Zero fields have the defaults of this package.
type Options struct {
	// Feed is the hub of changes. Nil makes one.
	Feed *notify.Feed
	// Watches run the streams of watches. Nil makes an engine, which is never closed.
	Watches *notify.Watches
	// Skills are those of folders; nil has none.
	Skills *Skills
	// PageSize is the maximum number of entries on a page of a list.
	PageSize int
	// ForwardsHeaders is set if the backend gets headers that callers choose, by which it may tell them apart.
	ForwardsHeaders bool
}

// Service answers requests about what a sidecar offers besides calls. Make one with [New].
type Service struct {
	opts   Options
	bridge *bridge.Bridge
	host   *bridge.Host

	newest   atomic.Pointer[offered]
	counted  counted
	followed atomic.Uint64 // subscriptions to watches
}

// New returns a Service, with which the bridge answers from now on.
func New(b *bridge.Bridge, o Options) *Service {
	defaults.Fill(&o.PageSize, defaults.MaxPageEntries)
	if o.Feed == nil {
		o.Feed = notify.NewFeed(notify.FeedOptions{})
	}
	if o.Watches == nil {
		o.Watches = notify.NewWatches(notify.WatchOptions{})
	}
	s := &Service{opts: o, bridge: b, host: b.Host()}
	b.SetOffers(s)
	return s
}

// Feed returns the hub of changes. Code that notices a change publishes it there; [bridge.Request.Changes] gets it. The hub's
// owner closes it.
func (s *Service) Feed() *notify.Feed { return s.opts.Feed }

// Features is what is offered with one catalog. Operations of what is not offered are answered METHOD_NOT_FOUND.
type Features struct {
	Resources, ResourcesSubscribe bool
	Skills, Directories           bool
	Prompts, PromptsChanged       bool
	Completions, Logging, Tasks   bool
}

// offered caches the features of the newest catalog.
type offered struct {
	catalog  *catalog.Catalog
	features Features
}

// Features returns what is offered with a catalog. Nil, for a catalog that has not been
// loaded, offers tools alone.
func (s *Service) Features(cat *catalog.Catalog) Features {
	if cat == nil {
		return Features{}
	}
	if o := s.newest.Load(); o != nil && o.catalog == cat {
		return o.features
	}
	native := cat.Description().GetCapabilities()
	hasSkills := !s.opts.Skills.Current().IsEmpty() // which lasts: folders without a skill are refused
	f := Features{
		Skills:             hasSkills || native.GetSkills() != nil && native.GetResources() != nil,
		Directories:        hasSkills || native.GetSkills().GetDirectoryRead() && native.GetResources() != nil,
		Resources:          hasSkills || native.GetResources() != nil || !cat.Resources().IsEmpty() || s.host.HoldsResults(cat),
		ResourcesSubscribe: native.GetResources().GetSubscribe() || cat.Resources().HasWatches(),
		Prompts:            native.GetPrompts() != nil,
		PromptsChanged:     native.GetPrompts().GetListChanged(),
		Completions:        native.GetCompletions(),
		Logging:            native.GetLogging(),
		Tasks:              s.host.HasTasks(cat),
	}
	s.newest.Store(&offered{catalog: cat, features: f})
	return f
}

// HasResources implements [bridge.Offers].
func (s *Service) HasResources(cat *catalog.Catalog) bool { return s.Features(cat).Resources }

// refusal is METHOD_NOT_FOUND for an operation of what is not offered, else nil.
func (f Features) refusal(op bridge.Op) *errmap.Error {
	var isOffered bool
	var what string
	switch op {
	case bridge.OpListResources, bridge.OpListTemplates, bridge.OpReadResource:
		isOffered, what = f.Resources, "resources"
	case bridge.OpListSkills, bridge.OpGetSkill:
		isOffered, what = f.Skills, "skills"
	case bridge.OpReadDirectory:
		isOffered, what = f.Directories, "directories"
	case bridge.OpListPrompts, bridge.OpGetPrompt:
		isOffered, what = f.Prompts, "prompts"
	case bridge.OpComplete:
		isOffered, what = f.Completions, "completions"
	default:
		return errmap.Wrap(errmap.InternalError, fmt.Errorf("operation %d is none of the offer", op))
	}
	if !isOffered {
		return errmap.NotOffered(what)
	}
	return nil
}

// Answer implements [bridge.Offers].
func (s *Service) Answer(ctx context.Context, req *bridge.Request) *bridge.Response {
	switch req.Op {
	case bridge.OpListen:
		return s.listen(ctx, req)
	case bridge.OpList:
		return s.listTools(ctx, req)
	}
	return s.answerFrom(ctx, req)
}

// answerFrom answers from the catalog as the caller sees it. It has its own frame: that of Answer is on the stack of every stream
// that waits.
//
//go:noinline
func (s *Service) answerFrom(ctx context.Context, req *bridge.Request) *bridge.Response {
	cat, err := s.bridge.Catalog(ctx)
	if err != nil {
		return &bridge.Response{Err: err}
	}
	resp := s.answer(ctx, req, cat)
	resp.Catalog = cat
	return resp
}

func (s *Service) answer(ctx context.Context, req *bridge.Request, cat *catalog.Catalog) *bridge.Response {
	if named, ok := req.Message.(interface{ GetUri() string }); ok {
		traceURI(req, named.GetUri())
	}
	if err := s.Features(cat).refusal(req.Op); err != nil {
		return &bridge.Response{Err: err}
	}
	// What is only read here is not known by the backend, and takes nothing else of the request.
	switch ask := req.Message.(type) {
	case *outriggerv1.ReadResourceRequest:
		return s.private(ctx, req, s.readResource(ctx, req, cat, ask))
	case *outriggerv1.GetSkillRequest:
		return s.private(ctx, req, s.getSkill(ctx, req, cat, ask))
	}
	req, err := req.Complete()
	if err != nil {
		return &bridge.Response{Err: err}
	}
	switch ask := req.Message.(type) {
	case *outriggerv1.ListResourcesRequest:
		return s.listResources(ctx, req, cat, ask)
	case *outriggerv1.ListResourceTemplatesRequest:
		return s.listTemplates(ctx, req, cat, ask)
	case *outriggerv1.ListSkillsRequest:
		return s.listSkills(ctx, req, cat, ask)
	case *outriggerv1.ReadDirectoryRequest:
		return s.readDirectory(ctx, req, cat, ask)
	case *outriggerv1.ListPromptsRequest:
		return s.listPrompts(ctx, req, ask)
	case *outriggerv1.GetPromptRequest:
		return s.getPrompt(ctx, req, ask)
	case *outriggerv1.CompleteRequest:
		return s.complete(ctx, req, ask)
	}
	return &bridge.Response{Err: errmap.Wrap(errmap.InternalError, fmt.Errorf("%T is no request of the offer", req.Message))}
}

// Every edge tells its callers who may keep an answer: everybody (public), or the one who asked (private). The rule is here and
// nowhere else. An answer is private where callers are told apart, whatever this caller may use: a shared cache in front would
// give it to the next one. What the backend answered is private, too, where it gets headers that callers sent, because it may
// answer by them. A page of a list with cursors is private, because cursors belong to their callers.

// private marks what the backend said about a resource or a skill as private where it may depend on who asks.
func (s *Service) private(ctx context.Context, req *bridge.Request, resp *bridge.Response) *bridge.Response {
	switch m := resp.Message.(type) {
	case *outriggerv1.GetSkillResponse:
		m.Cache = s.scoped(ctx, req, m.GetCache())
	case *outriggerv1.ResourceOutcome:
		if result := m.GetResult(); result != nil {
			result.Cache = s.scoped(ctx, req, result.GetCache())
		}
	}
	return resp
}

// scoped is the cache policy of an answer for its caller. The backend does not know whom the sidecar shows what, so its word
// does not count where callers are told apart: authenticated callers have an identity. Results made from a caller's answers are
// private and short-lived.
func (s *Service) scoped(ctx context.Context, req *bridge.Request, cache *outriggerv1.CachePolicy) *outriggerv1.CachePolicy {
	switch {
	case req.Repeated:
		return momentary()
	case identity.FromContext(ctx) == nil && !s.opts.ForwardsHeaders:
		return cache
	}
	return forOne(cache)
}

// forOne is a cache policy for one caller, for as long as another says.
func forOne(cache *outriggerv1.CachePolicy) *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: cache.GetTtl(), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE}
}

// momentary is the cache policy of what may be another thing a moment later.
func momentary() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: durationpb.New(0), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE}
}

// unkept is the cache policy of what is the same for every caller and may change at any time: a host that sees another digest
// than it expected asks again, and must not get the old answer.
func unkept() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: durationpb.New(0), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
}

// announced is the cache policy of a list whose changes are announced.
func announced() *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC}
}

// shorter is the more careful of two cache policies; nil says nothing.
func shorter(a, b *outriggerv1.CachePolicy) *outriggerv1.CachePolicy {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := &outriggerv1.CachePolicy{Ttl: a.GetTtl(), Scope: a.GetScope()}
	if b.GetTtl() != nil && (out.Ttl == nil || b.GetTtl().AsDuration() < out.GetTtl().AsDuration()) {
		out.Ttl = b.GetTtl()
	}
	if b.GetScope() != outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC {
		out.Scope = b.GetScope()
	}
	return out
}

// Description is what is offered with one catalog, with counts.
type Description struct {
	Capabilities *outriggerv1.ServerCapabilities
	// Tools is the number of tools that callers may see. Resources and Prompts are
	// the numbers of listed ones, up to 10,000 each. If the backend has to be asked,
	// that happens at most every ten seconds, without a caller's credentials, and
	// for at most two seconds. If it does not answer, the counts are those of its
	// own description.
	Tools, Resources, Prompts int
}

// Describe returns what is offered with a catalog, with counts, in messages of the
// contract. It is for edges that describe the sidecar. Nil, for a catalog that has not
// been loaded, offers no tools. The caller may change the messages.
func (s *Service) Describe(cat *catalog.Catalog) Description {
	f := s.Features(cat)
	out := Description{Capabilities: &outriggerv1.ServerCapabilities{
		Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
		Completions: f.Completions, Logging: f.Logging, Tasks: f.Tasks,
	}}
	if cat != nil {
		out.Tools = len(cat.Tools())
	}
	if f.Resources {
		out.Capabilities.Resources = &outriggerv1.ResourcesCapability{ListChanged: true, Subscribe: f.ResourcesSubscribe}
	}
	if f.Skills {
		out.Capabilities.Skills = &outriggerv1.SkillsCapability{DirectoryRead: f.Directories}
	}
	if f.Prompts {
		out.Capabilities.Prompts = &outriggerv1.PromptsCapability{ListChanged: f.PromptsChanged}
	}
	out.Resources, out.Prompts = s.count(cat, f)
	return out
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

// counted caches counts that cost RPCs.
type counted struct {
	mu                 sync.Mutex
	catalog            *catalog.Catalog
	until              time.Time
	resources, prompts int
}

// count counts what is listed besides tools, for a caller without credentials.
// What descriptors say costs nothing. What only the backend knows is listed
// there, within bounds, and at most once in a while; where that fails, the count
// is the one that the backend gave with its description.
//
// It has its own time, because its result is everybody's: one caller who
// leaves must not spoil it for others.
func (s *Service) count(cat *catalog.Catalog, f Features) (resources, prompts int) {
	if !f.Resources && !f.Prompts {
		return 0, 0
	}
	fixed := len(cat.Resources().Fixed()) + len(s.opts.Skills.Current().Resources())
	if s.host.IsView(cat) || cat.Description() == nil && len(cat.Resources().Listings()) == 0 {
		return fixed, 0
	}
	c := &s.counted
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.catalog == cat && time.Now().Before(c.until) {
		return c.resources, c.prompts
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	said := cat.Description()
	c.catalog, c.resources, c.prompts = cat, 0, 0
	if f.Resources {
		l := s.resources(&bridge.Request{Op: bridge.OpListResources}, cat)
		c.resources = lengthOf(ctx, s, l, fixed+int(said.GetResourcesCount()))
	}
	if f.Prompts {
		c.prompts = lengthOf(ctx, s, s.prompts(&bridge.Request{Op: bridge.OpListPrompts}), int(said.GetPromptsCount()))
	}
	c.until = time.Now().Add(countTTL)
	return c.resources, c.prompts
}

// lengthOf counts a list page by page; otherwise is what it is taken for where
// it cannot be read.
func lengthOf[T any](ctx context.Context, s *Service, l list[T], otherwise int) int {
	total := 0
	for from := (&cursor{}); ctx.Err() == nil; { // pages without entries could go on for ever
		got, next, err := l.read(ctx, *from, s.opts.PageSize)
		if err != nil {
			s.host.Log().Info("counting a list failed", logkey.Error(err))
			return otherwise
		}
		total += len(got.entries)
		if next == nil || total >= maxCounted {
			return min(total, maxCounted)
		}
		from = next
	}
	return otherwise
}

// maxTracedURI bounds the URI of a resource in a span.
const maxTracedURI = 1024

// traceURI adds the URI of the resource that a request reads. It is never a part of the span's name.
func traceURI(req *bridge.Request, uri string) {
	if req.Span.IsRecording() && uri != "" {
		req.Span.Set(telemetry.Text(telemetry.ResourceURI, strings.ToValidUTF8(uri[:min(len(uri), maxTracedURI)], "")))
	}
}
