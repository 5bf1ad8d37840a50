// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Authorizer restricts what callers may do, beyond the grants of their identity. A nil
// identity is a caller without authentication. Implementations are safe for concurrent
// use; their decisions may change at run time together with their keys.
type Authorizer interface {
	// Key identifies the tools that a caller may use: callers with an equal key may use the
	// same tools. "" means that this Authorizer restricts no tool for the caller.
	Key(who *access.Identity) string
	// MayUse returns nil if the caller may list and call a tool, else PERMISSION_DENIED.
	MayUse(who *access.Identity, tool *catalog.Tool) *errmap.Error
	// MayRun returns nil if the caller may run an operation, by its name in [Operations].
	// It is asked about each operation but calls of tools and pings.
	MayRun(who *access.Identity, operation string) *errmap.Error
}

// mayUse returns nil if the caller in ctx may list and call a tool, else why not.
func (b *Bridge) mayUse(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	who := access.FromContext(ctx)
	if !who.MayCall(tool.Name) && (tool.Alias == "" || !who.MayCall(tool.Alias)) {
		return notPermitted(who, "tool "+tool.Name)
	}
	for _, a := range b.opts.Authorizers {
		if err := a.MayUse(who, tool); err != nil {
			return err
		}
	}
	return nil
}

// mayRun returns nil if the caller in ctx may run the operation of a request.
func (b *Bridge) mayRun(ctx context.Context, req *Request) *errmap.Error {
	if req.Op == OpCall || req.Op == OpPing {
		return nil
	}
	for _, a := range b.opts.Authorizers {
		if err := a.MayRun(access.FromContext(ctx), req.Op.String()); err != nil {
			return err
		}
	}
	return nil
}

// scope identifies the tools that the caller in ctx may use; "" is all tools.
func (b *Bridge) scope(ctx context.Context) string {
	who := access.FromContext(ctx)
	scope := who.Scope()
	if len(b.opts.Authorizers) == 0 {
		return scope
	}
	var keys []string
	for i, a := range b.opts.Authorizers {
		if key := a.Key(who); key != "" {
			if keys == nil {
				keys = make([]string, 1+len(b.opts.Authorizers))
				keys[0] = scope
			}
			keys[1+i] = key
		}
	}
	if keys == nil {
		return scope // which has no zero byte
	}
	return strings.Join(keys, "\x00")
}

// MayUseAll reports whether the caller in ctx may use every tool.
func (b *Bridge) MayUseAll(ctx context.Context) bool { return b.scope(ctx) == "" }
