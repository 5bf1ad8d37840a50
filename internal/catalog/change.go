// SPDX-License-Identifier: Apache-2.0

package catalog

import "google.golang.org/protobuf/proto"

// Change is the difference between two catalogs that is visible to callers.
type Change struct {
	// Added and Changed are tools of the newer catalog, sorted by name.
	// A changed tool differs in anything visible to callers, not only in a schema.
	Added, Changed []*Tool
	// Removed are the names of tools that only the older catalog has, sorted.
	Removed []string
}

// looksLike reports whether callers see no difference from another catalog.
func (c *Catalog) looksLike(old *Catalog) bool {
	return c.fingerprint == old.fingerprint && c.resources.Fingerprint() == old.resources.Fingerprint() &&
		proto.Equal(c.description, old.description)
}

// Since compares the catalog with an older one. If old is nil, every tool is new.
func (c *Catalog) Since(old *Catalog) Change {
	var out Change
	var before []*Tool
	if old != nil {
		before = old.Tools()
	}
	for _, t := range c.Tools() {
		for len(before) > 0 && before[0].Name < t.Name {
			out.Removed = append(out.Removed, before[0].Name)
			before = before[1:]
		}
		if len(before) == 0 || before[0].Name != t.Name {
			out.Added = append(out.Added, t)
			continue
		}
		if before[0].sealed != t.sealed {
			out.Changed = append(out.Changed, t)
		}
		before = before[1:]
	}
	for _, t := range before {
		out.Removed = append(out.Removed, t.Name)
	}
	return out
}
