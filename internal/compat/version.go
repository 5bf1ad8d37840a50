// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"strconv"
	"strings"
)

// Finding is a tool whose schema breaks callers although its major version is unchanged.
type Finding struct {
	Tool string `json:"tool"`
	// OldVersion and NewVersion are the versions before and after. Wanted is the next version that would indicate the break.
	OldVersion string `json:"old_version"`
	NewVersion string `json:"new_version"`
	Wanted     string `json:"wanted"`
	// Breaking are the breaking changes; at least one.
	Breaking []Change `json:"breaking"`
}

// String returns one line for a log: the tool, the versions, and the first breaking change.
func (f Finding) String() string {
	first := f.Breaking[0]
	text := fmt.Sprintf("tool %s breaks its callers under the same major version (%s, was %s; want %s): ",
		readable(f.Tool), orNone(f.NewVersion), orNone(f.OldVersion), f.Wanted)
	if where := first.Where(); where != "" {
		text += where + ": "
	}
	text += first.Message
	if more := len(f.Breaking) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// CheckVersions finds the tools with a breaking change under an unchanged major version, sorted by name. It skips
// removed tools, which have no version to change, and changes of the destructive mark, which do not affect the schema.
// It applies the rules literally: 0.x versions have the major version 0, a lower major version than before has not been
// raised, and a tool without a version has 1.0.0, as the contract says.
func CheckVersions(before, after []Tool, l Limits) []Finding {
	before, renames := align(before, after)
	return checkVersions(diff(before, after, renames, l), before, after)
}

func checkVersions(changes []Change, before, after []Tool) []Finding {
	breaking := map[string][]Change{}
	for _, c := range changes {
		if c.Breaking && c.side() != "" {
			breaking[c.Tool] = append(breaking[c.Tool], c)
		}
	}
	was := make(map[string]string, len(before))
	for _, t := range before {
		was[t.Name] = t.Version
	}
	findings := []Finding{}
	for _, t := range after {
		if list := breaking[t.Name]; len(list) > 0 && major(t.Version) <= major(was[t.Name]) {
			findings = append(findings, Finding{
				Tool: t.Name, OldVersion: was[t.Name], NewVersion: t.Version, Breaking: list,
				Wanted: strconv.FormatUint(major(was[t.Name])+1, 10) + ".0.0",
			})
		}
	}
	return findings
}

// major is the first number of a semantic version; what is none counts as 1.0.0.
func major(version string) uint64 {
	number, _, _ := strings.Cut(version, ".")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return 1
	}
	return n
}
