// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// nearestNames is how many similar tool names an unknown one is answered with:
// enough to correct a slip, too few to page through.
const nearestNames = 3

// catalog is the current snapshot of the tools, with what the caller in ctx may see; see [Bridge.Catalog].
func (d *directory) catalog(ctx context.Context) (*catalog.Catalog, *errmap.Error) {
	if cat := d.loaded(ctx); cat != nil {
		return cat, nil
	}
	wait, cancel := context.WithTimeout(ctx, d.catalogWait)
	defer cancel()
	cat, err := d.catalogs.Wait(wait)
	if err == nil {
		return d.view(ctx, cat), nil
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	}
	// Why is for operators: it may hold addresses and names of files.
	late := errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
		errmap.Message("Tool service unavailable: the tool catalog has not been loaded yet"))
	late.Limit = errmap.LimitCatalogWait
	return nil, late
}

// lookup finds the tool that a request names. A hidden tool is the same as an
// unknown one, and so is a version that no tool of that name has.
func lookup(cat *catalog.Catalog, req *Request) (*catalog.Tool, *errmap.Error) {
	if req.Procedure != "" {
		if tool, ok := cat.ByProcedure(req.Procedure); ok {
			return tool, nil
		}
		return nil, errmap.UnknownTool(req.Procedure)
	}
	tool, ok := cat.Lookup(req.Tool)
	if !ok || (req.Names == NamesCanonicalOnly && tool.Name != req.Tool && tool.Alias != req.Tool) {
		return nil, unknownTool(cat, req)
	}
	if req.Version != "" && !tool.Satisfies(req.Version) {
		return nil, errmap.New(errmap.ToolNotFound, errmap.Tool(req.Tool), errmap.WithViolations(errmap.Violation{
			Path: req.At("version"), Keyword: "version", Message: "the available version is " + tool.Version,
		}))
	}
	return tool, nil
}

// unknownTool answers a name that no visible tool has, with the nearest ones in
// the form that the caller may use.
func unknownTool(cat *catalog.Catalog, req *Request) *errmap.Error {
	near := cat.Nearest(req.Tool, nearestNames)
	if req.Names == NamesMCP {
		for i, name := range near {
			if tool, ok := cat.Lookup(name); ok {
				near[i] = tool.MCPName
			}
		}
	}
	if req.Through != "" {
		return noSuchArgument(req, near...)
	}
	err := errmap.UnknownTool(req.Tool, near...)
	err.Violations = []errmap.Violation{errmap.NoSuchTool(req.At("tool_name"), near...)}
	return err
}

// noSuchArgument answers an argument of a tool of the compact catalog that names no tool. The tool that was called exists,
// so it is an error about its input, which a model sees and can correct.
func noSuchArgument(req *Request, near ...string) *errmap.Error {
	search := catalog.SearchName
	if req.Names == NamesMCP {
		search = catalog.MCPName(search)
	}
	v := errmap.NoSuchTool("/"+catalog.NameArgument, near...)
	switch {
	case catalog.CompactOf(req.Tool) != catalog.NotCompact:
		v.Message = "this tool is called by its own name, not through another"
	case len(near) == 0:
		v.Message = "there is no such tool; " + search + " finds tools by what they do"
	default:
		v.Message = "there is no such tool; " + v.Message
	}
	return errmap.InvalidInput(req.Through, false, v)
}

// get returns one tool and its snapshot.
func (d *directory) get(ctx context.Context, req *Request) *Response {
	cat, err := d.catalog(ctx)
	if err != nil {
		return &Response{Err: err}
	}
	tool, err := d.find(ctx, cat, req)
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Catalog: cat, Tool: tool}
}

// findCompact finds one of the sidecar's own tools, which every caller may see: what they show is what their caller may see.
func findCompact(cat *catalog.Catalog, req *Request) (*catalog.Tool, *errmap.Error) {
	if req.Through != "" { // none of them is in the catalog
		return nil, noSuchArgument(req)
	}
	of, err := cat.Compact()
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return lookup(of, req)
}

// CallerOf returns the name of the caller for policy and logs: that of the
// authenticated identity in ctx, else [peer.Address] of its address.
func CallerOf(ctx context.Context, address string) string {
	if who := identity.FromContext(ctx); who != nil {
		return who.Principal()
	}
	return peer.Address(address)
}

// directory finds the tools of the current catalog, and knows which of them a caller may see and call.
type directory struct {
	catalogs    Catalogs
	catalogWait time.Duration
	authorities policy.Authorities
	compact     compact.Options
	isCompact   bool  // some of the sidecar's own tools are offered
	rules       Rules // nil where every caller sees all of the results
	views       catalog.Views
}

// loaded is the same without waiting: nil before the first load.
func (d *directory) loaded(ctx context.Context) *catalog.Catalog {
	cat := d.catalogs.Current()
	if cat == nil {
		return nil
	}
	return d.view(ctx, cat)
}

// view is a catalog as the caller behind ctx sees it. Views are kept by what may
// be listed, so that equal callers share one; one of a catalog that is not the
// newest any more is made for its request alone.
func (d *directory) view(ctx context.Context, cat *catalog.Catalog) *catalog.Catalog {
	scope := d.scope(ctx, cat)
	if len(d.authorities) == 0 {
		return d.viewOf(ctx, cat, scope)
	}
	for range maxScopeChanges {
		seen := d.viewOf(ctx, cat, scope)
		now := d.scope(ctx, cat)
		if now == scope {
			return seen
		}
		scope = now // permissions changed meanwhile: no view may be made of both
	}
	return d.viewOf(ctx, cat, scope)
}

// maxScopeChanges bounds how often a view is made anew because permissions change while
// it is made.
const maxScopeChanges = 5

// viewOf is the catalog for a scope, which the caller in ctx has.
func (d *directory) viewOf(ctx context.Context, cat *catalog.Catalog, scope string) *catalog.Catalog {
	if scope == "" {
		return cat
	}
	may := func(t *catalog.Tool) bool { return d.mayList(ctx, t) == nil }
	var see func(*catalog.Tool) catalog.Sight
	if d.rules != nil {
		who := identity.FromContext(ctx)
		see = func(t *catalog.Tool) catalog.Sight { return sightOf(d.rules.View(who, t)) }
	}
	return d.views.Only(cat, d.catalogs.Current, scope, may, see)
}

// seen is a tool as the caller in ctx sees it.
func (d *directory) seen(ctx context.Context, tool *catalog.Tool) *catalog.Tool {
	all := d.catalogs.Current()
	if d.rules == nil || all == nil {
		return tool
	}
	if own, ok := d.view(ctx, all).Lookup(tool.Name); ok && own.Whole() == tool.Whole() {
		return own
	}
	return tool
}

// sightOf is what a view shows, as schemas say it. A field that denies the result is in none.
func sightOf(v *policy.View) catalog.Sight {
	if !v.TreatsResult() {
		return catalog.Sight{}
	}
	return catalog.Sight{Key: v.Shape(), Paths: v.Paths(), Of: func(path string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
		how, varies := v.Treatment(path, fd)
		switch how.Action {
		case transcode.Show:
			return schema.SeenWhole, false
		case transcode.Mask:
			return schema.SeenMasked, varies
		case transcode.Hash:
			return schema.SeenHashed, varies
		}
		return schema.SeenNot, varies
	}}
}

// find finds the tool that a request names, among those that its caller may
// call, or for OpGet may list. One that exists and is not among them is refused by
// name: that a tool exists is no secret, what it takes and does is. It comes with
// the error, for the log.
func (d *directory) find(ctx context.Context, cat *catalog.Catalog, req *Request) (*catalog.Tool, *errmap.Error) {
	if d.isCompact && req.Procedure == "" && d.compact.Offers(catalog.CompactOf(req.Tool)) {
		return findCompact(cat, req)
	}
	tool, failed := lookup(cat, req)
	if d.mayUseAll(ctx) || failed == nil && len(d.authorities) == 0 {
		return tool, failed
	}
	if failed != nil {
		all := d.catalogs.Current()
		if all == nil {
			return nil, failed
		}
		var err *errmap.Error
		if tool, err = lookup(all, req); err != nil {
			return nil, failed
		}
	}
	may := d.mayUse
	if req.Op == OpGet {
		may = d.mayList
	}
	refused := may(ctx, tool)
	if failed != nil && refused == nil && d.rules != nil {
		// It was not listed a moment ago. The caller may see it in part.
		return lookup(d.view(ctx, d.catalogs.Current()), req)
	}
	return tool, refused
}

// UntilRevoked returns a context that also ends when the identity of the caller in ctx
// is revoked or changed. Streams use it, which last longer than a call. The function
// releases it and must be called.
func UntilRevoked(ctx context.Context) (context.Context, func()) {
	who := identity.FromContext(ctx)
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
	return errmap.Wrap(errmap.Unauthenticated, identity.ErrRevoked,
		errmap.Message("Authentication required: the token expired, or permissions changed; retry"))
}

// CallerStdio is the [Request.Caller] of everything that arrives on standard input.
const CallerStdio = "stdio"

// mayList returns nil if the caller in ctx is shown a tool, else why not.
func (d *directory) mayList(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	return d.authorities.MayList(identity.FromContext(ctx), tool)
}

// mayUse returns nil if the caller in ctx may call a tool, else why not.
func (d *directory) mayUse(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	return d.authorities.MayUse(identity.FromContext(ctx), tool)
}

// mayRun returns nil if the caller in ctx may run the operation of a request.
func (d *directory) mayRun(ctx context.Context, req *Request) *errmap.Error {
	if req.Op.isFree() || len(d.authorities) == 0 {
		return nil
	}
	defer req.Span.Step(telemetry.StepAuthorize, req.Span.Now())
	if err := d.permits(ctx, req.Op, d.subject(req)); err != nil || req.PartOf == OpInvalid {
		return err
	}
	return d.permits(ctx, req.PartOf, nil)
}

// permits returns nil if the caller in ctx may run an operation, else PERMISSION_DENIED.
func (d *directory) permits(ctx context.Context, op Op, tool *catalog.Tool) *errmap.Error {
	return d.authorities.MayRun(identity.FromContext(ctx), op.permission().String(), tool)
}

// permission is the operation whose permission an operation needs: skills are resources, so that who may not list resources
// sees no skills either.
func (o Op) permission() Op {
	switch o {
	case OpListSkills, OpReadDirectory:
		return OpListResources
	case OpGetSkill:
		return OpReadResource
	default:
		return o
	}
}

// subject is the tool that a request describes, or runs to read a resource; nil if there
// is none.
func (d *directory) subject(req *Request) *catalog.Tool {
	all := d.catalogs.Current()
	if all == nil {
		return nil
	}
	if req.Op == OpGet {
		tool, _ := lookup(all, req)
		return tool
	}
	ask, ok := req.Message.(*outriggerv1.ReadResourceRequest)
	if !ok || len(ask.GetUri()) > maxURI {
		return nil
	}
	if method, _, ok := all.Resources().Match(ask.GetUri()); ok {
		return all.ResourceTool(method)
	}
	return nil
}

// scope identifies the tools of a catalog that the caller in ctx may list and call; "" is
// all tools.
func (d *directory) scope(ctx context.Context, cat *catalog.Catalog) string {
	return d.authorities.Scope(identity.FromContext(ctx), cat)
}

// mayUseAll reports whether the caller in ctx may use every tool.
func (d *directory) mayUseAll(ctx context.Context) bool {
	return d.scope(ctx, d.catalogs.Current()) == ""
}

// notForAll is PERMISSION_DENIED for what only callers of every tool may do; see [Bridge.NotForAll].
func (d *directory) notForAll(ctx context.Context, text string) *errmap.Error {
	return d.authorities.NotForAll(identity.FromContext(ctx), d.catalogs.Current(), text)
}

// listedAs is the catalog as it is listed in a form.
func (d *directory) listedAs(cat *catalog.Catalog, form compact.List) (*catalog.Catalog, *errmap.Error) {
	o := d.compact
	switch {
	case form == compact.ListCompact && !o.IsOffered():
		return nil, errmap.Because(errmap.MethodNotFound, "this sidecar has no compact list; its operator can set --catalog-mode")
	case form == compact.ListCompact:
		return listed(cat.Compact())
	case form == compact.ListAll:
		return listed(o.Full(cat))
	}
	return listed(o.Listed(cat))
}

func listed(out *catalog.Catalog, err error) (*catalog.Catalog, *errmap.Error) {
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return out, nil
}

// listedFor is the current snapshot as it is listed in a form; nil before the first load.
func (d *directory) listedFor(ctx context.Context, form compact.List) *catalog.Catalog {
	cat := d.loaded(ctx)
	if cat == nil {
		return nil
	}
	out, err := d.listedAs(cat, form)
	if err != nil {
		return cat
	}
	return out
}

// Catalogs returns the current snapshot of the tools. [*catalog.Live] implements it.
type Catalogs interface {
	// Current returns the current snapshot, nil before the first.
	Current() *catalog.Catalog
	// Wait returns the current snapshot, or waits for the first one until ctx ends. Its error has the reason.
	Wait(ctx context.Context) (*catalog.Catalog, error)
}
