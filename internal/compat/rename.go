// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"slices"
	"strings"
)

// serviceSuffix is what the first part of a canonical name may end in or lack: see decision 25.
const serviceSuffix = "_service"

// otherName is a canonical name with the suffix where it lacks it, and the reverse; empty where there is no other.
func otherName(name string) string {
	service, method, ok := strings.Cut(name, ".")
	if !ok {
		return ""
	}
	if short, ok := strings.CutSuffix(service, serviceSuffix); ok {
		if strings.Trim(short, "_") == "" {
			return ""
		}
		return short + "." + method
	}
	return service + serviceSuffix + "." + method
}

// align gives tools of the older list the names that they have in the newer one, where only the suffix differs, and says
// so. Which tool is which is told by its module, or by its fingerprint where the module is not known.
func align(before, after []Tool) ([]Tool, []Change) {
	changes := []Change{}
	was, is := named(before), named(after)
	out := before
	for i, t := range before {
		other := otherName(t.Name)
		renamed, ok := is[other]
		if _, wasThere := was[other]; !ok || wasThere || !isSameTool(t, renamed) {
			continue
		}
		change := Change{Tool: renamed.Name, Path: "/name", Kind: Renamed}
		switch taker, isTaken := is[t.Name]; {
		case !isTaken:
			change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is still understood", readable(t.Name))
		case isSameTool(t, taker):
			continue // two tools for one, and the name is still one of them
		default:
			change.Breaking = true
			change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is another tool now", readable(t.Name))
			change.Action = "Call it by its new name; the old one calls another tool."
		}
		if &out[0] == &before[0] {
			out = slices.Clone(before)
		}
		out[i].Name = renamed.Name
		changes = append(changes, change)
	}
	if len(changes) > 0 {
		sortTools(out)
	}
	return out, changes
}

// isSameTool reports whether two entries are of one tool, as far as that can be told.
func isSameTool(a, b Tool) bool {
	if a.Metadata.Module != "" && b.Metadata.Module != "" {
		return a.Metadata.Module == b.Metadata.Module
	}
	return a.Fingerprint != "" && a.Fingerprint == b.Fingerprint
}

func named(tools []Tool) map[string]Tool {
	out := make(map[string]Tool, len(tools))
	for _, t := range tools {
		out[t.Name] = t
	}
	return out
}
