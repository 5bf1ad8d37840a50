// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// CallerOf returns the name of the caller for policy and logs: that of the
// authenticated identity in ctx, else [CallerAddress] of the peer.
func CallerOf(ctx context.Context, peer string) string {
	if who := access.FromContext(ctx); who != nil {
		return who.Principal()
	}
	return CallerAddress(peer)
}

// CatalogFor returns the current snapshot of the tools, with what the caller in ctx may
// see; nil before the first load.
func (b *Bridge) CatalogFor(ctx context.Context) *catalog.Catalog {
	cat := b.catalogs.Current()
	if cat == nil {
		return nil
	}
	return b.view(ctx, cat)
}

// maxViews bounds the views that are kept: as many as a callers file may have
// entries. One more empties the cache, and views are made anew.
const maxViews = 1000

// views keeps what callers see of the newest catalog who may not call all tools,
// each with its rendered lists.
type views struct {
	mu      sync.Mutex
	of      *catalog.Catalog
	byScope map[string]*view
	byView  map[*catalog.Catalog]*view
}

type view struct {
	catalog  *catalog.Catalog
	rendered any
}

// view is a catalog as the caller behind ctx sees it. Views are kept by what may
// be listed, so that equal callers share one; one of a catalog that is not the
// newest any more is made for its request alone.
func (b *Bridge) view(ctx context.Context, cat *catalog.Catalog) *catalog.Catalog {
	scope := b.scope(ctx, cat)
	if len(b.opts.Authorizers) == 0 {
		return b.viewOf(ctx, cat, scope)
	}
	for range maxScopeChanges {
		seen := b.viewOf(ctx, cat, scope)
		now := b.scope(ctx, cat)
		if now == scope {
			return seen
		}
		scope = now // permissions changed meanwhile: no view may be made of both
	}
	return b.viewOf(ctx, cat, scope)
}

// maxScopeChanges bounds how often a view is made anew because permissions change while
// it is made.
const maxScopeChanges = 5

// viewOf is the catalog for a scope, which the caller in ctx has.
func (b *Bridge) viewOf(ctx context.Context, cat *catalog.Catalog, scope string) *catalog.Catalog {
	if scope == "" {
		return cat
	}
	may := func(t *catalog.Tool) bool { return b.mayList(ctx, t) == nil }
	v := &b.views
	v.mu.Lock()
	defer v.mu.Unlock()
	if cat != v.of {
		if cat != b.catalogs.Current() {
			return cat.Only(may)
		}
		v.of, v.byScope = cat, nil
	}
	if v.byScope == nil || len(v.byScope) >= maxViews {
		v.byScope, v.byView = map[string]*view{}, map[*catalog.Catalog]*view{}
	}
	made := v.byScope[scope]
	if made == nil {
		made = &view{catalog: cat.Only(may)}
		v.byScope[scope], v.byView[made.catalog] = made, made
	}
	return made.catalog
}

// Rendered caches what an edge has rendered for a catalog, such as the list of tools,
// and calls fresh to make it. The value lives as long as the caller's view of the
// catalog; catalogs that are not views share one value.
func (b *Bridge) Rendered(cat *catalog.Catalog, fresh func() any) any {
	b.views.mu.Lock()
	defer b.views.mu.Unlock()
	kept := &b.rendered
	if made := b.views.byView[cat]; made != nil {
		kept = &made.rendered
	}
	if *kept == nil {
		*kept = fresh()
	}
	return *kept
}

// find finds the tool that a request names, among those that its caller may
// call, or for OpGet may list. One that exists and is not among them is refused by
// name: that a tool exists is no secret, what it takes and does is. It comes with
// the error, for the log.
func (b *Bridge) find(ctx context.Context, cat *catalog.Catalog, req *Request) (*catalog.Tool, *errmap.Error) {
	if catalog.CompactOf(req.Tool) != catalog.NotCompact && b.opts.Compact.IsOffered() && req.Procedure == "" {
		return findCompact(cat, req)
	}
	tool, failed := lookup(cat, req)
	if b.MayUseAll(ctx) || failed == nil && len(b.opts.Authorizers) == 0 {
		return tool, failed
	}
	if failed != nil {
		all := b.catalogs.Current()
		if all == nil {
			return nil, failed
		}
		var err *errmap.Error
		if tool, err = lookup(all, req); err != nil {
			return nil, failed
		}
	}
	may := b.mayUse
	if req.Op == OpGet {
		may = b.mayList
	}
	return tool, may(ctx, tool)
}

// notPermitted is PERMISSION_DENIED for what a caller may not use. It says what
// an operator can change, and nothing that an agent could. With the challenge it is
// the answer to the request, also where a tool was called: it is about who asks,
// and no other call of theirs would end otherwise.
func notPermitted(who *access.Identity, what string) *errmap.Error {
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(access.NotPermitted("")), errmap.Message("Permission denied: caller "+who.Name()+" may not use "+what+
		"; an operator can allow it in the callers file (--tokens)"))
}

// blocked asks the gate whether a caller may run a tool. What is said of this
// caller in particular goes before what is said of all.
func (b *Bridge) blocked(ctx context.Context, tool *catalog.Tool, caller string) *errmap.Error {
	switch access.FromContext(ctx).Trust() {
	case access.Trusted:
		return b.opts.Gate.CheckAs(tool, policy.Trusted)
	case access.Untrusted:
		return b.opts.Gate.CheckAs(tool, policy.Untrusted)
	case access.Unsaid:
	}
	return b.opts.Gate.Check(tool, caller)
}

// UntilRevoked returns a context that also ends when the identity of the caller in ctx
// is revoked or changed. Streams use it, which last longer than a call. The function
// releases it and must be called.
func UntilRevoked(ctx context.Context) (context.Context, func()) {
	who := access.FromContext(ctx)
	if who.Lasts() {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := who.WhenRevoked(func() { cancel(revoked()) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// revoked is why something that lasts ends whose caller may not have it any more.
func revoked() *errmap.Error {
	return errmap.Wrap(errmap.Unauthenticated, access.ErrRevoked,
		errmap.Message("Authentication required: the token expired, or permissions changed; retry"))
}

// hiddenResource refuses a resource that an RPC stands for whose tool the caller
// may not call; nil where there is no such RPC.
func (b *Bridge) hiddenResource(ctx context.Context, uri string) *errmap.Error {
	all := b.catalogs.Current()
	if all == nil || b.MayUseAll(ctx) {
		return nil
	}
	method, _, ok := all.Resources().Match(uri)
	if !ok {
		return nil
	}
	return b.mayUse(ctx, all.ResourceTool(method))
}

// mayComplete refuses to propose values for what a caller may not use.
func mayComplete(who *access.Identity, ask *outriggerv1.CompleteRequest) *errmap.Error {
	if prompt := ask.GetPrompt(); prompt != "" && !who.MayPrompt(prompt) {
		return notPermitted(who, "this prompt")
	}
	if template := ask.GetResource(); template != "" && !who.MayRead(template) {
		return notPermitted(who, "this resource template")
	}
	return nil
}

// only are the entries that may be shown.
func only[T any](entries []T, may func(T) bool) []T {
	out := make([]T, 0, len(entries))
	for _, e := range entries {
		if may(e) {
			out = append(out, e)
		}
	}
	return out
}

// isView reports whether a catalog is what some callers see of another.
func (b *Bridge) isView(cat *catalog.Catalog) bool {
	b.views.mu.Lock()
	defer b.views.mu.Unlock()
	return b.views.byView[cat] != nil
}

// CallerStdio is the [Request.Caller] of everything that arrives on standard input.
const CallerStdio = "stdio"

// CallerAddress returns the name of an unauthenticated caller: the address of its
// connection without the port. An IPv4 address in its IPv6 form is returned as IPv4,
// and what is no address is returned unchanged. X-Forwarded-For and similar headers are
// ignored, because anyone can send them.
func CallerAddress(peer string) string {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer
	}
	if isPlainIPv4(host) {
		return host // as it is written, without a copy
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return addr.Unmap().String()
}

// isPlainIPv4 holds for IPv4 addresses in their usual form.
func isPlainIPv4(host string) bool {
	const longest = len("255.255.255.255")
	if len(host) > longest {
		return false
	}
	for i := range len(host) {
		if c := host[i]; c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	addr, err := netip.ParseAddr(host) // refuses leading zeros, so that there is one form
	return err == nil && addr.Is4()
}
