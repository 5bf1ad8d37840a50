// SPDX-License-Identifier: Apache-2.0

package catalog

import "google.golang.org/protobuf/proto"

// Change is what callers can see of the way from one catalog to another.
type Change struct {
	// Added and Changed are tools of the newer catalog, sorted by name. Of a
	// changed one anything differs that callers can see, not only a schema.
	Added, Changed []*Tool
	// Removed are names of tools of the older catalog, sorted.
	Removed []string
}

// looksLike reports whether callers see no difference from another catalog.
func (c *Catalog) looksLike(old *Catalog) bool {
	return c.fingerprint == old.fingerprint && c.resources.Fingerprint() == old.resources.Fingerprint() &&
		proto.Equal(c.description, old.description)
}

// Since compares a catalog with an older one, which may be nil: then every tool is new.
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
		if before[0].digest != t.digest {
			out.Changed = append(out.Changed, t)
		}
		before = before[1:]
	}
	for _, t := range before {
		out.Removed = append(out.Removed, t.Name)
	}
	return out
}
