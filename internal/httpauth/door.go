// SPDX-License-Identifier: Apache-2.0

// Package httpauth stands before the edges of the main listener and finds out
// who a request comes from. It reads what the caller shows, asks an
// [access.Authenticator], and puts who it is into the request's context, from
// where the pipeline takes it. Unauthenticated requests end here, in the protocol of the
// edge that they were for.
//
// What a caller showed goes no further: the Authorization header is taken out of
// the request, so that no stage behind could send it on or write it down. The
// header in which the backend is told who calls is the sidecar's alone: whatever
// a caller sent under that name is taken out too. A Door is safe for concurrent
// use.
package httpauth

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
)

// Options configure a Door.
type Options struct {
	// Who finds out who shows what; nil means no authentication, and the door only takes out
	// what is not to go further.
	Who access.Authenticator
	// Names are the URI names that a connection's certificate was let in with; nil
	// where there are no certificates.
	Names func(*tls.ConnectionState) []string
	// Subject is the header in which the backend is told the caller's name, in
	// lower case; "" tells it nothing.
	Subject string
	// Refuse rejects an unauthenticated request in the protocol of its edge.
	Refuse func(w http.ResponseWriter, r *http.Request, err *errmap.Error)
	// Log receives a line for requests that were refused, at most ten a second;
	// nil discards.
	Log *zap.Logger
}

// Door lets requests through of which it is known who sent them. Make one with
// [New].
type Door struct {
	opts    Options
	refused map[access.Reason]*atomic.Uint64 // of fixed keys
}

// New returns a door.
func New(o Options) *Door {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = loglimit.New(o.Log)
	d := &Door{opts: o, refused: map[access.Reason]*atomic.Uint64{}}
	for _, why := range access.Reasons() {
		d.refused[why] = new(atomic.Uint64)
	}
	return d
}

// Refused is how many requests were refused for a reason. A nil door refuses
// none.
func (d *Door) Refused(why access.Reason) uint64 {
	if d == nil || d.refused[why] == nil {
		return 0
	}
	return d.refused[why].Load()
}

// Wrap returns a handler that lets through to next what the door lets in.
func (d *Door) Wrap(next http.Handler) http.Handler { return &inside{door: d, next: next} }

// inside is a handler behind a door. Its frame is small, because a stream waits on
// top of it for hours: the door's own work is done by then.
type inside struct {
	door *Door
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *inside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r = h.door.letIn(w, r); r != nil {
		h.next.ServeHTTP(w, r)
	}
}

// letIn returns the request as those inside see it; nil where it has been refused.
func (d *Door) letIn(w http.ResponseWriter, r *http.Request) *http.Request {
	shown, ok := d.take(r)
	if d.opts.Who == nil {
		return r
	}
	if !ok {
		d.refuse(w, r, access.Refuse(access.Malformed))
		return nil
	}
	who, err := d.opts.Who.Authenticate(r.Context(), shown)
	if err != nil {
		d.refuse(w, r, err)
		return nil
	}
	if d.opts.Subject != "" {
		r.Header.Set(d.opts.Subject, who.Name())
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		// A cache in front may keep what a GET brings, and certificates show it nothing of who asked.
		w.Header().Set("Cache-Control", "private")
	}
	return r.WithContext(access.NewContext(r.Context(), who))
}

// take takes out of a request what the caller shows, and what it may not say. It
// changes the request's own header, which is this request's alone and which
// is still unread.
func (d *Door) take(r *http.Request) (access.Credentials, bool) {
	var shown access.Credentials
	if d.opts.Names != nil {
		shown.URIs = d.opts.Names(r.TLS)
	}
	values := r.Header["Authorization"]
	delete(r.Header, "Authorization")
	delete(r.Header, "Proxy-Authorization")
	if d.opts.Subject != "" {
		for name := range r.Header {
			if isSameHeader(name, d.opts.Subject) {
				delete(r.Header, name)
			}
		}
	}
	if len(values) == 0 {
		return shown, true
	}
	token, ok := bearer(values)
	shown.Token = token
	return shown, ok
}

// bearer reads the token of an Authorization header (RFC 6750, section 2.1). Two
// such headers could mean one caller to us and another to somebody else.
func bearer(values []string) (string, bool) {
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	return token, ok && len(values) == 1 && strings.EqualFold(scheme, "Bearer") && token != ""
}

// isSameHeader compares names as the least careful reader would: many servers
// hand headers on as variables, in which case is lost and a dash is an underscore.
func isSameHeader(name, other string) bool {
	if len(name) != len(other) {
		return false
	}
	for i := range len(name) {
		if folded(name[i]) != folded(other[i]) {
			return false
		}
	}
	return true
}

func folded(c byte) byte {
	switch {
	case 'A' <= c && c <= 'Z':
		return c + 'a' - 'A'
	case c == '_', c == '.':
		return '-'
	}
	return c
}

// refuse rejects an unauthenticated request.
func (d *Door) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var why *access.Refusal
	if !errors.As(err, &why) {
		d.opts.Refuse(w, r, errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: caller authentication failed to run; retry")))
		return
	}
	d.refused[why.Reason].Add(1)
	d.opts.Log.Warn("unauthenticated request rejected", zap.String("reason", string(why.Reason)),
		zap.String("remote_addr", r.RemoteAddr)) // not the path: some put tokens there
	d.opts.Refuse(w, r, errmap.Wrap(errmap.Unauthenticated, why, errmap.Challenge(why.Challenge),
		errmap.Message("Authentication required: "+why.Error())))
}
