// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestContractOfChanges has the sentences about what breaks callers.
func TestContractOfChanges(t *testing.T) {
	t.Parallel()
	const (
		one      = `{"type":"object","properties":{"x":{"type":"string"}}}`
		two      = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}`
		twoAsked = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}},"required":["y"]}`
		closed   = `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`
		none     = `{"type":"object","additionalProperties":false}`
		other    = `{"type":"object","properties":{"x":{"type":"integer"}}}`
		promised = `{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`
	)
	for claim, tt := range map[string]struct {
		before, after Tool
		breaks        bool
	}{
		"an added required parameter breaks":           {tool(one, one), tool(twoAsked, one), true},
		"a removed parameter breaks":                   {tool(closed, one), tool(none, one), true},
		"a changed type of a parameter breaks":         {tool(one, one), tool(other, one), true},
		"an incompatible output breaks":                {tool(one, promised), tool(one, one), true},
		"a changed type in the output breaks":          {tool(one, one), tool(one, other), true},
		"an added optional parameter does not break":   {tool(one, one), tool(two, one), false},
		"an added field of the output does not break":  {tool(one, one), tool(one, two), false},
		"a catalog that did not change does not break": {tool(one, one), tool(one, one), false},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			changes := changesOf([]Tool{tt.before}, []Tool{tt.after}, DiffLimits{})
			if slices.ContainsFunc(changes, func(c Change) bool { return c.Breaking }) != tt.breaks {
				t.Errorf("breaks: %v, want %v: %+v", !tt.breaks, tt.breaks, changes)
			}
		})
	}
}

// TestContractOfMigrationNotes has the sentence about --markdown.
func TestContractOfMigrationNotes(t *testing.T) {
	t.Parallel()
	t.Run("a migration note says what changed and what to do, breaking changes first", func(t *testing.T) {
		t.Parallel()
		before, after := tool(plainSchema, plainSchema), tool(more, plainSchema)
		broken, mended := tool(plainSchema, plainSchema), tool(number, plainSchema)
		broken.Name, mended.Name = "z.last", "z.last"
		var note bytes.Buffer
		if err := Compare([]Tool{before, broken}, []Tool{after, mended}, DiffLimits{}).WriteMarkdown(&note); err != nil {
			t.Fatal(err)
		}
		page := note.String()
		breaking, compatible := strings.Index(page, "## Breaking changes"), strings.Index(page, "## Compatible changes")
		if breaking < 0 || compatible < breaking || !strings.Contains(page, "| Where | What changed | What to do |") {
			t.Errorf("%s", page)
		}
	})
}
