// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// CompactMode says when three tools stand for all: one that searches the catalog, one that describes a tool and one that
// calls a tool.
type CompactMode uint8

// The modes. Full is the zero value: all tools are listed, and these three do not exist. With Compact they are what is
// listed; all others can still be called by their names. With CompactAuto that holds if the list of all tools that a caller
// sees is larger than a budget. The three can be called in both.
const (
	CompactNever CompactMode = iota
	CompactAlways
	CompactAuto
)

// CompactOptions configure the compact form of catalogs.
type CompactOptions struct {
	Mode CompactMode
	// AboveBytes is the size of a list above which CompactAuto makes it compact.
	AboveBytes int
}

func (o CompactOptions) isOffered() bool { return o.Mode != CompactNever }

// ListForm is which tools an OpList lists.
type ListForm uint8

// The forms. ListByMode is what [CompactOptions] says.
const (
	ListAll ListForm = iota
	ListByMode
	ListCompact
)

// listedAs is the catalog as it is listed in a form.
func (b *Bridge) listedAs(cat *catalog.Catalog, form ListForm) (*catalog.Catalog, *errmap.Error) {
	o := b.opts.Compact
	switch {
	case form == ListCompact && !o.isOffered():
		return nil, errmap.Because(errmap.MethodNotFound, "this sidecar has no compact list; its operator can set --catalog-mode")
	case form == ListAll, form == ListByMode && !o.isOffered():
		return cat, nil
	case form == ListByMode && o.Mode == CompactAuto && !cat.ListExceeds(o.AboveBytes):
		return cat, nil
	}
	out, err := cat.Compact()
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return out, nil
}

// ListedFor returns the current snapshot of the tools as an OpList of the caller in ctx lists it; nil before the first load.
func (b *Bridge) ListedFor(ctx context.Context, form ListForm) *catalog.Catalog {
	cat := b.CatalogFor(ctx)
	if cat == nil {
		return nil
	}
	out, err := b.listedAs(cat, form)
	if err != nil {
		return cat
	}
	return out
}

// findCompact finds one of the three tools, which every caller may see: what they show is what their caller may see.
func findCompact(cat *catalog.Catalog, req *Request) (*catalog.Tool, *errmap.Error) {
	if req.Through != "" { // none of them is in the catalog
		return nil, errmap.UnknownTool(req.Tool)
	}
	of, err := cat.Compact()
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return lookup(of, req)
}

// readThrough makes the call of another tool of what calls it by way of a compact catalog. From here on it is a call like
// any other, so that nothing can be had by one way and not by the other. What cannot be read stays a call of the compact
// catalog's tool, whose schema says what is wrong.
func (b *Bridge) readThrough(req *Request) {
	if req.Op != OpCall || !b.opts.Compact.isOffered() || req.Procedure != "" || req.Arguments.Encoding != EncodingJSON || req.Version != "" {
		return
	}
	if catalog.CompactOf(req.Tool) != catalog.CompactCall || req.Names == NamesCanonicalOnly && req.Tool != catalog.CallName {
		return
	}
	name, inner, ok := compact.Call(req.Arguments.Bytes)
	if !ok {
		return
	}
	arguments := Payload{Repaired: req.Arguments.Repaired}
	switch {
	case len(inner) == 0:
	case inner[0] == '{':
		arguments.Bytes = inner
	default:
		if arguments = b.RepairArguments(inner); !arguments.Repaired {
			return
		}
	}
	place := req.pointer("arguments")
	outer := req.Pointer
	req.Pointer = func(field string) string {
		switch {
		case field == "tool_name":
			return place + "/" + catalog.NameArgument
		case field == "arguments":
			return place + "/" + catalog.ArgumentsArgument
		case outer != nil:
			return outer(field)
		}
		return "/" + field
	}
	req.Through, req.Tool, req.Arguments = req.Tool, name, arguments
}

// unconfirmed refuses a destructive tool that is called by way of a compact catalog, unless the user consents: a host that
// may always call the one tool may not for that call all others. An operator has decided otherwise if a rule of the policy
// allows the tool by its name.
func (b *Bridge) unconfirmed(c *toolCall) *errmap.Error {
	if c.req.Through == "" || !policy.Marked.Holds(c.tool) {
		return nil
	}
	if rules, ok := b.opts.Rules.(interface{ Names(tool *catalog.Tool) bool }); ok && rules.Names(c.tool) {
		return nil
	}
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(c.tool.Name), errmap.Message("Destructive tool blocked: "+c.tool.Name+
		" is marked destructive, so the user must consent to each call through "+catalog.CallName+", and this client cannot ask; an operator can allow "+c.tool.Name+" by its name in a policy rule"))
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
	place := c.req.pointer("arguments")
	ask := &Request{Op: OpGet, Tool: compact.Name(c.arguments()), Names: c.req.Names, Through: c.tool.Name, Pointer: func(string) string {
		return place + "/" + catalog.NameArgument
	}}
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
