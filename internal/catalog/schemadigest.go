// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"crypto/sha256"
	"slices"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// schemaDigests tell what the schemas of a message depend on, without deriving them: the definitions of the message and of
// all messages and enums below it, with their comments. They are of one build.
type schemaDigests struct {
	linked *linker
	mu     sync.Mutex
	files  map[string]bool // whose units are known
	units  map[protoreflect.FullName]*unit
	// learned are the units below which all is known.
	learned map[protoreflect.FullName]bool
	// extensions is of all extensions but those of options, for messages that can be extended.
	extensions [sha256.Size]byte
	// resources are, for units of files that declare or import resources, of what these are.
	resources map[protoreflect.FullName][sha256.Size]byte
	// rules is of all files that define rules of their own for validation.
	rules [sha256.Size]byte
}

func newSchemaDigests(linked *linker) *schemaDigests {
	d := &schemaDigests{linked: linked, files: map[string]bool{}, units: map[protoreflect.FullName]*unit{}, learned: map[protoreflect.FullName]bool{}, resources: map[protoreflect.FullName][sha256.Size]byte{}}
	extended, ruled := sha256.New(), sha256.New()
	for _, path := range linked.paths() {
		f := linked.factsOf(path)
		if f.ruled {
			_, _ = ruled.Write(f.sum[:])
		}
		if f.extends && path != "google/protobuf/descriptor.proto" {
			_, _ = extended.Write(f.sum[:])
		}
	}
	extended.Sum(d.extensions[:0])
	ruled.Sum(d.rules[:0])
	return d
}

// of is the digest for a message and what it is derived with.
func (d *schemaDigests) of(md protoreflect.MessageDescriptor, with ...byte) [sha256.Size]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	root := top(md)
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	names := []protoreflect.FullName{root.FullName()}
	d.learn(root)
	hash := sha256.New()
	_, _ = hash.Write(append(with, md.FullName()...))
	_, _ = hash.Write(d.rules[:])
	open := false
	for i := 0; i < len(names); i++ {
		u := d.units[names[i]]
		if u == nil {
			continue // it is in no file, which the field's own definition says
		}
		open = open || u.open
		for _, ref := range u.refs {
			if !seen[ref] {
				seen[ref] = true
				names = append(names, ref)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if u := d.units[name]; u != nil {
			_, _ = hash.Write(u.digest[:])
			if near, ok := d.resources[name]; ok {
				_, _ = hash.Write(near[:])
			}
		}
	}
	if open {
		_, _ = hash.Write(d.extensions[:])
	}
	return [sha256.Size]byte(hash.Sum(nil))
}

// learn makes the units of a definition and all below it known.
func (d *schemaDigests) learn(of protoreflect.Descriptor) {
	todo := []protoreflect.Descriptor{of}
	for len(todo) > 0 {
		next := todo[0]
		todo = todo[1:]
		d.learnFile(next.ParentFile())
		u := d.units[next.FullName()]
		md, isMessage := next.(protoreflect.MessageDescriptor)
		if u == nil || !isMessage || d.learned[next.FullName()] {
			continue
		}
		d.learned[next.FullName()] = true
		u.learn(md)
		each(md, func(ref protoreflect.Descriptor) { todo = append(todo, ref) })
	}
}

// learnFile takes the digests of all units of a file.
func (d *schemaDigests) learnFile(fd protoreflect.FileDescriptor) {
	if fd == nil || d.files[fd.Path()] {
		return
	}
	d.files[fd.Path()] = true
	f := d.linked.factsOf(fd.Path())
	near := slices.Clone(f.resources)
	for i := range fd.Imports().Len() {
		near = append(near, d.linked.factsOf(fd.Imports().Get(i).Path()).resources...)
	}
	for _, u := range f.units {
		name := f.pkg.Append(protoreflect.Name(u.name))
		d.units[name] = u.unit
		if len(near) > 0 {
			d.resources[name] = sha256.Sum256(near)
		}
	}
}
