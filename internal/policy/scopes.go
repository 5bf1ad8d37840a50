// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// Authorizer restricts callers with OAuth tokens to what their scopes include. Make one
// with [NewAuthorizer].
type Authorizer struct {
	config *configv1.OAuth
	// metadata is the URL of the protected resource metadata, for challenges.
	metadata string
	newest   atomic.Pointer[index]
}

// NewAuthorizer returns an Authorizer by the scopes of tools and operations; the first entry that matches decides.
func NewAuthorizer(c *configv1.OAuth) *Authorizer {
	a := &Authorizer{config: c}
	if resource, err := identity.ParseResource(c.GetResource()); err == nil { // [identity.CheckResource] reports it
		a.metadata = resource.Metadata
	}
	return a
}

// isHeld reports whether scopes restrict a caller.
func isHeld(who *identity.Identity) bool { return who.Facts().Source == identity.SourceOAuth }

// Key identifies the tools of a catalog that a caller may use: callers with an equal key
// may use the same ones, and "" means all of them.
func (a *Authorizer) Key(who *identity.Identity, cat *catalog.Catalog) string {
	if cat == nil || !isHeld(who) {
		return ""
	}
	return a.index(cat).key(who)
}

// MayList returns nil if a tool is shown to a caller, else PERMISSION_DENIED.
func (a *Authorizer) MayList(who *identity.Identity, t *catalog.Tool) *errmap.Error {
	if a.config.GetListWithoutScope() {
		return nil
	}
	return a.MayUse(who, t)
}

// MayUse returns nil if a caller may call a tool, else PERMISSION_DENIED with the scopes
// that a call needs.
func (a *Authorizer) MayUse(who *identity.Identity, t *catalog.Tool) *errmap.Error {
	if !isHeld(who) {
		return nil
	}
	return a.held(who, a.need(t), "tool "+t.Name)
}

// MayRun returns nil if a caller may run an operation, else PERMISSION_DENIED with all
// scopes that it needs. The tool is the one that the operation shows or runs, or nil.
func (a *Authorizer) MayRun(who *identity.Identity, operation string, t *catalog.Tool) *errmap.Error {
	if !isHeld(who) {
		return nil
	}
	need, what := a.ofOperation(operation), "operation "+operation
	if t != nil && !(a.config.GetListWithoutScope() && operation == getTool) {
		need = slices.Concat(need, a.need(t))
		slices.Sort(need)
		need, what = slices.Compact(need), what+" of tool "+t.Name
	}
	return a.held(who, need, what)
}

// MayUseAll returns nil if a caller may call every tool of a catalog, else
// PERMISSION_DENIED with all scopes that its tools need.
func (a *Authorizer) MayUseAll(who *identity.Identity, cat *catalog.Catalog) *errmap.Error {
	if cat == nil || !isHeld(who) {
		return nil
	}
	return a.held(who, a.index(cat).known, "permission for every tool")
}

// getTool is the operation that only shows a tool.
const getTool = "get_tool"

// held returns nil if the scopes of the caller's token include all that are needed.
func (a *Authorizer) held(who *identity.Identity, need []string, what string) *errmap.Error {
	if coversAll(who.Facts().Scopes, need) {
		return nil
	}
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(identity.NotPermitted(a.metadata, need...)),
		errmap.Messagef("Permission denied: %s requires the OAuth scope %q; request a token with it", what, strings.Join(need, " ")))
}

// offlineAccess asks an authorization server for a refresh token. It is the client's
// affair, and no resource server needs it.
const offlineAccess = "offline_access"

// Supported returns all scopes that tools of a catalog and operations need, sorted. The
// catalog may be nil.
func (a *Authorizer) Supported(cat *catalog.Catalog) []string {
	var all []string
	for _, r := range a.config.GetOperationScopes() {
		all = append(all, r.GetScopes()...)
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
	for _, r := range a.config.GetToolScopes() {
		all = append(all, r.GetScopes()...)
	}
	if a.config.GetScopeRule() == byAccess {
		all = append(all, readTools, writeTools)
	}
	return all
}

// maxKeys bounds the keys that are kept: one more empties the cache, and keys are made
// anew.
const maxKeys = 1024

// index has the scopes that each tool of one catalog needs.
type index struct {
	of    *catalog.Catalog
	needs map[*catalog.Tool][]string
	// known are all scopes that some tool needs, sorted.
	known []string
	// first is what First returns.
	first string

	mu   sync.Mutex
	keys map[*identity.Identity]string
}

// index returns what the tools of a catalog need. That of the last catalog is kept.
func (a *Authorizer) index(cat *catalog.Catalog) *index {
	if x := a.newest.Load(); x != nil && x.of == cat {
		return x
	}
	x := &index{of: cat, needs: map[*catalog.Tool][]string{}, keys: map[*identity.Identity]string{}}
	for _, t := range cat.All() {
		if t.Hidden {
			continue
		}
		need := a.ofTool(t)
		x.needs[t] = need
		x.known = append(x.known, need...)
	}
	slices.Sort(x.known)
	x.known = slices.Compact(x.known)
	x.first = a.first(cat)
	a.newest.Store(x)
	return x
}

// need is what a call of a tool needs.
func (a *Authorizer) need(t *catalog.Tool) []string {
	t = t.Whole()
	if x := a.newest.Load(); x != nil {
		if need, ok := x.needs[t]; ok {
			return need
		}
	}
	return a.ofTool(t) // of another catalog
}

// key identifies the scopes of a caller that matter to the tools of the catalog; "" if
// it has all of them.
func (x *index) key(who *identity.Identity) string {
	if len(x.known) == 0 {
		return ""
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	key, ok := x.keys[who]
	if !ok {
		if len(x.keys) >= maxKeys {
			clear(x.keys)
		}
		key = keyOf(who.Facts().Scopes, x.known)
		x.keys[who] = key
	}
	return key
}

// keyOf names the scopes of those that are known that the held ones include. A long list
// is named by its digest.
func keyOf(held, known []string) string {
	var had []string
	for _, scope := range known {
		if covers(held, scope) {
			had = append(had, scope)
		}
	}
	if len(had) == len(known) {
		return ""
	}
	key := "scopes " + strings.Join(had, " ")
	if digest := sha256.Sum256([]byte(key)); len(key) > len(digest) {
		return string(digest[:])
	}
	return key
}

// maxFirst bounds the scopes of a challenge. Where more would be needed, clients ask for
// what the metadata supports.
const maxFirst = 16

// first joins the scopes of lists and of tools that only read. A client begins with
// these, and asks for more when a call needs it.
func (a *Authorizer) first(cat *catalog.Catalog) string {
	var all []string
	for _, operation := range []string{"list_tools", getTool, "list_resources", "list_prompts"} {
		all = append(all, a.ofOperation(operation)...)
	}
	for _, t := range cat.All() {
		if only := t.Annotations.ReadOnly; !t.Hidden && only != nil && *only {
			all = append(all, a.ofTool(t)...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxFirst {
		return ""
	}
	return strings.Join(all, " ")
}

// byAccess is the rule for tools that no entry matches and whose options say nothing: read-only tools need [readTools], all
// others [writeTools]. Without it, such tools need no scope.
const byAccess = "read_write"

// The scopes of that rule.
const (
	readTools  = "tools:read"
	writeTools = "tools:write"
)

// ofTool is what a call of a tool needs, sorted. A tool that was registered for an RPC
// needs what the RPC's own tool needs too, so that another name is no way around it.
func (a *Authorizer) ofTool(t *catalog.Tool) []string {
	need := slices.Clone(a.chosen(t))
	if base := t.Base; base != nil {
		need = append(need, a.chosen(base)...)
	}
	slices.Sort(need)
	return slices.Compact(need)
}

// chosen is what the first source says that says anything.
func (a *Authorizer) chosen(t *catalog.Tool) []string {
	for _, r := range a.config.GetToolScopes() {
		if glob.MatchAny(r.GetTools(), t.Name) || t.Alias != "" && glob.MatchAny(r.GetTools(), t.Alias) {
			return r.GetScopes()
		}
	}
	switch {
	case len(t.Scopes) > 0:
		return t.Scopes
	case a.config.GetScopeRule() != byAccess:
		return nil
	case t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly:
		return []string{readTools}
	}
	return []string{writeTools}
}

// ofOperation is what an operation needs, apart from tools, sorted.
func (a *Authorizer) ofOperation(operation string) []string {
	for _, r := range a.config.GetOperationScopes() {
		if slices.Contains(r.GetOperations(), operation) {
			return slices.Sorted(slices.Values(r.GetScopes()))
		}
	}
	return nil
}

// everyTool ends a scope that covers all scopes with the same beginning.
const everyTool = ":*"

// covers reports whether the held scopes include one that is needed: itself, or one above
// it ("tools:*" for "tools:read").
func covers(held []string, needed string) bool {
	for _, h := range held {
		if h == needed {
			return true
		}
		if above, ok := strings.CutSuffix(h, everyTool); ok && above != "" && len(needed) > len(above) && needed[:len(above)] == above && needed[len(above)] == ':' {
			return true
		}
	}
	return false
}

// coversAll reports whether the held scopes include all that are needed.
func coversAll(held, needed []string) bool {
	for _, n := range needed {
		if !covers(held, n) {
			return false
		}
	}
	return true
}
