// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/outrigger-mcp/outrigger/bridge/schema"
)

// registrations are the tools that were registered, which outlive every catalog of theirs. They are kept in memory.
type registrations struct {
	// mu is held while the catalog in use is replaced, whoever does it, and while those who watch are told.
	mu    sync.Mutex
	all   []*registered // by name
	bytes int

	// rulesMu guards rules, which compile when they are first needed.
	rulesMu sync.Mutex
	rules   optionRules
}

// Register adds a tool to the catalog in use and to every later one, and returns it as it stands there. It waits for the
// first catalog until the context ends. The same registration again changes nothing: created is then false.
//
// The error is a *RegistrationError where the registration is refused, and a *NotReadyError where there is no catalog.
// A tool whose RPC goes away is left out of later catalogs, with a warning among theirs, and comes back with it.
func (l *Live) Register(ctx context.Context, r Registration) (tool *Tool, created bool, err error) {
	ready, faults, err := l.prepare(r)
	if err != nil {
		return nil, false, err
	}
	if len(faults) > 0 {
		// Whoever mends a registration wants to know all at once, the RPC too where that can be told.
		if c := l.Current(); c != nil {
			if _, fault := c.bindable(r.Binding); fault != "" {
				faults = append(faults, schema.Violation{Path: "/binding", Keyword: "binding", Message: fault})
			}
		}
		return nil, false, refuse(r.Name, Invalid, faults...)
	}
	if _, err := l.Wait(ctx); err != nil {
		return nil, false, err
	}
	l.registered.mu.Lock()
	defer l.registered.mu.Unlock()
	return l.add(ready)
}

func (l *Live) prepare(r Registration) (*registered, []schema.Violation, error) {
	l.registered.rulesMu.Lock()
	defer l.registered.rulesMu.Unlock()
	return r.prepare(&l.registered.rules)
}

// add puts a registration into the catalog in use. The caller holds the lock.
func (l *Live) add(r *registered) (*Tool, bool, error) {
	c, limits, known := l.Current(), l.plan.Load().build.Limits.withDefaults(), &l.registered
	at, isKnown := slices.BinarySearchFunc(known.all, r.Name, func(r *registered, name string) int { return cmp.Compare(r.Name, name) })
	if isKnown {
		if differ := known.all[at].differences(r); len(differ) > 0 {
			return nil, false, refuse(r.Name, Conflict, differenceFaults(differ)...)
		}
		if t, ok := c.Lookup(r.Name); ok && t.Registered {
			return t, false, nil
		}
	}
	t, faults, err := r.bind(c, limits)
	switch {
	case err != nil:
		return nil, false, err
	case len(faults) > 0:
		return nil, false, refuse(r.Name, Invalid, faults...)
	}
	if text := taken(c.Lookup, t); text != "" {
		return nil, false, refuse(r.Name, Conflict, schema.Violation{Path: "/name", Keyword: "conflict", Message: text})
	}
	if full := known.full(r, isKnown, c.count(), limits); full != "" {
		return nil, false, refuse(r.Name, TooMany, schema.Violation{Keyword: "limit", Message: full})
	}
	if !isKnown {
		known.all = slices.Insert(known.all, at, r)
		known.bytes += r.bytes
	}
	fresh := c.with([]*Tool{t}, nil)
	l.current.Store(fresh)
	l.tell(c, fresh)
	return t, !isKnown, nil
}

// differenceFaults says one by one in what a registration is not the same as the one before.
func differenceFaults(members []string) []schema.Violation {
	var out []schema.Violation
	for _, m := range members {
		out = append(out, schema.Violation{Path: "/" + strings.ReplaceAll(m, ".", "/"), Keyword: "conflict",
			Message: "the tool that is registered under this name has another " + m})
	}
	return out
}

// full says which limit one more registration would break.
func (k *registrations) full(r *registered, isKnown bool, tools int, limits Limits) string {
	switch {
	case tools >= limits.MaxTools:
		return fmt.Sprintf("the catalog holds %d tools, which is the limit", tools)
	case isKnown:
		return ""
	case len(k.all) >= limits.MaxRegistrations:
		return fmt.Sprintf("%d tools are registered, which is the limit", len(k.all))
	case k.bytes+r.bytes > limits.MaxRegisteredBytes:
		return fmt.Sprintf("the registrations would hold %d bytes, at most %d are kept", k.bytes+r.bytes, limits.MaxRegisteredBytes)
	}
	return ""
}

// refuse makes the error. The name comes from outside.
func refuse(name string, why Refusal, faults ...schema.Violation) error {
	return &RegistrationError{Name: clip(name), Reason: why, Faults: schema.SortViolations(faults, schema.DefaultMaxViolations)}
}
