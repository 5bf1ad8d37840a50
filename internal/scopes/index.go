// SPDX-License-Identifier: Apache-2.0

package scopes

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// maxKeys bounds the keys that are kept: one more empties the cache, and keys are made
// anew.
const maxKeys = 1024

// index is what the tools of one catalog need.
type index struct {
	of    *catalog.Catalog
	needs map[*catalog.Tool][]string
	// known are all scopes that some tool needs, sorted.
	known []string
	// first is the text of the scopes with which a client begins.
	first string

	mu   sync.Mutex
	keys map[*access.Identity]string
}

// index returns what the tools of a catalog need. That of the last catalog is kept.
func (a *Authorizer) index(cat *catalog.Catalog) *index {
	if x := a.newest.Load(); x != nil && x.of == cat {
		return x
	}
	x := &index{of: cat, needs: map[*catalog.Tool][]string{}, keys: map[*access.Identity]string{}}
	for _, t := range cat.All() {
		if t.Hidden {
			continue
		}
		need := a.opts.ofTool(t)
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
	if x := a.newest.Load(); x != nil {
		if need, ok := x.needs[t]; ok {
			return need
		}
	}
	return a.opts.ofTool(t) // of another catalog
}

// key identifies the scopes of a caller that matter to the tools of the catalog; "" if
// it has all of them.
func (x *index) key(who *access.Identity) string {
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
		all = append(all, a.opts.ofOperation(operation)...)
	}
	for _, t := range cat.All() {
		if only := t.Annotations.ReadOnly; !t.Hidden && only != nil && *only {
			all = append(all, a.opts.ofTool(t)...)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxFirst {
		return ""
	}
	return strings.Join(all, " ")
}
