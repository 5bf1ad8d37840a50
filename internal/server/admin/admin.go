// SPDX-License-Identifier: Apache-2.0

// Package admin is the HTTP interface for operators: probes, metrics, drain, refresh,
// trust and profiles.
//
// Handler is for the admin listener. HealthHandler is for the health listener, which is
// reachable for others and therefore read-only. The responses come from callbacks, so
// no stage of the pipeline is imported here. The guard in front of both checks Host and
// Origin.
//
// Unknown pages get 404, and unsupported methods 405. All of it is safe for concurrent
// use, if the callbacks are.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// Options are the callbacks into the process. The zero value is valid: a process
// that has started, is ready, and has nothing to drain.
type Options struct {
	// Ready reports whether calls can be answered, and the checks that this depends on.
	// It must not block, because probes have short timeouts. Nil means ready.
	Ready func() (bool, []Check)
	// Drain drains the process and ends it. Nil means that there is nothing to drain and
	// no /drain page.
	Drain Drainer
	// Trust is the switch for destructive tools. Nil means no /trust page.
	Trust Trust
	// Approvals serves the calls that wait for approval, below /approvals, to operators with [RoleRead]. Nil means no such pages.
	Approvals http.HandlerFunc
	// Describe returns a description of the process as JSON. It returns an error while
	// there is no description yet. Nil means no /describe page.
	Describe func(context.Context) ([]byte, error)
	// Refresh reloads the catalog for the operator who asks. Nil means no /refresh page.
	Refresh func(ctx context.Context, who string) Refreshed
	// Metrics answers scrapes on both listeners. Nil means no /metrics page.
	Metrics http.Handler
	// Keys serves the public keys of tokens that the sidecar signs, on both listeners. Nil
	// means no /jwks page.
	Keys http.Handler
	// Handlers are more handlers for operators, by the pattern of http.ServeMux. They are
	// served only on the admin listener, to operators with [RoleRead]; what needs more, they
	// check with [Admin.May].
	Handlers map[string]http.Handler
	// Console is the console; nil means none.
	Console *Console
	// Operators authenticates operators; the probes need no authentication. Nil means that
	// every client is an operator with all roles.
	Operators Operators
}

// Check is one check that readiness depends on, or that explains it.
type Check struct {
	Name string
	OK   bool
	// Detail describes the problem in words.
	Detail string
	// Info marks a check that does not affect readiness.
	Info bool
	// Degrades marks a check whose failure leaves the process ready, for all that does not
	// need it: the answer is "ready" and says what is degraded.
	Degrades bool
}

// Admin makes the handlers.
type Admin struct {
	options Options
	// waiting are the requests that wait for the end of a drain, told those that
	// have heard of it.
	waiting, told atomic.Int64
}

// New returns an Admin that uses these callbacks.
func New(o Options) *Admin {
	return &Admin{options: o}
}

const (
	adminPages  = "no such page; the pages are /startupz, /livez, /readyz (?verbose), /metrics, /jwks, /describe, /drain (POST), /refresh (POST), /trust, /approvals, /console and /debug/pprof/"
	healthPages = "no such page; the pages are /startupz, /livez, /readyz (?verbose), /metrics and /jwks"
)

// Handler returns the handler of the admin listener.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux, adminPages, true)
	if a.options.Drain != nil {
		mux.Handle("/drain", a.as(RoleOperate, only(a.drain, http.MethodPost)))
	}
	if a.options.Refresh != nil {
		mux.Handle("/refresh", a.as(RoleOperate, only(a.refresh, http.MethodPost)))
	}
	if a.options.Trust != nil {
		mux.Handle("/trust", a.as(RoleRead, a.fromHere("trust can only be changed", a.trust)))
	}
	if a.options.Approvals != nil {
		approvals := a.as(RoleRead, a.fromHere("approvals can only be seen and decided", a.options.Approvals))
		mux.Handle("/approvals", approvals)
		mux.Handle("/approvals/", approvals)
	}
	if a.options.Describe != nil {
		mux.Handle("/describe", a.as(RoleRead, only(a.describe, http.MethodGet, http.MethodHead)))
	}
	// The package also enters these in http.DefaultServeMux, which is not served.
	mux.Handle("/debug/pprof/", a.as(RoleOperate, only(pprof.Index, http.MethodGet)))
	mux.Handle("/debug/pprof/cmdline", a.as(RoleOperate, only(pprof.Cmdline, http.MethodGet)))
	mux.Handle("/debug/pprof/profile", a.as(RoleOperate, only(pprof.Profile, http.MethodGet)))
	mux.Handle("/debug/pprof/symbol", a.as(RoleOperate, only(pprof.Symbol, http.MethodGet, http.MethodPost)))
	mux.Handle("/debug/pprof/trace", a.as(RoleOperate, only(pprof.Trace, http.MethodGet)))
	for pattern, handler := range a.options.Handlers {
		served := a.as(RoleRead, handler.ServeHTTP)
		if strings.HasPrefix(pattern, apiPath) {
			served = a.inConsole(served)
		}
		mux.Handle(pattern, served)
	}
	a.openConsole(mux)
	return fresh(a.ownSite(mux))
}

// HealthHandler returns the handler of the health listener. It serves only the probes,
// the metrics and the public keys. Its /readyz names failed checks, without details.
func (a *Admin) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux, healthPages, false)
	return fresh(mux)
}

func (a *Admin) probes(mux *http.ServeMux, pages string, hasDetails bool) {
	mux.HandleFunc("/startupz", only(started, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/livez", only(live, http.MethodGet, http.MethodHead))
	isOpen := !hasDetails || a.options.Operators == nil
	readiness := only(func(w http.ResponseWriter, r *http.Request) { a.ready(w, r, hasDetails) }, http.MethodGet, http.MethodHead)
	if isOpen {
		mux.HandleFunc("/readyz", readiness)
	} else {
		mux.HandleFunc("/readyz", a.readyFor(a.as(RoleRead, readiness)))
	}
	if a.options.Keys != nil {
		mux.HandleFunc("/jwks", only(a.options.Keys.ServeHTTP, http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, pages)
	})
	if a.options.Metrics == nil {
		return
	}
	scraped := only(a.options.Metrics.ServeHTTP, http.MethodGet, http.MethodHead)
	if isOpen {
		mux.HandleFunc("/metrics", scraped)
	} else {
		mux.Handle("/metrics", a.as(RoleRead, scraped))
	}
}

// readyFor is /readyz where operators authenticate: the details are for those who do, the
// answer of the probe for all.
func (a *Admin) readyFor(operators http.Handler) http.HandlerFunc {
	probe := only(func(w http.ResponseWriter, r *http.Request) { a.ready(w, r, false) }, http.MethodGet, http.MethodHead)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
			probe(w, r)
			return
		}
		operators.ServeHTTP(w, r)
	}
}

func (a *Admin) describe(w http.ResponseWriter, r *http.Request) {
	text, err := a.options.Describe(r.Context())
	if err != nil {
		say(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// The caller has gone if this fails.
	_, _ = w.Write(append(text, '\n'))
}

// only lets some methods through.
func only(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if slices.Contains(methods, r.Method) {
			next(w, r)
			return
		}
		for _, m := range methods {
			w.Header().Add("Allow", m)
		}
		say(w, http.StatusMethodNotAllowed, "use "+methods[0])
	}
}

// openConsole registers the console.
func (a *Admin) openConsole(mux *http.ServeMux) {
	c := a.options.Console
	if c == nil {
		return
	}
	page := a.inConsole(c.Page)
	mux.Handle(ConsolePath, page)
	mux.Handle(ConsolePath+"/", page)
	mux.Handle(signInPath, a.inConsole(only(session(c.SignIn), http.MethodPost)))
	mux.Handle(signOutPath, a.inConsole(only(session(c.SignOut), http.MethodPost)))
	mux.Handle(consoleCallPath, a.inConsole(a.as(RoleOperate, c.Call.ServeHTTP)))
}

// session is a handler of sessions, or what answers where there are none.
func session(h http.Handler) http.HandlerFunc {
	if h != nil {
		return h.ServeHTTP
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		Refuse(w, http.StatusNotFound, "there is no sign-in: operators do not authenticate (--admin-tokens)")
	}
}

// inConsole answers requests where there is no console: without authentication it is for this machine alone, as /trust is, wherever
// the handler is served.
func (a *Admin) inConsole(next http.Handler) http.Handler {
	if a.options.Console == nil {
		return next
	}
	off := a.options.Console.Off
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case off != "":
			Refuse(w, http.StatusNotFound, off)
		case a.options.Operators == nil && !isLocal(r):
			Refuse(w, http.StatusNotFound, "there is no console beyond this machine, because operators do not authenticate; set --admin-tokens")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fresh keeps answers out of caches, and browsers from guessing their type.
func fresh(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

// say answers with a sentence.
func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_, _ = io.WriteString(w, text+"\n")
}

// Drainer drains the process and ends it.
type Drainer interface {
	// Drain starts the drain and returns at once. It may be called again during the
	// drain. who is the operator that asks.
	Drain(who string)
	// Drained returns nil once no work is left, or an error when ctx ends.
	Drained(ctx context.Context) error
	// InFlight returns the number of requests that have no response yet.
	InFlight() int
}

// maxDrainWait bounds how long one request may wait for the end of a drain. No
// grace period is longer.
const maxDrainWait = time.Hour

// drain begins a drain: 202 while it goes on, 200 once it is over. With ?wait=10s
// the answer comes when it is over, or after that time.
func (a *Admin) drain(w http.ResponseWriter, r *http.Request) {
	wait, err := drainWait(r)
	if err != nil {
		say(w, http.StatusBadRequest, err.Error())
		return
	}
	d := a.options.Drain
	d.Drain(a.Operator(r.Context(), r.RemoteAddr))
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if d.Drained(ctx) == nil {
		a.told.Add(1)
		say(w, http.StatusOK, "drained")
		return
	}
	say(w, http.StatusAccepted, fmt.Sprintf("draining; %d requests in flight", d.InFlight()))
}

// drainWait is how long the caller wants to wait, zero where it does not.
func drainWait(r *http.Request) (time.Duration, error) {
	query := r.URL.Query()
	if !query.Has("wait") {
		return 0, nil
	}
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil || wait < 0 || wait > maxDrainWait {
		return 0, fmt.Errorf("wait must be a duration such as 10s, at most %v", maxDrainWait)
	}
	return wait, nil
}

// Awaited reports whether a client waits, or has waited, for the end of the drain.
func (a *Admin) Awaited() bool { return a.waiting.Load() > 0 || a.told.Load() > 0 }

// maxDetail bounds the words of one check, because they may hold an error that a
// backend sent.
const maxDetail = 1024

// started is true where a listener answers.
func started(w http.ResponseWriter, _ *http.Request) {
	say(w, http.StatusOK, "started")
}

// live never depends on the backend: a restart of the sidecar would not heal
// that.
func live(w http.ResponseWriter, _ *http.Request) {
	say(w, http.StatusOK, "alive")
}

// ready says why not, and in full with ?verbose. Details hold causes: addresses,
// names of files, what a backend said. Those are for operators, not for everybody
// who reaches the health listener.
func (a *Admin) ready(w http.ResponseWriter, r *http.Request, hasDetails bool) {
	isReady, checks := true, []Check(nil)
	if a.options.Ready != nil {
		isReady, checks = a.options.Ready()
	}
	if !hasDetails {
		checks = slices.DeleteFunc(slices.Clone(checks), func(c Check) bool { return c.Info }) // named after addresses and files
		for i := range checks {
			checks[i].Detail = ""
		}
	}
	status, text := http.StatusOK, "ready"
	if worse := failed(checks, func(c Check) bool { return c.Degrades }); len(worse) > 0 {
		text += ", degraded: " + strings.Join(worse, "; ")
	}
	if !isReady {
		status, text = http.StatusServiceUnavailable, "not ready"
		if reasons := failed(checks, func(c Check) bool { return !c.Info && !c.Degrades }); len(reasons) > 0 {
			text += ": " + strings.Join(reasons, "; ")
		}
	}
	if r.URL.Query().Has("verbose") {
		text += "\n" + table(checks)
	}
	say(w, status, strings.TrimSuffix(text, "\n"))
}

// failed are the reasons of the checks that fail, of some of them.
func failed(checks []Check, is func(Check) bool) []string {
	var out []string
	for _, c := range checks {
		if !c.OK && is(c) {
			out = append(out, strings.TrimSuffix(oneLine(c.Name)+": "+oneLine(c.Detail), ": "))
		}
	}
	return out
}

// table lists every check with its state.
func table(checks []Check) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	for _, c := range checks {
		state := "ok"
		if !c.OK {
			state = "failed"
			if c.Degrades {
				state = "degraded"
			}
		}
		if c.Info {
			state += " (info)"
		}
		// A strings.Builder takes everything.
		_, _ = t.Write([]byte(strings.TrimSuffix(oneLine(c.Name)+"\t"+state+"\t"+oneLine(c.Detail), "\t") + "\n"))
	}
	_ = t.Flush()
	return b.String()
}

// oneLine keeps a check on its line, whatever a backend put into its error.
func oneLine(s string) string {
	if len(s) > maxDetail {
		s = s[:maxDetail] + "..."
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, "?"), isBreak), " ")
}

func isBreak(r rune) bool {
	return r < ' ' || r == 0x7f || r == ' ' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// Refreshed is the result of a refresh of the catalog.
type Refreshed struct {
	// OK means that the catalog was loaded.
	OK bool `json:"ok"`
	// Changed means that the catalog differs from the previous one.
	Changed     bool    `json:"changed"`
	Tools       int     `json:"tools"`
	Fingerprint string  `json:"fingerprint,omitempty"`
	TookMS      float64 `json:"took_ms"`
	// Error says why the catalog was not loaded, Cause names the fault, and Fix says how
	// to fix it.
	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
	Fix   string `json:"fix,omitempty"`
}

// refresh loads the catalog again and says what came of it: 200, or 503 where the
// catalog from before stays in use.
func (a *Admin) refresh(w http.ResponseWriter, r *http.Request) {
	out := a.options.Refresh(r.Context(), a.Operator(r.Context(), r.RemoteAddr))
	status := http.StatusOK
	if !out.OK {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_ = json.NewEncoder(w).Encode(out) //nolint:errchkjson // see above
}

// Role is what an operator may do.
type Role string

// The roles. An operator with RoleOperate also has RoleRead.
const (
	// RoleRead permits reading: metrics, descriptions, trust, tools.
	RoleRead Role = "read"
	// RoleOperate permits changes: drain, refresh, trust, registrations. It also permits
	// profiles, because they cost CPU time.
	RoleOperate Role = "operate"
)

// Operators authenticates operators. Implementations are safe for concurrent use.
type Operators interface {
	// Authenticate returns a handler that passes authenticated operators to next, and
	// refuses all others.
	Authenticate(next http.Handler) http.Handler
	// Name returns the name of the operator of an authenticated request, "" of another.
	Name(ctx context.Context) string
	// Has reports whether the operator of an authenticated request has a role.
	Has(ctx context.Context, role Role) bool
}

// May reports whether the operator of a request has a role. Without authentication every
// operator has all.
func (a *Admin) May(ctx context.Context, role Role) bool {
	return a.options.Operators == nil || a.options.Operators.Has(ctx, role)
}

// Operator returns who sent a request, for logs and the audit trail: the name of the
// authenticated operator, else the address of the peer.
func (a *Admin) Operator(ctx context.Context, peer string) string {
	if a.options.Operators == nil {
		return peer
	}
	return a.options.Operators.Name(ctx)
}

// as lets requests through whose operator has a role.
func (a *Admin) as(role Role, next http.HandlerFunc) http.Handler {
	if a.options.Operators == nil {
		return next
	}
	return a.options.Operators.Authenticate(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.mayOr403(w, r, role) {
			next(w, r)
		}
	}))
}

// mayOr403 answers a request whose operator lacks a role.
func (a *Admin) mayOr403(w http.ResponseWriter, r *http.Request, role Role) bool {
	if a.May(r.Context(), role) {
		return true
	}
	Refuse(w, http.StatusForbidden, "operator "+a.Operator(r.Context(), r.RemoteAddr)+" needs the role "+string(role)+" (--admin-tokens)")
	return false
}

// Refuse answers a request that is not carried out, with a reason.
func Refuse(w http.ResponseWriter, status int, reason string) {
	answerJSON(w, status, struct {
		Error string `json:"error"`
	}{reason})
}

// isCrossSite holds for requests that a web page of another site made, as browsers tell
// (Fetch Metadata, section 2.1). A page that an operator only looks at must not reach the
// listener at all: a GET has no Origin, and a profile costs CPU time.
func isCrossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return true
}

// ownSite refuses requests of other sites, on every page. They may only link to the console.
func (a *Admin) ownSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !IsVisit(r) && (isCrossSite(r) || !a.isOwnPage(r)) {
			Refuse(w, http.StatusForbidden, "cross-site requests may not use the admin listener")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Trust is the switch that lets callers run destructive tools.
type Trust interface {
	// Trust returns the current state and the number of its changes.
	Trust() (state string, changes uint64)
	// SetTrust changes the state, logs who changed it, and returns the previous state.
	// For an unknown state it returns an error that lists the valid ones, and one with
	// [ErrUnavailable] where the change is for all replicas and they cannot be told.
	SetTrust(who, state string) (before string, err error)
}

const (
	// maxTrustBytes bounds the body of a change; the longest that says anything
	// has 23 bytes, and people indent.
	maxTrustBytes = 1 << 10
	// trustBodyTimeout bounds how long so short a body may take.
	trustBodyTimeout = 5 * time.Second
	// maxEchoed bounds how much of a caller's own text an answer repeats.
	maxEchoed = 64
)

// ErrUnavailable means that a change could not be stored for all replicas. The operator may try again.
var ErrUnavailable = errors.New("unavailable")

// trustAnswer is what /trust says. Before is set where there was a change to
// make.
type trustAnswer struct {
	Trust   string `json:"trust"`
	Before  string `json:"before,omitempty"`
	Changes uint64 `json:"changes"`
}

// fromHere lets only this machine ask where operators do not authenticate, wherever the listener is bound: a client that can change
// this can do everything that the tools can.
func (a *Admin) fromHere(what string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.options.Operators == nil && !isLocal(r) {
			Refuse(w, http.StatusForbidden, what+" from this machine")
			return
		}
		next(w, r)
	}
}

// trust shows and changes who may run destructive tools.
func (a *Admin) trust(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		state, changes := a.options.Trust.Trust()
		answerJSON(w, http.StatusOK, trustAnswer{Trust: state, Changes: changes})
	case http.MethodPost:
		a.setTrust(w, r)
	default:
		for _, m := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost} {
			w.Header().Add("Allow", m)
		}
		Refuse(w, http.StatusMethodNotAllowed, "use GET or POST")
	}
}

func (a *Admin) setTrust(w http.ResponseWriter, r *http.Request) {
	if !a.mayOr403(w, r, RoleOperate) {
		return
	}
	// A transport without deadlines has no slow peers either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(trustBodyTimeout))
	wanted, status, reason := readTrust(w, r)
	if reason != "" {
		Refuse(w, status, reason)
		return
	}
	before, err := a.options.Trust.SetTrust(a.Operator(r.Context(), r.RemoteAddr), wanted)
	switch {
	case errors.Is(err, ErrUnavailable):
		w.Header().Set("Retry-After", "1")
		Refuse(w, http.StatusServiceUnavailable, err.Error())
		return
	case err != nil:
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	state, changes := a.options.Trust.Trust()
	answerJSON(w, http.StatusOK, trustAnswer{Trust: state, Before: before, Changes: changes})
}

// readTrust reads {"trust": "..."} and nothing else. It returns a status and a reason for another body.
func readTrust(w http.ResponseWriter, r *http.Request) (state string, status int, reason string) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return "", http.StatusUnsupportedMediaType, "send application/json"
	}
	if r.Header.Get("Content-Encoding") != "" {
		return "", http.StatusUnsupportedMediaType, "send plain JSON, without Content-Encoding"
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTrustBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return "", http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", maxTrustBytes)
	case err != nil:
		return "", http.StatusBadRequest, "the body could not be read completely"
	}
	if state, reason = parseTrust(string(body)); reason != "" {
		return "", http.StatusBadRequest, reason + `; want {"trust": "trusted"} or {"trust": "untrusted"}`
	}
	return state, 0, ""
}

// parseTrust reads the object member by member: encoding/json would let pass
// what this must not guess about, a repeated or differently spelt name.
func parseTrust(body string) (state, reason string) {
	if !json.Valid([]byte(body)) {
		return "", "the body is not JSON"
	}
	tokens := json.NewDecoder(strings.NewReader(body))
	if open, _ := tokens.Token(); open != json.Delim('{') {
		return "", "the body is not an object"
	}
	seen := false
	for tokens.More() {
		name, _ := tokens.Token()
		if name != "trust" {
			return "", fmt.Sprintf("unknown member %.*q", maxEchoed, name)
		}
		if seen {
			return "", "trust appears twice"
		}
		seen = true
		value, _ := tokens.Token()
		text, ok := value.(string)
		if !ok {
			return "", "trust is not a string"
		}
		state = text
	}
	if !seen {
		return "", "trust is missing"
	}
	return state, ""
}

// isLocal reports whether the peer of a request is on this machine.
func isLocal(r *http.Request) bool {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && at.Network() == "unix" {
		return true
	}
	addr, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// isOwnPage holds for requests that no web page sent, and for pages that this
// listener served: under a loopback name, or under any name as [Console.OwnNames] says. Origins that may call tools may not do
// this: a page that a person only looks at must not become an operator.
func (a *Admin) isOwnPage(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	if err != nil || len(origins) > 1 || !strings.EqualFold(origin.Host, r.Host) {
		return false
	}
	if c := a.options.Console; c != nil && c.OwnNames {
		return isOrigin(origins[0], r)
	}
	name := origin.Hostname()
	return strings.EqualFold(name, "localhost") || net.ParseIP(name).IsLoopback()
}

func answerJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"the response cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// The client has gone if this fails.
	_, _ = w.Write(append(body, '\n'))
}
