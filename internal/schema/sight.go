// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Seen is what a caller sees of a field of a result.
type Seen uint8

// What is seen of a field.
const (
	SeenWhole  Seen = iota // the value
	SeenMasked             // a value of the same type that says little
	SeenHashed             // a digest in hexadecimal where the field is text, else as SeenMasked
	SeenNot                // nothing, as if the field were not set
)

// Sight is what one caller sees of the results of one tool. Nil is everything. It is immutable and safe for concurrent use.
type Sight struct {
	of   func(path string, fd protoreflect.FieldDescriptor) (seen Seen, varies bool)
	root *Place
	// onWay has all paths and what they begin with.
	onWay map[string]bool
}

// Place is a position in a result at which a message is seen in another way than elsewhere. Nil is all other positions.
type Place struct {
	path  string
	below map[string]*Place
}

// NewSight returns a Sight. of says what is seen of a field, by its path from the root of the result: names with dots between them,
// through lists and maps. varies means that the field may also be there as it is. At all positions but those of paths the answer
// depends on the field alone, and the path is empty. fd is nil where only JSON is known; there "*" is the name of members that a schema
// does not name.
func NewSight(of func(path string, fd protoreflect.FieldDescriptor) (seen Seen, varies bool), paths []string) *Sight {
	s := &Sight{of: of, onWay: map[string]bool{}}
	for _, path := range paths {
		for i, c := range path {
			if c == '.' {
				s.onWay[path[:i]] = true
			}
		}
		s.onWay[path] = true
		if s.root == nil {
			s.root = &Place{}
		}
		at := s.root
		names := strings.Split(path, ".")
		for i, name := range names[:len(names)-1] {
			if at.below == nil {
				at.below = map[string]*Place{}
			}
			if at.below[name] == nil {
				at.below[name] = &Place{path: strings.Join(names[:i+1], ".")}
			}
			at = at.below[name]
		}
	}
	return s
}

// Root is the position of the whole result.
func (s *Sight) Root() *Place {
	if s == nil {
		return nil
	}
	return s.root
}

// Below is the position of what a field at a position holds.
func (p *Place) Below(fd protoreflect.FieldDescriptor) *Place {
	if p == nil {
		return nil
	}
	if at := p.below[pathName(fd)]; at != nil {
		return at
	}
	return p.below[fd.JSONName()]
}

// pathName is the name of a field in a path.
func pathName(fd protoreflect.FieldDescriptor) string {
	if fd.IsExtension() {
		return "[" + string(fd.FullName()) + "]"
	}
	return string(fd.Name())
}

// Of is what is seen of a field of the message at a position.
func (s *Sight) Of(at *Place, fd protoreflect.FieldDescriptor) (seen Seen, varies bool) {
	if s == nil {
		return SeenWhole, false
	}
	path := ""
	if at != nil {
		path = strings.TrimPrefix(at.path+"."+pathName(fd), ".")
	}
	return s.of(path, fd)
}

// Hides reports whether a field of the message at a position is never seen.
func (s *Sight) Hides(at *Place, fd protoreflect.FieldDescriptor) bool {
	seen, varies := s.Of(at, fd)
	return seen == SeenNot && !varies
}

// loosens reports whether a message, in a field, may be seen as an empty one and as it is.
func (s *Sight) loosens(md protoreflect.MessageDescriptor, extensions Extensions) bool {
	found := false
	s.each(md, s.Root(), extensions, func(fd protoreflect.FieldDescriptor, seen Seen, varies bool) bool {
		found = fd.Message() != nil && varies && seen != SeenWhole
		return !found
	})
	return found
}

// each calls f for the fields of the message at a position and of all below it, each once at each position that matters, until f returns false.
func (s *Sight) each(md protoreflect.MessageDescriptor, at *Place, extensions Extensions, f func(fd protoreflect.FieldDescriptor, seen Seen, varies bool) bool) {
	type visit struct {
		md protoreflect.MessageDescriptor
		at *Place
	}
	d := &deriver{dir: Output, opts: Options{Extensions: extensions}}
	first := visit{md, at}
	done, todo := map[visit]bool{first: true}, []visit{first}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if IsWellKnown(next.md) || next.md.IsPlaceholder() {
			continue
		}
		for _, fd := range d.fieldsOf(next.md) {
			if seen, varies := s.Of(next.at, fd); !f(fd, seen, varies) {
				return
			}
			below := visit{fd.Message(), next.at.Below(fd)}
			if fd.IsMap() {
				below.md = fd.MapValue().Message()
			}
			if below.md != nil && !done[below] {
				done[below] = true
				todo = append(todo, below)
			}
		}
	}
}

// Sentences in the descriptions of fields that a caller does not see as they are.
const (
	maskedText = "Masked for this caller."
	hashedText = "For this caller a digest: equal values have equal digests."
	variesText = "May be masked or absent for this caller."
)

// digestPattern is the form of a digest of a text.
const digestPattern = "^[0-9a-f]*$"

// look is what the deriver knows of a field that is not seen as it is.
type look struct {
	seen   Seen
	varies bool
}

// isMasked reports whether what is shown is never the value.
func (l look) isMasked() bool { return (l.seen == SeenMasked || l.seen == SeenHashed) && !l.varies }

// look finds out what is seen of a field where the deriver is, and lets go of what is asked of the value itself.
func (d *deriver) look(f *field) {
	if d.opts.Sight == nil {
		return
	}
	if f.look.seen, f.look.varies = d.opts.Sight.Of(d.here, f.fd); f.look.seen == SeenWhole {
		return
	}
	f.must, f.nonZero, f.rules = false, false, nil
}

// shownAs gives the schema of a field the form in which its caller sees it, and returns a sentence about that.
func (d *deriver) shownAs(doc *object, f field) string {
	switch {
	case f.look.seen == SeenWhole:
		return ""
	case f.look.varies:
		return variesText
	case f.look.seen == SeenHashed && d.digests(doc, f.fd):
		return hashedText
	}
	return maskedText
}

// digests gives the schema of a field of text the form of a digest, and reports whether it is one.
func (d *deriver) digests(doc *object, fd protoreflect.FieldDescriptor) bool {
	values := doc
	switch {
	case fd.IsMap():
		values, _ = doc.get("additionalProperties").(*object)
		fd = fd.MapValue()
	case fd.IsList():
		values, _ = doc.get("items").(*object)
	}
	switch fd.Kind() { //nolint:exhaustive // the others are masked
	case protoreflect.StringKind:
		if values != nil && values.get("type") == "string" {
			values.set("pattern", digestPattern)
		}
		return true
	case protoreflect.BytesKind:
		return true
	}
	return false
}

// isLimited reports whether a message at the position of the deriver has fields that are not seen as they are, so that what is said
// about the message as a whole may not hold.
func (d *deriver) isLimited(md protoreflect.MessageDescriptor) bool {
	return d.opts.Sight != nil && slices.ContainsFunc(d.fieldsOf(md), func(fd protoreflect.FieldDescriptor) bool {
		seen, _ := d.opts.Sight.Of(d.here, fd)
		return seen != SeenWhole
	})
}
