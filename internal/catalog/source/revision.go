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

// Revision identifies one load, so that a source recognizes an unchanged one.
type Revision struct {
	// Digest is of everything in the load, warnings included.
	Digest Digest
	// Memory is what else the source wants back with the next load, such as what it need not decode again. Only the
	// source reads it. It is not changed after it was handed over.
	Memory any
	// Needed are the paths of files that the next load has to bring in Files though they have not changed, because the
	// catalog does not have them: they could not be used. The catalog sets it.
	Needed map[string]bool
}

// Is reports whether the digest is that of the revision. It is false for a nil revision.
func (r *Revision) Is(digest Digest) bool { return r != nil && r.Digest == digest }

// Conditional is a Source that detects an unchanged load before it decodes anything. Nearly every load is unchanged. To
// decode and build it again would cost as much memory as the catalog has, on top of the catalog in use, and at a time
// when calls need it. Such a source sets Loaded.Revision to a digest of the bytes that it received, and gets it back.
type Conditional interface {
	Source
	// LoadUnless is Load, but returns nil and no error where the load would be that of the revision. A nil revision
	// matches none. The revision is one of this source's own, and of the catalog in use.
	LoadUnless(ctx context.Context, before *Revision) (*Loaded, error)
}

// Load loads from a source. It returns nil and no error where the source is unchanged since the revision.
func Load(ctx context.Context, s Source, before *Revision) (*Loaded, error) {
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
