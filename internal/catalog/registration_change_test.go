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
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func versioned(v string) func(*Registration) { return func(r *Registration) { r.Version = v } }

// changesOf records what watchers see.
func changesOf(t *testing.T, live *Live) func() []string {
	t.Helper()
	var seen []string
	t.Cleanup(live.OnChange(func(old, now *Catalog) {
		change := now.Since(old)
		for _, tool := range change.Added {
			seen = append(seen, "+"+tool.Name)
		}
		for _, tool := range change.Changed {
			seen = append(seen, "~"+tool.Name)
		}
		for _, name := range change.Removed {
			seen = append(seen, "-"+name)
		}
	}))
	return func() []string {
		out := seen
		seen = nil
		return out
	}
}

// refreshed loads again in a way that builds a new catalog.
func refreshed(t *testing.T, live *Live) *Catalog {
	t.Helper()
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return live.Current()
}

func TestAHigherVersionReplacesARegisteredTool(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	first := mustRegister(t, live, registration())
	mustRegister(t, live, registration(named("desk.other")))
	before := live.Current()
	told := changesOf(t, live)
	second := registration(versioned("1.1.0"), boundTo("Drop"), taking(`{"type":"object","properties":{"n":{"maximum":9}}}`))
	placed, err := live.Put(t.Context(), second)
	if err != nil || placed.Created || placed.Replaced != "1.0.0" {
		t.Fatalf("%+v, %v", placed, err)
	}
	tool := placed.Tool
	if tool.Version != "1.1.0" || tool.Method.Procedure != "/shop.v1.Shop/Drop" || !tool.Metadata.Destructive {
		t.Errorf("tool %+v", tool)
	}
	if diff := cmp.Diff([]string{"~desk.lookup"}, told()); diff != "" {
		t.Errorf("watchers: %s", diff)
	}
	for _, name := range []string{"desk.lookup", "desk_lookup"} {
		if toolOf(t, live.Current(), name) != tool || toolOf(t, before, name) != first {
			t.Errorf("%s: the catalog in use has the old tool, or the one before the new tool", name)
		}
	}
	if diff := cmp.Diff(namesOf(before), namesOf(live.Current())); diff != "" {
		t.Errorf("names: %s", diff)
	}
	// The same again changes nothing.
	now := live.Current()
	if placed, err := live.Put(t.Context(), second); err != nil || placed.Created || placed.Replaced != "" || live.Current() != now {
		t.Errorf("again: %+v, %v", placed, err)
	}
	// It stays replaced.
	from.set(sells("Shop/Get", "Shop/Drop", "Shop/Put"))
	if got := toolOf(t, refreshed(t, live), "desk.lookup"); got.Version != "1.1.0" || got.Fingerprint() != tool.Fingerprint() {
		t.Errorf("after a refresh: version %s", got.Version)
	}
	// A version alone is a change too.
	if placed, err := live.Put(t.Context(), registration(named("desk.other"), versioned("2.0.0"))); err != nil || placed.Replaced != "1.0.0" {
		t.Errorf("another version alone: %+v, %v", placed, err)
	}
}

func TestALowerVersionReplacesNothing(t *testing.T) {
	t.Parallel()
	live, _ := shop(t, BuildOptions{})
	mustRegister(t, live, registration(versioned("1.10.0")))
	before := live.Current()
	for _, version := range []string{"1.10.0", "1.9.0", "1.10.0-rc.1", "1.10.0+build.7", ""} {
		_, err := live.Put(t.Context(), registration(versioned(version), boundTo("Drop")))
		refused := asError[*RegistrationError](t, err)
		if refused.Reason != Conflict || !strings.HasSuffix(err.Error(), "raise the version above 1.10.0 to replace it") || live.Current() != before {
			t.Errorf("%q: %v", version, err)
		}
	}
	// A higher version keeps the rules of every registration.
	_, err := live.Put(t.Context(), registration(versioned("2.0.0"), boundTo("Nope")))
	if asError[*RegistrationError](t, err).Reason != Invalid || live.Current() != before {
		t.Errorf("an unknown RPC: %v", err)
	}
	// 1.2.0-rc.2 < 1.2.0-rc.10 < 1.2.0: by number, not by text.
	for _, version := range []string{"1.11.0-rc.2", "1.11.0-rc.10", "1.11.0"} {
		if _, err := live.Put(t.Context(), registration(versioned(version))); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
}

func TestATakenBackToolStaysAway(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	first := live.Current().Fingerprint()
	mustRegister(t, live, registration(versioned("1.2.0")))
	mustRegister(t, live, registration(named("desk.other")))
	before := live.Current()
	told := changesOf(t, live)
	if _, err := live.Unregister(t.Context(), "desk.lookup", "1.0.0"); asError[*UnregistrationError](t, err).Reason != Conflict ||
		!strings.Contains(err.Error(), "version 1.2.0 is registered, not 1.0.0") {
		t.Errorf("another version: %v", err)
	}
	if version, err := live.Unregister(t.Context(), "desk.lookup", "1.2.0"); err != nil || version != "1.2.0" {
		t.Fatalf("version %q, %v", version, err)
	}
	if diff := cmp.Diff([]string{"-desk.lookup"}, told()); diff != "" {
		t.Errorf("watchers: %s", diff)
	}
	has := func(when string, c *Catalog) {
		t.Helper()
		for _, name := range []string{"desk.lookup", "desk_lookup"} {
			if _, ok := c.Lookup(name); ok {
				t.Errorf("%s: %s is found", when, name)
			}
		}
		toolOf(t, c, "desk.other")
	}
	has("at once", live.Current())
	toolOf(t, before, "desk.lookup")
	from.set(sells("Shop/Get", "Shop/Drop", "Shop/Put"))
	has("after a refresh", refreshed(t, live))
	from.set(sells("Shop/Get", "Shop/Drop", "Shop/Scan", "Shop/Secret"))
	refreshed(t, live)
	if _, err := live.Unregister(t.Context(), "desk.other", ""); err != nil || live.Current().Fingerprint() != first {
		t.Errorf("without registrations the fingerprint differs from that at the start, error %v", err)
	}
	// The name is free, and a lower version is new.
	if tool := mustRegister(t, live, registration(boundTo("Drop"))); tool.Version != "1.0.0" {
		t.Errorf("version %s", tool.Version)
	}
}

func TestOnlyRegisteredToolsAreTakenBack(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	mustRegister(t, live, registration())
	before := live.Current()
	for name, want := range map[string]struct {
		reason  Refusal
		nearest []string
	}{
		"desk.lokup": {Unknown, []string{"desk.lookup"}}, "desk_lookup": {Unknown, []string{"desk.lookup"}}, "": {Unknown, nil},
		"shop.gett": {Unknown, nil}, "shop.get": {Invalid, nil}, "shop_get": {Invalid, nil}, "shop.secret": {Unknown, nil},
	} {
		_, err := live.Unregister(t.Context(), name, "")
		refused := asError[*UnregistrationError](t, err)
		if diff := cmp.Diff(want.nearest, refused.Nearest, cmpopts.EquateEmpty()); diff != "" || refused.Reason != want.reason || live.Current() != before {
			t.Errorf("%q: %v %s", name, err, diff)
		}
		if want.reason == Invalid && !strings.Contains(err.Error(), "comes from shop.v1.Shop/Get") {
			t.Errorf("%q: %v", name, err)
		}
	}
	// One that is left out, because its RPC is gone, can be taken back and does not return with the RPC.
	from.set(sells("Shop/Drop"))
	refreshed(t, live)
	if _, err := live.Unregister(t.Context(), "desk.lookup", ""); err != nil || hasWarning(live.Current(), "left out") {
		t.Errorf("%v, warnings %v", err, live.Current().Warnings())
	}
	from.set(sells("Shop/Drop", "Shop/Get"))
	if _, ok := refreshed(t, live).Lookup("desk.lookup"); ok {
		t.Error("it is back")
	}
}

// TestTakingBackMakesRoom has a registration that was left out for another one come back.
func TestTakingBackMakesRoom(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	mustRegister(t, live, registration(named("b_a.c")))
	from.set(sells("Shop/Drop")) // without its RPC it is left out, and its name in MCP is free
	refreshed(t, live)
	mustRegister(t, live, registration(named("b.a_c"), boundTo("Drop")))
	from.set(sells("Shop/Drop", "Shop/Get"))
	if c := refreshed(t, live); !hasWarning(c, `the MCP name "b_a_c" belongs to`) {
		t.Fatalf("warnings %v", c.Warnings())
	}
	if _, err := live.Unregister(t.Context(), "b.a_c", ""); err != nil || hasWarning(live.Current(), "left out") {
		t.Errorf("%v, warnings %v", err, live.Current().Warnings())
	}
	toolOf(t, live.Current(), "b_a.c")
}

// TestBoundsFollowChanges gives back what was taken, and counts a replacement once.
func TestBoundsFollowChanges(t *testing.T) {
	t.Parallel()
	big := func(r *Registration) { r.Description = strings.Repeat("x", 300) }
	for name, limits := range map[string]Limits{
		"by number": {MaxRegistrations: 2}, "by size": {MaxRegisteredBytes: 500}, "by the tools": {MaxTools: 5},
	} {
		live, _ := shop(t, BuildOptions{Limits: limits})
		mustRegister(t, live, registration(named("desk.n0")))
		mustRegister(t, live, registration(named("desk.n1")))
		for i := range 20 {
			if _, err := live.Put(t.Context(), registration(named("desk.n1"), versioned(fmt.Sprintf("1.0.%d", i+1)))); err != nil {
				t.Fatalf("%s: change %d: %v", name, i, err)
			}
			if _, err := live.Unregister(t.Context(), "desk.n0", ""); err != nil {
				t.Fatalf("%s: taking back %d: %v", name, i, err)
			}
			mustRegister(t, live, registration(named("desk.n0")))
		}
		before := live.Current()
		if _, err := live.Put(t.Context(), registration(named("desk.n1"), versioned("2.0.0"), big)); name == "by size" &&
			(asError[*RegistrationError](t, err).Reason != TooMany || live.Current() != before) {
			t.Errorf("%s: a larger version: %v", name, err)
		}
		for _, r := range []string{"desk.n0", "desk.n1"} {
			if _, err := live.Unregister(t.Context(), r, ""); err != nil {
				t.Error(err)
			}
		}
		if k := &live.registered; len(k.all) != 0 || k.bytes() != 0 || live.Current().growth.count() != 0 {
			t.Errorf("%s: %d registrations of %d bytes are left", name, len(k.all), k.bytes())
		}
	}
}

func TestTakingBackWithoutACatalogWaits(t *testing.T) {
	t.Parallel()
	live := NewLive([]source.Source{&stubSource{}}, LiveOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := live.Unregister(ctx, "desk.lookup", "")
	if asError[*NotReadyError](t, err); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// TestChangesRaceWithRefreshes registers, changes and takes back while the catalog is loaded again.
func TestChangesRaceWithRefreshes(t *testing.T) {
	t.Parallel()
	live, from := shop(t, BuildOptions{})
	var all sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("desk.n%d", i)
		all.Go(func() {
			for round := range 20 {
				for _, version := range []string{"1.0.0", "2.0.0"} {
					if _, err := live.Put(t.Context(), registration(named(name), versioned(version))); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					if got, ok := live.Current().Lookup(name); !ok || got.Version != version {
						t.Errorf("%s: round %d: version %s is not there", name, round, version)
					}
				}
				if _, err := live.Unregister(t.Context(), name, "2.0.0"); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if _, ok := live.Current().Lookup(name); ok {
					t.Errorf("%s: round %d: it is still there", name, round)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 20 {
			from.set(sells("Shop/Get", "Shop/Drop", fmt.Sprintf("Shop/M%d", i)))
			if err := live.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	if k := &live.registered; len(k.all) != 0 || k.bytes() != 0 {
		t.Errorf("%d registrations of %d bytes are left", len(k.all), k.bytes())
	}
}
