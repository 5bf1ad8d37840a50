// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"google.golang.org/protobuf/proto"
)

// Digest is a SHA-256.
type Digest = [sha256.Size]byte

// Mark is what is kept of a load, to recognise the next one by.
type Mark struct {
	// Digest is of all that was brought, warnings included.
	Digest Digest
	// Memory is what else the source wants to find again, such as what it needs not decode a second time. Nobody but
	// the source looks at it. It must not be changed once it was handed over.
	Memory any
}

// Is reports whether a load would bring the marked; false of none.
func (m *Mark) Is(digest Digest) bool { return m != nil && m.Digest == digest }

// Conditional is a Source that notices, before it decodes anything, that it would bring what it brought before. Nearly
// every load does. To decode and build it again would cost as much memory as the catalog has, for nothing, on top of
// the catalog in use, and at a time when calls need it. So such a source sets Loaded.Mark to a digest of the bytes that
// it was sent, and gets it back.
type Conditional interface {
	Source
	// LoadUnless is Load, but brings nil and no error where it would bring what was marked. A nil mark is none. The mark
	// is one of this source's own, and of the catalog that is in use.
	LoadUnless(ctx context.Context, before *Mark) (*Loaded, error)
}

// Load loads from a source; nil and no error where it brings what was marked.
func Load(ctx context.Context, s Source, before *Mark) (*Loaded, error) {
	if c, ok := s.(Conditional); ok {
		return c.LoadUnless(ctx, before)
	}
	return s.Load(ctx)
}

// summer makes a digest of parts, such that no two lists of parts have the same bytes.
type summer struct{ hash hash.Hash }

func newSummer() summer { return summer{sha256.New()} }

func (s summer) add(part []byte) {
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(part)))
	_, _ = s.hash.Write(size[:]) // a hash does not fail
	_, _ = s.hash.Write(part)
}

func (s summer) texts(parts ...string) {
	s.add(binary.BigEndian.AppendUint64(nil, uint64(len(parts))))
	for _, p := range parts {
		s.add([]byte(p))
	}
}

func (s summer) sum() Digest { return Digest(s.hash.Sum(nil)) }

// sumOf is the digest of messages as they are.
func sumOf(messages ...proto.Message) (Digest, error) {
	s := newSummer()
	for _, m := range messages {
		raw, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
		if err != nil {
			return Digest{}, err
		}
		s.add(raw)
	}
	return s.sum(), nil
}
