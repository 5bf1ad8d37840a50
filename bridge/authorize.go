// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Authorizer restricts what callers may do, beyond the grants of their identity. A nil
// identity is a caller without authentication. Implementations are safe for concurrent
// use; their decisions may change at run time together with their keys.
type Authorizer interface {
	// Key identifies the tools of a catalog that a caller may list and call: callers with an
	// equal key may list and call the same ones. "" means that this Authorizer restricts no
	// tool for the caller. The catalog is nil before the first one is loaded.
	Key(who *access.Identity, cat *catalog.Catalog) string
	// MayList returns nil if a tool is shown to the caller, else PERMISSION_DENIED. A tool
	// that the caller may call must be shown.
	MayList(who *access.Identity, tool *catalog.Tool) *errmap.Error
	// MayUse returns nil if the caller may call a tool, else PERMISSION_DENIED.
	MayUse(who *access.Identity, tool *catalog.Tool) *errmap.Error
	// MayRun returns nil if the caller may run an operation, by its name in [Operations].
	// It is asked about each operation but calls of tools and pings. The tool is the one that
	// the operation describes, or runs to read a resource; nil if there is none. It need not
	// be one that the caller may use, of which MayList and MayUse are asked besides.
	MayRun(who *access.Identity, operation string, tool *catalog.Tool) *errmap.Error
}

// mayList returns nil if the caller in ctx is shown a tool, else why not.
func (b *Bridge) mayList(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	return b.authorized(ctx, tool, Authorizer.MayList)
}

// mayUse returns nil if the caller in ctx may call a tool, else why not.
func (b *Bridge) mayUse(ctx context.Context, tool *catalog.Tool) *errmap.Error {
	return b.authorized(ctx, tool, Authorizer.MayUse)
}

// authorized asks for the grant of a tool, and then all authorizers the same.
func (b *Bridge) authorized(ctx context.Context, tool *catalog.Tool, may func(Authorizer, *access.Identity, *catalog.Tool) *errmap.Error) *errmap.Error {
	who := access.FromContext(ctx)
	if !who.MayCall(tool.Name) && (tool.Alias == "" || !who.MayCall(tool.Alias)) {
		return notPermitted(who, "tool "+tool.Name)
	}
	for _, a := range b.opts.Authorizers {
		if err := may(a, who, tool); err != nil {
			return err
		}
	}
	return nil
}

// mayRun returns nil if the caller in ctx may run the operation of a request.
func (b *Bridge) mayRun(ctx context.Context, req *Request) *errmap.Error {
	if req.Op == OpCall || req.Op == OpPing || len(b.opts.Authorizers) == 0 {
		return nil
	}
	defer req.Span.Step(tracing.StepAuthorize, req.Span.Now())
	if err := b.permits(ctx, req.Op, b.subject(req)); err != nil || req.PartOf == OpInvalid {
		return err
	}
	return b.permits(ctx, req.PartOf, nil)
}

// MayRun returns nil if the caller in ctx may run an operation, else PERMISSION_DENIED.
// It is for what belongs to an operation and is no [Request] of its own, such as a stream
// of a session.
func (b *Bridge) MayRun(ctx context.Context, op Op) *errmap.Error { return b.permits(ctx, op, nil) }

func (b *Bridge) permits(ctx context.Context, op Op, tool *catalog.Tool) *errmap.Error {
	for _, a := range b.opts.Authorizers {
		if err := a.MayRun(access.FromContext(ctx), op.permission().String(), tool); err != nil {
			return err
		}
	}
	return nil
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
func (b *Bridge) subject(req *Request) *catalog.Tool {
	all := b.catalogs.Current()
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
func (b *Bridge) scope(ctx context.Context, cat *catalog.Catalog) string {
	who := access.FromContext(ctx)
	scope := who.Scope()
	if len(b.opts.Authorizers) == 0 {
		return scope
	}
	var keys []string
	for i, a := range b.opts.Authorizers {
		if key := a.Key(who, cat); key != "" {
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
func (b *Bridge) MayUseAll(ctx context.Context) bool {
	return b.scope(ctx, b.catalogs.Current()) == ""
}

// NotForAll returns PERMISSION_DENIED for what only callers of every tool may do, with a
// text that says what that is. An Authorizer with a method MayUseAll says what the caller
// lacks.
func (b *Bridge) NotForAll(ctx context.Context, text string) *errmap.Error {
	challenge := access.NotPermitted("")
	for _, a := range b.opts.Authorizers {
		asked, ok := a.(interface {
			MayUseAll(who *access.Identity, cat *catalog.Catalog) *errmap.Error
		})
		if !ok {
			continue
		}
		if err := asked.MayUseAll(access.FromContext(ctx), b.catalogs.Current()); err != nil {
			challenge = err.Challenge
		}
	}
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(challenge), errmap.Message(text))
}

// Rules are an [Authorizer] that also decides about calls by their arguments.
type Rules interface {
	Authorizer
	// MayCall decides about a call. arguments are valid: the bytes of the request, or JSON
	// for a native tool; they must not be kept. rule and effect ("allow" or "deny") are those
	// that decided, and empty if none did. The error is PERMISSION_DENIED.
	MayCall(who *access.Identity, tool *catalog.Tool, arguments []byte) (rule, effect string, err *errmap.Error)
	// ReadsArguments reports whether a decision about calls of the tool takes their
	// arguments. If not, the [Authorizer] has said all.
	ReadsArguments(tool *catalog.Tool) bool
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
	if b.opts.Rules == nil || c.tool.Compact != catalog.NotCompact {
		return nil
	}
	if c.req.Items != nil && !c.hasFirst {
		return nil // there is no message yet, and each is asked about when it comes
	}
	defer c.req.Span.Step(tracing.StepPolicy, c.req.Span.Now())
	arguments := c.wire
	if c.tool.Native {
		arguments = c.arguments()
	}
	rule, effect, err := b.opts.Rules.MayCall(access.FromContext(ctx), c.tool, arguments)
	c.resp.Decision = Decision{Rule: rule, Effect: effect}
	return err
}

// permitMessage asks the rules about one message of a stream. What they said of the first one is the decision about the
// stream, unless they refuse a later one.
func (b *Bridge) permitMessage(ctx context.Context, c *toolCall, wire []byte) *errmap.Error {
	if b.opts.Rules == nil {
		return nil
	}
	rule, effect, err := b.opts.Rules.MayCall(access.FromContext(ctx), c.tool, wire)
	if c.resp.Decision.Rule == "" || err != nil {
		c.resp.Decision = Decision{Rule: rule, Effect: effect}
	}
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
