// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Trust is what is said of one caller about destructive tools.
type Trust uint8

// The trust states. Unsaid is the zero value: what the sidecar says of everybody
// holds for this caller too.
const (
	Unsaid Trust = iota
	Untrusted
	Trusted
)

// ErrRevoked is the cause with which the life of an [Identity] ends.
var ErrRevoked = errors.New("access: the caller's entry was changed or removed")

// Grant is what somebody may do.
type Grant struct {
	// Name is what the caller is called. It is written to the log and told to the
	// backend, so it is printable ASCII.
	Name string
	// Tools are globs over canonical names of tools, Resources over URIs and
	// Prompts over names of what a native backend offers.
	Tools, Resources, Prompts []string
	Trust                     Trust
}

// Identity is one who was found to be who they say, with what they may do. A nil
// Identity is a caller without authentication: it may do everything. Immutable, except
// that its life ends when what it says no longer holds.
type Identity struct {
	grant     Grant
	principal string
	scope     string
	// life ends with end; nil where the identity never does.
	life context.Context //nolint:containedctx // the identity's own end, which no call's context knows
	end  context.CancelCauseFunc
}

// NewIdentity returns the identity of a grant, which must not be changed any
// more.
func NewIdentity(g Grant) *Identity {
	i := newLasting(g)
	i.life, i.end = context.WithCancelCause(context.Background())
	return i
}

// newLasting returns an identity that is never revoked.
func newLasting(g Grant) *Identity {
	i := &Identity{grant: g, principal: principalPrefix + g.Name}
	if !slices.Contains(g.Tools, glob.Anything) {
		sorted := slices.Sorted(slices.Values(g.Tools))
		i.scope = strings.Join(slices.Compact(sorted), ",")
	}
	return i
}

// Name is what the caller is called; "" for nil.
func (i *Identity) Name() string {
	if i == nil {
		return ""
	}
	return i.grant.Name
}

// principalPrefix keeps names apart from addresses and other words for callers
// without an identity.
const principalPrefix = "caller:"

// Principal is what belongs to the caller is bound to; "" for nil. It is equal
// for equal names alone, and is no address.
func (i *Identity) Principal() string {
	if i == nil {
		return ""
	}
	return i.principal
}

// Scope tells sets of tools apart: callers with an equal scope may call the same
// tools, and "" is all of them.
func (i *Identity) Scope() string {
	if i == nil {
		return ""
	}
	return i.scope
}

// MayCall reports whether the caller may call a tool, given by its canonical
// name.
func (i *Identity) MayCall(tool string) bool {
	return i == nil || i.scope == "" || glob.MatchAny(i.grant.Tools, tool)
}

// MayRead reports whether the caller may read a resource of a native backend.
func (i *Identity) MayRead(uri string) bool {
	return i == nil || glob.MatchAny(i.grant.Resources, uri)
}

// MayPrompt reports whether the caller may get a prompt of a native backend.
func (i *Identity) MayPrompt(name string) bool {
	return i == nil || glob.MatchAny(i.grant.Prompts, name)
}

// Trust is what is said of the caller about destructive tools.
func (i *Identity) Trust() Trust {
	if i == nil {
		return Unsaid
	}
	return i.grant.Trust
}

// Revoked is closed once what the identity says no longer holds; nil, which never
// is, for nil. Calls that were admitted run to their end; what would last for
// longer has to end with this.
func (i *Identity) Revoked() <-chan struct{} {
	if i == nil || i.life == nil {
		return nil
	}
	return i.life.Done()
}

// WhenRevoked runs f once the identity is revoked, unless stop is called before.
func (i *Identity) WhenRevoked(f func()) (stop func() bool) {
	if i == nil || i.life == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(i.life, f)
}

// revoke ends the identity.
func (i *Identity) revoke() { i.end(ErrRevoked) }

// identityKey is the context key of the identity behind a request.
type identityKey struct{}

// NewContext returns a context of a request that i sent.
func NewContext(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// FromContext returns who sent the request of a context, nil where nothing was
// asked.
func FromContext(ctx context.Context) *Identity {
	i, _ := ctx.Value(identityKey{}).(*Identity)
	return i
}
