// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// TestWhatAToolNeeds: the first source that says anything decides.
func TestWhatAToolNeeds(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	reads := catalog.Annotations{ReadOnly: &yes}
	rules := []*configv1.ToolScopes{
		{Tools: []string{"shop.refund"}, Scopes: []string{"refunds", "audit"}},
		{Tools: []string{"lab.echo"}},
		{Tools: []string{"shop.*", "stock_service.*"}, Scopes: []string{"shop"}},
	}
	base := &catalog.Tool{Name: "shop.refund"}
	for _, tt := range []struct {
		name  string
		oauth *configv1.OAuth
		tool  catalog.Tool
		want  string
	}{
		{"nothing says anything", nil, catalog.Tool{Name: "shop.get"}, ""},
		{"configuration", &configv1.OAuth{ToolScopes: rules}, catalog.Tool{Name: "shop.get"}, "shop"},
		{"the first entry", &configv1.OAuth{ToolScopes: rules}, catalog.Tool{Name: "shop.refund"}, "audit refunds"},
		{"an alias", &configv1.OAuth{ToolScopes: rules}, catalog.Tool{Name: "stock.get", Alias: "stock_service.get"}, "shop"},
		{"an entry without scopes", &configv1.OAuth{ToolScopes: rules, ScopeRule: new(byAccess)}, catalog.Tool{Name: "lab.echo", Scopes: []string{"lab"}}, ""},
		{"configuration before the option", &configv1.OAuth{ToolScopes: rules}, catalog.Tool{Name: "shop.get", Scopes: []string{"own"}}, "shop"},
		{"the option before the rule", &configv1.OAuth{ToolScopes: rules, ScopeRule: new(byAccess)}, catalog.Tool{Name: "lab.x", Scopes: []string{"b", "a", "b"}}, "a b"},
		{"the rule, reading", &configv1.OAuth{ScopeRule: new(byAccess)}, catalog.Tool{Name: "lab.x", Annotations: reads}, "tools:read"},
		{"the rule, writing", &configv1.OAuth{ScopeRule: new(byAccess)}, catalog.Tool{Name: "lab.x", Annotations: catalog.Annotations{ReadOnly: &no}}, "tools:write"},
		{"the rule, nothing said", &configv1.OAuth{ScopeRule: new(byAccess)}, catalog.Tool{Name: "lab.x"}, "tools:write"},
		{"another name of an RPC", &configv1.OAuth{ToolScopes: rules}, catalog.Tool{Name: "money.back", Base: base, Scopes: []string{"money"}}, "audit money refunds"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(NewAuthorizer(tt.oauth).ofTool(&tt.tool), " "); got != tt.want {
				t.Errorf("needs %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRulesStayAsTheyAre: what a tool needs is sorted in a copy.
func TestRulesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	o := &configv1.OAuth{
		ToolScopes:      []*configv1.ToolScopes{{Tools: []string{"*"}, Scopes: []string{"b", "a"}}},
		OperationScopes: []*configv1.OperationScopes{{Operations: []string{"listen"}, Scopes: []string{"d", "c"}}},
	}
	a := NewAuthorizer(o)
	a.ofTool(&catalog.Tool{Name: "x.y"})
	a.ofOperation("listen")
	if !slices.Equal(o.ToolScopes[0].Scopes, []string{"b", "a"}) || !slices.Equal(o.OperationScopes[0].Scopes, []string{"d", "c"}) {
		t.Errorf("%v", o)
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		held, needed string
		want         bool
	}{
		{"tools:read", "tools:read", true},
		{"tools:write", "tools:read", false},
		{"tools:*", "tools:read", true},
		{"tools:*", "tools:read:all", true},
		{"tools:*", "tools:*", true},
		{"tools:*", "tools", false},
		{"tools:*", "toolsread", false},
		{"tools:*", "tools2:read", false},
		{"tools:read:*", "tools:read", false},
		{"*", "tools:read", false},
		{":*", "tools:read", false},
		{":*", ":read", false},
		{"tools*", "tools:read", false},
		{"tools:rea*", "tools:read", false},
		{"TOOLS:READ", "tools:read", false},
		{"", "tools:read", false},
		{"a b tools:read", "tools:read", true},
		{"a b", "", false},
	} {
		if got := covers(strings.Fields(tt.held), tt.needed); got != tt.want {
			t.Errorf("%q covers %q: %v", tt.held, tt.needed, got)
		}
	}
	if !coversAll(nil, nil) || coversAll([]string{"a"}, []string{"a", "b"}) {
		t.Error("all of several")
	}
}

// FuzzCovers holds the rule against its definition.
func FuzzCovers(f *testing.F) {
	f.Add("tools:*", "tools:read")
	f.Add("a:b:*", "a:b:c:d")
	f.Fuzz(func(t *testing.T, held, needed string) {
		above, isPattern := strings.CutSuffix(held, "*")
		want := held == needed || isPattern && len(above) > 1 && strings.HasSuffix(above, ":") && strings.HasPrefix(needed, above)
		if got := covers([]string{held}, needed); got != want {
			t.Errorf("%q covers %q: %v", held, needed, got)
		}
	})
}

// TestKeysAreBounded whatever a catalog has and a caller holds.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	var known []string
	for i := range 5000 {
		known = append(known, strings.Repeat("x", 100)+string(rune('a'+i%26))+strings.Repeat("y", i%20))
	}
	slices.Sort(known)
	known = slices.Compact(known)
	some, more := keyOf(known[:200], known), keyOf(known[:201], known)
	if len(some) > 64 || some == more || some != keyOf(slices.Concat([]string{"openid", "profile"}, known[:200]), known) {
		t.Errorf("keys of %d and %d bytes", len(some), len(more))
	}
	if keyOf(known, known) != "" || keyOf(nil, known) == "" || keyOf([]string{"a"}, []string{"a", "b"}) == keyOf([]string{"b"}, []string{"a", "b"}) {
		t.Error("keys of all, none and one")
	}
}
