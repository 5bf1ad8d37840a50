// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Bounds of a declared schema as a caller is shown it, beyond which it is an open object.
const (
	maxNarrowed      = 1 << 20 // bytes
	maxNarrowedNodes = 20_000
)

// Declared returns a declared output schema as callers with the Sight are shown it: without what they do not see, and open to what is
// masked. What it can then not say is left out, so that every result that they get keeps to it. It is the schema itself where all of it
// is seen. The message is that of the result, or of its items where isGathered is set; nil where only JSON is known, whose positions
// are always given by their paths.
func (s *Sight) Declared(raw json.RawMessage, md protoreflect.MessageDescriptor, isGathered bool) json.RawMessage {
	if s == nil || len(raw) == 0 {
		return raw
	}
	w := &narrowing{sight: s, root: raw, isNative: md == nil, room: maxNarrowedNodes}
	root, isObject := w.schema(raw, spot{md: md, at: s.Root(), paths: []string{""}, isGathered: isGathered && md != nil}, nil).(*object)
	if w.touched == 0 && w.room >= 0 {
		return raw
	}
	if !isObject || w.room < 0 {
		return json.RawMessage(`{"type":"object"}`)
	}
	if text := appendJSON(nil, root); len(text) <= maxNarrowed {
		return text
	}
	return json.RawMessage(`{"type":"object"}`)
}

// spot is what a place in a declared schema describes.
type spot struct {
	md protoreflect.MessageDescriptor // nil for what is no message, and for JSON alone
	at *Place
	// paths are those of a native tool's data: names where members are named, and "*". Data is seen as the strictest of them says.
	paths []string
	// isMap is set for a map, whose members are its entries; isGathered for the object around the items of a stream.
	isMap, isGathered bool
	// isOff is set off all paths of a native tool's data.
	isOff bool
}

// anyMember is the name, in a path, of members that a schema does not name.
const anyMember = "*"

func joined(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// narrowing writes one schema. References are replaced by what they lead to, because it may be seen in another way elsewhere.
type narrowing struct {
	sight    *Sight
	root     []byte
	isNative bool
	room     int // schemas that may still be written
	touched  int // places that are not as they were
}

// member is what is seen of a member of what a spot describes.
func (w *narrowing) member(in spot, name string) (below spot, seen Seen, varies bool) {
	switch {
	case in.isOff:
		return in, SeenWhole, false
	case w.isNative:
		return w.jsonMember(in, name)
	case in.isGathered:
		if name == ItemsMember {
			below = spot{md: in.md, at: in.at}
		}
	case in.isMap:
		below = spot{md: in.md, at: in.at}
	case in.md != nil && !IsWellKnown(in.md):
		fd := byName(in.md.Fields(), name)
		if fd == nil {
			return below, SeenWhole, false
		}
		seen, varies = w.sight.Of(in.at, fd)
		below = spot{md: fd.Message(), at: in.at.Below(fd), isMap: fd.IsMap()}
		if fd.IsMap() {
			below.md = fd.MapValue().Message()
		}
	}
	return below, seen, varies
}

// jsonMember is member for data of which only JSON is known.
func (w *narrowing) jsonMember(in spot, name string) (below spot, seen Seen, varies bool) {
	for _, path := range in.paths {
		for _, place := range [...]string{joined(path, name), joined(path, anyMember)} {
			if !w.sight.onWay[place] || slices.Contains(below.paths, place) {
				continue
			}
			below.paths = append(below.paths, place)
			// Of two that are as strict, the one that always holds decides.
			if s, v := w.sight.of(place, nil); s > seen || s == seen && !v {
				seen, varies = s, v
			}
		}
	}
	below.isOff = len(below.paths) == 0
	return below, seen, varies
}

// plainKeywords are those of which one value says nothing about members or items.
//
//nolint:gochecknoglobals // a list that is never changed
var plainKeywords = []string{
	"$schema", "title", "description", "type", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
	"exclusiveMaximum", "multipleOf", "minItems", "maxItems", "contentEncoding", "contentMediaType", "deprecated", "propertyNames",
}

// wholeKeywords hold a value to more than its parts.
//
//nolint:gochecknoglobals // a list that is never changed
var wholeKeywords = []string{"enum", "const", "uniqueItems"}

// schema writes the schema of a spot. refs are the references that led to it.
func (w *narrowing) schema(raw []byte, in spot, refs []string) any {
	w.room--
	if !jsontext.IsObject(raw) {
		return json.RawMessage(raw) // true or false
	}
	if w.room < 0 {
		return &object{}
	}
	if ref, ok := jsontext.Lookup(raw, "$ref"); ok {
		return w.target(raw, ref, in, refs)
	}
	out, before := &object{}, w.touched
	for keyword, value := range jsontext.Members(raw) {
		switch keyword {
		case "properties":
			out.set(keyword, w.properties(value, in, refs))
		case "required":
			if names := w.required(value, in); len(names) > 0 {
				out.set(keyword, names)
			}
		case "additionalProperties":
			named, _ := jsontext.Lookup(raw, "properties")
			out.set(keyword, w.others(value, named, in, refs))
		case "items":
			if value[0] != '[' { // a list is of an older draft
				out.set(keyword, w.schema(value, in, refs))
			}
		case "prefixItems", "allOf", "anyOf", "oneOf":
			at := w.touched
			list := w.list(value, in, refs)
			if keyword == "oneOf" && w.touched != at && !out.has("anyOf") {
				keyword = "anyOf" // what told them apart may be gone
			}
			out.set(keyword, list)
		default:
			if slices.Contains(plainKeywords, keyword) || slices.Contains(wholeKeywords, keyword) {
				out.set(keyword, value)
			}
		}
	}
	if _, hasPatterns := jsontext.Lookup(raw, "patternProperties"); hasPatterns {
		out.remove("additionalProperties") // which would refuse what the patterns name
	}
	if w.touched != before {
		for _, keyword := range wholeKeywords {
			out.remove(keyword)
		}
	}
	return out
}

func (w *narrowing) list(raw []byte, in spot, refs []string) []any {
	out := []any{}
	for value := range jsontext.Elements(raw) {
		out = append(out, w.schema(value, in, refs))
	}
	return out
}

// required are the members that have to be there, of those that always are.
func (w *narrowing) required(raw []byte, in spot) []string {
	var out []string
	for value := range jsontext.Elements(raw) {
		name, _ := jsontext.Text(value)
		if _, seen, varies := w.member(in, name); seen == SeenNot || varies {
			w.touched++
			continue
		}
		out = append(out, name)
	}
	return out
}

func (w *narrowing) properties(raw []byte, in spot, refs []string) *object {
	out := &object{}
	for name, value := range jsontext.Members(raw) {
		switch below, seen, varies := w.member(in, name); {
		case seen == SeenWhole:
			out.set(name, w.schema(value, below, refs))
		case seen == SeenNot && !varies:
			w.touched++
		default:
			w.touched++
			out.set(name, w.masked(value, varies))
		}
	}
	return out
}

// others is the schema of members that are not among the named ones: the entries of a map, and whatever else may come. It is open where
// one of these is seen in a way that the others are not.
func (w *narrowing) others(raw, named []byte, in spot, refs []string) any {
	if jsontext.IsObject(raw) && w.tellsApart(named, in) {
		w.touched++
		return &object{}
	}
	if !w.isNative && !in.isMap {
		return w.schema(raw, spot{}, refs)
	}
	below, seen, varies := w.member(in, anyMember)
	switch {
	case seen == SeenWhole || !jsontext.IsObject(raw):
		return w.schema(raw, below, refs)
	case seen == SeenNot && !varies:
		w.touched++
		return false
	}
	w.touched++
	return w.masked(raw, varies)
}

// tellsApart reports whether a member that is not among the named ones is seen in another way than any member is.
func (w *narrowing) tellsApart(named []byte, in spot) bool {
	isNamed := func(name string) bool {
		_, is := jsontext.Lookup(named, name)
		return len(named) > 0 && is
	}
	switch {
	case in.isOff || in.isMap:
		return false
	case w.isNative:
		for place := range w.sight.onWay {
			for _, path := range in.paths {
				name, isBelow := strings.CutPrefix(place, strings.TrimPrefix(path+".", "."))
				if isBelow && name != anyMember && !strings.Contains(name, ".") && !isNamed(name) {
					return true
				}
			}
		}
		return false
	case in.md == nil || in.isGathered && isNamed(ItemsMember):
		return false
	}
	isTreated := false
	w.sight.each(in.md, in.at, nil, func(_ protoreflect.FieldDescriptor, seen Seen, _ bool) bool {
		isTreated = seen != SeenWhole
		return !isTreated
	})
	return isTreated
}

// masked keeps of the schema of a value what holds for every value of its type.
func (w *narrowing) masked(raw []byte, varies bool) *object {
	for range maxRefs {
		ref, isRef := jsontext.Lookup(raw, "$ref")
		text, _ := jsontext.Text(ref)
		target, found := resolve(w.root, text)
		if !isRef || !found {
			break
		}
		raw = target
	}
	out, text := &object{}, maskedText
	if varies {
		text = variesText
	}
	if kind, ok := jsontext.Lookup(raw, "type"); ok {
		out.set("type", kind)
	}
	said, _ := jsontext.Lookup(raw, "description")
	if words, ok := jsontext.Text(said); ok {
		text = words + "\n" + text
	}
	return out.set("description", text)
}

// target is what a reference leads to; open where it leads nowhere, or back to itself.
func (w *narrowing) target(raw, ref []byte, in spot, refs []string) any {
	name, _ := jsontext.Text(ref)
	target, found := resolve(w.root, name)
	if !found || slices.Contains(refs, name) || len(refs) >= maxRefs {
		return &object{}
	}
	doc := w.schema(target, in, append(slices.Clip(refs), name))
	own, isObject := doc.(*object)
	if text, ok := jsontext.Lookup(raw, "description"); ok && isObject {
		own.set("description", text)
	}
	return doc
}
