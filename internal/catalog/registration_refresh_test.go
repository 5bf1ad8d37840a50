// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestRegistrationsSurviveRefreshes(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	mustRegister(t, live, registration())
	mustRegister(t, live, registration(named("desk.drop"), boundTo("Drop")))
	refresh := func(methods ...string) *Catalog {
		t.Helper()
		from.set(sells(methods...))
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return live.Current()
	}
	has := func(c *Catalog, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, namesOf(c)); diff != "" {
			t.Error(diff)
		}
	}
	first := live.Current().Fingerprint()
	has(refresh("Shop/Get", "Shop/Drop", "Shop/Scan", "Shop/Secret"), "desk.drop", "desk.lookup", "shop.drop", "shop.get", "shop.scan")
	if live.Current().Fingerprint() != first {
		t.Error("a refresh that changes nothing changes the fingerprint")
	}

	// The RPC goes: a warning, and the rest is served.
	c := refresh("Shop/Drop")
	has(c, "desk.drop", "shop.drop")
	if !hasWarning(c, "there is no RPC shop.v1.Shop/Get") {
		t.Errorf("warnings %v", c.Warnings())
	}
	_, _, err := live.Register(t.Context(), registration())
	if asError[*RegistrationError](t, err).Reason != Invalid {
		t.Errorf("again without its RPC: %v", err)
	}

	// A derived tool takes the name of a registered one.
	if c = refresh("Shop/Drop", "Shop/Get", "Desk/Drop"); !hasWarning(c, `the name "desk.drop" belongs to the tool desk.drop of shop.v1.Desk/Drop`) {
		t.Errorf("warnings %v", c.Warnings())
	}
	has(c, "desk.drop", "desk.lookup", "shop.drop", "shop.get")
	if toolOf(t, c, "desk.drop").Registered {
		t.Error("a registration took the name of a derived tool")
	}
	_, _, err = live.Register(t.Context(), registration(named("desk.drop"), boundTo("Drop")))
	if asError[*RegistrationError](t, err).Reason != Conflict {
		t.Errorf("again without its name: %v", err)
	}

	// All is as it was.
	if c = refresh("Shop/Get", "Shop/Drop"); len(c.Warnings()) > 0 && hasWarning(c, "left out") {
		t.Errorf("warnings %v", c.Warnings())
	}
	has(c, "desk.drop", "desk.lookup", "shop.drop", "shop.get")
	if tool, created, err := live.Register(t.Context(), registration()); err != nil || created || tool != toolOf(t, c, "desk.lookup") {
		t.Errorf("again: created %v, error %v", created, err)
	}
}

func TestAFailedRefreshKeepsRegistrations(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	mustRegister(t, live, registration())
	from.set(fails("gone"))
	if err := live.Refresh(t.Context()); err == nil {
		t.Fatal("no error")
	}
	toolOf(t, live.Current(), "desk.lookup")
	mustRegister(t, live, registration(named("desk.second")))
}

func TestRegistrationsAreBounded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limits Limits
		text   string
	}{
		"by number":    {Limits{MaxRegistrations: 2}, "2 tools are registered"},
		"by size":      {Limits{MaxRegisteredBytes: 450}, "the limit is 450"},
		"by the tools": {Limits{MaxTools: 5}, "the catalog has 5 tools"},
	} {
		live, _ := shop(t, BuildOptions{Limits: tt.limits})
		for i := range 2 {
			mustRegister(t, live, registration(named(fmt.Sprintf("desk.n%d", i))))
		}
		_, _, err := live.Register(t.Context(), registration())
		if refused := asError[*RegistrationError](t, err); refused.Reason != TooMany || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
		if _, created, err := live.Register(t.Context(), registration(named("desk.n1"))); err != nil || created {
			t.Errorf("%s: one that is there already: %v", name, err)
		}
		if err := live.Refresh(t.Context()); err != nil || len(live.Current().Tools()) != 5 {
			t.Errorf("%s: %v, tools %v", name, err, namesOf(live.Current()))
		}
	}
}

func TestRegistrationWaitsForTheFirstCatalog(t *testing.T) {
	t.Parallel()
	from := &stubSource{}
	from.set(sells("Shop/Get"))
	live := NewLive([]source.Source{from}, LiveOptions{})
	// What is wrong in itself is said at once.
	_, _, err := live.Register(t.Context(), registration(named("x")))
	asError[*RegistrationError](t, err)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = live.Register(ctx, registration())
	if asError[*NotReadyError](t, err); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	done := make(chan error)
	go func() {
		_, _, err := live.Register(t.Context(), registration())
		done <- err
	}()
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestRegistrationRacesWithRefreshes has nothing get lost, and every watcher see one catalog after another.
func TestRegistrationRacesWithRefreshes(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	var last *Catalog
	changes := 0
	stop := live.OnChange(func(old, now *Catalog) {
		if last != nil && old != last && old.Fingerprint() != last.Fingerprint() {
			t.Error("a watcher missed a catalog")
		}
		last, changes = now, changes+1
	})
	const names, callers = 20, 4
	var all sync.WaitGroup
	var mu sync.Mutex
	created := map[string]int{}
	for range callers {
		all.Go(func() {
			for i := range names {
				name := fmt.Sprintf("desk.n%d", i)
				_, isNew, err := live.Register(t.Context(), registration(named(name)))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				if isNew {
					created[name]++
				}
				mu.Unlock()
				_, _ = live.Current().Lookup(name)
			}
		})
	}
	all.Go(func() {
		for range 10 {
			if err := live.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	stop()
	for i := range names {
		name := fmt.Sprintf("desk.n%d", i)
		if created[name] != 1 {
			t.Errorf("%s was created %d times", name, created[name])
		}
		toolOf(t, live.Current(), name)
	}
	if changes != names || last.Fingerprint() != live.Current().Fingerprint() {
		t.Errorf("%d changes were told, want %d", changes, names)
	}
}

// TestTheOrderOfRegistrationsDoesNotMatter compares what two replicas show.
func TestTheOrderOfRegistrationsDoesNotMatter(t *testing.T) {
	t.Parallel()
	one, _ := shop(t, BuildOptions{})
	two, _ := shop(t, BuildOptions{})
	names := []string{"a.a", "z.z", "desk.lookup"}
	for i := range names {
		mustRegister(t, one, registration(named(names[i])))
		mustRegister(t, two, registration(named(names[len(names)-1-i])))
	}
	if one.Current().Fingerprint() != two.Current().Fingerprint() {
		t.Error("the fingerprints differ")
	}
	if err := two.Refresh(t.Context()); err != nil || one.Current().Fingerprint() != two.Current().Fingerprint() {
		t.Errorf("the fingerprints differ after a refresh, error %v", err)
	}
}
