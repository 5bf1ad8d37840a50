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

// Rules are an [Authorizer] that also decides about calls by their arguments.
type Rules interface {
	Authorizer
	// MayCall decides about a call. arguments are valid: the bytes of the request, or JSON
	// for a native tool; they must not be kept. rule and effect ("allow" or "deny") are those
	// that decided, and empty if none did. The error is PERMISSION_DENIED.
	MayCall(who *access.Identity, tool *catalog.Tool, arguments []byte) (rule, effect string, err *errmap.Error)
	// Count is called once for each call that a rule decided, when it has ended.
	Count(rule, effect string)
}

// Decision is what policy rules said about a call. It is empty if none decided.
type Decision struct {
	// Rule is the name of the rule, Effect what it did: "allow" or "deny".
	Rule, Effect string
}

// effectDeny is the effect of a rule that refuses.
const effectDeny = "deny"

// permit asks the rules about a call whose arguments are known to be valid.
func (b *Bridge) permit(ctx context.Context, c *toolCall) *errmap.Error {
	if b.opts.Rules == nil {
		return nil
	}
	arguments := c.wire
	if c.tool.Native {
		arguments = c.arguments()
	}
	rule, effect, err := b.opts.Rules.MayCall(access.FromContext(ctx), c.tool, arguments)
	c.resp.Decision = Decision{Rule: rule, Effect: effect}
	return err
}

// decided completes the decision of a response and counts it. A tool that a rule hides is
// refused before a call of it begins.
func (b *Bridge) decided(resp *Response) {
	if b.opts.Rules == nil {
		return
	}
	if resp.Err != nil && resp.Err.Rule != "" {
		resp.Decision = Decision{Rule: resp.Err.Rule, Effect: effectDeny}
	}
	if resp.Decision.Rule != "" {
		b.opts.Rules.Count(resp.Decision.Rule, resp.Decision.Effect)
	}
}
