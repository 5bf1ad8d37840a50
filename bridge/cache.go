// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
)

// Every edge tells its callers who may keep an answer: everybody (public), or the one who asked (private). The rule is
// here and nowhere else. An answer is private where callers are told apart, whatever this caller may use: a shared cache
// in front would give it to the next one. What the backend answered is private, too, where it gets headers that callers
// sent, because it may answer by them. A page of a list with cursors is private, because cursors belong to their callers.

// isToldApart reports whether callers are told apart. Authenticated callers have an identity.
func isToldApart(ctx context.Context) bool { return access.FromContext(ctx) != nil }

// keepPrivate marks what the backend said about resources, skills and prompts as private where it may depend on who asks. The
// backend does not know whom the sidecar shows what, so its word does not count then.
//
// Results made from a caller's answers are private and short-lived.
func (b *Bridge) keepPrivate(ctx context.Context, req *Request, resp *Response) {
	private := private
	switch {
	case req.Repeated:
		private = func(*outriggerv1.CachePolicy) *outriggerv1.CachePolicy { return momentary() }
	case !isToldApart(ctx) && !b.opts.ForwardsHeaders:
		return
	}
	switch m := resp.Message.(type) {
	case *outriggerv1.ListResourcesResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.ListResourceTemplatesResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.ListSkillsResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.GetSkillResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.ReadDirectoryResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.ListPromptsResponse:
		m.Cache = private(m.GetCache())
	case *outriggerv1.ResourceOutcome:
		if result := m.GetResult(); result != nil {
			result.Cache = private(result.GetCache())
		}
	}
}

// private is a cache policy for one caller, for as long as another says.
func private(cache *outriggerv1.CachePolicy) *outriggerv1.CachePolicy {
	return &outriggerv1.CachePolicy{Ttl: cache.GetTtl(), Scope: outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE}
}

// CacheScope returns whether the answer to an OpList or OpServer may be cached for all
// callers or for this one alone.
func (r *Response) CacheScope() outriggerv1.CacheScope {
	isPart := r.Catalog != nil && r.Next > 0 && r.Next-r.First < len(r.Catalog.Tools())
	if r.who != nil || isPart {
		return outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE
	}
	return outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC
}
