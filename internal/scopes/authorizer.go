// SPDX-License-Identifier: Apache-2.0

package scopes

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Options configure an [Authorizer].
type Options struct {
	// Tools and Operations give scopes. The first entry that matches decides.
	Tools      []ToolRule
	Operations []OperationRule
	// Rule is for tools that no entry matches and whose options say nothing.
	Rule Rule
	// ListWithout lists tools whose scopes a caller lacks.
	ListWithout bool
	// Metadata is the URL of the protected resource metadata, for challenges.
	Metadata string
}

// Authorizer restricts callers with OAuth tokens to what their scopes include. Make one
// with [New].
type Authorizer struct {
	opts   Options
	newest atomic.Pointer[index]
}

// New returns an Authorizer. Do not change the options afterwards.
func New(o Options) *Authorizer { return &Authorizer{opts: o} }

// isHeld reports whether a caller has scopes that count.
func isHeld(who *access.Identity) bool { return who.Facts().Source == access.SourceOAuth }

// Key identifies the tools of a catalog that a caller may use: callers with an equal key
// may use the same ones, and "" means all of them.
func (a *Authorizer) Key(who *access.Identity, cat *catalog.Catalog) string {
	if cat == nil || !isHeld(who) {
		return ""
	}
	return a.index(cat).key(who)
}

// MayList returns nil if a tool is shown to a caller, else PERMISSION_DENIED.
func (a *Authorizer) MayList(who *access.Identity, t *catalog.Tool) *errmap.Error {
	if a.opts.ListWithout {
		return nil
	}
	return a.MayUse(who, t)
}

// MayUse returns nil if a caller may call a tool, else PERMISSION_DENIED with the scopes
// that a call needs.
func (a *Authorizer) MayUse(who *access.Identity, t *catalog.Tool) *errmap.Error {
	if !isHeld(who) {
		return nil
	}
	return a.held(who, a.need(t), "tool "+t.Name)
}

// MayRun returns nil if a caller may run an operation, else PERMISSION_DENIED with all
// scopes that it needs. The tool is the one that the operation shows or runs, or nil.
func (a *Authorizer) MayRun(who *access.Identity, operation string, t *catalog.Tool) *errmap.Error {
	if !isHeld(who) {
		return nil
	}
	need, what := a.opts.ofOperation(operation), "operation "+operation
	if t != nil && !(a.opts.ListWithout && operation == getTool) {
		need = slices.Concat(need, a.need(t))
		slices.Sort(need)
		need, what = slices.Compact(need), what+" of tool "+t.Name
	}
	return a.held(who, need, what)
}

// MayUseAll returns nil if a caller may call every tool of a catalog, else
// PERMISSION_DENIED with all scopes that its tools need.
func (a *Authorizer) MayUseAll(who *access.Identity, cat *catalog.Catalog) *errmap.Error {
	if cat == nil || !isHeld(who) {
		return nil
	}
	return a.held(who, a.index(cat).known, "permission for every tool")
}

// getTool is the operation that only shows a tool.
const getTool = "get_tool"

// held returns nil if the caller's token has all scopes that are needed.
func (a *Authorizer) held(who *access.Identity, need []string, what string) *errmap.Error {
	if coversAll(who.Facts().Scopes, need) {
		return nil
	}
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(access.NotPermitted(a.opts.Metadata, need...)),
		errmap.Messagef("Permission denied: %s requires the OAuth scope %q; request a token with it", what, strings.Join(need, " ")))
}

// offlineAccess asks an authorization server for a refresh token. It is the client's
// affair, and no resource server needs it.
const offlineAccess = "offline_access"

// Supported returns all scopes that tools of a catalog and operations need, sorted. The
// catalog may be nil.
func (a *Authorizer) Supported(cat *catalog.Catalog) []string {
	var all []string
	for _, r := range a.opts.Operations {
		all = append(all, r.Scopes...)
	}
	if cat != nil {
		all = append(all, a.index(cat).known...)
	} else {
		all = append(all, a.configured()...)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(s string) bool { return s == offlineAccess })
}

// First returns the scopes with which a client should begin, separated by spaces: those of
// lists and of tools that only read. It is empty if there are none, or too many for a
// challenge, and for a nil Authorizer or catalog.
func (a *Authorizer) First(cat *catalog.Catalog) string {
	if a == nil || cat == nil {
		return ""
	}
	return a.index(cat).first
}

// configured are the scopes that tools may need, as far as the configuration knows.
func (a *Authorizer) configured() []string {
	var all []string
	for _, r := range a.opts.Tools {
		all = append(all, r.Scopes...)
	}
	if a.opts.Rule == ReadWrite {
		all = append(all, Read, Write)
	}
	return all
}
