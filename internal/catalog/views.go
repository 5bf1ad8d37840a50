// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// maxViews bounds the views that are kept: as many as a callers file may have entries. One more empties the cache, and views are
// made anew.
const maxViews = 1000

// Views keeps what callers see of the newest catalog who may not call all tools, each with what is rendered of it. The zero value
// is ready, and safe for concurrent use.
type Views struct {
	mu       sync.Mutex
	of       *Catalog
	seen     *seenTools
	byScope  map[string]*view
	byView   map[*Catalog]*view
	rendered any // of catalogs that are no views
}

type view struct {
	catalog  *Catalog
	rendered any
}

// Only returns the tools of a catalog that callers of a scope may see, as see has them, kept by the scope. The view of a catalog that is
// not the newest any more is made for its request alone. Without see, the tools are as they are.
func (v *Views) Only(cat *Catalog, newest func() *Catalog, scope string, may func(*Tool) bool, see func(*Tool) Sight) *Catalog {
	v.mu.Lock()
	defer v.mu.Unlock()
	if cat != v.of {
		if cat != newest() {
			return cat.seenBy(newSeenTools(), may, see)
		}
		v.of, v.byScope, v.seen = cat, nil, newSeenTools()
	}
	if v.byScope == nil || len(v.byScope) >= maxViews {
		v.byScope, v.byView = map[string]*view{}, map[*Catalog]*view{}
	}
	made := v.byScope[scope]
	if made == nil {
		made = &view{catalog: cat.seenBy(v.seen, may, see)}
		v.byScope[scope], v.byView[made.catalog] = made, made
	}
	return made.catalog
}

// Rendered keeps what fresh makes of a catalog as long as the view of it. Catalogs that are not views share one value.
func (v *Views) Rendered(cat *Catalog, fresh func() any) any {
	v.mu.Lock()
	defer v.mu.Unlock()
	kept := &v.rendered
	if made := v.byView[cat]; made != nil {
		kept = &made.rendered
	}
	if *kept == nil {
		*kept = fresh()
	}
	return *kept
}

// Has reports whether a catalog is a view that is kept.
func (v *Views) Has(cat *Catalog) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byView[cat] != nil
}

// Sight is what one caller sees of the results of a tool. The zero value is everything.
type Sight struct {
	// Key is the same for those that see the same of a tool.
	Key string
	// Paths are those at which more than the field decides what is seen of it.
	Paths []string
	// Of says what is seen of a field; see [schema.NewSight].
	Of func(path string, fd protoreflect.FieldDescriptor) (seen schema.Seen, varies bool)
}

// seenBy is the catalog of a caller who may use some of the tools, and does not see all of their results.
func (c *Catalog) seenBy(kept *seenTools, may func(*Tool) bool, see func(*Tool) Sight) *Catalog {
	if see == nil {
		return c.Only(may)
	}
	return c.as(func(t *Tool) *Tool {
		if !may(t) {
			return nil
		}
		return kept.tool(t, see(t))
	})
}

const (
	// maxSeenTools bounds the tools that are kept as some callers see them: thousand tools as fifty groups of callers see them. One more
	// empties the cache.
	maxSeenTools = 50_000
	// seenSchemas is how much text of their schemas is kept, for all callers together.
	seenSchemas = keptSchemas / 2
)

// seenTools are tools of one catalog as callers see them who do not see all of their results. Callers who see the same of a tool share
// it, and tools of one response share its schema. It belongs to one Views, which guards it.
type seenTools struct {
	tools   map[seenTool]*Tool
	results map[seenResult]*resultSeen
	room    *schema.Room
}

type seenTool struct {
	of  *Tool
	key string
}

type seenResult struct {
	output     *schema.Lazy
	out        *transcode.Message
	key, paths string
}

// resultSeen is the schema of a response, and what writes it.
type resultSeen struct {
	output *schema.Lazy
	out    *transcode.Message
}

func newSeenTools() *seenTools {
	return &seenTools{tools: map[seenTool]*Tool{}, results: map[seenResult]*resultSeen{}, room: schema.NewRoom(seenSchemas)}
}

// tool is a tool as a caller sees it: the tool itself where that is all of it.
func (k *seenTools) tool(t *Tool, sight Sight) *Tool {
	if sight.Key == "" || t.Compact != NotCompact {
		return t
	}
	key := seenTool{t, sight.Key}
	if known := k.tools[key]; known != nil {
		return known
	}
	if len(k.tools) >= maxSeenTools {
		fresh := newSeenTools()
		k.tools, k.results, k.room = fresh.tools, fresh.results, fresh.room
	}
	made := k.see(t, sight)
	k.tools[key] = made
	return made
}

// see makes the tool. Its fingerprint stays that of the whole one; its digest is of what is shown.
func (k *seenTools) see(t *Tool, sight Sight) *Tool {
	out := *t
	out.whole = t
	// An example of a result shows fields, whatever their values.
	out.Examples = slices.Clone(t.Examples)
	for i := range out.Examples {
		out.Examples[i].Data = nil
	}
	seen, anywhere := schema.NewSight(sight.Of, sight.Paths), schema.NewSight(sight.Of, nil)
	if t.Operation != nil {
		operation := *t.Operation
		operation.Response, operation.Metadata = operation.Response.seen(seen), operation.Metadata.seen(anywhere)
		out.Operation, out.Out = &operation, t.Out.Seen(anywhere)
		out.Output = t.Output.Seen(seen, sight.Key, k.room)
	} else {
		one := k.result(t, seen, sight.Key, strings.Join(sight.Paths, "\n"))
		out.Output, out.Out = one.output, one.out
	}
	if t.Declared != nil && t.Declared.Output != nil {
		out.seeDeclared(seen)
	}
	if out.seal() != nil {
		out.sealed[0]++ // it is another one, whatever else can be said of it
	}
	return &out
}

// result is what is shown of a response.
func (k *seenTools) result(t *Tool, seen *schema.Sight, key, paths string) *resultSeen {
	of := seenResult{t.Output, t.Out, key, paths}
	known := k.results[of]
	if known == nil {
		known = &resultSeen{output: t.Output.Seen(seen, key, k.room), out: t.Out.Seen(seen)}
		k.results[of] = known
	}
	return known
}

// seeDeclared shows of a declared output schema what a caller sees of the result.
func (t *Tool) seeDeclared(seen *schema.Sight) {
	text := seen.Declared(t.Output.Advertised(), t.answer(), t.Streams())
	declared := *t.Declared
	var err error
	if declared.Output, err = schema.Later(text); err != nil { // no part of a checked schema is none
		text, declared.Output = []byte(`{"type":"object"}`), nil
	}
	t.Declared, t.Output = &declared, schema.Fixed(&schema.Schema{Canonical: text, Advertised: text, Wrapped: t.Output.Wrapped})
}

// answer is the message that results are made of; nil where only their JSON is known.
func (t *Tool) answer() protoreflect.MessageDescriptor {
	switch {
	case t.Native:
		return nil
	case t.Operation != nil && t.Operation.Response != nil:
		return t.Operation.Response.Out.Descriptor()
	}
	return t.Method.Descriptor.Output()
}

// seen is the value as a caller sees it.
func (v *OperationValue) seen(sight *schema.Sight) *OperationValue {
	if v == nil {
		return nil
	}
	return &OperationValue{Name: v.Name, Out: v.Out.Seen(sight)}
}
