// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"slices"

	"github.com/Masterminds/semver/v3"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// replace puts a registration in the place of the one at an index, if its version is higher. The members in which the two
// differ are given. The caller holds the lock.
func (l *Live) replace(at int, r *registered, differ []string, store func() error) (Placement, error) {
	c, limits, known := l.Current(), l.plan.Load().build.Limits.withDefaults(), &l.registered
	earlier := known.all[at]
	higher, err := isHigher(r.Version, earlier.Version)
	if err != nil {
		return Placement{}, err
	}
	if !higher {
		var refused *RegistrationError
		err := refuse(r.Name, Conflict, differenceFaults(differ)...)
		if errors.As(err, &refused) {
			refused.Remedy = "raise the version above " + earlier.Version + " to replace it"
		}
		return Placement{}, err
	}
	if _, err := known.fit(c, r, earlier, limits); err != nil {
		return Placement{}, err
	}
	all := slices.Clone(known.all)
	all[at] = r
	fresh, err := c.ungrown().rebind(all, limits)
	if err != nil {
		return Placement{}, err
	}
	// Another registration may have become possible in the same moment and have taken a name or the last place.
	t, ok := fresh.Lookup(r.Name)
	if !ok || !t.Registered {
		return Placement{}, refuse(r.Name, Conflict, schema.Violation{Path: "/name", Keyword: "conflict",
			Message: "another registered tool took its name or the last slot in the catalog"})
	}
	if err := store(); err != nil {
		return Placement{}, err
	}
	known.all, known.bytes = all, known.bytes-earlier.bytes+r.bytes
	l.current.Store(fresh)
	l.tell(c, fresh)
	return Placement{Tool: t, Replaced: earlier.Version}, nil
}

// isHigher compares two semantic versions. Build metadata does not count.
func isHigher(version, than string) (bool, error) {
	one, err := semver.StrictNewVersion(version)
	if err != nil {
		return false, err
	}
	other, err := semver.StrictNewVersion(than)
	if err != nil {
		return false, err
	}
	return one.GreaterThan(other), nil
}
