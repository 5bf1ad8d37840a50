// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge/schema"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
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

// overlaid is what the method declares, as the overlay leaves it, and the schemas that the overlay has for it. Entries
// match the derived name, so that an entry may change the name without losing its method.
func (b *builder) overlaid(md protoreflect.MethodDescriptor, declared *outriggerv1.ToolOptions) (*outriggerv1.ToolOptions, Override) {
	derived := CanonicalName(md)
	names := []string{derived, MCPName(derived)}
	if n := declared.GetName(); n != "" {
		names = append(names, n, MCPName(n))
	}
	var schemas Override
	for i := range b.overlay {
		e := &b.overlay[i]
		if !e.glob.matches(string(md.Parent().FullName()), methodName(md), names...) {
			continue
		}
		e.wasUsed = true
		declared = overrideOptions(declared, e.Options)
		if e.InputSchema != nil {
			schemas.Match, schemas.InputSchema = e.Match, e.InputSchema
		}
		if e.OutputSchema != nil {
			schemas.Match, schemas.OutputSchema = e.Match, e.OutputSchema
		}
	}
	return declared, schemas
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
	if !isFine {
		return false, nil
	}
	return true, t.declare(compiled[0], compiled[1], b.types)
}
