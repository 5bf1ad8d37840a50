// SPDX-License-Identifier: Apache-2.0

package doctor

import "github.com/outrigger-mcp/outrigger/internal/catalog"

// maxSchemaNotes is how many notes of schemas are shown; an API with one habit has it everywhere.
const maxSchemaNotes = 10

// schemas says what the schemas of the tools leave out: annotations that cannot be read, examples that are wrong, messages
// that are too large. Tools share messages, so each note is shown once.
func (d *doctor) schemas(tools []*catalog.Tool) {
	seen := map[string]bool{}
	for _, t := range tools {
		for _, notes := range [...][]string{t.Input.Warnings(), t.Output.Warnings()} {
			for _, note := range notes {
				if seen[note] {
					continue
				}
				seen[note] = true
				if len(seen) <= maxSchemaNotes {
					d.warn("%s", note)
				}
			}
		}
	}
	if more := len(seen) - maxSchemaNotes; more > 0 {
		d.warn("%d more notes about schemas", more)
	}
}
