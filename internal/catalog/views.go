// SPDX-License-Identifier: Apache-2.0

package catalog

import "sync"

// maxViews bounds the views that are kept: as many as a callers file may have entries. One more empties the cache, and views are
// made anew.
const maxViews = 1000

// Views keeps what callers see of the newest catalog who may not call all tools, each with what is rendered of it. The zero value
// is ready, and safe for concurrent use.
type Views struct {
	mu       sync.Mutex
	of       *Catalog
	byScope  map[string]*view
	byView   map[*Catalog]*view
	rendered any // of catalogs that are no views
}

type view struct {
	catalog  *Catalog
	rendered any
}

// Only returns the tools of a catalog that callers of a scope may see, kept by the scope. The view of a catalog that is not the
// newest any more is made for its request alone.
func (v *Views) Only(cat *Catalog, newest func() *Catalog, scope string, may func(*Tool) bool) *Catalog {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cat != v.of {
		if cat != newest() {
			return cat.Only(may)
		}
		v.of, v.byScope = cat, nil
	}
	if v.byScope == nil || len(v.byScope) >= maxViews {
		v.byScope, v.byView = map[string]*view{}, map[*Catalog]*view{}
	}
	made := v.byScope[scope]
	if made == nil {
		made = &view{catalog: cat.Only(may)}
		v.byScope[scope], v.byView[made.catalog] = made, made
	}
	return made.catalog
}

// Rendered keeps what fresh makes of a catalog as long as the view of it. Catalogs that are not views share one value.
func (v *Views) Rendered(cat *Catalog, fresh func() any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := &v.rendered
	if made := v.byView[cat]; made != nil {
		kept = &made.rendered
	}
	if *kept == nil {
		*kept = fresh()
	}
	return *kept
}

// Has reports whether a catalog is a view that is kept.
func (v *Views) Has(cat *Catalog) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byView[cat] != nil
}
