// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"

	"github.com/Masterminds/semver/v3"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
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
	err := errmap.UnknownTool(req.Tool, near...)
	err.Violations = []errmap.Violation{errmap.NoSuchTool(req.pointer("tool_name"), near...)}
	return err
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
