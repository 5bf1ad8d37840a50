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
	"io"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"
)

// Options are the callbacks into the process. The zero value is valid: a process
// that has started, is ready, and has nothing to drain.
type Options struct {
	// Started reports whether the process serves requests. Nil means that it does.
	Started func() bool
	// Ready reports whether calls can be answered, and the checks that this depends on.
	// It must not block, because probes have short timeouts. Nil means ready.
	Ready func() (bool, []Check)
	// Drain drains the process and ends it. Nil means that there is nothing to drain and
	// no /drain page.
	Drain Drainer
	// Trust is the switch for destructive tools. Nil means no /trust page.
	Trust Trust
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
	adminPages  = "no such page; the pages are /startupz, /livez, /readyz (?verbose), /metrics, /jwks, /describe, /drain (POST), /refresh (POST), /trust and /debug/pprof/"
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
		mux.Handle("/trust", a.as(RoleRead, a.trust))
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
		mux.Handle(pattern, a.as(RoleRead, handler.ServeHTTP))
	}
	return fresh(ownSite(mux))
}

// HealthHandler returns the handler of the health listener. It serves only the probes,
// the metrics and the public keys. Its /readyz names failed checks, without details.
func (a *Admin) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux, healthPages, false)
	return fresh(mux)
}

func (a *Admin) probes(mux *http.ServeMux, pages string, hasDetails bool) {
	mux.HandleFunc("/startupz", only(a.startup, http.MethodGet, http.MethodHead))
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
