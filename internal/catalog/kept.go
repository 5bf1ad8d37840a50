// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"errors"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// kept is what one build keeps for the next one by the same plan, so that the next one builds again only what has changed.
// A file is kept with its descriptors while its bytes and all that it imports are the same, and so are its tools. It holds
// little that the catalog does not hold anyway.
type kept struct {
	catalog *Catalog
	// files are the linked files, by path.
	files map[string]*keptFile
	// loads are those of the sources, by index, with all files among Same; nil where a source has to load again.
	loads []*source.Loaded
	// bringers say which sources brought a file, disputed which files two of them have otherwise.
	bringers map[string]string
	disputed map[string]bool
	world    world
	messages int // how many were compiled
	claims   map[string]*claims
}

// keptFile is a file that linked.
type keptFile struct {
	descriptor protoreflect.FileDescriptor
	facts      *facts
}

// world is what every tool depends on beside the files that its method is made of. Tools are kept while it is the same.
type world struct {
	hasToolOption, hasResourceOption bool
	rules, extensions                source.Digest
}

// errStale tells that a build needs files that the sources did not bring, because they have not changed.
var errStale = errors.New("files that have not changed are needed")

// file is a file of an earlier build; nil where there is none.
func (k *kept) file(path string) *keptFile {
	if k == nil {
		return nil
	}
	return k.files[path]
}

// sizes are how many messages and tools there were.
func (k *kept) sizes() (messages, tools int) {
	if k == nil {
		return 0, 0
	}
	return k.messages, len(k.catalog.derived)
}

// keep gathers what the next build can use.
func (b *builder) keep(c *Catalog, loads []*source.Loaded, merged *mergedFiles) *kept {
	k := &kept{catalog: c, files: make(map[string]*keptFile, len(b.linked.state)), bringers: merged.bringers, disputed: merged.disputed, world: b.world, messages: len(b.bind.messages), claims: b.claims}
	for path, s := range b.linked.state {
		if s.err == nil {
			k.files[path] = &keptFile{s.descriptor, b.linked.factsOf(path)}
		}
	}
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

// again gives a tool that was kept schemas and transcoders of this build.
func (b *binder) again(t *Tool) error {
	in, out := t.Method.Descriptor.Input(), t.Method.Descriptor.Output()
	input, output := t.Input.Digest(), t.Output.Digest()
	t.Input = b.deferred(in, schema.Input, input)
	var err error
	if t.In, err = b.messageAgain(in, t.In); err != nil {
		return err
	}
	if t.Out, err = b.messageAgain(out, t.Out); err != nil {
		return err
	}
	switch {
	case t.Streams():
		t.Output = b.gatheredAs(out, b.schema(out, schema.Output), output)
	case t.HTTPBody:
		// Its schema holds nothing.
	default:
		t.Output = b.deferred(out, schema.Output, output)
	}
	t.print = newFingerprint(t.Input, t.Output)
	return nil
}
