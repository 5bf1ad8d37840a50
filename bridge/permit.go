// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

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
