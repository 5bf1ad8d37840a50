// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// MiddlewareOptions configure a Middleware.
type MiddlewareOptions struct {
	// Who authenticates credentials. If it is nil, every request passes, and the
	// middleware only removes headers.
	Who Authenticator
	// Names returns the accepted URI names of a connection's client certificate. It
	// is nil without client certificates.
	Names func(*tls.ConnectionState) []string
	// Process returns the process at the other end of a request's Unix socket, nil for none. It is nil where callers are not identified
	// by their processes.
	Process func(context.Context) *Process
	// Subject is the header that carries the caller's name to the backend, in lower
	// case; "" sends none.
	Subject string
	// Unnamed keeps the caller's name from the backend: the Subject header is removed, and
	// not written.
	Unnamed bool
	// Keep, if set, returns the context of a request with the caller's token, for what
	// exchanges it (package behalf). Nil drops the token.
	Keep func(ctx context.Context, token string) context.Context
	// Refuse rejects an unauthenticated request in the protocol of its edge.
	Refuse func(w http.ResponseWriter, r *http.Request, err *errmap.Error)
	// Reasons are those of Who for rejecting a request, beyond Reasons.
	Reasons []Reason
	// Log receives a line for each rejected request, at most ten a second; nil
	// discards.
	Log *zap.Logger
}

// Middleware passes authenticated requests to the next handler. Make one with
// [NewMiddleware].
type Middleware struct {
	opts MiddlewareOptions
	// words rejects requests in the words of the authenticator; nil if it has none.
	words   Refuser
	refused map[Reason]*atomic.Uint64 // of fixed keys
}

// NewMiddleware returns a Middleware.
func NewMiddleware(o MiddlewareOptions) *Middleware {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	o.Log = loglimit.New(o.Log)
	d := &Middleware{opts: o, refused: map[Reason]*atomic.Uint64{}}
	d.words, _ = o.Who.(Refuser)
	for _, why := range append(Reasons(), o.Reasons...) {
		d.refused[why] = new(atomic.Uint64)
	}
	return d
}

// Refused returns the number of requests that were rejected for a reason. It is
// 0 on a nil Middleware.
func (d *Middleware) Refused(why Reason) uint64 {
	if d == nil || d.refused[why] == nil {
		return 0
	}
	return d.refused[why].Load()
}

// Wrap returns a handler that passes authenticated requests to next.
func (d *Middleware) Wrap(next http.Handler) http.Handler { return &handler{middleware: d, next: next} }

// handler authenticates before it calls next. Its frame is small, because a stream
// can stay on top of it for hours, when the authentication is long done.
type handler struct {
	middleware *Middleware
	next       http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r = h.middleware.authenticate(w, r); r != nil {
		h.next.ServeHTTP(w, r)
	}
}

// authenticate returns the request with its caller's identity, or nil if it was
// rejected.
func (d *Middleware) authenticate(w http.ResponseWriter, r *http.Request) *http.Request {
	shown, why := d.removeCredentials(r)
	if d.opts.Who == nil {
		return r
	}
	if why != "" {
		d.refuse(w, r, d.unread(why, shown))
		return nil
	}
	told := telemetry.HTTPRequestOf(r.Context())
	start := told.Now()
	who, err := d.opts.Who.Authenticate(r.Context(), shown)
	told.Step(telemetry.StepAuthenticate, start)
	if err != nil {
		d.refuse(w, r, err)
		return nil
	}
	d.nameSubject(r, who)
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		// A cache in front may store the response of a GET, and cannot tell callers apart by certificate.
		w.Header().Set("Cache-Control", "private")
	}
	return r.WithContext(d.keep(NewContext(r.Context(), who), who, shown.Token))
}

// IsOn reports whether callers have to authenticate.
func (d *Middleware) IsOn() bool { return d.opts.Who != nil }

// Admit returns a request as one of a caller, nil for one without authentication, who was authenticated otherwise. It removes
// the credentials of the request as those of other requests are removed.
func (d *Middleware) Admit(r *http.Request, who *Identity) *http.Request {
	_, _ = d.removeCredentials(r)
	if who != nil {
		d.nameSubject(r, who)
	}
	return r.WithContext(NewContext(r.Context(), who))
}

// nameSubject names the caller to the backend.
func (d *Middleware) nameSubject(r *http.Request, who *Identity) {
	if d.opts.Subject != "" && !d.opts.Unnamed {
		r.Header.Set(d.opts.Subject, who.Name())
	}
}

// keep returns a context with the caller's token where it is to be exchanged. Only the
// token of an authorization server is: others are secrets between the caller and the
// sidecar.
func (d *Middleware) keep(ctx context.Context, who *Identity, token string) context.Context {
	if d.opts.Keep == nil || token == "" || who.Facts().Issuer == "" {
		return ctx
	}
	return d.opts.Keep(ctx, token)
}

// unread is the refusal of credentials that could not be read.
func (d *Middleware) unread(why Reason, shown Credentials) *Refusal {
	if d.words == nil {
		return Refuse(why)
	}
	return d.words.Refuse(why, shown)
}

// removeCredentials removes the caller's credentials and its copy of the subject header from
// the request, and returns the credentials, or why they cannot be read. It changes the
// header in place: it belongs to this request, and no handler has read it yet.
func (d *Middleware) removeCredentials(r *http.Request) (shown Credentials, why Reason) {
	shown.Method, shown.Path = r.Method, r.URL.EscapedPath()
	if d.opts.Names != nil {
		shown.URIs = d.opts.Names(r.TLS)
	}
	if d.opts.Process != nil {
		shown.Process = d.opts.Process(r.Context())
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		shown.Certificate = r.TLS.PeerCertificates[0].Raw
	}
	values := r.Header["Authorization"]
	shown.Proofs = r.Header["Dpop"]
	delete(r.Header, "Authorization")
	delete(r.Header, "Proxy-Authorization")
	delete(r.Header, "Dpop")
	d.dropSubject(r.Header)
	if len(values) == 0 {
		return shown, ""
	}
	why = read(&shown, values)
	if why == "" && d.words != nil && strings.Contains(r.URL.RawQuery, "access_token=") {
		why = Malformed // two ways at once (RFC 6750, section 2)
	}
	return shown, why
}

// dropSubject removes the caller's own copies of the subject header.
func (d *Middleware) dropSubject(h http.Header) {
	if d.opts.Subject == "" {
		return
	}
	for name := range h {
		if isSameHeader(name, d.opts.Subject) {
			delete(h, name)
		}
	}
}

// read reads the token of an Authorization header (RFC 6750, section 2.1, and RFC 9449,
// section 7.1). It rejects two such headers: another reader could take the other one.
func read(shown *Credentials, values []string) Reason {
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	shown.DPoP = strings.EqualFold(scheme, "DPoP")
	switch {
	case !ok || len(values) != 1 || token == "":
		return Malformed
	case !shown.DPoP && !strings.EqualFold(scheme, "Bearer"):
		return Scheme
	}
	shown.Token = token
	return ""
}

// isSameHeader compares names as the least careful reader would: many servers
// turn headers into variables, which lose case and have underscores for dashes.
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
func (d *Middleware) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var why *Refusal
	if !errors.As(err, &why) {
		d.opts.Refuse(w, r, unavailable(err))
		return
	}
	if count := d.refused[why.Reason]; count != nil {
		count.Add(1)
	}
	fields := logkey.AppendClient([]zap.Field{zap.String("reason", string(why.Reason))}, r.RemoteAddr)
	d.opts.Log.Warn("unauthenticated request rejected", // without the path: some put tokens there
		append(fields, telemetry.HTTPRequestOf(r.Context()).LogFields()...)...)
	if why.Nonce != "" {
		w.Header().Set("DPoP-Nonce", why.Nonce)
		w.Header().Set("Cache-Control", "no-store") // RFC 9449, section 8.2
	}
	if why.Invalid {
		d.opts.Refuse(w, r, errmap.Wrap(errmap.InvalidAuthorization, why, errmap.Challenge(why.Challenge),
			errmap.Message("Malformed credentials: "+why.Error())))
		return
	}
	d.opts.Refuse(w, r, errmap.Wrap(errmap.Unauthenticated, why, errmap.Challenge(why.Challenge),
		errmap.Message("Authentication required: "+why.Error())))
}

// unavailable is the error for credentials that could not be judged.
func unavailable(err error) *errmap.Error {
	var down *unavailableError
	if errors.As(err, &down) {
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(max(down.Retry, time.Second)),
			errmap.Message("Tool service unavailable: the authorization server of the token cannot be reached; retry"))
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(time.Second),
		errmap.Message("Tool service unavailable: caller authentication failed to run; retry"))
}
