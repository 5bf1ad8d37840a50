// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"regexp"
	"strings"
)

// serviceSuffix is what the service in a canonical name may end in or lack, and so is a version, by which it is told from
// other versions of itself: see decision 25.
const serviceSuffix = "_service"

// versionEnd is a version at the end of a service.
var versionEnd = regexp.MustCompile(`_v\d+(?:p\d+)?(?:(?:test|eap|alpha|beta)\d*)?$`)

// stem is a canonical name without what its service may lack, and how many versions that was.
func stem(name string) (short string, versions int) {
	service, method, ok := strings.Cut(name, ".")
	for ok {
		shorter := strings.TrimSuffix(service, serviceSuffix)
		if at := versionEnd.FindStringIndex(service); at != nil {
			shorter, versions = service[:at[0]], versions+1
		}
		if shorter == service || strings.Trim(shorter, "_") == "" {
			return service + "." + method, versions
		}
		service = shorter
	}
	return name, 0
}

// align gives tools of the older list the names that they have in the newer one, where only an addition differs, and says
// so. Which tool is which is told by its module, or by its fingerprint where the module is not known. A tool whose name
// another one has taken and that has none itself now is left out, and told to be gone.
func align(before, after []Tool) ([]Tool, []Change) {
	was, is := named(before), named(after)
	news := newNames(before, was, after, is)
	if len(news) == 0 {
		return before, nil
	}
	taken := map[string]bool{}
	for _, to := range news {
		taken[to] = true
	}
	var out []Tool
	var changes []Change
	for _, t := range before {
		to, isRenamed := news[t.Name]
		switch {
		case isRenamed:
			changes = append(changes, renaming(t, to, is))
			t.Name = to
			out = append(out, t)
		case taken[t.Name]:
			changes = append(changes, Change{
				Tool: t.Name, Path: "/name", Kind: RemovedTool, Breaking: true,
				Message: "the tool was removed, and another tool has its name", Action: "Stop calling it.",
			})
		default:
			out = append(out, t)
		}
	}
	sortTools(out)
	return out, changes
}

// newNames are the new names of the tools that have one, by their old names.
func newNames(before []Tool, was map[string]Tool, after []Tool, is map[string]Tool) map[string]string {
	stems := map[string][]Tool{}
	for _, t := range after {
		short, _ := stem(t.Name)
		stems[short] = append(stems[short], t)
	}
	out := map[string]string{}
	for _, t := range before {
		if same, ok := is[t.Name]; ok && isSameTool(t, same) {
			continue
		}
		short, _ := stem(t.Name)
		for _, to := range stems[short] {
			holder, wasThere := was[to.Name]
			if to.Name == t.Name || !isSameTool(t, to) || wasThere && isSameTool(holder, to) {
				continue
			}
			out[t.Name] = to.Name
			break
		}
	}
	return out
}

// renaming is the change of a tool's name to another. It breaks where the old name means another tool now.
func renaming(t Tool, to string, is map[string]Tool) Change {
	change := Change{Tool: to, Path: "/name", Kind: Renamed}
	if _, isTaken := is[t.Name]; isTaken {
		change.Breaking = true
		change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is another tool now", readable(t.Name))
		change.Action = "Call it by its new name; the old one calls another tool."
		return change
	}
	_, had := stem(t.Name)
	if _, has := stem(to); had <= has {
		change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is still accepted", readable(t.Name))
		return change
	}
	change.Breaking = true
	change.Message = fmt.Sprintf("the tool is renamed: it was %s, which is no longer accepted", readable(t.Name))
	change.Action = "Call it by its new name."
	return change
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
