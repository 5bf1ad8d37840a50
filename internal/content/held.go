// SPDX-License-Identifier: Apache-2.0

package content

import (
	"container/list"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// idBytes is the length of an [DocumentID]: as many random bytes as a UUID has, so that ids of
// different replicas do not collide.
const idBytes = 16

// DocumentID identifies a document within its Store.
type DocumentID [idBytes]byte

// Document is what is kept of a result.
type Document struct {
	// Tool is the name of the tool that made it, which decides who may read it.
	Tool string
	// MediaType is its media type (RFC 9110, section 8.3.1).
	MediaType string
	// IsText: its bytes are UTF-8 that people and models read.
	IsText bool
	// View is what its caller saw of results of the tool, as a key of the policy's: a caller to whom another key applies must not read it.
	View string
	// Data are its bytes. No one may change them.
	Data []byte
}

// StoreOptions configure a [Store]. Zero fields take the defaults of this package.
type StoreOptions struct {
	// MaxBytes is the maximum size of all documents together.
	MaxBytes int64
	// TTL is how long a document is kept.
	TTL time.Duration
	// Share limits what one caller holds of MaxBytes.
	Share peer.Rule
	// Rand is the source of ids. Nil means crypto/rand.
	Rand io.Reader
}

// Store keeps documents. It is safe for concurrent use. Make one with [NewStore].
type Store struct {
	total int64
	ttl   time.Duration
	rule  peer.Rule
	rand  io.Reader

	mu       sync.Mutex
	used     int64
	byCaller map[string]int64
	byID     map[DocumentID]*list.Element
	// entries are in the order of their expiry, because all live equally long.
	entries list.List
	// timer forgets the oldest entry when it expires. Nil while nothing is held.
	timer *time.Timer
	stats StoreStats
}

// entry is a document in the Store.
type entry struct {
	id       DocumentID
	caller   string
	document Document
	until    time.Time
}

// overhead is what an entry takes beside its document: the entry, its place in two maps
// and the caller's name, rounded up. It keeps many empty documents within the bound.
const overhead = 512

// NewStore returns an empty Store.
func NewStore(o StoreOptions) *Store {
	s := &Store{total: o.MaxBytes, ttl: o.TTL, rule: o.Share, rand: o.Rand, byCaller: map[string]int64{}, byID: map[DocumentID]*list.Element{}}
	defaults.Fill(&s.total, defaults.MaxHeldBytes)
	defaults.Fill(&s.ttl, defaults.HeldTTL)
	if s.rand == nil {
		s.rand = rand.Reader
	}
	return s
}

// TTL returns how long a document is kept.
func (s *Store) TTL() time.Duration { return s.ttl }

// Most returns the maximum size of one document, in bytes: a caller's share while no one
// else holds anything.
func (s *Store) Most() int64 { return s.rule.Part(s.total) - overhead }

// Put keeps a document for its caller and returns its id and when it expires. If there
// is no room, the oldest documents of the same caller make way; those of others do not.
// The verdict is [peer.Granted], or else [peer.ShareFull] or [peer.Over], and nothing was
// changed. An error is that of the source of ids.
func (s *Store) Put(caller string, d Document) (DocumentID, time.Time, peer.Verdict, error) {
	return s.put(caller, d, 0)
}

// put is Put of a document for which so many bytes are reserved already.
func (s *Store) put(caller string, d Document, reserved int64) (DocumentID, time.Time, peer.Verdict, error) {
	var id DocumentID
	_, err := io.ReadFull(s.rand, id[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(caller, -reserved)
	if err != nil {
		return id, time.Time{}, peer.ShareFull, err
	}
	now := time.Now()
	s.forget(now)
	size := d.size()
	if verdict := s.makeRoom(caller, size); verdict != peer.Granted {
		s.stats.Refused++
		return id, time.Time{}, verdict, nil
	}
	until := now.Add(s.ttl)
	s.byID[id] = s.entries.PushBack(&entry{id: id, caller: caller, document: d, until: until})
	s.count(caller, size)
	s.stats.Put++
	if s.timer == nil {
		s.timer = time.AfterFunc(s.ttl, s.expire)
	}
	return id, until, peer.Granted, nil
}

// Get returns a document, and false if there is none of the id: it has expired, made way
// for another, or never was here.
func (s *Store) Get(id DocumentID) (Document, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	at := s.byID[id]
	if at == nil {
		s.stats.Missed++
		return Document{}, false
	}
	return entryAt(at).document, true
}

// Close forgets all documents. Nil has none.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.entries.Len() > 0 {
		s.drop(s.entries.Front())
	}
	s.arm(time.Now())
}

// StoreStats are the counts of a Store.
type StoreStats struct {
	// Bytes is the size of all documents now, Documents their number.
	Bytes     int64
	Documents int
	// Put counts documents that were kept, Refused those for which there was no room,
	// Displaced those that made way for another of their caller, and Missed the reads of
	// documents that were not there.
	Put, Refused, Displaced, Missed uint64
}

// Stats returns the counts. For nil they are zero.
func (s *Store) Stats() StoreStats {
	if s == nil {
		return StoreStats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Bytes, out.Documents = s.used, len(s.byID)
	return out
}

func (d *Document) size() int64 { return int64(len(d.Data)) + overhead }

// reserve counts size bytes for a caller whose document is not complete, if there is
// room.
func (s *Store) reserve(caller string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	if s.makeRoom(caller, size) != peer.Granted {
		s.stats.Refused++
		return false
	}
	s.count(caller, size)
	return true
}

// refuse counts a document that is larger than one may be.
func (s *Store) refuse() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused++
}

// release takes back what was reserved.
func (s *Store) release(caller string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(caller, -size)
}

// count adds to what a caller holds.
func (s *Store) count(caller string, size int64) {
	s.used += size
	if s.byCaller[caller] += size; s.byCaller[caller] <= 0 {
		delete(s.byCaller, caller)
	}
}

// makeRoom drops the oldest documents of a caller until there is room for size bytes
// more, if dropping them can make it.
func (s *Store) makeRoom(caller string, size int64) peer.Verdict {
	if s.rule.Allows(s.byCaller[caller], size, s.used, s.total) {
		return peer.Granted
	}
	var own int64 // which can make way; what is reserved cannot
	for at := s.entries.Front(); at != nil; at = at.Next() {
		if e := entryAt(at); e.caller == caller {
			own += e.document.size()
		}
	}
	switch {
	case s.used-own+size > s.total:
		return peer.ShareFull
	case !s.rule.Allows(s.byCaller[caller]-own, size, s.used-own, s.total):
		return peer.Over
	}
	for at := s.entries.Front(); at != nil && !s.rule.Allows(s.byCaller[caller], size, s.used, s.total); {
		next := at.Next()
		if entryAt(at).caller == caller {
			s.drop(at)
			s.stats.Displaced++
		}
		at = next
	}
	return peer.Granted
}

// forget drops what has expired.
func (s *Store) forget(now time.Time) {
	for at := s.entries.Front(); at != nil && !now.Before(entryAt(at).until); at = s.entries.Front() {
		s.drop(at)
	}
}

// expire is forget on the timer, which it sets for the next entry: memory is free again
// although no one asks.
func (s *Store) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.forget(now)
	s.arm(now)
}

// arm sets the timer for the oldest entry.
func (s *Store) arm(now time.Time) {
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if oldest := s.entries.Front(); oldest != nil {
		s.timer = time.AfterFunc(entryAt(oldest).until.Sub(now), s.expire)
	}
}

// drop takes an entry out of the Store. Readers may still have its document.
func (s *Store) drop(at *list.Element) {
	e := entryAt(at)
	s.entries.Remove(at)
	delete(s.byID, e.id)
	s.count(e.caller, -e.document.size())
}

func entryAt(at *list.Element) *entry { return at.Value.(*entry) }

// DocumentWriter gathers a document that comes in parts. What it holds counts as held from the
// first byte on. A DocumentWriter must be released; it is not safe for concurrent use.
type DocumentWriter struct {
	store  *Store
	caller string
	most   int
	data   []byte
	// reserved is what the store counts for data.
	reserved int64
}

// firstCapacity is what a DocumentWriter begins with: most chunks of services are not larger.
const firstCapacity = 64 << 10

// NewDocumentWriter returns a DocumentWriter for a caller's document of at most so many bytes. A nil
// store counts nothing, and most of zero or less bounds nothing.
func NewDocumentWriter(store *Store, caller string, most int) *DocumentWriter {
	if most <= 0 {
		most = math.MaxInt
	}
	return &DocumentWriter{store: store, caller: caller, most: most}
}

// Len returns the number of bytes that were written.
func (w *DocumentWriter) Len() int { return len(w.data) }

// Bytes returns what was written. It is valid after Release, too.
func (w *DocumentWriter) Bytes() []byte { return w.data }

// Write appends a part, or as much of it as there is room for; then it reports false.
func (w *DocumentWriter) Write(part []byte) bool {
	fits := len(part) <= w.most-len(w.data)
	if !fits {
		w.store.refuse()
		part = part[:w.most-len(w.data)]
	}
	if need := len(w.data) + len(part); need > cap(w.data) && !w.grow(need) {
		part, fits = part[:cap(w.data)-len(w.data)], false
	}
	w.data = append(w.data, part...)
	return fits
}

// grow makes room for need bytes, which are at most w.most.
func (w *DocumentWriter) grow(need int) bool {
	size := min(max(need, cap(w.data)+cap(w.data)/2, firstCapacity), w.most)
	if w.store != nil {
		more := int64(size) - w.reserved
		if w.reserved == 0 {
			more += overhead // which the document will need
		}
		if !w.store.reserve(w.caller, more) {
			return false
		}
		w.reserved += more
	}
	grown := make([]byte, len(w.data), size)
	copy(grown, w.data)
	w.data = grown
	return true
}

// Keep puts the document into the store, in the place of what was reserved for it. See
// [Store.Put].
func (w *DocumentWriter) Keep(d Document) (DocumentID, time.Time, peer.Verdict, error) {
	reserved := w.reserved
	w.reserved = 0
	return w.store.put(w.caller, d, reserved)
}

// Release gives back what is reserved. It may be called more than once, and after Keep.
func (w *DocumentWriter) Release() {
	if w.store != nil && w.reserved > 0 {
		w.store.release(w.caller, w.reserved)
	}
	w.reserved = 0
}

const (
	// DocumentURI begins the URI of a document; a sealed id follows.
	DocumentURI = "outrigger://results/"
	// Template is what all of them are like (RFC 6570).
	Template = DocumentURI + "{id}{?offset,length}"
	// rangeKey is the member of _meta of a part that says which part it is: {"offset",
	// "length", "size", "next"}, in bytes; "next" is the URI of the next part as long as
	// one follows.
	rangeKey = "dev.outrigger/range"
)

// IsDocument reports whether a URI is that of a document, or of a part of one.
func IsDocument(uri string) bool { return strings.HasPrefix(uri, DocumentURI) }

// PartURI returns the URI of a part of a document, in bytes.
func PartURI(document string, offset, length int) string {
	return fmt.Sprintf("%s?offset=%d&length=%d", document, offset, length)
}

// Part is the part of a document that a reader asks for, in bytes.
type Part struct {
	// Asked is set if the URI has an offset or a length.
	Asked bool
	// Offset is where it begins.
	Offset int
	// Length is -1 where it is all that follows.
	Length int
}

// ParseURI splits a URI for which [IsDocument] holds into the sealed id and the part. wrong says what
// is wrong with it, and is empty where nothing is.
func ParseURI(uri string) (token string, part Part, wrong string) {
	part.Length = -1
	token, query, found := strings.Cut(strings.TrimPrefix(uri, DocumentURI), "?")
	if !found {
		return token, part, ""
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", Part{}, "the query of the URI cannot be read"
	}
	part.Asked = true
	for name, given := range values {
		n, err := strconv.Atoi(given[0])
		switch {
		case name != "offset" && name != "length":
			return "", Part{}, "the URI may have the parameters offset and length, and not " + strconv.QuoteToASCII(name[:min(len(name), maxNameShown)])
		case err != nil || n < 0 || len(given) != 1 || name == "length" && n == 0:
			return "", Part{}, name + " has to be given once, as a number of bytes"
		case name == "offset":
			part.Offset = n
		default:
			part.Length = n
		}
	}
	return token, part, ""
}

// maxNameShown bounds what an error shows of a parameter's name.
const maxNameShown = 64

// Meta returns _meta of a part of a document of size bytes, of which it has length.
func (p Part) Meta(uri string, length, size int) []byte {
	type about struct {
		Offset int    `json:"offset"`
		Length int    `json:"length"`
		Size   int    `json:"size"`
		Next   string `json:"next,omitempty"`
	}
	out := about{Offset: p.Offset, Length: length, Size: size}
	if end := p.Offset + length; end < size && length > 0 {
		document, _, _ := strings.Cut(uri, "?")
		out.Next = PartURI(document, end, p.Length)
	}
	raw, err := json.Marshal(map[string]about{rangeKey: out})
	if err != nil {
		return nil // numbers and a URI always have a JSON form
	}
	return raw
}
