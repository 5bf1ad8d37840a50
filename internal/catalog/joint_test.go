// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/source"
)

// parts are backends under a fake clock.
type parts struct {
	sources map[string]*stubSource
	joint   *Live
	changes int
}

// joint makes a Live of backends, whose prefixes follow their names behind a colon.
func joint(backends ...string) *parts {
	p := &parts{sources: map[string]*stubSource{}}
	var all []Part
	for _, name := range backends {
		name, prefix, _ := strings.Cut(name, ":")
		p.sources[name] = &stubSource{load: fails("connection refused")}
		all = append(all, Part{Name: name, Live: NewLive([]source.Source{p.sources[name]}, LiveOptions{
			Build: BuildOptions{Backend: name, Prefix: prefix}, Random: unhurried, RefreshEvery: time.Minute, Persists: true,
		})})
	}
	p.joint = NewJoint(all, LiveOptions{})
	p.joint.OnChange(func(_, _ *Catalog) { p.changes++ })
	return p
}

// run runs the Live until the test ends.
func (p *parts) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.joint.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

// shows compares the tools with their backends.
func (p *parts) shows(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	var got []string
	if c := p.joint.Current(); c != nil {
		for _, tool := range c.Tools() {
			got = append(got, tool.Name+"@"+tool.Method.Backend)
			for _, name := range tool.names() {
				if found, ok := c.Lookup(name); !ok || found != tool {
					t.Errorf("%s does not lead to the tool %s", name, tool.Name)
				}
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// warned looks for a warning with all of some texts.
func (p *parts) warned(t *testing.T, texts ...string) {
	t.Helper()
	if !slices.ContainsFunc(p.joint.Current().Warnings(), func(w source.Warning) bool {
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(w.String(), text) })
	}) {
		t.Errorf("no warning with %q among %v", texts, p.joint.Current().Warnings())
	}
}

func TestABackendThatIsAwayTakesNothingFromTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("shop", "dead", "fleet")
		p.sources["shop"].set(works("Orders/Get"))
		p.sources["fleet"].set(works("Vehicles/Get"))
		p.run(t)
		time.Sleep(2 * joinSettle)
		p.shows(t, "orders.get@shop", "vehicles.get@fleet")
		if p.changes != 1 {
			t.Errorf("backends that start together made %d changes", p.changes)
		}
		if s := p.joint.Status(); !s.Ready || s.Err != nil || len(s.Sources) != 3 || s.Loaded.IsZero() || s.Failures == 0 || s.Loads < 4 {
			t.Errorf("status %+v", s)
		}
		// Its last good tools stay.
		p.sources["shop"].set(fails("connection refused"))
		time.Sleep(3 * time.Minute)
		p.shows(t, "orders.get@shop", "vehicles.get@fleet")
		// One that comes and one that changes are each a change.
		p.sources["dead"].set(works("Maps/Get"))
		p.sources["shop"].set(works("Orders/Get", "Orders/Put"))
		time.Sleep(2 * time.Minute)
		p.shows(t, "maps.get@dead", "orders.get@shop", "orders.put@shop", "vehicles.get@fleet")
	})
}

func TestTheFirstCatalogWaitsForASlowBackendOnlyASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("shop", "slow")
		p.sources["shop"].set(works("Orders/Get"))
		p.sources["slow"].set(func() (*source.Loaded, error) {
			time.Sleep(time.Minute)
			return works("Maps/Get")()
		})
		p.run(t)
		time.Sleep(joinSettle / 2)
		p.shows(t)
		time.Sleep(joinSettle)
		p.shows(t, "orders.get@shop")
		time.Sleep(time.Minute)
		p.shows(t, "maps.get@slow", "orders.get@shop")
	})
}

func TestTwoBackendsWithOneName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("first", "second")
		p.sources["first"].set(works("Orders/Get", "Orders/Put"))
		p.sources["second"].set(works("Orders/Get", "Maps/Get"))
		p.run(t)
		time.Sleep(2 * joinSettle)
		p.shows(t, "maps.get@second", "orders.get@first", "orders.put@first")
		p.warned(t, `the name "orders.get" belongs to a.Orders/Get of the backend first`, "a.Orders/Get of the backend second", "set `prefix: second` on the backend second")
		if tool, ok := p.joint.Current().ByProcedure("/a.Orders/Get"); !ok || tool.Method.Backend != "first" {
			t.Errorf("the procedure leads to %v", tool)
		}
	})
}

// A name stays with the backend that has it, so that a call never means another tool than the list did.
func TestANameStaysWithItsBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("first", "second")
		p.sources["second"].set(works("Orders/Get"))
		p.run(t)
		time.Sleep(2 * joinSettle)
		p.shows(t, "orders.get@second")
		p.sources["first"].set(works("Orders/Get", "Orders/Put"))
		time.Sleep(time.Minute)
		p.shows(t, "orders.get@second", "orders.put@first")
		// Where its backend no longer has it, it is free.
		p.sources["second"].set(works("Maps/Get"))
		time.Sleep(2 * time.Minute)
		p.shows(t, "maps.get@second", "orders.get@first", "orders.put@first")
	})
}

func TestPrefixesOfBackends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("first:eu.shop", "second:us")
		p.sources["first"].set(works("OrderService/Get"))
		p.sources["second"].set(works("OrderService/Get"))
		p.run(t)
		time.Sleep(2 * joinSettle)
		p.shows(t, "eu.shop.order.get@first", "us.order.get@second")
		p.warned(t, "a.OrderService: the backends first and second have the service", "typed callers reach the first one only")
		for _, name := range []string{"eu_shop_order_get", "eu.shop.order_service.get", "us_order_service_get"} {
			if _, ok := p.joint.Current().Lookup(name); !ok {
				t.Errorf("%s leads to no tool", name)
			}
		}
		if first := p.joint.Current(); first.Of(first.Tools()[0]) == first || first.Of(first.Tools()[0]).backend != "first" {
			t.Error("a tool's types are not those of its backend")
		}
	})
}

// An alias that is another backend's name means that one, whichever comes first.
func TestAnAliasGivesWayToANameOfAnotherBackend(t *testing.T) {
	t.Parallel()
	built := func(backend, service string, renamed map[string]string) *Catalog {
		load, err := works(service + "/Get")()
		if err != nil {
			t.Fatal(err)
		}
		cat, err := Build([]*source.Loaded{load}, BuildOptions{Backend: backend, Services: renamed})
		if err != nil {
			t.Fatal(err)
		}
		return cat
	}
	short := built("short", "OrderService", nil) // order.get, or order_service.get
	long := built("long", "X", map[string]string{"a.X": "order_service"})
	for _, order := range [][]*Catalog{{short, long}, {long, short}} {
		both, err := joined(order, nil, 10)
		if err != nil {
			t.Fatal(err)
		}
		if tool, _ := both.Lookup("order_service.get"); tool == nil || tool.Method.Backend != "long" {
			t.Errorf("order_service.get is %v", tool)
		}
		if tool, _ := both.Lookup("order.get"); tool == nil || tool.Alias != "" {
			t.Errorf("order.get is %v", tool)
		}
	}
	if tool, _ := short.Lookup("order_service.get"); tool == nil || tool.Alias == "" {
		t.Error("the backend's own catalog was changed")
	}
	if _, err := joined([]*Catalog{short, long}, nil, 1); err == nil || !strings.Contains(err.Error(), "the backends have 2 tools together; the limit is 1") {
		t.Errorf("over the limit: %v", err)
	}
}

func TestARefreshOfSeveralBackendsNamesThoseThatFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := joint("shop", "dead")
		if err := p.joint.Refresh(t.Context()); err == nil || p.joint.Current() != nil {
			t.Errorf("with no backend: %v", err)
		}
		p.sources["shop"].set(works("Orders/Get"))
		err := p.joint.Refresh(t.Context())
		if err == nil || !strings.Contains(err.Error(), "backend dead: ") || strings.Contains(err.Error(), "backend shop") {
			t.Errorf("one of two failed: %v", err)
		}
		p.shows(t, "orders.get@shop")
		p.sources["shop"].set(works("Orders/Put"))
		if err := p.joint.Refresh(t.Context(), "shop"); err != nil {
			t.Errorf("of one that is there: %v", err)
		}
		p.shows(t, "orders.put@shop")
		p.sources["dead"].set(works("Maps/Get"))
		if err := p.joint.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
		p.shows(t, "maps.get@dead", "orders.put@shop")
	})
}

func TestServicesHaveOtherNames(t *testing.T) {
	t.Parallel()
	load, err := works("Shop/Get", "Shop/Put")()
	if err != nil {
		t.Fatal(err)
	}
	cat, err := Build([]*source.Loaded{load}, BuildOptions{Prefix: "eu", Services: map[string]string{"a.Shop": "shop2"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := cat.Tools(); got[0].Name != "eu.shop2.get" || got[1].Name != "eu.shop2.put" || got[0].MCPName != "eu_shop2_get" {
		t.Errorf("names %s, %s", got[0].Name, got[1].Name)
	}
}
