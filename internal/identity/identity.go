// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
)

// Trust is the permission of one caller to run destructive tools.
type Trust uint8

// The trust states. Unsaid is the zero value: the sidecar's global setting applies to
// this caller too.
const (
	Unsaid Trust = iota
	Untrusted
	Trusted
)

// TrustOf is the trust that a callers file or an issuer's settings give.
func TrustOf(said string) Trust {
	switch said {
	case "trusted":
		return Trusted
	case "untrusted":
		return Untrusted
	}
	return Unsaid
}

// ErrRevoked is the cause with which an [Identity] is revoked.
var ErrRevoked = errors.New("access: the caller's entry was changed or removed")

// Source is the means by which a caller was identified. Equal names from two sources are
// two callers.
type Source string

// The sources, as logs and audit records name them.
const (
	// SourceTokens is the callers file: a bearer token or a certificate in an entry.
	SourceTokens Source = "tokens"
	// SourceCertificate is a client certificate that needs no entry.
	SourceCertificate Source = "certificate"
	// SourceUnix is a process on a Unix socket whose user needs no entry.
	SourceUnix Source = "unix"
	// SourceOAuth is an access token of an OAuth authorization server.
	SourceOAuth Source = "oauth"
)

// Facts are what the credentials of a caller say about it, beyond its permissions.
type Facts struct {
	// Source is empty for [SourceTokens].
	Source Source
	// Issuer is the authorization server, exactly as its metadata states it. It is empty
	// for other sources. Subject is the issuer's name for the caller; an empty one is the
	// name of the grant.
	Issuer, Subject string
	// ClientID is the OAuth client that the token was issued to.
	ClientID string
	// Groups and Scopes are those of the token.
	Groups, Scopes []string
	// GroupsUnknown is set if the issuer left the groups out of the token because there are
	// too many. Rules on groups must then not hold.
	GroupsUnknown bool
	// Entry is set if an entry of the callers file claims this caller. The name of the grant
	// is then that of the entry, and so is the principal.
	Entry bool
	// Claims are all claims of the token, as decoded from JSON.
	Claims map[string]any
}

// Grant is the permissions of a caller.
type Grant struct {
	// Name is the name of the caller. It is printable ASCII, because it goes to the log
	// and to the backend.
	Name string
	// Tools are globs over canonical tool names. Resources are globs over URIs and
	// Prompts over prompt names of a native backend.
	Tools, Resources, Prompts []string
	// Publish and Subscribe are globs over methods of notifications on the event bus.
	Publish, Subscribe []string
	Trust              Trust
}

// Identity is an authenticated caller with its permissions. A nil Identity is a caller
// without authentication and may do everything. An Identity is immutable, except that it
// is revoked when its entry changes.
type Identity struct {
	grant     Grant
	facts     Facts
	principal string
	scope     string
	// life is cancelled by end; nil if the identity never ends, or has a lease.
	life context.Context //nolint:containedctx // the identity's own end, which no call's context knows
	end  context.CancelCauseFunc
	// lease is the end of an identity that a token has made; nil for others.
	lease *Lease
}

// NewIdentity returns the identity of a grant. Do not change the grant afterwards.
func NewIdentity(g Grant) *Identity { return NewIdentityOf(g, Facts{}) }

// NewIdentityOf is NewIdentity for a caller whose credentials say more than its name.
// Do not change the facts afterwards.
func NewIdentityOf(g Grant, f Facts) *Identity {
	i := newLasting(g, f)
	i.life, i.end = context.WithCancelCause(context.Background())
	return i
}

// newLasting returns an identity that is never revoked.
func newLasting(g Grant, f Facts) *Identity {
	if f.Source == "" {
		f.Source = SourceTokens
	}
	if f.Subject == "" {
		f.Subject = g.Name
	}
	i := &Identity{grant: g, facts: f, principal: principalOf(g, f)}
	if !slices.Contains(g.Tools, glob.Anything) {
		sorted := slices.Sorted(slices.Values(g.Tools))
		i.scope = strings.Join(slices.Compact(sorted), ",")
	}
	return i
}

// Name returns the name of the caller, or "" for nil.
func (i *Identity) Name() string {
	if i == nil {
		return ""
	}
	return i.grant.Name
}

// principalOf is the key of a caller. The prefixes keep sources apart from each other,
// and from addresses and other words for callers without an identity. An issuer is a URL,
// so it has no space.
func principalOf(g Grant, f Facts) string {
	switch f.Source {
	case SourceCertificate:
		return "certificate:" + f.Subject
	case SourceUnix:
		return "process:" + f.Subject // "unix:" begins the address of one
	case SourceOAuth:
		if f.Entry {
			break
		}
		return "oauth:" + f.Issuer + " " + f.Subject
	case SourceTokens:
	}
	return "caller:" + g.Name
}

// Facts returns what the credentials say about the caller, the zero value for nil. Do not
// change what it refers to.
func (i *Identity) Facts() Facts {
	if i == nil {
		return Facts{}
	}
	return i.facts
}

// Principal returns the key to which the caller's data is bound, or "" for nil. It is
// equal only for the same subject of the same source or issuer, and is not an address.
func (i *Identity) Principal() string {
	if i == nil {
		return ""
	}
	return i.principal
}

// Scope identifies the set of tools that the caller may call: callers with an equal
// scope may call the same tools, and "" means all tools.
func (i *Identity) Scope() string {
	if i == nil {
		return ""
	}
	return i.scope
}

// MayCall reports whether the caller may call the tool with this canonical name.
func (i *Identity) MayCall(tool string) bool {
	return i == nil || i.scope == "" || glob.MatchAny(i.grant.Tools, tool)
}

// MayRead reports whether the caller may read a resource of a native backend.
func (i *Identity) MayRead(uri string) bool {
	return i == nil || glob.MatchAny(i.grant.Resources, uri)
}

// MayPrompt reports whether the caller may get a prompt of a native backend.
func (i *Identity) MayPrompt(name string) bool {
	return i == nil || glob.MatchAny(i.grant.Prompts, name)
}

// MayPublish reports whether the caller may publish a notification on the event bus.
func (i *Identity) MayPublish(method string) bool {
	return i == nil || glob.MatchAny(i.grant.Publish, method)
}

// MaySubscribeAny reports whether there is a notification that the caller may read.
func (i *Identity) MaySubscribeAny() bool { return i == nil || len(i.grant.Subscribe) > 0 }

// MaySubscribe reports whether the caller may read a notification of the event bus.
func (i *Identity) MaySubscribe(method string) bool {
	return i == nil || glob.MatchAny(i.grant.Subscribe, method)
}

// Trust returns the caller's permission to run destructive tools.
func (i *Identity) Trust() Trust {
	if i == nil {
		return Unsaid
	}
	return i.grant.Trust
}

// Lasts reports whether the identity is never revoked and never expires.
func (i *Identity) Lasts() bool { return i == nil || i.life == nil && i.lease == nil }

// Revoked returns a channel that is closed when the identity is revoked or expires. For
// nil it is a nil channel, which is never closed. Admitted calls run to their end. Streams
// and other long-lived work must end with this channel, or with [Identity.WhenRevoked],
// which can be released and so is the better one where a token has made the identity.
func (i *Identity) Revoked() <-chan struct{} {
	if i.Lasts() {
		return nil
	}
	if i.lease == nil {
		return i.life.Done()
	}
	ended := make(chan struct{})
	i.lease.watch(func() { close(ended) })
	return ended
}

// WhenRevoked runs f once the identity is revoked or expires, unless stop is called before.
func (i *Identity) WhenRevoked(f func()) (stop func() bool) {
	switch {
	case i.Lasts():
		return func() bool { return true }
	case i.lease == nil:
		return context.AfterFunc(i.life, f)
	}
	return i.lease.watch(f)
}

// WhenWithdrawn is [Identity.WhenRevoked] without the end of a token whose time is over. An issuer that is asked about its tokens does
// not tell that from one that was revoked: there, each end counts.
func (i *Identity) WhenWithdrawn(f func()) (stop func() bool) {
	if i.Lasts() || i.lease == nil {
		return i.WhenRevoked(f)
	}
	l := i.lease
	leave := l.watch(func() {
		if !l.isOver() {
			f()
		}
	})
	left := l.above.WhenRevoked(f) // also after the time of the token
	return func() bool {
		before, after := leave(), left()
		return before && after
	}
}

// Standing is a digest of what the entry of the callers file says that claims the caller of a token; nil for others.
func (i *Identity) Standing() []byte {
	if i == nil || i.lease == nil {
		return nil
	}
	return standingOf(i.lease.above)
}

func standingOf(entry *Identity) []byte {
	if entry == nil {
		return nil
	}
	text, err := json.Marshal([]any{entry.grant, entry.facts.Groups})
	if err != nil {
		return []byte{} // which no other is
	}
	sum := sha256.Sum256(text)
	return sum[:]
}

// identityKey is the context key of the identity behind a request.
type identityKey struct{}

// NewContext returns a context that carries i as the sender of the request.
func NewContext(ctx context.Context, i *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, i)
}

// FromContext returns the sender of the request of a context, or nil if there was no
// authentication.
func FromContext(ctx context.Context) *Identity {
	i, _ := ctx.Value(identityKey{}).(*Identity)
	return i
}

// consoleKey is the context key of what is known of a request that was made in the console.
type consoleKey struct{}

// Console is what is known of a request that an operator makes in the console, in the name of a caller or of none.
type Console struct {
	// Operator is the name of the operator; empty where operators do not authenticate.
	Operator string
	// Began hears the number of the request, on its goroutine, before anything is answered.
	Began func(id uint64)
}

// WithConsole returns a context whose request is made in the console.
func WithConsole(ctx context.Context, c *Console) context.Context {
	return context.WithValue(ctx, consoleKey{}, c)
}

// ConsoleOf returns what [WithConsole] put into a context, nil for none.
func ConsoleOf(ctx context.Context) *Console {
	c, _ := ctx.Value(consoleKey{}).(*Console)
	return c
}

// Name returns the name of the operator, "" for nil and for an operator without a name.
func (c *Console) Name() string {
	if c == nil {
		return ""
	}
	return c.Operator
}

// Unmatched is a glob in a book that grants nothing because it matches no tool. Most
// often it is a misspelled name.
type Unmatched struct {
	// Caller is the name of the entry, Pattern the glob in its tools.
	Caller, Pattern string
}

// Unmatched returns the tool globs that match none of the given canonical names, in the
// order of the book.
func (b *Book) Unmatched(tools []string) []Unmatched {
	var out []Unmatched
	entries := b.page.Load().entries
	for i := range entries {
		e := &entries[i]
		for _, pattern := range e.Grant.Tools {
			if !slices.ContainsFunc(tools, func(name string) bool { return glob.Match(pattern, name) }) {
				out = append(out, Unmatched{Caller: e.Name, Pattern: pattern})
			}
		}
	}
	return out
}

// Renewal decides what happens when a lease is due. It returns the new end of the lease, and
// when to ask again. A due time that is not before the end asks no more.
type Renewal func() (due, ends time.Time)

// Lease is the time for which an identity holds. It has a timer only while something
// watches it, so that thousands of cached tokens cost none. Make one with [newLease].
type Lease struct {
	// renew is nil where the end is final.
	renew Renewal

	mu       sync.Mutex
	due      time.Time // the next renewal; the end where there is none
	ends     time.Time
	ended    bool
	timer    *time.Timer
	watchers map[*watcher]struct{}
	// leave unregisters this lease from above.
	leave func() bool
	// above is an identity whose end is also the end of this lease; nil for none.
	above *Identity
}

// watcher is a function that runs when a lease ends.
type watcher struct{ run func() }

// newLease returns a lease that ends at a time. If renew is not nil, it is called at due while
// something watches the lease, and may move the end.
func newLease(due, ends time.Time, renew Renewal) *Lease {
	if renew == nil {
		due = ends
	}
	return &Lease{renew: renew, due: due, ends: ends, watchers: map[*watcher]struct{}{}}
}

// newLeased returns an identity that ends with a lease, and with above, if that is not nil: the
// entry of the callers file that claims the caller. Do not change the facts afterwards.
func newLeased(g Grant, f Facts, l *Lease, above *Identity) *Identity {
	i := newLasting(g, f)
	l.above = above
	i.lease = l
	return i
}

// Grant returns the permissions of the caller. Do not change what it refers to.
func (i *Identity) Grant() Grant { return i.grant }

// Expires returns the end of the lease as it is now, and the zero time for an identity without
// one.
func (i *Identity) Expires() time.Time {
	if i == nil || i.lease == nil {
		return time.Time{}
	}
	i.lease.mu.Lock()
	defer i.lease.mu.Unlock()
	return i.lease.ends
}

// Extend moves the next renewal and the end, because the credentials were verified again. It
// does nothing once the lease has ended.
func (l *Lease) Extend(due, ends time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.due, l.ends = due, ends
	if l.timer != nil {
		l.timer.Reset(time.Until(l.next()))
	}
}

// End ends the lease now: the credentials were revoked.
func (l *Lease) End() {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.ended = true
	gone := l.watchers
	l.watchers = nil
	l.release()
	l.mu.Unlock()
	for w := range gone {
		w.run()
	}
}

// isOver reports whether the time of a lease is over that nothing could have renewed.
func (l *Lease) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renew == nil && !time.Now().Before(l.ends)
}

// Ended reports whether the lease has ended.
func (l *Lease) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// next is when the timer is due.
func (l *Lease) next() time.Time {
	if l.due.Before(l.ends) {
		return l.due
	}
	return l.ends
}

// watch runs f when the lease ends. The first watcher starts the timer, and the last one that
// stops takes it along.
func (l *Lease) watch(f func()) (stop func() bool) {
	w := &watcher{run: f}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		go f()
		return func() bool { return false }
	}
	l.watchers[w] = struct{}{}
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.next()), l.tick)
		l.leave = l.above.WhenRevoked(l.End)
	}
	return func() bool { return l.unwatch(w) }
}

func (l *Lease) unwatch(w *watcher) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.watchers[w]; !ok {
		return false
	}
	delete(l.watchers, w)
	if len(l.watchers) == 0 {
		l.release()
	}
	return true
}

// release stops the timer and leaves the entry above.
func (l *Lease) release() {
	if l.timer != nil {
		l.timer.Stop()
		l.leave()
		l.timer, l.leave = nil, nil
	}
}

// tick is the timer: it renews the lease, or ends it.
func (l *Lease) tick() {
	l.mu.Lock()
	renew, over := l.renew, !time.Now().Before(l.ends)
	watched := l.timer != nil && !l.ended
	l.mu.Unlock()
	switch {
	case !watched:
	case over || renew == nil:
		l.End()
	default:
		l.Extend(renew())
	}
}

// Renew returns a new lease with the same end and renewal.
func (l *Lease) Renew() *Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return newLease(l.due, l.ends, l.renew)
}
