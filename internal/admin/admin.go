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
	// Refresh reloads the catalog. Nil means no /refresh page.
	Refresh func(ctx context.Context) Refreshed
	// Metrics answers scrapes on both listeners. Nil means no /metrics page.
	Metrics http.Handler
	// Handlers are more handlers for operators, by the pattern of http.ServeMux. They are
	// served only on the admin listener.
	Handlers map[string]http.Handler
}

// Check is one check that readiness depends on, or that explains it.
type Check struct {
	Name string
	OK   bool
	// Detail describes the problem in words.
	Detail string
	// Info marks a check that does not affect readiness.
	Info bool
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
	adminPages  = "no such page; the pages are /startupz, /livez, /readyz (?verbose), /metrics, /describe, /drain (POST), /refresh (POST), /trust and /debug/pprof/"
	healthPages = "no such page; the pages are /startupz, /livez, /readyz (?verbose) and /metrics"
)

// Handler returns the handler of the admin listener.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux, adminPages, true)
	if a.options.Drain != nil {
		mux.HandleFunc("/drain", only(a.drain, http.MethodPost))
	}
	if a.options.Refresh != nil {
		mux.HandleFunc("/refresh", only(a.refresh, http.MethodPost))
	}
	if a.options.Trust != nil {
		mux.HandleFunc("/trust", a.trust)
	}
	if a.options.Describe != nil {
		mux.HandleFunc("/describe", only(a.describe, http.MethodGet, http.MethodHead))
	}
	// The package also enters these in http.DefaultServeMux, which is not served.
	mux.HandleFunc("/debug/pprof/", only(pprof.Index, http.MethodGet))
	mux.HandleFunc("/debug/pprof/cmdline", only(pprof.Cmdline, http.MethodGet))
	mux.HandleFunc("/debug/pprof/profile", only(pprof.Profile, http.MethodGet))
	mux.HandleFunc("/debug/pprof/symbol", only(pprof.Symbol, http.MethodGet, http.MethodPost))
	mux.HandleFunc("/debug/pprof/trace", only(pprof.Trace, http.MethodGet))
	for pattern, handler := range a.options.Handlers {
		mux.Handle(pattern, handler)
	}
	return fresh(mux)
}

// HealthHandler returns the handler of the health listener. It serves only the probes
// and the metrics. Its /readyz names failed checks, without details.
func (a *Admin) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	a.probes(mux, healthPages, false)
	return fresh(mux)
}

func (a *Admin) probes(mux *http.ServeMux, pages string, hasDetails bool) {
	mux.HandleFunc("/startupz", only(a.startup, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/livez", only(live, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/readyz", only(func(w http.ResponseWriter, r *http.Request) { a.ready(w, r, hasDetails) }, http.MethodGet, http.MethodHead))
	if a.options.Metrics != nil {
		mux.HandleFunc("/metrics", only(a.options.Metrics.ServeHTTP, http.MethodGet, http.MethodHead))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		say(w, http.StatusNotFound, pages)
	})
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
