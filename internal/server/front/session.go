// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

const (
	// sessionLasts is how long a session lasts, used or not: a working day.
	sessionLasts = 8 * time.Hour
	// maxSessions bounds the sessions; with one more the oldest ends.
	maxSessions = 1000
	// maxOwn bounds those of one operator: with one more its oldest ends, and not another operator's.
	maxOwn = 20
	// maxSignIns bounds the lines and answers for refused attempts to sign in per second, of all clients together. An operator with a
	// token can always sign in.
	maxSignIns = 10
	// maxSignInBytes bounds the body of an attempt, which is little more than a token, and signInTimeout how long it may take.
	maxSignInBytes = 2 * identity.MaxToken
	signInTimeout  = 5 * time.Second
	// cookieName is the name of the cookie of a session. Over TLS it begins with the prefix that keeps other hosts from
	// setting it. Cookies of one host are common to its ports, so a port is part of the name: one browser may be at two sidecars.
	cookieName   = "outrigger_console"
	securePrefix = "__Host-"
)

// errSignedOut ends the requests of a session that is over.
var errSignedOut = errors.New("the operator's session in the console is over")

// sessions are the sessions of operators who signed in to the console, in memory: a sidecar that starts again has none.
// Safe for concurrent use.
type sessions struct {
	book     *identity.Book
	log      *zap.Logger
	changed  func(trail.Change)
	attempts *rate.Limiter

	mu   sync.Mutex
	byID map[identity.Digest]*session
}

// session is one session. It has nothing of the token: what the token was good for is in who, which is revoked with its entry.
type session struct {
	who   *identity.Identity
	began time.Time
	key   identity.Digest // of its id
	// life ends with the session: on sign-out, after its time, or with the operator's entry.
	life context.Context //nolint:containedctx // the session's own end, which no request's context knows
	end  context.CancelFunc
}

func newSessions(book *identity.Book, log *zap.Logger, changed func(trail.Change)) *sessions {
	if changed == nil {
		changed = func(trail.Change) {}
	}
	return &sessions{
		book: book, log: loglimit.New(log), changed: changed, attempts: rate.NewLimiter(maxSignIns, maxSignIns),
		byID: map[identity.Digest]*session{},
	}
}

// open begins a session and returns its id.
func (s *sessions) open(who *identity.Identity) string {
	var raw [sha256.Size]byte
	_, _ = rand.Read(raw[:]) // it never fails
	id := base64.RawURLEncoding.EncodeToString(raw[:])
	key := sha256.Sum256([]byte(id))
	opened := &session{who: who, began: time.Now(), key: key}
	opened.life, opened.end = context.WithTimeout(context.Background(), sessionLasts)
	s.mu.Lock()
	oldest := s.tooMany(who)
	if oldest != nil {
		delete(s.byID, oldest.key)
	}
	s.byID[key] = opened
	s.mu.Unlock()
	if oldest != nil {
		oldest.end()
	}
	release := who.WhenRevoked(opened.end)
	context.AfterFunc(opened.life, func() {
		release()
		s.mu.Lock()
		delete(s.byID, key)
		s.mu.Unlock()
	})
	return id
}

// tooMany returns the session that ends for one more of an operator, nil while there is room. The lock is held.
func (s *sessions) tooMany(who *identity.Identity) *session {
	var oldest, ownOldest *session
	own := 0
	for _, one := range s.byID {
		if oldest == nil || one.began.Before(oldest.began) {
			oldest = one
		}
		if one.who.Name() != who.Name() {
			continue
		}
		if own++; ownOldest == nil || one.began.Before(ownOldest.began) {
			ownOldest = one
		}
	}
	switch {
	case own >= maxOwn:
		return ownOldest
	case len(s.byID) >= maxSessions:
		return oldest
	}
	return nil
}

// of returns the session of a request, nil if it has none, or one that is over.
func (s *sessions) of(r *http.Request) *session {
	if s == nil {
		return nil
	}
	// Another port of the host may have set a cookie of this name, which the browser sends beside ours, in any order. Two sessions in
	// one request are none: one of them may be a trap.
	var found *session
	for _, name := range cookieNames(r) {
		for _, cookie := range r.CookiesNamed(name) {
			s.mu.Lock()
			one := s.byID[sha256.Sum256([]byte(cookie.Value))]
			s.mu.Unlock()
			switch {
			case one == nil || one.isOver() || one == found:
			case found != nil:
				return nil
			default:
				found = one
			}
		}
	}
	return found
}

// isOver looks at the entry, too: a session hears of its end a moment later.
func (s *session) isOver() bool {
	select {
	case <-s.who.Revoked():
		return true
	case <-s.life.Done():
		return true
	default:
		return false
	}
}

// cookieNames are the names that the cookie of a request may have. Over TLS only that which no other host can set is heeded.
func cookieNames(r *http.Request) []string {
	name := cookieName
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "_" + port
	}
	if r.TLS != nil {
		return []string{securePrefix + name}
	}
	return []string{securePrefix + name, name}
}

// setCookie gives the browser a session, or takes it away where id is empty.
func setCookie(w http.ResponseWriter, r *http.Request, id string) {
	names := cookieNames(r)
	isSecure := r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://") // a proxy in front ends TLS
	cookie := &http.Cookie{
		Name: names[len(names)-1], Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLasts / time.Second),
	}
	if isSecure {
		cookie.Name, cookie.Secure = names[0], true
	}
	if id == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// signIn begins a session for an operator with a token.
func (s *sessions) signIn(w http.ResponseWriter, r *http.Request) {
	// A transport without deadlines has no slow peers either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(signInTimeout))
	token, status, reason := readToken(w, r)
	if reason != "" {
		admin.Refuse(w, status, reason)
		return
	}
	who, err := s.book.Authenticate(r.Context(), identity.Credentials{Token: token})
	if err != nil && !s.attempts.Allow() {
		w.Header().Set("Retry-After", "1")
		admin.Refuse(w, http.StatusTooManyRequests, "too many attempts to sign in; try again in a second")
		return
	}
	if err != nil {
		s.log.Warn("sign-in refused", logkey.AppendClient(nil, r.RemoteAddr)...)
		admin.Refuse(w, http.StatusUnauthorized, "this is no token of an operator: its entry has to be in the operators file (--admin-tokens)")
		return
	}
	if before := s.of(r); before != nil {
		before.end()
	}
	setCookie(w, r, s.open(who))
	s.tell("sign_in", who, r)
	w.WriteHeader(http.StatusNoContent)
}

// signOut ends the session of a request.
func (s *sessions) signOut(w http.ResponseWriter, r *http.Request) {
	over := s.of(r)
	if over != nil {
		if !admin.IsSameOrigin(r) {
			refuseForeign(w)
			return
		}
		over.end()
		s.tell("sign_out", over.who, r)
	}
	setCookie(w, r, "")
	w.WriteHeader(http.StatusNoContent)
}

// tell writes the line of a session that begins or ends.
func (s *sessions) tell(kind string, who *identity.Identity, r *http.Request) {
	s.changed(trail.Change{Kind: kind, Who: trail.Caller{Name: who.Name(), Address: peer.Address(r.RemoteAddr)}})
}

// refuseForeign answers a request with the cookie of a session that no page of the console is known to have sent.
func refuseForeign(w http.ResponseWriter) {
	admin.Refuse(w, http.StatusForbidden, "a session is only for the pages of the console; send a token in Authorization instead")
}

// readToken reads {"token": "..."}. It returns a status and a reason for another body, which say nothing of it.
func readToken(w http.ResponseWriter, r *http.Request) (token string, status int, reason string) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" || r.Header.Get("Content-Encoding") != "" {
		return "", http.StatusUnsupportedMediaType, "send application/json"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxSignInBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", http.StatusRequestEntityTooLarge, "the body is too large"
	case err != nil:
		return "", http.StatusBadRequest, "the body could not be read completely"
	}
	var sent struct {
		Token *string `json:"token"`
	}
	if json.Unmarshal(body, &sent) != nil || sent.Token == nil {
		return "", http.StatusBadRequest, `want {"token": "..."}`
	}
	return strings.TrimSpace(*sent.Token), 0, ""
}

// signedInKey is the context key of requests with a session.
type signedInKey struct{}

// wrap passes requests for the console that have a session, and no other credentials, to next. Others have to authenticate by
// their headers and certificates. What an operator has opened on the console ends with its session, or with its entry.
func (s *sessions) wrap(next http.Handler, auth *identity.Middleware) http.Handler {
	elsewhere, onConsole := auth.Wrap(next), auth.Wrap(untilRevoked(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admin.IsConsole(r) {
			elsewhere.ServeHTTP(w, r)
			return
		}
		var found *session
		if len(r.Header.Values("Authorization")) == 0 {
			found = s.of(r)
		}
		if found == nil {
			onConsole.ServeHTTP(w, r)
			return
		}
		if !admin.IsSameOrigin(r) {
			refuseForeign(w)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer context.AfterFunc(found.life, func() { cancel(errSignedOut) })()
		ctx = context.WithValue(identity.NewContext(ctx, found.who), signedInKey{}, true)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// untilRevoked ends requests with the entry of their operator.
func untilRevoked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		defer identity.FromContext(ctx).WhenRevoked(func() { cancel(identity.ErrRevoked) })()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
