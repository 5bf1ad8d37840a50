// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
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

// described is the description of a tool, or are the signatures of several.
func (x *compacts) described(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	name, names := compact.Asked(c.arguments())
	if name != "" && len(names) > 0 || name == "" && len(names) == 0 {
		return nil, errmap.InvalidInput(c.tool.Name, true, errmap.Violation{
			Path: "/" + catalog.NameArgument, Keyword: "required",
			Message: "give the name of one tool, or " + catalog.NamesArgument + " for the signatures of the tools of a program",
		})
	}
	if len(names) > 0 {
		return x.signatures(ctx, c, names)
	}
	tool, err := x.tool(ctx, c, name)
	if err != nil {
		return nil, err
	}
	data, failed := compact.AppendDescription(nil, tool, c.req.toolName(tool))
	if failed != nil {
		return nil, errmap.Wrap(errmap.InternalError, failed)
	}
	return data, nil
}

// tool finds a tool to describe, which takes the permission to do so.
func (x *compacts) tool(ctx context.Context, c *toolCall, name string) (*catalog.Tool, *errmap.Error) {
	ask := &Request{Op: OpGet, Tool: name, Names: c.req.Names, Through: c.tool.Name}
	tool, err := x.directory.find(ctx, c.catalog, ask)
	if err == nil {
		err = x.directory.permits(ctx, OpGet, tool)
	}
	return tool, err
}

// signatures describes the tools of a program, which its caller may call. All names that no tool or type has are reported at once.
func (x *compacts) signatures(ctx context.Context, c *toolCall, names []string) ([]byte, *errmap.Error) {
	var wanted []types.Wanted
	var wrong []errmap.Violation
	for i, name := range names {
		place := fmt.Sprintf("/%s/%d", catalog.NamesArgument, i)
		name, of, _ := strings.Cut(name, types.TypeOf)
		tool, err := x.tool(ctx, c, name)
		if err == nil {
			err = x.directory.mayUse(ctx, tool)
		}
		if err != nil && err.Code == errmap.InvalidToolInput {
			for _, v := range err.Violations {
				v.Path = place
				wrong = append(wrong, v)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		one := types.Wanted{Tool: tool, Type: of}
		if of != "" && !one.Exists() {
			wrong = append(wrong, errmap.Violation{Path: place, Keyword: "type", Message: c.req.toolName(tool) + " has no type " + strconv.Quote(of) + "; its signature names its types"})
		} else if !slices.Contains(wanted, one) {
			wanted = append(wanted, one)
		}
	}
	if len(wrong) > 0 {
		return nil, errmap.InvalidInput(c.tool.Name, false, wrong...)
	}
	return compact.AppendSignatures(nil, types.Signatures(wanted)), nil
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
