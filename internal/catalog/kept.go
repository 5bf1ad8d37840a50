// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// kept is what one build keeps for the next one by the same plan, so that the next one builds again only what has changed.
// A file is kept with its descriptors while its bytes and all that it imports are the same, and so are its tools. It holds
// little that the catalog does not hold anyway.
type kept struct {
	*keptFiles

	catalog *Catalog
	// loads are those of the sources, by index, with all files among Same; nil where a source has to load again.
	loads    []*source.Loaded
	world    world
	messages int // how many were compiled
	claims   map[string]*claims
}

// world is what every tool depends on beside the files that its method is made of. Tools are kept while it is the same.
type world struct {
	hasToolOption, hasResourceOption bool
	rules, extensions                source.Digest
}

// linkage is what the linker takes over; nil for nothing.
func (k *kept) linkage() *keptFiles {
	if k == nil {
		return nil
	}
	return k.keptFiles
}

// sizes are how many messages and tools there were.
func (k *kept) sizes() (messages, tools int) {
	if k == nil {
		return 0, 0
	}
	return k.messages, len(k.catalog.derived)
}

// keep gathers what the next build can use.
func (b *builder) keep(c *Catalog, loads []*source.Loaded) *kept {
	k := &kept{keptFiles: b.linked.kept(), catalog: c, world: b.world, messages: len(b.bind.messages), claims: b.claims}
	for _, load := range loads {
		k.loads = append(k.loads, thin(load))
		if load.Revision != nil {
			load.Revision.Needed = k.missing(load)
		}
	}
	return k
}

// thin is a load with all its files among Same; nil where it holds more than files.
func thin(load *source.Loaded) *source.Loaded {
	if load.Native != nil || load.Revision == nil {
		return nil
	}
	out := *load
	out.Files, out.Same = nil, filePaths(load)
	return &out
}

// filePaths are the paths of all files of a load.
func filePaths(load *source.Loaded) []string {
	out := slices.Clone(load.Same)
	for _, f := range load.Files {
		out = append(out, f.GetName())
	}
	return out
}

// missing are the files of a load that did not link.
func (k *kept) missing(load *source.Loaded) map[string]bool {
	var out map[string]bool
	for _, path := range filePaths(load) {
		if k.files[path] == nil {
			if out == nil {
				out = map[string]bool{}
			}
			out[path] = true
		}
	}
	return out
}

// reuse is the tool of a method as the last catalog has it, bound to the types of this one, where nothing has changed that
// it is made of. False leaves it to be made.
func (b *builder) reuse(md protoreflect.MethodDescriptor, id, source string, names derivedNames) (*Tool, bool, error) {
	if b.before == nil || !b.linked.isKept(md.ParentFile().Path()) {
		return nil, false, nil
	}
	old := b.before.catalog.derived["/"+id]
	if old == nil || !old.isPlain || old.Name != names.name || old.alias != names.alias || old.Method.Source != source {
		return nil, false, nil
	}
	t := *old
	t.Alias = names.alias
	return &t, true, b.bind.again(&t)
}
