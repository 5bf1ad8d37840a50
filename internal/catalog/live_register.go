// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// registrations are the tools that were registered, which outlive every catalog of theirs. They are kept in memory.
type registrations struct {
	// mu is held while the catalog in use is replaced, and while those who watch are told.
	mu    sync.Mutex
	all   []*registered // by name
	bytes int

	// rulesMu guards rules, which compile when they are first needed.
	rulesMu sync.Mutex
	rules   optionRules
}

// Placement is the outcome of a registration.
type Placement struct {
	// Tool is the tool in the catalog in use.
	Tool *Tool
	// Created is true if the name is new.
	Created bool
	// Replaced is the version that the registration replaced; empty if it replaced none.
	Replaced string
}

// Register is like Put, but does not return the replaced version.
func (l *Live) Register(ctx context.Context, r Registration) (tool *Tool, created bool, err error) {
	placed, err := l.Put(ctx, r)
	return placed.Tool, placed.Created, err
}

// Put adds a tool to the catalog in use and to every later one. Repeating a registration changes nothing. A
// registration with a higher version replaces the one of the same name; in-flight calls keep the old one.
// Put waits for the first catalog until the context ends.
//
// The error is a *RegistrationError if the registration is refused, and a *NotReadyError if there is no catalog.
// A tool whose RPC disappears is left out of later catalogs with a warning, and returns when the RPC does.
func (l *Live) Put(ctx context.Context, r Registration) (Placement, error) {
	return l.PutStored(ctx, r, func() error { return nil })
}

// PutStored is like Put, and calls store when nothing else can refuse the registration any more. If store fails, that is
// the error, and nothing has changed. Other registrations wait for it.
func (l *Live) PutStored(ctx context.Context, r Registration, store func() error) (Placement, error) {
	ready, faults, err := l.prepare(r)
	if err != nil {
		return Placement{}, err
	}
	if len(faults) > 0 {
		// The author of a registration wants all faults at once, the RPC too where that can be told.
		if c := l.Current(); c != nil {
			if _, fault := c.bindable(r.Binding); fault != "" {
				faults = append(faults, schema.Violation{Path: "/binding", Keyword: "binding", Message: fault})
			}
		}
		return Placement{}, refuse(r.Name, Invalid, faults...)
	}
	if _, err := l.Wait(ctx); err != nil {
		return Placement{}, err
	}
	l.registered.mu.Lock()
	defer l.registered.mu.Unlock()
	at, isKnown := l.registered.find(r.Name)
	if !isKnown {
		return l.add(at, ready, store)
	}
	if differ := l.registered.all[at].differences(ready); len(differ) > 0 {
		return l.replace(at, ready, differ, store)
	}
	if t, ok := l.Current().Lookup(r.Name); ok && t.Registered {
		if err := store(); err != nil { // it may have lost what is known here
			return Placement{}, err
		}
		return Placement{Tool: t}, nil
	}
	return l.add(at, ready, store)
}

// Registrations returns the registrations that are known, also those that are left out of the catalog in use, by their names.
func (l *Live) Registrations() []string {
	l.registered.mu.Lock()
	defer l.registered.mu.Unlock()
	out := make([]string, len(l.registered.all))
	for i, r := range l.registered.all {
		out[i] = r.Name
	}
	return out
}

func (l *Live) prepare(r Registration) (*registered, []schema.Violation, error) {
	l.registered.rulesMu.Lock()
	defer l.registered.rulesMu.Unlock()
	return r.prepare(&l.registered.rules)
}

// find is where the registration of a name is, or where it belongs. The caller holds the lock.
func (k *registrations) find(name string) (at int, isKnown bool) {
	return slices.BinarySearchFunc(k.all, name, func(r *registered, name string) int { return cmp.Compare(r.Name, name) })
}

// add puts a registration into the catalog in use, which has no registered tool of its name. The registration at that
// place is the same one or has another name. The caller holds the lock.
func (l *Live) add(at int, r *registered, store func() error) (Placement, error) {
	c, limits, known := l.Current(), l.plan.Load().build.Limits.withDefaults(), &l.registered
	var same *registered // it was left out of the catalog, and fits now
	if at < len(known.all) && known.all[at].Name == r.Name {
		same = known.all[at]
	}
	t, err := known.fit(c, r, same, limits)
	if err != nil {
		return Placement{}, err
	}
	if err := store(); err != nil {
		return Placement{}, err
	}
	if same == nil {
		known.all = slices.Insert(known.all, at, r)
		known.bytes += r.bytes
	}
	fresh := c.with([]*Tool{t}, nil)
	l.current.Store(fresh)
	l.tell(c, fresh)
	return Placement{Tool: t, Created: same == nil}, nil
}

// fit makes the tool of a registration for a catalog, in the place of an earlier one where that is not nil. The error
// says why it does not fit.
func (k *registrations) fit(c *Catalog, r, earlier *registered, limits Limits) (*Tool, error) {
	t, faults, err := r.bind(c, limits)
	switch {
	case err != nil:
		return nil, err
	case len(faults) > 0:
		return nil, refuse(r.Name, Invalid, faults...)
	}
	tools := c.count()
	others := func(name string) (*Tool, bool) {
		other, ok := c.Lookup(name)
		return other, ok && (!other.Registered || other.Name != r.Name)
	}
	if text := cmp.Or(c.reserves(t), taken(others, t)); text != "" {
		return nil, refuse(r.Name, Conflict, schema.Violation{Path: "/name", Keyword: "conflict", Message: text})
	}
	if own, ok := c.Lookup(r.Name); ok && own.Registered {
		tools-- // its place is free again
	}
	if full := k.full(r, earlier, tools, limits); full != "" {
		return nil, refuse(r.Name, TooMany, schema.Violation{Keyword: "limit", Message: full})
	}
	return t, nil
}

// differenceFaults says one by one in what a registration is not the same as the one before.
func differenceFaults(members []string) []schema.Violation {
	var out []schema.Violation
	for _, m := range members {
		out = append(out, schema.Violation{Path: "/" + strings.ReplaceAll(m, ".", "/"), Keyword: "conflict",
			Message: "the tool registered under this name differs in " + m})
	}
	return out
}

// full says which limit a registration would break, in the place of an earlier one where that is not nil.
func (k *registrations) full(r, earlier *registered, tools int, limits Limits) string {
	number, bytes := len(k.all), k.bytes+r.bytes
	if earlier != nil {
		bytes -= earlier.bytes
	}
	switch {
	case tools >= limits.MaxTools:
		return fmt.Sprintf("the catalog has %d tools, which is the limit", tools)
	case earlier == nil && number >= limits.MaxRegistrations:
		return fmt.Sprintf("%d tools are registered, which is the limit", number)
	case bytes > limits.MaxRegisteredBytes && bytes > k.bytes:
		return fmt.Sprintf("the registrations would have %d bytes; the limit is %d", bytes, limits.MaxRegisteredBytes)
	}
	return ""
}

// refuse makes the error. The name comes from outside.
func refuse(name string, why Refusal, faults ...schema.Violation) error {
	return &RegistrationError{Name: shown.Clip(name), Reason: why, Faults: schema.SortViolations(faults, schema.DefaultMaxViolations)}
}
