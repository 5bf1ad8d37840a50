// SPDX-License-Identifier: Apache-2.0

package schema

import "google.golang.org/protobuf/reflect/protoreflect"

// graph is what has to be known about the messages below a root before they are written down: whether a message is shared
// depends on fields that come later, and whether it is recursive on what is below it.
type graph struct {
	uses      map[protoreflect.FullName]int // how many fields hold the message
	distance  map[protoreflect.FullName]int // fewest fields on the way from the root
	recursive map[protoreflect.FullName]bool
}

// newGraph walks all messages below a root, twice: depth first for cycles and uses, then breadth first for distances. Of every
// cycle at least the message by which it is entered is recursive: with those behind $ref, inlining ends. Fields that the
// direction does not have lead nowhere, so a message may be recursive as an output and not as an input.
func (d *deriver) newGraph(root protoreflect.MessageDescriptor) *graph {
	g := &graph{
		uses:      map[protoreflect.FullName]int{},
		distance:  map[protoreflect.FullName]int{root.FullName(): 0},
		recursive: map[protoreflect.FullName]bool{},
	}
	done := map[protoreflect.FullName]bool{}
	// Depth first, with a stack of its own: descriptors come from outside, and a chain may be long.
	type frame struct {
		name protoreflect.FullName
		next []protoreflect.MessageDescriptor
	}
	stack := []frame{{root.FullName(), d.below(root)}}
	active := map[protoreflect.FullName]bool{root.FullName(): true}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.next) == 0 {
			done[top.name] = true
			active[top.name] = false
			stack = stack[:len(stack)-1]
			continue
		}
		md := top.next[0]
		top.next = top.next[1:]
		g.uses[md.FullName()]++
		switch {
		case active[md.FullName()]:
			g.recursive[md.FullName()] = true
		case !done[md.FullName()]:
			active[md.FullName()] = true
			stack = append(stack, frame{md.FullName(), d.below(md)})
		}
	}
	level := []protoreflect.MessageDescriptor{root}
	for len(level) > 0 {
		var next []protoreflect.MessageDescriptor
		for _, md := range level {
			for _, m := range d.below(md) {
				if _, seen := g.distance[m.FullName()]; !seen {
					g.distance[m.FullName()] = g.distance[md.FullName()] + 1
					next = append(next, m)
				}
			}
		}
		level = next
	}
	return g
}

// below lists the messages that the fields of a message hold, well-known types aside.
func (d *deriver) below(md protoreflect.MessageDescriptor) []protoreflect.MessageDescriptor {
	if isWellKnown(md) {
		return nil
	}
	var out []protoreflect.MessageDescriptor
	for _, fd := range d.fieldsOf(md) {
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if m := fd.Message(); m != nil && !isWellKnown(m) {
			out = append(out, m)
		}
	}
	return out
}
