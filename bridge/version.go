// SPDX-License-Identifier: Apache-2.0

package bridge

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

// IsVersionConstraint reports whether text is a version constraint, as
// Request.Version has it.
func IsVersionConstraint(text string) bool {
	_, ok := parseConstraint(text)
	return ok
}

// versionSatisfies reports whether a tool's version is one that the caller
// takes: a version in full, build metadata and all, or what satisfies a
// constraint. Versions of tools are semantic, which the catalog sees to.
func versionSatisfies(version, want string) bool {
	if version == want {
		return true
	}
	constraint, ok := parseConstraint(want)
	if !ok {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && constraint.Check(v)
}
