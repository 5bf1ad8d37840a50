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
	// Started reports whether the process serves. Nil: it does.
	Started func() bool
	// Ready reports whether calls can be answered, and what that depends on. It
	// must not block, since probes have short timeouts. Nil: ready.
	Ready func() (bool, []Check)
	// Drain drains the process and ends it. Nil: there is nothing to drain, and
	// /drain is not there.
	Drain Drainer
	// Trust is who may run destructive tools. Nil: there is no /trust.
	Trust Trust
	// Describe returns what the process says about itself, as JSON. Its error is
	// why it cannot say anything yet. Nil: there is no /describe.
	Describe func(context.Context) ([]byte, error)
	// Refresh loads the catalog again. Nil: there is no /refresh.
	Refresh func(ctx context.Context) Refreshed
	// Metrics answers scrapes on both listeners. Nil: there is no /metrics.
	Metrics http.Handler
	// Handlers are more of what operators reach, by the pattern of http.ServeMux:
	// for the admin listener alone.
	Handlers map[string]http.Handler
}

// Check is one thing that readiness depends on, or that helps to understand it.
type Check struct {
	Name string
	OK   bool
	// Detail says in words what is the matter.
	Detail string
	// Info marks a check that does not decide.
	Info bool
}

// Admin makes the handlers.
type Admin struct {
	options Options
	// waiting are the requests that wait for the end of a drain, told those that
	// have heard of it.
	waiting, told atomic.Int64
}

// New takes the callbacks.
func New(o Options) *Admin {
	return &Admin{options: o}
}

const (
	adminPages  = "no such page; the pages are /startupz, /livez, /readyz (?verbose), /metrics, /describe, /drain (POST), /refresh (POST), /trust and /debug/pprof/"
	healthPages = "no such page; the pages are /startupz, /livez, /readyz (?verbose) and /metrics"
)

// Handler serves the admin listener.
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

// HealthHandler serves the health listener: the probes, the metrics and nothing
// else. Its /readyz names what failed, without details.
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
