// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"sync"
	"sync/atomic"
)

// Digest is the SHA-256 of a token.
type Digest = [sha256.Size]byte

// Entry is one caller of a book: its credentials and permissions.
type Entry struct {
	Grant
	// Tokens are the digests of the caller's tokens.
	Tokens []Digest
	// URIs are the names in certificates that identify the caller.
	URIs []string
	// Groups are the groups that the caller is in.
	Groups []string
	// Subjects are the subjects of authorization servers that are this caller.
	Subjects []Subject
}

// Subject is a subject of an authorization server.
type Subject struct {
	// Issuer is the issuer exactly as its tokens state it, Name the subject.
	Issuer, Name string
}

const (
	// MinToken and MaxToken bound the length of a token in bytes. Sixteen bytes of base64
	// hold 96 bits, which cannot be guessed. A shorter token was made up by a person, and
	// a search could find it from its digest.
	MinToken = 16
	MaxToken = 4096
)

// Book is a list of callers. Make one with [NewBook].
type Book struct {
	page atomic.Pointer[page]
	// writing orders replacements.
	writing sync.Mutex
}

// page is what a book says at one moment. Immutable.
type page struct {
	entries []Entry
	callers []*Identity // by entry
	tokens  []known
	uris    map[string]*Identity
	// subjects are those of authorization servers.
	subjects map[Subject]*Identity
}

// known is a token, by its digest, and whose it is.
type known struct {
	digest words
	caller *Identity
}

// words are a digest in parts that are compared at once.
type words [sha256.Size / 8]uint64

func wordsOf(d Digest) words {
	var w words
	for i := range w {
		w[i] = binary.BigEndian.Uint64(d[8*i:])
	}
	return w
}

// differs is 0 for equal digests and 1 for others, without a branch or an access
// to memory that depends on either.
func (w *words) differs(other *words) uint64 {
	var d uint64
	for i := range w {
		d |= w[i] ^ other[i]
	}
	return (d | -d) >> 63
}

// NewBook returns a book of callers. No two entries may share a name, a token or a
// certificate name. Do not change the entries afterwards.
func NewBook(entries []Entry) *Book {
	b := &Book{}
	b.page.Store(newPage(entries, &page{}))
	return b
}

// newPage makes a page. Callers that stand in the page before with the same words
// keep their identity.
func newPage(entries []Entry, before *page) *page {
	p := &page{entries: entries, uris: map[string]*Identity{}, subjects: map[Subject]*Identity{}}
	kept := make(map[string]int, len(before.entries))
	for i := range before.entries {
		kept[before.entries[i].Name] = i
	}
	for i := range entries {
		e := &entries[i]
		var caller *Identity
		if at, ok := kept[e.Name]; ok && reflect.DeepEqual(before.entries[at], *e) {
			caller = before.callers[at]
		} else {
			caller = NewIdentityOf(e.Grant, Facts{Groups: e.Groups})
		}
		p.callers = append(p.callers, caller)
		for _, digest := range e.Tokens {
			p.tokens = append(p.tokens, known{wordsOf(digest), caller})
		}
		for _, uri := range e.URIs {
			p.uris[uri] = caller
		}
		for _, subject := range e.Subjects {
			p.subjects[subject] = caller
		}
	}
	return p
}

// Replace replaces all entries and returns the number of callers that it revoked: those
// whose entry was removed or changed. The next request of such a caller is authenticated
// again. Its open streams end.
func (b *Book) Replace(entries []Entry) (ended int) {
	b.writing.Lock()
	defer b.writing.Unlock()
	before := b.page.Load()
	now := newPage(entries, before)
	b.page.Store(now)
	still := make(map[*Identity]bool, len(now.callers))
	for _, caller := range now.callers {
		still[caller] = true
	}
	for _, caller := range before.callers {
		if !still[caller] {
			caller.revoke()
			ended++
		}
	}
	return ended
}

// Claimed returns the caller whose entry claims a subject of an authorization server, nil
// if there is none. It is nil for a nil Book.
func (b *Book) Claimed(s Subject) *Identity {
	if b == nil {
		return nil
	}
	return b.page.Load().subjects[s]
}

// Len returns the number of callers.
func (b *Book) Len() int { return len(b.page.Load().callers) }

// Authenticate implements [Authenticator]. A token takes precedence, even if it is
// unknown and the certificate is known, because a caller that sends a token intends to
// use it.
func (b *Book) Authenticate(_ context.Context, shown Credentials) (*Identity, error) {
	p := b.page.Load()
	if shown.Token != "" {
		return p.byToken(shown.Token)
	}
	for _, uri := range shown.URIs {
		if caller, ok := p.uris[uri]; ok {
			return caller, nil
		}
	}
	if len(shown.URIs) > 0 {
		return nil, Refuse(Unknown)
	}
	return nil, Refuse(Missing)
}

// byToken finds whose a token is. Every token of the book is compared in full,
// whichever it is, so that the time it takes says nothing about any of them.
func (p *page) byToken(token string) (*Identity, error) {
	if !wellFormed(token) {
		return nil, Refuse(Malformed)
	}
	digest := wordsOf(sha256.Sum256([]byte(token)))
	place := uint64(0) // of the token that is equal, from 1 on
	for i := range p.tokens {
		place |= (digest.differs(&p.tokens[i].digest) - 1) & uint64(i+1) // digests are unique
	}
	if place == 0 {
		return nil, Refuse(Unknown)
	}
	return p.tokens[place-1].caller, nil
}

// wellFormed holds for the b64token of RFC 6750, section 2.1, within bounds.
func wellFormed(token string) bool {
	if len(token) < MinToken || len(token) > MaxToken {
		return false
	}
	padding := false
	for i := range len(token) {
		c := token[i]
		switch {
		case c == '=':
			padding = true
		case padding:
			return false
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_', c == '~', c == '+', c == '/':
		default:
			return false
		}
	}
	return token[0] != '='
}
