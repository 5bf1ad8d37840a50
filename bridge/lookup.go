// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/Masterminds/semver/v3"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
)

// nearestNames is how many similar tool names an unknown one is answered with:
// enough to correct a slip, too few to page through.
const nearestNames = 3

// Catalog returns the current snapshot of the tools, with what the caller in ctx may
// see. Before the first load it waits, for a bounded time; after that the error is
// UNAVAILABLE.
func (b *Bridge) Catalog(ctx context.Context) (*catalog.Catalog, *errmap.Error) {
	if cat := b.CatalogFor(ctx); cat != nil {
		return cat, nil
	}
	wait, cancel := context.WithTimeout(ctx, b.opts.CatalogWait)
	defer cancel()
	cat, err := b.catalogs.Wait(wait)
	if err == nil {
		return b.view(ctx, cat), nil
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
	if req.Version != "" && !versionSatisfies(tool.Version, req.Version) {
		return nil, errmap.New(errmap.ToolNotFound, errmap.Tool(req.Tool), errmap.WithViolations(errmap.Violation{
			Path: req.pointer("version"), Keyword: "version", Message: "the available version is " + tool.Version,
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
	err.Violations = []errmap.Violation{errmap.NoSuchTool(req.pointer("tool_name"), near...)}
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
func (b *Bridge) get(ctx context.Context, req *Request) *Response {
	cat, err := b.Catalog(ctx)
	if err != nil {
		return &Response{Err: err}
	}
	tool, err := b.find(ctx, cat, req)
	if err != nil {
		return &Response{Err: err}
	}
	return &Response{Catalog: cat, Tool: tool}
}

// maxConstraint bounds a version constraint; the longest sensible ones have a
// few dozen bytes.
const maxConstraint = 256

// parseConstraint reads which versions of a tool a caller will take: a semantic
// version constraint such as "1.2.3", "^1.2" or ">=1.4.0 <2.0.0".
func parseConstraint(s string) (*semver.Constraints, bool) {
	if len(s) > maxConstraint {
		return nil, false
	}
	c, err := semver.NewConstraint(s)
	return c, err == nil
}

// HasValidVersion reports whether Version is one: a version such as "1.2.3" or a
// constraint such as "^1.2".
func (r *Request) HasValidVersion() bool {
	_, ok := parseConstraint(r.Version)
	return ok
}

// versionSatisfies reports whether a tool's version is one that the caller
// takes: a version in full, build metadata and all, or what satisfies a
// constraint. Versions of tools are semantic, which the catalog sees to.
func versionSatisfies(version, want string) bool {
	if version == want {
		return true
	}
	constraint, ok := parseConstraint(want)
	if !ok {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && constraint.Check(v)
}

// findCompact finds one of the three tools, which every caller may see: what they show is what their caller may see.
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

// invokeCompact answers a search and a description.
func (b *Bridge) invokeCompact(ctx context.Context, c *toolCall) *errmap.Error {
	var data []byte
	var failed *errmap.Error
	switch c.tool.Compact {
	case catalog.CompactSearch:
		data, failed = b.searched(ctx, c)
	case catalog.CompactDescribe:
		data, failed = b.described(ctx, c)
	case catalog.CompactCall, catalog.NotCompact:
		// The schema admits only what readThrough reads.
		failed = errmap.Wrap(errmap.InternalError, errors.New("a call by way of the compact catalog was not read"))
	}
	if failed != nil {
		return failed
	}
	if limit := b.opts.MaxResult; limit > 0 && len(data) > limit {
		return b.tooLargeResult(len(data))
	}
	c.worked = true
	return c.settle(StatusSuccess, data, "")
}

// searched is the result of a search, which takes the permission to list tools.
func (b *Bridge) searched(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	if err := b.permits(ctx, OpList, nil); err != nil {
		return nil, err
	}
	all := b.catalogs.Current()
	seen := b.view(ctx, all)
	var visible func(*catalog.Tool) bool
	if seen != all {
		visible = func(t *catalog.Tool) bool {
			found, ok := seen.Lookup(t.Name)
			return ok && found == t
		}
	}
	query, limit := compact.Query(c.arguments())
	return compact.AppendFound(nil, b.index.of(all).Search(query, limit, visible), c.req.toolName), nil
}

// described is the description of a tool, which takes the permission to describe it.
func (b *Bridge) described(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	ask := &Request{Op: OpGet, Tool: compact.Name(c.arguments()), Names: c.req.Names, Through: c.tool.Name}
	tool, err := b.find(ctx, c.catalog, ask)
	if err == nil {
		err = b.permits(ctx, OpGet, tool)
	}
	if err != nil {
		return nil, err
	}
	data, failed := compact.AppendDescription(nil, tool, c.req.toolName(tool))
	if failed != nil {
		return nil, errmap.Wrap(errmap.InternalError, failed)
	}
	return data, nil
}

// toolIndex is the index of the newest catalog, made when a caller first searches it. All callers share it.
type toolIndex struct {
	mu      sync.Mutex
	catalog *catalog.Catalog
	words   *compact.Index
}

// of is the index of a catalog. Callers that come while it is made wait for it.
func (x *toolIndex) of(cat *catalog.Catalog) *compact.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catalog != cat {
		x.words, x.catalog = compact.NewIndex(cat), cat
	}
	return x.words
}
