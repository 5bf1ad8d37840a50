// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

const metadata = "https://tools.example.org/.well-known/oauth-protected-resource/mcp"

func oauth(held ...string) *identity.Identity {
	every := []string{"*"}
	return identity.NewIdentityOf(identity.Grant{Name: "https://login.example.org#ann", Tools: every, Resources: every, Prompts: every},
		identity.Facts{Source: identity.SourceOAuth, Issuer: "https://login.example.org", Subject: "ann", Scopes: held})
}

func options() *configv1.OAuth {
	return &configv1.OAuth{
		ToolScopes: []*configv1.ToolScopes{
			{Tools: []string{"lab.echo"}},
			{Tools: []string{"fleet.cancel_order"}, Scopes: []string{"orders:write", "audit"}},
			{Tools: []string{"fleet.*"}, Scopes: []string{"orders:read"}},
		},
		OperationScopes: []*configv1.OperationScopes{
			{Operations: []string{"read_resource"}, Scopes: []string{"resources", "offline_access"}},
			{Operations: []string{"get_tool"}, Scopes: []string{"catalog"}},
		},
		Resource: "https://tools.example.org/mcp",
	}
}

func current(t testing.TB) *catalog.Catalog {
	t.Helper()
	return mcptest.Memory(t).Current()
}

func tool(t testing.TB, name string) *catalog.Tool {
	t.Helper()
	found, ok := current(t).Lookup(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	return found
}

// TestChallenges are exact: all that the request needs, whatever the caller has, and
// nothing more.
func TestChallenges(t *testing.T) {
	t.Parallel()
	challenge := func(scopes string) string {
		return `Bearer error="insufficient_scope", scope="` + scopes + `", resource_metadata="` + metadata + `"`
	}
	cancel, get := tool(t, "fleet.cancel_order"), tool(t, "fleet.get_order")
	a := policy.NewAuthorizer(options())
	for _, tt := range []struct {
		name string
		ask  func(who *identity.Identity) *errmap.Error
		held []string
		want string // "" for allowed
	}{
		{"no scope", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, get) }, nil, challenge("orders:read")},
		{"another scope", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, get) }, []string{"orders:write", "openid"}, challenge("orders:read")},
		{"the scope", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, get) }, []string{"orders:read"}, ""},
		{"a scope above", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, get) }, []string{"orders:*"}, ""},
		{"one of two", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, cancel) }, []string{"audit"}, challenge("audit orders:write")},
		{"both", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, cancel) }, []string{"audit", "orders:*"}, ""},
		{"listing", func(who *identity.Identity) *errmap.Error { return a.MayList(who, cancel) }, []string{"audit"}, challenge("audit orders:write")},
		{"a tool that needs nothing", func(who *identity.Identity) *errmap.Error { return a.MayUse(who, tool(t, "lab.echo")) }, nil, ""},
		{"an operation", func(who *identity.Identity) *errmap.Error { return a.MayRun(who, "read_resource", nil) }, nil, challenge("offline_access resources")},
		{"an operation and its tool", func(who *identity.Identity) *errmap.Error { return a.MayRun(who, "read_resource", get) }, []string{"resources", "offline_access"}, challenge("offline_access orders:read resources")},
		{"an operation that needs nothing", func(who *identity.Identity) *errmap.Error { return a.MayRun(who, "list_tools", nil) }, nil, ""},
		{"a look at a tool", func(who *identity.Identity) *errmap.Error { return a.MayRun(who, "get_tool", get) }, nil, challenge("catalog orders:read")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.ask(oauth(tt.held...))
			switch {
			case (err == nil) != (tt.want == ""):
				t.Fatalf("%v", err)
			case err != nil && (err.Code != errmap.PermissionDenied || err.Challenge != tt.want || strings.Contains(err.Message, "ann")):
				t.Errorf("%s %q, challenge\n%s, want\n%s", err.Code, err.Message, err.Challenge, tt.want)
			}
		})
	}
}

// TestOthersHaveNoScopes: callers without a token of an authorization server.
func TestOthersHaveNoScopes(t *testing.T) {
	t.Parallel()
	a := policy.NewAuthorizer(options())
	for name, who := range map[string]*identity.Identity{
		"no caller":   nil,
		"tokens file": identity.NewIdentity(identity.Grant{Name: "ann", Tools: []string{"*"}}),
		"certificate": identity.NewIdentityOf(identity.Grant{Name: "ann", Tools: []string{"*"}}, identity.Facts{Source: identity.SourceCertificate, Scopes: []string{"x"}}),
	} {
		if a.Key(who, current(t)) != "" || a.MayUse(who, tool(t, "fleet.get_order")) != nil || a.MayList(who, tool(t, "fleet.get_order")) != nil ||
			a.MayRun(who, "read_resource", tool(t, "fleet.get_order")) != nil {
			t.Errorf("%s is held to scopes", name)
		}
	}
}

// TestScopesKeys: equal keys exactly for callers who may use the same tools.
func TestScopesKeys(t *testing.T) {
	t.Parallel()
	a, cat := policy.NewAuthorizer(options()), current(t)
	key := func(held ...string) string { return a.Key(oauth(held...), cat) }
	if key("orders:*", "audit") != "" || key("orders:read", "orders:write", "audit", "x") != "" {
		t.Error("a caller of all tools has a key")
	}
	if key() == "" || key() != key("openid", "profile") || key("orders:read") == key() || key("orders:read", "x") != key("orders:read") {
		t.Errorf("%q %q %q", key(), key("openid"), key("orders:read"))
	}
	if policy.NewAuthorizer(nil).Key(oauth(), cat) != "" || a.Key(oauth(), nil) != "" {
		t.Error("a key where nothing is needed")
	}
	var many sync.WaitGroup
	for i := range 8 {
		many.Go(func() { // more than are kept, and for the race detector
			for n := range 300 {
				held := fmt.Sprintf("s%d-%d", i, n)
				if got := a.Key(oauth("orders:read", held), cat); got != key("orders:read") {
					t.Errorf("key %q", got)
				}
			}
		})
	}
	many.Wait()
}

// TestListWithout shows every tool and lets none be called.
func TestListWithout(t *testing.T) {
	t.Parallel()
	o := options()
	o.ListWithoutScope = true
	a, get := policy.NewAuthorizer(o), tool(t, "fleet.get_order")
	if a.MayList(oauth(), get) != nil || a.MayUse(oauth(), get) == nil || a.Key(oauth(), current(t)) == "" {
		t.Error("a tool that is shown and not called")
	}
	if a.MayRun(oauth("catalog"), "get_tool", get) != nil || a.MayRun(oauth("resources", "offline_access"), "read_resource", get) == nil {
		t.Error("a look at it, and a run of it")
	}
}

func TestSupported(t *testing.T) {
	t.Parallel()
	o := options()
	o.ScopeRule = new("read_write")
	a := policy.NewAuthorizer(o)
	want := []string{"audit", "catalog", "orders:read", "orders:write", "resources", "tools:read", "tools:write"}
	if got := a.Supported(nil); !slices.Equal(got, want) {
		t.Errorf("before the catalog: %v", got)
	}
	// Every tool of the catalog that writes is one of the fleet's.
	if got := a.Supported(current(t)); !slices.Equal(got, want[:len(want)-1]) {
		t.Errorf("with the catalog: %v", got)
	}
	if got := policy.NewAuthorizer(nil).Supported(current(t)); len(got) != 0 {
		t.Errorf("without scopes: %v", got)
	}
}

// BenchmarkMayUse is what each call of a caller with a token pays.
func BenchmarkMayUse(b *testing.B) {
	a, cat, get, who := policy.NewAuthorizer(options()), current(b), tool(b, "fleet.get_order"), oauth("openid", "profile", "orders:read")
	b.ReportAllocs()
	for b.Loop() {
		if a.Key(who, cat) == "" || a.MayUse(who, get) != nil {
			b.Fatal("denied")
		}
	}
}
