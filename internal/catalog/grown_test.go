// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestACatalogThatGrewIsLikeOneThatWasMadeAtOnce adds tools one by one and compares all that can be asked of the result
// with what there is to be seen when they are added together, and with a plain list.
func TestACatalogThatGrewIsLikeOneThatWasMadeAtOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf("%s.n%d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "service"), rapid.IntRange(0, 400).Draw(t, "number"))
		})
		drawn := rapid.SliceOfNDistinct(name, 2, 120, rapid.ID).Draw(t, "names")
		own := rapid.IntRange(1, len(drawn)-1).Draw(t, "derived")
		tool := func(name string) *Tool {
			made := &Tool{Name: name, MCPName: MCPName(name), Method: &Method{Service: name[:1], Procedure: "/" + name}}
			copy(made.sealed[:], name)
			return made
		}
		base := &Catalog{own: &lists{}, byName: map[string]*Tool{}}
		for _, name := range slices.Sorted(slices.Values(drawn[:own])) {
			made := tool(name)
			base.own.visible, base.own.all = append(base.own.visible, made), append(base.own.all, made)
			base.byName[made.Name], base.byName[made.MCPName] = made, made
		}
		for _, service := range []string{"a", "b", "c"} {
			base.own.services = append(base.own.services, Service{Name: service})
		}
		base.digests = digests{}.with(base.own.visible)
		var added []*Tool
		for _, name := range drawn[own:] {
			added = append(added, tool(name))
		}
		grown := base
		for i, one := range added {
			before := len(grown.Tools())
			next := grown.with([]*Tool{one}, nil)
			if _, ok := grown.Lookup(one.Name); ok || len(grown.Tools()) != before {
				t.Fatalf("the catalog before has changed by tool %d", i)
			}
			grown = next
		}
		slices.SortFunc(added, inOrder)
		atOnce := base.with(added, nil)
		want := slices.Sorted(slices.Values(drawn))
		for what, c := range map[string]*Catalog{"one by one": grown, "at once": atOnce} {
			if diff := cmp.Diff(want, namesOf(c)); diff != "" {
				t.Fatalf("%s: tools (-want +got):\n%s", what, diff)
			}
			if c.count() != len(want) || len(c.All()) != len(want) || c.Fingerprint() != atOnce.Fingerprint() {
				t.Fatalf("%s: %d tools, %d in all", what, c.count(), len(c.All()))
			}
			for _, one := range added {
				for _, form := range []string{one.Name, one.MCPName} {
					if found, ok := c.Lookup(form); !ok || found != one {
						t.Fatalf("%s: %s is not found", what, form)
					}
				}
				if s := c.Services()[one.Name[0]-'a']; !slices.Contains(s.Tools, one) || !slices.IsSortedFunc(s.Tools, inOrder) {
					t.Fatalf("%s: its service does not know %s", what, one.Name)
				}
			}
			if _, ok := c.Lookup("d.n1"); ok {
				t.Fatalf("%s: finds what is not there", what)
			}
		}
		if len(base.Tools()) != own || len(base.Services()[0].Tools) != 0 {
			t.Fatal("the catalog at the start has changed")
		}
	})
}
