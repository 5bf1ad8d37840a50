// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"slices"
	"strings"
)

// Drift is the difference between a lock and the tools that there are. The zero value is none.
type Drift struct {
	// Added are the names of tools that are not in the lock, Removed those of tools that are only in the lock. Sorted.
	Added, Removed []string
	// Changed are the tools whose digests differ, by name.
	Changed []Change
}

// Change is a tool that differs from its lock.
type Change struct {
	Name string
	// Members are the members that differ, sorted. It is empty if the lock does not tell.
	Members []string
}

// String returns the name and the members: "shop.get (description, inputSchema)".
func (c Change) String() string {
	if len(c.Members) == 0 {
		return c.Name
	}
	return c.Name + " (" + strings.Join(c.Members, ", ") + ")"
}

// Compare returns the difference between the lock and the tools that there are now. A tool without a digest counts as
// changed: nobody can have approved it.
func (l *Lock) Compare(now []Entry) Drift {
	var out Drift
	locked := l.entries
	for _, e := range New(now).entries {
		for len(locked) > 0 && locked[0].Name < e.Name {
			out.Removed = append(out.Removed, locked[0].Name)
			locked = locked[1:]
		}
		if len(locked) == 0 || locked[0].Name != e.Name {
			out.Added = append(out.Added, e.Name)
			continue
		}
		if e.Digest == "" || e.Digest != locked[0].Digest {
			out.Changed = append(out.Changed, Change{Name: e.Name, Members: differ(locked[0], e)})
		}
		locked = locked[1:]
	}
	for _, e := range locked {
		out.Removed = append(out.Removed, e.Name)
	}
	return out
}

func differ(locked, now Entry) []string {
	if len(locked.Members) == 0 {
		return nil
	}
	return slices.DeleteFunc(covered(), func(member string) bool { return locked.Members[member] == now.Members[member] })
}

// IsNone reports whether there is no difference.
func (d Drift) IsNone() bool { return len(d.Added)+len(d.Removed)+len(d.Changed) == 0 }

// Equal reports whether two differences are the same.
func (d Drift) Equal(other Drift) bool {
	return slices.Equal(d.Added, other.Added) && slices.Equal(d.Removed, other.Removed) &&
		slices.EqualFunc(d.Changed, other.Changed, func(a, b Change) bool { return a.Name == b.Name && slices.Equal(a.Members, b.Members) })
}

// Unapproved returns the names of the tools that were added or changed. Nobody has approved them as they are.
func (d Drift) Unapproved() map[string]bool {
	out := make(map[string]bool, len(d.Added)+len(d.Changed))
	for _, name := range d.Added {
		out[name] = true
	}
	for _, c := range d.Changed {
		out[c.Name] = true
	}
	return out
}

// String returns the numbers: "1 added, 0 removed, 2 changed".
func (d Drift) String() string {
	return fmt.Sprintf("%d added, %d removed, %d changed", len(d.Added), len(d.Removed), len(d.Changed))
}
