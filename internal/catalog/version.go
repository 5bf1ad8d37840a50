// SPDX-License-Identifier: Apache-2.0

package catalog

import "github.com/Masterminds/semver/v3"

// maxConstraint bounds a version constraint; the longest sensible ones have a
// few dozen bytes.
const maxConstraint = 256

// parseConstraint reads which versions of a tool a caller will take: a semantic
// version constraint such as "1.2.3", "^1.2" or ">=1.4.0 <2.0.0".
func parseConstraint(s string) (*semver.Constraints, bool) {
	if len(s) > maxConstraint {
		return nil, false
	}
	c, err := semver.NewConstraint(s)
	return c, err == nil
}

// IsConstraint reports whether text is a version such as "1.2.3" or a constraint such as "^1.2".
func IsConstraint(text string) bool {
	_, ok := parseConstraint(text)
	return ok
}

// Satisfies reports whether the tool's version is one that a caller
// takes: a version in full, build metadata and all, or what satisfies a
// constraint. Versions of tools are semantic, which the catalog sees to.
func (t *Tool) Satisfies(want string) bool {
	if t.Version == want {
		return true
	}
	constraint, ok := parseConstraint(want)
	if !ok {
		return false
	}
	v, err := semver.NewVersion(t.Version)
	return err == nil && constraint.Check(v)
}
