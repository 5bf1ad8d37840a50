// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// overlayEntry is an override with its glob compiled.
type overlayEntry struct {
	Override
	glob    glob
	wasUsed bool
	// found are the paths of Properties that led to a field, and missing says of others why not.
	found   map[string]bool
	missing map[string]string
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

// globCharacters are those by which a pattern matches more than one text.
const globCharacters = `*?[\`

func newOverlayIndex(overlay []overlayEntry) overlayIndex {
	index := overlayIndex{named: map[string][]int{}}
	for i, e := range overlay {
		if strings.ContainsAny(e.glob.pattern, globCharacters) {
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
	service, method string, names []string, declared *configv1.ToolOptions,
) (_ *configv1.ToolOptions, _ Override, isOverlaid bool) {
	var schemas Override
	for _, i := range b.overlayIndex.candidates(service, method, names) {
		e := &b.overlay[i]
		if !e.glob.matches(service, method, names...) {
			continue
		}
		e.wasUsed, isOverlaid = true, true
		declared = override(declared, e.Options)
		if e.Properties != nil && !strings.ContainsAny(e.glob.pattern, globCharacters) {
			schemas.Properties = e.Properties // of an entry for this method alone
		}
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

// words are the descriptions that the overlay has for the arguments of a tool, by full names of fields; nil for none. The
// method is given as to overlaid. Where two entries describe a field, the later one wins.
func (b *builder) words(t *Tool, service, method string, names []string) map[protoreflect.FullName]string {
	var out map[protoreflect.FullName]string
	for _, i := range b.overlayIndex.candidates(service, method, names) {
		e := &b.overlay[i]
		if len(e.Properties) == 0 || !e.glob.matches(service, method, names...) {
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(e.Properties)) {
			name, err := t.argument(path)
			if err != nil {
				if e.missing == nil {
					e.missing = map[string]string{}
				}
				e.missing[path] = cmp.Or(e.missing[path], err.Error())
				continue
			}
			if e.found == nil {
				e.found = map[string]bool{}
			}
			if out == nil {
				out = map[protoreflect.FullName]string{}
			}
			e.found[path], out[name] = true, shown.Clean(e.Properties[path])
		}
	}
	return out
}

// argument is the field that a path of the arguments leads to. Those of a tool that takes a stream are below "items", and
// "header" is a field itself.
func (t *Tool) argument(path string) (protoreflect.FullName, error) {
	md := t.Method.Descriptor.Input()
	if !t.TakesStream() {
		return schema.InputField(md, path)
	}
	first, rest, _ := strings.Cut(path, ".")
	header := t.Stream.Header()
	switch {
	case first == schema.ItemsMember && rest != "":
		return schema.InputField(md, rest)
	case first == schema.HeaderMember && header != nil && rest == "":
		return header.FullName(), nil
	case first == schema.HeaderMember && header != nil && header.Message() != nil:
		return schema.InputField(header.Message(), rest)
	}
	return "", fmt.Errorf("the arguments are a stream; begin with %q: items.%s", schema.ItemsMember+".", path)
}

// tellMissing makes problems of the paths that lead nowhere in all methods of their entry.
func (b *builder) tellMissing() {
	for _, e := range b.overlay {
		for _, path := range slices.Sorted(maps.Keys(e.missing)) {
			if !e.found[path] {
				b.problems = append(b.problems, Problem{"overlay entry " + e.Match, fmt.Sprintf("properties: %s: %s", path, e.missing[path])})
			}
		}
	}
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
	if t.Words != nil && schemas.InputSchema != nil {
		b.problems = append(b.problems, Problem{"overlay entry " + schemas.Match, "properties: the tool has an input_schema of its own; describe them there"})
		isFine = false
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
