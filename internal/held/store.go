// SPDX-License-Identifier: Apache-2.0

package held

import (
	"crypto/rand"
	"io"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// IDBytes is the length of an [ID]: as many random bytes as a UUID has, so that ids of
// different replicas do not collide.
const IDBytes = 16

// ID identifies a document within its Store.
type ID [IDBytes]byte

// Document is what is kept of a result.
type Document struct {
	// Tool is the name of the tool that made it, which decides who may read it.
	Tool string
	// MediaType is its media type (RFC 9110, section 8.3.1).
	MediaType string
	// IsText: its bytes are UTF-8 that people and models read.
	IsText bool
	// Data are its bytes. Nobody may change them.
	Data []byte
}

// Options configure a [Store]. Zero fields take the defaults of this package.
type Options struct {
	// MaxBytes is the maximum size of all documents together.
	MaxBytes int64
	// TTL is how long a document is kept.
	TTL time.Duration
	// Share limits what one caller holds of MaxBytes.
	Share share.Rule
	// Rand is the source of ids. Nil means crypto/rand.
	Rand io.Reader
}

// Store keeps documents. It is safe for concurrent use. Make one with [New].
type Store struct {
	total int64
	ttl   time.Duration
	rule  share.Rule
	rand  io.Reader

	mu       sync.Mutex
	used     int64
	byCaller map[string]int64
	byID     map[ID]*entry
	// oldest and newest are the ends of the list of entries, which is in the order of
	// their expiry, because all live equally long.
	oldest, newest *entry
	// timer forgets the oldest entry when it expires. Nil while nothing is held.
	timer *time.Timer
	stats Stats
}

// entry is a document in the Store.
type entry struct {
	id           ID
	caller       string
	document     Document
	until        time.Time
	older, newer *entry
}

// overhead is what an entry takes beside its document: the entry, its place in two maps
// and the caller's name, rounded up. It keeps many empty documents within the bound.
const overhead = 512

// New returns an empty Store.
func New(o Options) *Store {
	s := &Store{total: o.MaxBytes, ttl: o.TTL, rule: o.Share, rand: o.Rand, byCaller: map[string]int64{}, byID: map[ID]*entry{}}
	defaults.Fill(&s.total, defaults.MaxHeldBytes)
	defaults.Fill(&s.ttl, defaults.HeldTTL)
	if s.rand == nil {
		s.rand = rand.Reader
	}
	return s
}

// TTL returns how long a document is kept.
func (s *Store) TTL() time.Duration { return s.ttl }

// Most returns the maximum size of one document, in bytes: a caller's share while nobody
// else holds anything.
func (s *Store) Most() int64 { return s.rule.Part(s.total) - overhead }

// Put keeps a document for its caller and returns its id and when it expires. If there
// is no room, the oldest documents of the same caller make way; those of others do not.
// The verdict is [share.Granted], or else [share.Full] or [share.Over], and nothing was
// changed. An error is that of the source of ids.
func (s *Store) Put(caller string, d Document) (ID, time.Time, share.Verdict, error) {
	return s.put(caller, d, 0)
}

// put is Put of a document for which so many bytes are reserved already.
func (s *Store) put(caller string, d Document, reserved int64) (ID, time.Time, share.Verdict, error) {
	var id ID
	_, err := io.ReadFull(s.rand, id[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(caller, -reserved)
	if err != nil {
		return id, time.Time{}, share.Full, err
	}
	now := time.Now()
	s.forget(now)
	size := d.size()
	if verdict := s.makeRoom(caller, size); verdict != share.Granted {
		s.stats.Refused++
		return id, time.Time{}, verdict, nil
	}
	e := &entry{id: id, caller: caller, document: d, until: now.Add(s.ttl), older: s.newest}
	if s.newest == nil {
		s.oldest = e
	} else {
		s.newest.newer = e
	}
	s.newest = e
	s.byID[id] = e
	s.count(caller, size)
	s.stats.Put++
	if s.timer == nil {
		s.timer = time.AfterFunc(s.ttl, s.expire)
	}
	return id, e.until, share.Granted, nil
}

// Get returns a document, and false if there is none of the id: it has expired, made way
// for another, or never was here.
func (s *Store) Get(id ID) (Document, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(time.Now())
	e := s.byID[id]
	if e == nil {
		s.stats.Missed++
		return Document{}, false
	}
	return e.document, true
}

// Close forgets all documents. Nil has none.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.oldest != nil {
		s.drop(s.oldest)
	}
	s.arm(time.Now())
}

// Stats are the counts of a Store.
type Stats struct {
	// Bytes is the size of all documents now, Documents their number.
	Bytes     int64
	Documents int
	// Put counts documents that were kept, Refused those for which there was no room,
	// Displaced those that made way for another of their caller, and Missed the reads of
	// documents that were not there.
	Put, Refused, Displaced, Missed uint64
}

// Stats returns the counts. For nil they are zero.
func (s *Store) Stats() Stats {
	if s == nil {
		return Stats{}
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
	if s.makeRoom(caller, size) != share.Granted {
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
func (s *Store) makeRoom(caller string, size int64) share.Verdict {
	if s.rule.Allows(s.byCaller[caller], size, s.used, s.total) {
		return share.Granted
	}
	var own int64 // which can make way; what is reserved cannot
	for e := s.oldest; e != nil; e = e.newer {
		if e.caller == caller {
			own += e.document.size()
		}
	}
	switch {
	case s.used-own+size > s.total:
		return share.Full
	case !s.rule.Allows(s.byCaller[caller]-own, size, s.used-own, s.total):
		return share.Over
	}
	for e := s.oldest; e != nil && !s.rule.Allows(s.byCaller[caller], size, s.used, s.total); {
		next := e.newer
		if e.caller == caller {
			s.drop(e)
			s.stats.Displaced++
		}
		e = next
	}
	return share.Granted
}

// forget drops what has expired.
func (s *Store) forget(now time.Time) {
	for s.oldest != nil && !now.Before(s.oldest.until) {
		s.drop(s.oldest)
	}
}

// expire is forget on the timer, which it sets for the next entry: memory is free again
// although nobody asks.
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
	if s.oldest != nil {
		s.timer = time.AfterFunc(s.oldest.until.Sub(now), s.expire)
	}
}

// drop takes an entry out of the Store. Readers may still have its document.
func (s *Store) drop(e *entry) {
	delete(s.byID, e.id)
	s.count(e.caller, -e.document.size())
	if e.older == nil {
		s.oldest = e.newer
	} else {
		e.older.newer = e.newer
	}
	if e.newer == nil {
		s.newest = e.older
	} else {
		e.newer.older = e.older
	}
}
