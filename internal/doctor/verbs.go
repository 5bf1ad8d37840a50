// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// maxVerbsShown bounds the tools that a finding about verbs names.
const maxVerbsShown = 50

// verbs names the tools whose names say that they destroy, while nothing declares it, with the lines that do.
func (d *doctor) verbs(tools []*catalog.Tool, scope policy.Scope) {
	var named, lines []string
	count := 0
	for _, t := range tools {
		verb := t.Verb
		if scope == policy.Marked {
			verb = t.UnmarkedVerb()
		}
		if verb == "" {
			continue
		}
		if count++; count <= maxVerbsShown {
			named = append(named, fmt.Sprintf("%s (%s)", t.Name, verb))
			lines = append(lines, fmt.Sprintf("        - {method: %s, tool: {destructive: %t}}", t.Subject(), scope == policy.Marked))
		}
	}
	if count == 0 {
		return
	}
	if count > maxVerbsShown {
		named = append(named, fmt.Sprintf("and %d more", count-maxVerbsShown))
		lines = append(lines, fmt.Sprintf("        # and %d more", count-maxVerbsShown))
	}
	f := Finding{Level: levelOK, Text: fmt.Sprintf("%d tools are shown as destructive because of the verbs of their names: %s", count, strings.Join(named, ", ")),
		Fix: "if some destroy nothing, declare it in the file of --config:\n      tools:\n" + strings.Join(lines, "\n")}
	if scope == policy.Marked {
		f.Level = levelWarn
		f.Text = fmt.Sprintf("%d tools run for untrusted callers by --gate marked, although their names say that they destroy: %s", count, strings.Join(named, ", "))
		f.Fix = "use --gate verbs, or declare them in the file of --config:\n      tools:\n" + strings.Join(lines, "\n")
	}
	d.add(f)
}
