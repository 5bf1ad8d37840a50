// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// packed appends the content of an Any. Its type may stand anywhere in the object, so it is looked for first. In the worst
// case each Any in another is passed over once more, which Options.MaxDepth bounds.
func (r *reader) packed(pos, depth int) int {
	if at, done := r.open(pos, depth, '{', '}'); done {
		return at // an Any without a type is empty
	}
	url := r.typeOf(pos + 1)
	if len(url) == 0 {
		return refused
	}
	mt, err := r.resolver.FindMessageByURL(url)
	if err != nil && !isTypeURL(url) {
		return refused
	}
	r.out = append(r.out, tagBytes1)
	r.length(len(url))
	r.out = append(r.out, url...)
	before := len(r.out)
	r.out = append(r.out, tagBytes2)
	start := len(r.out)
	r.out = append(r.out, 0)
	r.inAny++
	if err != nil {
		pos = r.opaque(pos, depth)
	} else {
		pos = r.unpackedContent(mt, pos, depth)
	}
	r.inAny--
	if pos < 0 {
		return refused
	}
	if len(r.out) == start+1 {
		r.out = r.out[:before]
		return pos
	}
	r.close(start)
	return pos
}

// unpackedContent appends the content of an Any of a type that is known, of which the members stand at pos.
func (r *reader) unpackedContent(mt protoreflect.MessageType, pos, depth int) int {
	p := r.planner.of(mt.Descriptor()).prepared()
	start := len(r.out)
	outer := r.disorder
	r.disorder = false
	if p.form == formFields {
		pos = r.members(p, pos, depth, true)
	} else {
		pos = r.packedValue(p, pos, depth)
	}
	if pos < 0 || !r.inOrder(mt, start) {
		return refused
	}
	r.disorder = outer
	return pos
}

// packedValue reads the member value of an Any whose type has a JSON form of its own.
func (r *reader) packedValue(p *plan, pos, depth int) int {
	pos, done := r.open(pos, depth, '{', '}')
	typed, found := false, false
	for !done {
		name, at := r.name(pos)
		if at < 0 {
			return refused
		}
		switch {
		case string(name) == typeMember && !typed:
			typed = true
			_, pos = r.text(at)
		case string(name) == "value" && !found:
			found = true
			pos = r.message(p, at, depth+1, false)
		default:
			return refused
		}
		if pos < 0 {
			return refused
		}
		pos, done = r.next(pos, '}')
	}
	if !found && p.form != formEmpty {
		return refused
	}
	return pos
}

// inOrder makes the value of an Any, which starts at a place of the output, what a deterministic encoding of it is:
// there it is bytes, and comparisons use those. A type without generated code whose fields came in order has that form
// already. A type with generated code is always encoded again: its encoder may have an order of its own.
func (r *reader) inOrder(mt protoreflect.MessageType, start int) bool {
	msg := mt.New().Interface()
	if _, ok := msg.(*dynamicpb.Message); ok && !r.disorder {
		return true
	}
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: r.resolver}).Unmarshal(r.out[start:], msg); err != nil {
		return false
	}
	value, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(msg)
	r.out = append(r.out[:start], value...)
	return err == nil
}

// typeOf returns the member @type of the object whose first member stands at pos, or "". It may pass over text that is not
// JSON, and over a second @type: members and packedValue read the same bytes again and judge them.
func (r *reader) typeOf(pos int) string {
	for done := false; !done; {
		name, at := r.name(pos)
		if at < 0 {
			return ""
		}
		if string(name) == typeMember {
			text, end := r.text(at)
			if end < 0 {
				return ""
			}
			return string(text)
		}
		// Whatever stands there is read, and judged, later.
		pos, done = r.next(jsontext.SkipValue(r.doc, at), '}')
	}
	return ""
}
