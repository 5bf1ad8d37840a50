// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"google.golang.org/protobuf/proto"
)

// Digest is a SHA-256 digest.
type Digest = [sha256.Size]byte

// Revision identifies one load, so that a source can recognize an unchanged one.
type Revision struct {
	// Digest covers everything in the load, warnings included.
	Digest Digest
	// Memory is state that the source wants back with the next load, such as results that it need not decode again. Only the
	// source reads it. It must not change after it was handed over.
	Memory any
	// Needed are the paths of files that the next load must include in Files even if unchanged, because the catalog could not
	// use them and does not have them. The catalog sets it.
	Needed map[string]bool
}

// Is reports whether the revision has the digest. It is false for a nil revision.
func (r *Revision) Is(digest Digest) bool { return r != nil && r.Digest == digest }

// Conditional is a Source that detects an unchanged load before it decodes anything. Nearly every load is unchanged.
// Decoding and building it again would cost as much memory as the catalog itself, in addition to the catalog in use, and
// while calls need that memory. Such a source sets Loaded.Revision to a digest of the bytes received, and gets it back.
type Conditional interface {
	Source
	// LoadUnless is like Load, but returns nil and no error if the load would equal the revision. A nil revision
	// matches none. The revision comes from this source and belongs to the catalog in use.
	LoadUnless(ctx context.Context, before *Revision) (*Loaded, error)
}

// Recaller is a Conditional that can bring a load again without its peer, from the revisions of the catalog in use.
type Recaller interface {
	Conditional
	// Recall is like LoadUnless without a revision, but uses the memory of a revision in place of the peer where that brings
	// the same, and where the peer fails. The revisions are those of all sources of the catalog in use, in no order; the
	// source finds its own, also if an earlier source for the same peer made it.
	Recall(ctx context.Context, used []*Revision) (*Loaded, error)
}

// Recall loads all of a source, with the help of the revisions in use where the source is a [Recaller].
func Recall(ctx context.Context, s Source, used []*Revision) (*Loaded, error) {
	if r, ok := s.(Recaller); ok {
		return r.Recall(ctx, used)
	}
	return Load(ctx, s, nil)
}

// Load loads from a source. It returns nil and no error if the source is unchanged since the revision.
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
