// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
)

// Credentials are the credentials of a request.
type Credentials struct {
	// Token is the access token, or "" for none. Its scheme is Bearer unless DPoP is set.
	Token string
	// DPoP is set if the token came under the scheme DPoP (RFC 9449). Proofs are the values
	// of the DPoP headers.
	DPoP   bool
	Proofs []string
	// Method and Path are the HTTP method and the escaped path of the request.
	Method, Path string
	// Certificate is the verified client certificate of the connection as DER, nil for none.
	Certificate []byte
	// URIs are the URI names of the verified client certificate of the caller's
	// connection. They are empty if there was no certificate.
	URIs []string
	// Process is the process at the other end of a Unix socket, as the kernel knows it; nil for none.
	Process *Process
}

// Process is a process by its user and its group.
type Process struct{ UID, GID uint32 }

// Reason is the reason why credentials were rejected.
type Reason string

// The reasons, as metrics and logs name them.
const (
	// Missing means that the request had no credentials.
	Missing Reason = "missing"
	// Malformed means that the credentials are not a bearer token.
	Malformed Reason = "malformed"
	// Scheme means that the credentials have an authentication scheme that is not accepted.
	Scheme Reason = "scheme"
	// Unknown means that the credentials are unknown.
	Unknown Reason = "unknown"
)

// Reasons returns the reasons that credentials of any kind may have, in order. An authenticator may have further ones,
// such as [VerifierReasons].
func Reasons() []Reason { return []Reason{Missing, Malformed, Unknown} }

// Refusal is the error for missing, malformed or unknown credentials.
type Refusal struct {
	Reason Reason
	// Challenge is the value of WWW-Authenticate (RFC 6750, section 3).
	Challenge string
	// Text, if set, is what Error returns.
	Text string
	// Invalid is set if the request is at fault (400), and not the caller (401): the
	// credentials cannot be read, or there are two.
	Invalid bool
	// Nonce, if set, is the nonce for the caller's next DPoP proof.
	Nonce string
}

// Error says what to do. It contains nothing of the credentials.
func (r *Refusal) Error() string {
	if r.Text != "" {
		return r.Text
	}
	switch r.Reason {
	case Missing:
		return "send Authorization: Bearer TOKEN with every request"
	case Malformed, Scheme:
		return "send one Authorization header, Bearer and a token of at least 16 and at most 4,096 letters, digits and -._~+/="
	case Unknown:
	}
	return "unknown credentials; ask the operator of the sidecar for an entry in its callers file"
}

// unavailableError is the error for credentials that cannot be judged now, because a server that
// has to be asked does not answer.
type unavailableError struct {
	// Retry is when to try again.
	Retry time.Duration
	// Cause is for the log only.
	Cause error
}

// Error implements error.
func (u *unavailableError) Error() string {
	return "the authorization server of the credentials cannot be reached: " + u.Cause.Error()
}

// Unwrap returns the cause.
func (u *unavailableError) Unwrap() error { return u.Cause }

// Authenticator identifies callers by their credentials. The error is a *[Refusal] if
// the credentials are at fault, and an *[unavailableError] if they cannot be judged now. Any other
// error is a fault of the sidecar.
type Authenticator interface {
	Authenticate(ctx context.Context, shown Credentials) (*Identity, error)
}

// Refuser is implemented by an [Authenticator] that words its own refusals. The reason is
// [Malformed] or [Scheme]. Without it, [Refuse] does for both.
type Refuser interface {
	Refuse(why Reason, shown Credentials) *Refusal
}

// realm names what the credentials are for.
const realm = `Bearer realm="outrigger"`

// Refuse returns the refusal for a reason. The challenge for a request without
// credentials contains no error code (RFC 6750, section 3.1).
func Refuse(why Reason) *Refusal {
	if why == Scheme {
		why = Malformed
	}
	r := &Refusal{Reason: why, Challenge: realm}
	switch why {
	case Malformed:
		r.Challenge += `, error="invalid_request"`
	case Unknown:
		r.Challenge += `, error="invalid_token"`
	case Missing, Scheme:
	}
	return r
}

// NotPermitted returns the value of WWW-Authenticate for an authenticated caller that
// lacks permission (RFC 6750, section 3.1). The scopes are all that the request needs, and
// metadata is the URL of the protected resource metadata (RFC 9728, section 5.1), by which
// a client finds the server that issues tokens with these scopes. Without scopes the
// challenge names neither: then the callers file defines permissions, and there is no
// server from which a client could request more.
func NotPermitted(metadata string, scopes ...string) string {
	if len(scopes) == 0 {
		return realm + `, error="insufficient_scope"`
	}
	challenge := `Bearer error="insufficient_scope", scope="` + strings.Join(scopes, " ") + `"`
	if metadata != "" {
		challenge += `, resource_metadata="` + metadata + `"`
	}
	return challenge
}

// NamesScopes reports whether a challenge names the scopes that a token has to have.
func NamesScopes(challenge string) bool { return strings.Contains(challenge, ` scope="`) }

// Certificates identifies callers by the names in their certificates, and permits all
// calls. The TLS handshake has already verified the certificates. It ignores tokens.
type Certificates struct{}

// Authenticate implements [Authenticator].
func (Certificates) Authenticate(_ context.Context, shown Credentials) (*Identity, error) {
	if len(shown.URIs) == 0 {
		return nil, Refuse(Missing)
	}
	every := []string{glob.Anything}
	return newLasting(Grant{Name: shown.URIs[0], Tools: every, Resources: every, Prompts: every, Publish: every, Subscribe: every}, Facts{Source: SourceCertificate}), nil
}

// Processes identifies callers by the users of their processes, and permits all calls: the permissions of the socket have decided who
// connects. It ignores tokens.
type Processes struct{}

// Authenticate implements [Authenticator].
func (Processes) Authenticate(_ context.Context, shown Credentials) (*Identity, error) {
	if shown.Process == nil {
		return nil, Refuse(Missing)
	}
	every := []string{glob.Anything}
	return newLasting(Grant{
		Name: "uid:" + strconv.FormatUint(uint64(shown.Process.UID), 10), Tools: every, Resources: every, Prompts: every, Publish: every, Subscribe: every,
	}, Facts{Source: SourceUnix}), nil
}

// Digest is the SHA-256 of a token.
type Digest = [sha256.Size]byte

// Entry is one caller of a book: its credentials and permissions.
type Entry struct {
	Grant
	// Tokens are the digests of the caller's tokens.
	Tokens []Digest
	// URIs are the names in certificates that identify the caller.
	URIs []string
	// UIDs and GIDs are the users and groups whose processes are the caller.
	UIDs, GIDs []uint32
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

// page is one version of a book. Immutable.
type page struct {
	entries []Entry
	callers []*Identity // by entry
	tokens  []known
	uris    map[string]*Identity
	// uids and gids are the users and groups of processes.
	uids, gids map[uint32]*Identity
	// subjects are those of authorization servers.
	subjects map[Subject]*Identity
}

// known is the digest of a token, and its caller.
type known struct {
	digest words
	caller *Identity
}

// words are a digest, for comparison in constant time.
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
	p := &page{
		entries: entries, uris: map[string]*Identity{}, uids: map[uint32]*Identity{}, gids: map[uint32]*Identity{}, subjects: map[Subject]*Identity{},
	}
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
		for _, uid := range e.UIDs {
			p.uids[uid] = caller
		}
		for _, gid := range e.GIDs {
			p.gids[gid] = caller
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
			caller.end(ErrRevoked)
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

// Named returns the caller whose entry has a name, nil if there is none, or only access tokens identify it: what it may do depends on
// the scopes of its token. It is nil for a nil Book.
func (b *Book) Named(name string) *Identity {
	if b == nil {
		return nil
	}
	p := b.page.Load()
	for i := range p.entries {
		if e := &p.entries[i]; e.Name == name && len(e.Tokens)+len(e.URIs)+len(e.UIDs)+len(e.GIDs) > 0 {
			return p.callers[i]
		}
	}
	return nil
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
	if shown.Process != nil {
		if caller := cmp.Or(p.uids[shown.Process.UID], p.gids[shown.Process.GID]); caller != nil {
			return caller, nil
		}
	}
	if len(shown.URIs) > 0 || shown.Process != nil {
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

// wellFormed holds for tokens within bounds.
func wellFormed(token string) bool {
	return len(token) >= MinToken && len(token) <= MaxToken && isB64Token(token)
}
