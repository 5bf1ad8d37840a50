// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Change is the difference between two catalogs that is visible to callers.
type Change struct {
	// Added and Changed are tools of the newer catalog, sorted by name.
	// A changed tool differs in anything visible to callers, not only in a schema.
	Added, Changed []*Tool
	// Removed are the names of tools that only the older catalog has, sorted.
	Removed []string
}

// shownNames bounds the names of each kind in the text of a change.
const shownNames = 20

// AddedNames returns the names of the first 20 tools that are new, and how many more there are as the last one.
func (c Change) AddedNames() []string { return firstNames(namesOfTools(c.Added)) }

// ChangedNames returns the names of the tools that look different, as AddedNames does.
func (c Change) ChangedNames() []string { return firstNames(namesOfTools(c.Changed)) }

// RemovedNames returns the names of the tools that are gone, as AddedNames does.
func (c Change) RemovedNames() []string { return firstNames(c.Removed) }

// String returns the change in words, as in "removed: shop.put; added: shop.drop, shop.take". It is empty if no tool differs.
func (c Change) String() string {
	var out []string
	for _, part := range [...]struct {
		what  string
		names []string
	}{{"removed", c.RemovedNames()}, {"added", c.AddedNames()}, {"changed", c.ChangedNames()}} {
		if len(part.names) > 0 {
			out = append(out, part.what+": "+strings.Join(part.names, ", "))
		}
	}
	return strings.Join(out, "; ")
}

func namesOfTools(tools []*Tool) []string {
	out := make([]string, 0, min(len(tools), shownNames+1))
	for _, t := range tools {
		out = append(out, t.Name)
	}
	return out
}

func firstNames(names []string) []string {
	if more := len(names) - shownNames; more > 0 {
		return append(slices.Clone(names[:shownNames]), fmt.Sprintf("%d more", more))
	}
	return names
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
