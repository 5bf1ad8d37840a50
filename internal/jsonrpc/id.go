// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// ID is the id of a request and of its response. It keeps the original bytes, to
// echo them, and the decoded value, to compare it. The zero ID means absent. IDs
// share no memory with the input they were read from. Compare them with Equal or by
// Key; == also compares how they were written.
type ID struct {
	// text is the key followed by the raw bytes: one allocation for both.
	text string
	cut  int
}

// StringID returns the id of a string, written in its shortest form. Invalid UTF-8
// becomes U+FFFD.
func StringID(s string) ID {
	id, _ := readID(jsontext.AppendString(nil, s), capBytes)
	return id
}

// IntID returns the id of an integer.
func IntID(n int64) ID {
	id, _ := readID(strconv.AppendInt(nil, n, 10), capBytes)
	return id
}

// ParseID parses an id from one JSON value, within the default limits. The error is a *Fault: FaultParse if raw is not
// JSON, FaultEnvelope if it is not an id.
func ParseID(raw []byte) (ID, error) {
	return Limits{}.ParseID(raw)
}

// ParseID is the function ParseID with these limits.
func (l Limits) ParseID(raw []byte) (ID, error) {
	if f := Check(raw, l); f != nil {
		return ID{}, f
	}
	id, reason := readID(jsontext.Trim(raw), l.WithDefaults().MaxIDBytes)
	if reason != "" {
		return ID{}, l.WithDefaults().idFault("", reason)
	}
	return id, nil
}

// readID reads an id from checked JSON. An empty reason means success.
func readID(raw []byte, maxBytes int) (id ID, reason string) {
	var buffer [128]byte // a UUID, twice, and its quotes
	switch {
	case raw[0] == '"':
		if len(raw)-len(`""`) > maxBytes {
			return ID{}, tooLongID(maxBytes)
		}
		key := jsontext.AppendDecoded(append(buffer[:0], "s:"...), raw)
		return ID{text: string(append(key, raw...)), cut: len(key)}, ""
	case raw[0] != '-' && (raw[0] < '0' || raw[0] > '9'):
		return ID{}, "Make the id a string or an integer, not " + jsontext.TypeName(raw) + "."
	case !jsontext.IsInteger(raw):
		return ID{}, "Make the id a string or an integer; it has a fraction or an exponent."
	case len(raw) > maxBytes:
		return ID{}, tooLongID(maxBytes)
	}
	// The grammar leaves one spelling for each integer, but two for zero.
	value := raw
	if string(raw) == "-0" {
		value = raw[1:]
	}
	key := append(append(buffer[:0], "n:"...), value...)
	return ID{text: string(append(key, raw...)), cut: len(key)}, ""
}

// idFault is the fault of an id that is refused for this reason.
func (l Limits) idFault(path, reason string) *Fault {
	f := envelopeFault(path, reason)
	if reason == tooLongID(l.MaxIDBytes) {
		f.Over = OverIDBytes
	}
	return f
}

func tooLongID(maxBytes int) string {
	return "Make the id at most " + strconv.Itoa(maxBytes) + " bytes long."
}

// IsZero reports whether the id is absent.
func (id ID) IsZero() bool { return id.text == "" }

// IsString reports whether the id is a JSON string.
func (id ID) IsString() bool { return id.cut > 0 && id.text[0] == 's' }

// Key identifies the value: "s:" and the decoded string, or "n:" and the
// integer in its canonical spelling. Equal ids have equal keys. It is "" for
// the zero ID and allocates nothing.
func (id ID) Key() string { return id.text[:id.cut] }

// Equal reports whether both ids have the same type and value, or are both absent.
func (id ID) Equal(other ID) bool { return id.Key() == other.Key() }

// Raw returns the original bytes of the id, or nil for the zero ID.
func (id ID) Raw() json.RawMessage {
	if id.IsZero() {
		return nil
	}
	return json.RawMessage(id.text[id.cut:])
}

// String returns the original text of the id, for logs; "" for the zero ID.
func (id ID) String() string { return id.text[id.cut:] }

// Text returns the decoded value of a string id.
func (id ID) Text() (string, bool) {
	if !id.IsString() {
		return "", false
	}
	return id.text[len("s:"):id.cut], true
}

// Int64 returns the value of an integer id that fits an int64.
func (id ID) Int64() (int64, bool) {
	if id.IsZero() || id.IsString() {
		return 0, false
	}
	n, err := strconv.ParseInt(id.text[len("n:"):id.cut], 10, 64)
	return n, err == nil
}

// MarshalJSON returns the original bytes of the id, or null for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) {
	return appendID(nil, id), nil
}

func appendID(dst []byte, id ID) []byte {
	if id.IsZero() {
		return append(dst, "null"...)
	}
	return append(dst, id.text[id.cut:]...)
}

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
func (g *Generator) NewID(entityType string) ID {
	if g.deterministic {
		return uuidID(uuid7(0, g.last.Add(1)))
	}
	id := uuid7(g.tick(), g.random())
	if entityType == "" {
		return uuidID(id)
	}
	text := make([]byte, 0, maxEntityTypeBytes+1+uuidBytes)
	text = append(append(text, clipText(entityType, maxEntityTypeBytes)...), '_')
	return StringID(string(appendUUID(text, id)))
}

// NewRequest returns a request with a new id, which is a bare UUID. See the
// function NewRequest for the rest and for an id with a type.
func (g *Generator) NewRequest(method string, params json.RawMessage) (Message, error) {
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

// uuidID is StringID for a UUID, which needs no escapes: one allocation.
func uuidID(id [16]byte) ID {
	var buffer [2*uuidBytes + 4]byte
	text := appendUUID(append(buffer[:0], "s:"...), id)
	cut := len(text)
	text = append(append(append(text, '"'), text[2:]...), '"')
	return ID{text: string(text), cut: cut}
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

// uuidBytes is the length of a UUID in its usual form.
const uuidBytes = 36

// Fields of a UUID of version 7 (RFC 9562, section 5.7) in its two halves.
const (
	uuidVersion7 = 0x7000
	uuidVariant  = 0b10 << 62
	// tickBits is the length of the field rand_a, which carries the part of the
	// millisecond that has passed.
	tickBits = 12
)

// uuid7 is the UUID of a tick, which is a count of 1/4096 milliseconds, and of 62 random bits.
func uuid7(tick, random uint64) [16]byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], tick>>tickBits<<16|uuidVersion7|tick&(1<<tickBits-1))
	binary.BigEndian.PutUint64(id[8:], random&^(0b11<<62)|uuidVariant)
	return id
}

// appendUUID appends a UUID in its usual form, in lower case.
func appendUUID(dst []byte, id [16]byte) []byte {
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return hex.AppendEncode(dst, id[10:])
}

// isUUID reports whether an id is a UUID in its usual form, of any version.
func isUUID(id ID) bool {
	text, ok := id.Text()
	if !ok || len(text) != uuidBytes {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if jsontext.HexValue(c) < 0 {
				return false
			}
		}
	}
	return true
}
