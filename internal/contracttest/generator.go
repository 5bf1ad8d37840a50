// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// maxEntityTypeBytes bounds the prefix of an id: it leaves most of
// defaults.MaxIDBytes free even where every byte of it needs an escape.
const maxEntityTypeBytes = 64

// GeneratorOptions configure a Generator. The zero value is ready for use.
type GeneratorOptions struct {
	// Deterministic makes every id a bare UUID of a fixed sequence that begins
	// with 00000000-0000-7000-8000-000000000001. Generators that are called equally
	// often return the same ids, which makes runs comparable.
	Deterministic bool
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Random returns 64 random bits; nil reads the system's random source. It must be
	// safe for concurrent use if the Generator is used concurrently.
	Random func() uint64
}

// Generator generates the ids of requests and of other things. It never returns
// the same id twice, regardless of concurrency, clock and random source. Ids of two
// Generators that are not deterministic differ in their 62 random bits. Make one
// with NewGenerator.
type Generator struct {
	now           func() time.Time
	random        func() uint64
	deterministic bool
	// last is the tick of the latest id, or its number where ids are deterministic.
	last atomic.Uint64
}

// NewGenerator returns a Generator.
func NewGenerator(o GeneratorOptions) *Generator {
	g := &Generator{now: o.Now, random: o.Random, deterministic: o.Deterministic}
	if g.now == nil {
		g.now = time.Now
	}
	if g.random == nil {
		g.random = systemRandom
	}
	return g
}

// systemRandom cannot fail: the process ends where the system has no random source.
func systemRandom() uint64 {
	var bits [8]byte
	_, _ = rand.Read(bits[:])
	return binary.LittleEndian.Uint64(bits[:])
}

// NewID returns a new id: a UUIDv7, prefixed with the entity type and an underscore
// if one is given ("call_01980f6e-..."). Only the first 64 bytes of the type are
// used. Deterministic ids have no type. Later ids of one Generator are greater, so
// they sort by age.
func (g *Generator) NewID(entityType string) jsonrpc.ID {
	if g.deterministic {
		return jsonrpc.StringID(uuid7(0, g.last.Add(1)).String())
	}
	id := uuid7(g.tick(), g.random())
	if entityType == "" {
		return jsonrpc.StringID(id.String())
	}
	return jsonrpc.StringID(clipText(entityType, maxEntityTypeBytes) + "_" + id.String())
}

// NewRequest returns a request with a new id, which is a bare UUID. See the
// function NewRequest for the rest and for an id with a type.
func (g *Generator) NewRequest(method string, params json.RawMessage) (jsonrpc.Message, error) {
	return NewRequest(g.NewID(""), method, params)
}

// tick returns the time, or the moment after the latest tick where the clock
// has not moved on since: every tick is drawn once. Under more than four
// million ids a second, and after the clock was set back, ticks run ahead of
// the time, as RFC 9562, section 6.2 permits.
func (g *Generator) tick() uint64 {
	now := g.now()
	passed := uint64(now.Nanosecond()%int(time.Millisecond)) << tickBits / uint64(time.Millisecond)
	tick := uint64(max(now.UnixMilli(), 0))<<tickBits | passed
	for {
		last := g.last.Load()
		next := max(tick, last+1)
		if g.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

// clipText returns at most the first most bytes of s, without half a character at the end.
func clipText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for cut := most; cut > most-utf8.UTFMax; cut-- {
		if utf8.RuneStart(s[cut]) {
			return s[:cut]
		}
	}
	return s[:most] // no UTF-8 at all
}

// Fields of a UUID of version 7 (RFC 9562, section 5.7) in its two halves.
const (
	uuidVersion7 = 0x7000
	uuidVariant  = 0b10 << 62
	// tickBits is the length of the field rand_a, which carries the part of the
	// millisecond that has passed.
	tickBits = 12
)

// uuid7 is the UUID of a tick, which is a count of 1/4096 milliseconds, and of 62 random bits.
func uuid7(tick, random uint64) uuid.UUID {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[:8], tick>>tickBits<<16|uuidVersion7|tick&(1<<tickBits-1))
	binary.BigEndian.PutUint64(id[8:], random&^(0b11<<62)|uuidVariant)
	return id
}
