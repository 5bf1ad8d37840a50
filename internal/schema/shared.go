// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// deriveShared writes Schema.Shared: the smaller one of the advertised schema and of one that shares messages.
func deriveShared(md protoreflect.MessageDescriptor, dir Direction, of *Stream, opts Options, isWrapped bool) (json.RawMessage, error) {
	d := newDeriver(md, dir, opts, false)
	d.shown, d.stream = true, of
	doc, err := d.advertised(md, isWrapped)
	if err != nil {
		return nil, err
	}
	whole := d.encode(doc)
	if isWrapped || opts.Profile == ProfileStrict { // which has no references
		return whole, nil
	}
	d.names = newDefNames(md)
	if shared := d.shareRepeated(md); shared != nil && len(shared) < len(whole) {
		return shared, nil
	}
	return whole, nil
}

// maxSharings bounds the attempts. Each finds messages that are not worth a reference, and a message that takes in such a
// one may then be worth one itself, or no longer.
const maxSharings = 4

// shareRepeated puts the messages that several fields hold into $defs, and takes those back that are smaller in their
// places. It is nil if that exceeds a bound.
func (d *deriver) shareRepeated(md protoreflect.MessageDescriptor) json.RawMessage {
	const everything = 1 << 30
	d.inline = map[protoreflect.FullName]bool{}
	var best json.RawMessage
	for range maxSharings {
		doc, ok := d.write(md, plan{share: true}, everything)
		if !ok {
			break
		}
		if best == nil || len(d.encoded) < len(best) {
			best = d.encoded
		}
		if !d.takeBack(doc) {
			break
		}
	}
	return best
}

// takeBack marks the messages that take less room inline, and reports whether there are any.
func (d *deriver) takeBack(doc *object) bool {
	uses := map[string]int{}
	countRefs(doc, uses)
	found := false
	for _, m := range d.defs.members {
		name, size := d.names.of[m.name], len(appendJSON(nil, m.value))
		if d.graph.recursive[name] || d.inline[name] {
			continue
		}
		n := uses[m.name]
		reference := len(`{"$ref":""}`) + len(defsRef) + len(m.name)
		if n*size <= n*reference+size+len(`"":,`)+len(m.name) {
			d.inline[name], found = true, true
		}
	}
	return found
}

// shareValue puts the schema of an enum or of a well-known type into $defs, where it is always the same.
func (d *deriver) shareValue(name protoreflect.FullName, v value, doc *object) *object {
	if d.names == nil || !d.share || !v.isFree() || d.inline[name] {
		return doc
	}
	key := d.names.name(name)
	if !d.defs.has(key) {
		d.defs.set(key, doc)
	}
	return newObject("$ref", defsRef+key)
}

// countRefs counts the references to each definition.
func countRefs(v any, uses map[string]int) {
	switch v := v.(type) {
	case *object:
		for _, m := range v.members {
			if ref, ok := m.value.(string); ok && m.name == "$ref" {
				uses[strings.TrimPrefix(ref, defsRef)]++
				continue
			}
			countRefs(m.value, uses)
		}
	case []any:
		for _, e := range v {
			countRefs(e, uses)
		}
	}
}

// defNames gives definitions short names: that of the message without its package, or the full one where another message
// has the short one.
type defNames struct {
	short map[protoreflect.FullName]string
	of    map[string]protoreflect.FullName
}

// newDefNames leaves the full name of the root to the root: it becomes a definition where the schema is put into another.
func newDefNames(root protoreflect.MessageDescriptor) *defNames {
	return &defNames{
		short: map[protoreflect.FullName]string{root.FullName(): string(root.FullName())},
		of:    map[string]protoreflect.FullName{string(root.FullName()): root.FullName()},
	}
}

func (n *defNames) name(full protoreflect.FullName) string {
	if known, ok := n.short[full]; ok {
		return known
	}
	name := string(full.Name())
	if _, taken := n.of[name]; taken {
		name = string(full)
	}
	for n.of[name] != "" { // a message without a package may have the name
		name += "_"
	}
	n.short[full], n.of[name] = name, full
	return name
}

// defName is the name of a message in $defs.
func (d *deriver) defName(md protoreflect.MessageDescriptor) string {
	if d.names == nil {
		return string(md.FullName())
	}
	return d.names.name(md.FullName())
}
