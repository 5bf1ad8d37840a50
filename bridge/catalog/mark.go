// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"

	"google.golang.org/protobuf/proto"
)

// Nearly every load finds what the one before it found. Decoding and building it again would cost as much memory as the
// catalog has, for nothing, on top of the catalog in use, and at a time when calls need it. So a source tells by digests
// of the bytes that it was sent that they are those of the catalog in use.

// mark is what is kept of a load, to recognise it by.
type mark struct {
	// sum is of all that was brought, warnings included.
	sum digest
	// decoded are the files that came as bytes and could be decoded. There is no need to find that out again.
	decoded map[digest]struct{}
	// status has the counts of what was brought.
	status SourceStatus
}

// digest is a SHA-256.
type digest = [sha256.Size]byte

// recognising is a Source that notices that it would bring what it brought before, before it decodes anything.
type recognising interface {
	// loadUnless is Load, but brings nil where it would bring what was marked. A nil mark is none.
	loadUnless(ctx context.Context, before *mark) (*Loaded, error)
}

// loadSource loads one source; nil and no error where it brings what was marked.
func loadSource(ctx context.Context, s Source, before *mark) (*Loaded, error) {
	if r, ok := s.(recognising); ok {
		return r.loadUnless(ctx, before)
	}
	return s.Load(ctx)
}

// is reports whether a load brought the marked; false of none.
func (m *mark) is(sum digest) bool { return m != nil && m.sum == sum }

// hasDecoded reports whether a file of these bytes could be decoded.
func (m *mark) hasDecoded(sum digest) bool {
	if m == nil {
		return false
	}
	_, ok := m.decoded[sum]
	return ok
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

func (s summer) sum() digest { return digest(s.hash.Sum(nil)) }

// sumOf is the digest of messages as they are.
func sumOf(messages ...proto.Message) (digest, error) {
	s := newSummer()
	for _, m := range messages {
		raw, err := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(m)
		if err != nil {
			return digest{}, err
		}
		s.add(raw)
	}
	return s.sum(), nil
}
