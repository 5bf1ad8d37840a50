// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// compacts runs the tools of a compact catalog.
type compacts struct {
	directory *directory
	encoder   *encoder
	limit     *resultLimit
	index     compact.Newest
}

// invokeCompact answers a search and a description.
func (x *compacts) invokeCompact(ctx context.Context, c *toolCall) *errmap.Error {
	var data []byte
	var failed *errmap.Error
	switch c.tool.Compact {
	case catalog.CompactSearch:
		data, failed = x.searched(ctx, c)
	case catalog.CompactDescribe:
		data, failed = x.described(ctx, c)
	case catalog.CompactCall, catalog.CompactRun, catalog.NotCompact:
		// The schema admits only what readThrough reads.
		failed = errmap.Wrap(errmap.InternalError, errors.New("a call by way of the compact catalog was not read"))
	}
	if failed != nil {
		return failed
	}
	if failed = x.limit.check(len(data)); failed != nil {
		return failed
	}
	c.worked = true
	c.resp.Outcome = content.Outcome(content.StatusSuccess, data, "")
	return nil
}

// searched is the result of a search, which takes the permission to list tools.
func (x *compacts) searched(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	if err := x.directory.permits(ctx, OpList, nil); err != nil {
		return nil, err
	}
	all := x.directory.catalogs.Current()
	seen := x.directory.view(ctx, all)
	var visible func(*catalog.Tool) *catalog.Tool
	if seen != all {
		visible = func(t *catalog.Tool) *catalog.Tool {
			if found, ok := seen.Lookup(t.Name); ok && found.Whole() == t {
				return found
			}
			return nil
		}
	}
	query, limit := compact.Query(c.arguments())
	return compact.AppendFound(nil, x.index.Of(all).Search(query, limit, visible), c.req.toolName), nil
}

// described is the description of a tool, which takes the permission to describe it.
func (x *compacts) described(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	ask := &Request{Op: OpGet, Tool: compact.Name(c.arguments()), Names: c.req.Names, Through: c.tool.Name}
	tool, err := x.directory.find(ctx, c.catalog, ask)
	if err == nil {
		err = x.directory.permits(ctx, OpGet, tool)
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

// readThrough makes the call of another tool of what calls it by way of a compact catalog. From here on it is a call like
// any other, so that nothing can be had by one way and not by the other. What cannot be read stays a call of the compact
// catalog's tool, whose schema says what is wrong.
func (x *compacts) readThrough(req *Request) {
	if req.Op != OpCall || req.Procedure != "" || req.Arguments.Encoding != EncodingJSON || req.Version != "" {
		return
	}
	if catalog.CompactOf(req.Tool) != catalog.CompactCall || req.Names == NamesCanonicalOnly && req.Tool != catalog.CallName {
		return
	}
	called, ok := compact.Call(req.Arguments.Bytes)
	if !ok {
		return
	}
	wanted, inner := req.Wanted, called.Arguments
	if called.StreamTime != "" {
		if wanted.StreamTime, ok = content.StreamTime(called.StreamTime); !ok {
			return
		}
	}
	arguments := Payload{Repaired: req.Arguments.Repaired}
	switch {
	case len(inner) == 0:
	case compact.IsObject(inner):
		arguments.Bytes = inner
	case x.directory.catalogs.Current().TakesArgumentsAsText():
		if arguments.Bytes = transcode.UnquoteObject(inner); arguments.Bytes == nil {
			return
		}
	default:
		if arguments = x.encoder.repair(inner); !arguments.Repaired {
			return
		}
	}
	place := req.At("arguments")
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
	if called.Fields != "" {
		wanted.Fields, wanted.ByArgument = called.Fields, req.Tool
	}
	req.Through, req.Tool, req.Arguments, req.Wanted = req.Tool, called.Name, arguments, wanted
}
