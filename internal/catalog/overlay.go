// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"slices"
	"strings"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// overlayEntry is an override with its glob compiled.
type overlayEntry struct {
	Override
	glob    glob
	wasUsed bool
}

// compileOverlay compiles the globs; a malformed one is a problem.
func compileOverlay(overlay []Override) (out []overlayEntry, problems []Problem) {
	for _, o := range overlay {
		globs, err := compileGlobs("overlay", []string{o.Match})
		if err != nil {
			problems = append(problems, Problem{"overlay entry " + o.Match, oneLine(err)})
			continue
		}
		out = append(out, overlayEntry{Override: o, glob: globs[0]})
	}
	return out, problems
}

// overlayIndex finds the entries that may match a method. Most entries of a large overlay name one method, so that asking
// each of them about each method would cost the square of both.
type overlayIndex struct {
	named    map[string][]int // by the one text that the entry matches
	patterns []int            // entries that match more than one text
}

func newOverlayIndex(overlay []overlayEntry) overlayIndex {
	index := overlayIndex{named: map[string][]int{}}
	for i, e := range overlay {
		if strings.ContainsAny(e.glob.pattern, `*?[\`) {
			index.patterns = append(index.patterns, i)
		} else {
			index.named[e.glob.pattern] = append(index.named[e.glob.pattern], i)
		}
	}
	return index
}

// candidates lists the entries to ask, in their order, each once.
func (x overlayIndex) candidates(service, method string, names []string) []int {
	out := slices.Concat(x.patterns, x.named[service], x.named[method])
	for _, n := range names {
		out = append(out, x.named[n]...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// overlaid is what a method declares, as the overlay leaves it, and what else the overlay has for it. The method
// is given as globs know it, with the names that it has before the overlay, so that an entry may change the name without
// losing its method.
func (b *builder) overlaid(
	service, method string, names []string, declared *outriggerv1.ToolOptions,
) (_ *outriggerv1.ToolOptions, _ Override, isOverlaid bool) {
	var schemas Override
	for _, i := range b.overlayIndex.candidates(service, method, names) {
		e := &b.overlay[i]
		if !e.glob.matches(service, method, names...) {
			continue
		}
		e.wasUsed, isOverlaid = true, true
		declared = override(declared, e.Options)
		schemas.Resource = override(schemas.Resource, e.Resource)
		if e.InputSchema != nil {
			schemas.Match, schemas.InputSchema = e.Match, e.InputSchema
		}
		if e.OutputSchema != nil {
			schemas.Match, schemas.OutputSchema = e.Match, e.OutputSchema
		}
	}
	return declared, schemas, isOverlaid
}

// declare gives the tool the schemas of the overlay. False means that a problem was noted.
func (b *builder) declare(t *Tool, schemas Override) (bool, error) {
	var compiled [2]declaration
	isFine := true
	for i, declared := range [...]struct {
		member string
		raw    json.RawMessage
	}{{"input_schema", schemas.InputSchema}, {"output_schema", schemas.OutputSchema}} {
		if declared.raw == nil {
			continue
		}
		var faults []schema.Violation
		compiled[i], faults = compileDeclared(declared.raw)
		for _, f := range faults {
			b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, declared.member + f.Path + ": " + f.Message})
			isFine = false
		}
	}
	if t.IsDocument() && schemas.OutputSchema != nil {
		b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, "output_schema: " + noSchemaForBody})
		isFine = false
	}
	if !isFine {
		return false, nil
	}
	return true, t.declare(compiled[0], compiled[1], b.types)
}
