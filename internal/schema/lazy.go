// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Lazy is a schema that is derived on first use. Catalogs hold thousands, of which callers see few. It is safe
// for concurrent use. Nil and the zero value mean that there is no schema.
type Lazy struct {
	// One of three says what the schema is: a text, a function, or a message in one direction.
	text   *Schema
	derive func(Part) *Schema
	md     protoreflect.MessageDescriptor
	opts   *Options
	dir    Direction
	stream *Stream // what the message is an item of; nil for none
	// Wrapped is Schema.Wrapped.
	Wrapped bool
	digest  [sha256.Size]byte
	room    *Room
	kept    atomic.Pointer[json.RawMessage]
}

// Part selects the forms of a schema that are needed.
type Part uint8

// The forms of a schema.
const (
	PartCanonical Part = 1 << iota
	PartAdvertised
	PartShared
	partBoth = PartCanonical | PartAdvertised
)

// Fixed returns a Lazy of an existing schema.
func Fixed(s *Schema) *Lazy {
	hash := sha256.New()
	for _, text := range [...]json.RawMessage{s.Canonical, s.Advertised} {
		_, _ = hash.Write(append(slices.Clip(text), 0)) // JSON holds no zero byte
	}
	return &Lazy{text: s, Wrapped: s.Wrapped, digest: [sha256.Size]byte(hash.Sum(nil))}
}

// Defer returns a Lazy that calls Derive for a message on first use. It keeps the result if there is room. The digest must
// cover everything that the result depends on. The options are shared and must not change.
func Defer(md protoreflect.MessageDescriptor, dir Direction, opts *Options, digest [sha256.Size]byte, room *Room) *Lazy {
	return &Lazy{md: md, dir: dir, opts: opts, Wrapped: isWrapped(md, dir), digest: digest, room: room}
}

// DeferStream returns a Lazy that calls DeriveStream, as Defer does for Derive.
func DeferStream(md protoreflect.MessageDescriptor, of Stream, opts *Options, digest [sha256.Size]byte, room *Room) *Lazy {
	return &Lazy{md: md, dir: Input, stream: &of, opts: opts, digest: digest, room: room}
}

// DeferAs returns a Lazy that calls derive, which must always return the same schema.
func DeferAs(derive func(Part) *Schema, wrapped bool, digest [sha256.Size]byte, room *Room) *Lazy {
	return &Lazy{derive: derive, Wrapped: wrapped, digest: digest, room: room}
}

// IsSet reports whether there is a schema.
func (l *Lazy) IsSet() bool {
	return l != nil && (l.isDerived() || l.text != nil && len(l.text.Advertised) > 0)
}

// Digest identifies both forms: equal digests mean equal schemas.
func (l *Lazy) Digest() [sha256.Size]byte { return l.digest }

// Canonical returns Schema.Canonical. It is not cached: code that compiles it keeps the result.
func (l *Lazy) Canonical() json.RawMessage { return l.part(PartCanonical).Canonical }

// Advertised returns Schema.Advertised. It is cached while there is room.
func (l *Lazy) Advertised() json.RawMessage {
	if l == nil {
		return nil
	}
	if kept := l.kept.Load(); kept != nil {
		return *kept
	}
	text := l.part(PartAdvertised).Advertised
	if l.isDerived() && l.room.take(len(text)) && !l.kept.CompareAndSwap(nil, &text) {
		l.room.give(len(text))
	}
	return text
}

// Shared returns Schema.Shared, which is Advertised if the schema was declared. It is not cached: lists keep what they show.
func (l *Lazy) Shared() json.RawMessage {
	if l == nil {
		return nil
	}
	if text := l.part(PartShared).Shared; len(text) > 0 {
		return text
	}
	return l.Advertised()
}

// Warnings returns Schema.Warnings.
func (l *Lazy) Warnings() []string { return l.part(partBoth).Warnings }

func (l *Lazy) isDerived() bool { return l.derive != nil || l.md != nil }

func (l *Lazy) part(p Part) *Schema {
	switch {
	case l == nil:
		return &Schema{}
	case l.text != nil:
		return l.text
	case l.derive != nil:
		return l.derive(p)
	case l.md != nil:
		if s, err := derive(l.md, l.dir, l.stream, *l.opts, p); err == nil {
			return s
		}
	}
	return &Schema{} // nothing, or a placeholder, which the caller has looked for
}

// Room is a shared memory budget for the text of cached schemas. It is safe for concurrent use; nil has no room.
type Room struct{ left atomic.Int64 }

// NewRoom returns a Room of the given number of bytes.
func NewRoom(bytes int64) *Room {
	r := &Room{}
	r.left.Store(bytes)
	return r
}

func (r *Room) take(n int) bool {
	if r == nil {
		return false
	}
	if r.left.Add(-int64(n)) >= 0 {
		return true
	}
	r.give(n)
	return false
}

func (r *Room) give(n int) { r.left.Add(int64(n)) }
