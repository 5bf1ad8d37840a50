// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Bounds of what an OutputError says about a place.
const (
	// shownBytes is enough to recognise an encoding or a text.
	shownBytes = 16
	// maxSegment bounds each segment of a path. Keys of maps are as long as their sender likes.
	maxSegment = 64
)

// located adds to an OutputError where in the wire bytes the first fault is. It returns err.
func (m *Message) located(err error, wire []byte) error {
	var broken *OutputError
	if errors.As(err, &broken) {
		broken.Where = m.locate(wire)
	}
	return err
}

func (m *Message) locate(wire []byte) (where string) {
	where = "bytes " + firstBytes(wire)
	defer func() { _ = recover() }() // as in decode, the library panics on some entries of maps
	l := locator{resolver: m.resolver, isSecret: m.shared.opts.secret}
	if l.message(m.md, wire, "", 1) {
		where = l.found
	}
	return where
}

// locator looks for the first field that cannot be read. The Protobuf library does not say which one that is.
type locator struct {
	resolver Resolver
	isSecret func(protoreflect.FieldDescriptor) bool
	found    string
}

func (l *locator) fault(path, what string, at []byte, isSecret bool) bool {
	shown := "bytes " + firstBytes(at)
	if isSecret {
		shown = "bytes withheld"
	}
	l.found = fmt.Sprintf("at %q: %s, %s", path, what, shown)
	return true
}

func firstBytes(b []byte) string {
	if len(b) == 0 {
		return "(none)"
	}
	text := fmt.Sprintf("% x", b[:min(len(b), shownBytes)])
	if len(b) > shownBytes {
		text += fmt.Sprintf(" ... (%d)", len(b))
	}
	return text
}

// message looks into the bytes of a message and reports whether it found a fault.
func (l *locator) message(md protoreflect.MessageDescriptor, wire []byte, path string, depth int) bool {
	if depth > maxWireDepth {
		return l.fault(path, "nested too deeply", wire, false)
	}
	counts := map[protoreflect.FieldNumber]int{}
	for b := wire; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return l.fault(path, "no field begins here ("+protowire.ParseError(n).Error()+")", b, false)
		}
		fd := md.Fields().ByNumber(number)
		at := path
		if fd != nil {
			at += segment(fd, counts[number])
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return l.fault(at, "the value of field "+strconv.Itoa(int(number))+" cannot be read ("+protowire.ParseError(size).Error()+")", b[n:], fd != nil && l.isSecret(fd))
		}
		value := b[n : n+size]
		b = b[n+size:]
		if fd == nil {
			continue
		}
		counts[number]++
		if l.field(fd, kind, value, at, depth) {
			return true
		}
	}
	return false
}

// segment is what a field adds to a path. Some well-known types have no names in JSON for their fields.
func segment(fd protoreflect.FieldDescriptor, index int) string {
	name := "/" + fd.JSONName()
	switch fd.ContainingMessage().FullName() {
	case "google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue", anyName:
		name = ""
	}
	if fd.IsList() {
		name += "/" + strconv.Itoa(index)
	}
	return name
}

func (l *locator) field(fd protoreflect.FieldDescriptor, kind protowire.Type, value []byte, path string, depth int) bool {
	if kind != protowire.BytesType {
		return false
	}
	content, _ := protowire.ConsumeBytes(value)
	switch {
	case fd.IsMap():
		return l.entry(fd, content, path, depth)
	case fd.Message() != nil:
		return l.message(fd.Message(), content, path, depth+1)
	case fd.Kind() == protoreflect.StringKind && !utf8.Valid(content):
		good := 0
		for r, size := utf8.DecodeRune(content); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(content[good:]) {
			good += size
		}
		return l.fault(path, "invalid UTF-8 at byte "+strconv.Itoa(good), content[good:], l.isSecret(fd))
	}
	return false
}

// entry looks into an entry of a map. Its path has the key.
func (l *locator) entry(fd protoreflect.FieldDescriptor, content []byte, path string, depth int) bool {
	entry := dynamicpb.NewMessage(fd.Message())
	key := "?"
	if (proto.UnmarshalOptions{Merge: true, AllowPartial: true, Resolver: l.resolver, RecursionLimit: maxWireDepth}).Unmarshal(content, entry) == nil || entry.Has(fd.MapKey()) {
		key = entry.Get(fd.MapKey()).String()
	}
	if len(key) > maxSegment {
		key = key[:maxSegment] + "..."
	}
	path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(strings.ToValidUTF8(key, "?"))
	for b := content; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		size := -1
		if n > 0 {
			size = protowire.ConsumeFieldValue(number, kind, b[n:])
		}
		if size < 0 {
			return l.fault(path, "an entry that cannot be read", b, l.isSecret(fd))
		}
		if part := fd.Message().Fields().ByNumber(number); part != nil && l.field(part, kind, b[n:n+size], path, depth+1) {
			return true
		}
		b = b[n+size:]
	}
	return false
}
