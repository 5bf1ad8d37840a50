// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"encoding/json"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/bridge/schema"
)

// pruner copies compact JSON that protojson wrote, without the members of INPUT_ONLY fields. Clearing such a field is
// not enough: without presence its default would still be written.
type pruner struct {
	hidden map[protoreflect.FullName]schema.Behavior
	in     []byte
	pos    int
	out    []byte
}

func (t traits) prune(dst, doc []byte, md protoreflect.MessageDescriptor) []byte {
	p := pruner{hidden: t.hidden, in: doc, out: dst}
	p.message(md)
	return p.out
}

// message copies a value that is a message. What lies inside a well-known type has no fields of ours.
func (p *pruner) message(md protoreflect.MessageDescriptor) {
	if md == nil || schema.IsWellKnown(md) || p.in[p.pos] != '{' {
		p.copyValue()
		return
	}
	p.members(func(name string) func() {
		fd := md.Fields().ByJSONName(name)
		switch {
		case fd == nil: // an extension
			return p.copyValue
		case p.hidden[fd.FullName()].InputOnly:
			return nil
		case fd.IsMap():
			return func() { p.members(func(string) func() { return func() { p.message(fd.MapValue().Message()) } }) }
		case fd.IsList() && fd.Message() != nil:
			return func() { p.items(fd.Message()) }
		default:
			return func() { p.message(fd.Message()) }
		}
	})
}

// members copies an object; choose returns how to copy the value of a member, or nil to leave the member out.
func (p *pruner) members(choose func(name string) func()) {
	p.take() // {
	for first := true; p.in[p.pos] != '}'; {
		if p.in[p.pos] == ',' {
			p.pos++
		}
		start := p.pos
		p.skipString()
		name := p.in[start:p.pos]
		p.pos++ // :
		copyIt := choose(plainName(name))
		if copyIt == nil {
			p.skipValue()
			continue
		}
		if !first {
			p.out = append(p.out, ',')
		}
		first = false
		p.out = append(append(p.out, name...), ':')
		copyIt()
	}
	p.take() // }
}

// plainName decodes a member name; only a custom JSON name has escapes.
func plainName(raw []byte) string {
	var name string
	if bytes.IndexByte(raw, '\\') < 0 || json.Unmarshal(raw, &name) != nil {
		return string(raw[1 : len(raw)-1])
	}
	return name
}

func (p *pruner) items(md protoreflect.MessageDescriptor) {
	p.take() // [
	for p.in[p.pos] != ']' {
		if p.in[p.pos] == ',' {
			p.take()
		}
		p.message(md)
	}
	p.take() // ]
}

func (p *pruner) take() {
	p.out = append(p.out, p.in[p.pos])
	p.pos++
}

func (p *pruner) copyValue() {
	start := p.pos
	p.skipValue()
	p.out = append(p.out, p.in[start:p.pos]...)
}

func (p *pruner) skipString() {
	for p.pos++; p.in[p.pos] != '"'; p.pos++ {
		if p.in[p.pos] == '\\' {
			p.pos++
		}
	}
	p.pos++
}

// skipValue passes over one value, which ends where its brackets are closed and a comma or bracket of the outer value
// follows.
func (p *pruner) skipValue() {
	for depth := 0; p.pos < len(p.in); {
		switch p.in[p.pos] {
		case '"':
			p.skipString()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		}
		p.pos++
	}
}
