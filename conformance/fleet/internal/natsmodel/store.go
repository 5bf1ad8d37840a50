// SPDX-License-Identifier: Apache-2.0

package natsmodel

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// stored is a message of a stream.
type stored struct {
	seq          uint64
	subject      string
	header, data []byte
	at           time.Time
	expires      time.Time // zero is never
}

// expiry is when a message expires.
type expiry struct {
	at  time.Time
	seq uint64
}

// store has the messages of a stream.
type store struct {
	first, last     uint64
	firstAt, lastAt time.Time
	bytes           uint64
	messages        map[uint64]*stored
	subjects        map[string][]uint64
	// expiries are those of messages with a lifetime, the first one first; also of messages that are gone.
	expiries []expiry
	overhead int
}

// The bytes of a message in NATS' stores besides its subject, header and data.
const (
	fileOverhead       = 30
	fileHeaderOverhead = 4
	memoryOverhead     = 16
)

func newStore(inFile bool) store {
	s := store{first: 1, messages: map[uint64]*stored{}, subjects: map[string][]uint64{}, overhead: memoryOverhead}
	if inFile {
		s.overhead = fileOverhead
	}
	return s
}

// clone copies the store. Messages do not change.
func (s *store) clone() store {
	out := *s
	out.messages, out.expiries = maps.Clone(s.messages), slices.Clone(s.expiries)
	out.subjects = make(map[string][]uint64, len(s.subjects))
	for subject, all := range s.subjects {
		out.subjects[subject] = slices.Clone(all)
	}
	return out
}

// size is what a message takes.
func (s *store) size(subject string, header, data []byte) uint64 {
	n := len(subject) + len(header) + len(data) + s.overhead
	if len(header) > 0 && s.overhead == fileOverhead {
		n += fileHeaderOverhead
	}
	return uint64(n)
}

// add adds a message behind the last one.
func (s *store) add(m *stored) {
	if len(s.messages) == 0 {
		s.first, s.firstAt = m.seq, m.at
	}
	s.last, s.lastAt = m.seq, m.at
	s.messages[m.seq] = m
	s.subjects[m.subject] = append(s.subjects[m.subject], m.seq)
	s.bytes += s.size(m.subject, m.header, m.data)
	if !m.expires.IsZero() {
		at, _ := slices.BinarySearchFunc(s.expiries, m.expires, func(e expiry, t time.Time) int {
			if e.at.After(t) {
				return 1
			}
			return -1
		})
		s.expiries = slices.Insert(s.expiries, at, expiry{m.expires, m.seq})
	}
}

// remove removes a message, if it is there.
func (s *store) remove(seq uint64) bool {
	m := s.messages[seq]
	if m == nil {
		return false
	}
	delete(s.messages, seq)
	s.bytes -= s.size(m.subject, m.header, m.data)
	all := s.subjects[m.subject]
	at, _ := slices.BinarySearch(all, seq)
	if all = slices.Delete(all, at, at+1); len(all) == 0 {
		delete(s.subjects, m.subject)
	} else {
		s.subjects[m.subject] = all
	}
	if seq != s.first {
		return true
	}
	for s.first <= s.last && s.messages[s.first] == nil {
		s.first++
	}
	s.firstAt = time.Time{}
	if m := s.messages[s.first]; m != nil {
		s.firstAt = m.at
	}
	return true
}

// lastOf is the last message of a subject, which may have wildcards; nil without one.
func (s *store) lastOf(filter string) *stored {
	if isLiteral(filter) {
		if all := s.subjects[filter]; len(all) > 0 {
			return s.messages[all[len(all)-1]]
		}
		return nil
	}
	var out *stored
	for subject, all := range s.subjects {
		if m := s.messages[all[len(all)-1]]; matches(filter, subject) && (out == nil || m.seq > out.seq) {
			out = m
		}
	}
	return out
}

// next is the first message from a sequence on that some filter covers; nil without one.
func (s *store) next(filters []string, from uint64) *stored {
	if len(filters) == 1 && isLiteral(filters[0]) {
		all := s.subjects[filters[0]]
		if at, _ := slices.BinarySearch(all, from); at < len(all) {
			return s.messages[all[at]]
		}
		return nil
	}
	for seq := max(from, s.first); seq <= s.last; seq++ {
		if m := s.messages[seq]; m != nil && covers(filters, m.subject) {
			return m
		}
	}
	return nil
}

// covers reports whether one of some filters covers a subject. None covers all.
func covers(filters []string, subject string) bool {
	return len(filters) == 0 || slices.ContainsFunc(filters, func(f string) bool { return matches(f, subject) })
}

// count counts the messages from a sequence on that a filter covers.
func (s *store) count(filters []string, from uint64) uint64 {
	n := uint64(0)
	for m := s.next(filters, from); m != nil; m = s.next(filters, m.seq+1) {
		n++
	}
	return n
}

// totals counts the messages of each subject that a filter covers.
func (s *store) totals(filter string) map[string]uint64 {
	out := map[string]uint64{}
	for subject, all := range s.subjects {
		if matches(filter, subject) {
			out[subject] = uint64(len(all))
		}
	}
	return out
}

// nextExpiry is the first expiry of a message that is there and that a function accepts.
func (s *store) nextExpiry(accept func(uint64) bool) (expiry, bool) {
	for len(s.expiries) > 0 && s.messages[s.expiries[0].seq] == nil {
		s.expiries = s.expiries[1:]
	}
	for _, e := range s.expiries {
		if s.messages[e.seq] != nil && accept(e.seq) {
			return e, true
		}
	}
	return expiry{}, false
}

// header returns the first value of a key.
func header(h []byte, key string) (value string, found bool) {
	for line := range strings.SplitSeq(string(h), crlf) {
		if k, v, ok := strings.Cut(line, ":"); ok && k == key {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// errTTL is a lifetime that is none.
var errTTL = errors.New("invalid per-message TTL")

// never is the lifetime of a message that never expires.
const never = time.Duration(-1)

// lifetime is what a message says of it; zero where it says nothing.
func lifetime(h []byte) (time.Duration, error) {
	text, found := header(h, "Nats-TTL")
	switch {
	case !found || text == "":
		return 0, nil
	case text == "never":
		return never, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		if d < time.Second {
			return 0, errTTL
		}
		return d.Truncate(time.Second), nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0, errTTL
	}
	return time.Duration(n) * time.Second, nil
}
