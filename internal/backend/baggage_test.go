// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/backend"
)

func baggage(t testing.TB, names ...string) *backend.Baggage {
	t.Helper()
	b, err := backend.NewBaggage(names)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBaggageIsListedAndBounded(t *testing.T) {
	t.Parallel()
	var many, first []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("a%d=1", i))
	}
	first = many[:64]
	large := "a=" + strings.Repeat("x", 8190)
	for name, tc := range map[string]struct{ in, want string }{
		"listed":               {"tenant=7,other=8,team=a;prop=1;flag", "tenant=7,team=a;prop=1;flag"},
		"none listed":          {"other=8", ""},
		"white space":          {" tenant = 7 ,\tteam=a ; p=1", "tenant = 7,team=a ; p=1"},
		"case matters":         {"Tenant=7", ""},
		"an empty value":       {"tenant=", "tenant="},
		"malformed":            {"tenant,=7,ten ant=7,tenant=a b,tenant=\"x\",tenant=a\\b,,;,tenant=é,tenant=1\x00", ""},
		"a bad property":       {"tenant=1;p=é,team=2", "team=2"},
		"too many members":     {strings.Join(many, ","), strings.Join(first, ",")},
		"as large as may be":   {large, large},
		"too large":            {large + "x,tenant=7", "tenant=7"},
		"one that has no room": {large + ",tenant=7", large},
	} {
		if got := baggage(t, "tenant", "team", "a*").Filter(tc.in); got != tc.want {
			t.Errorf("%s: got %.200q, want %.200q", name, got, tc.want)
		}
	}
}

func TestBaggageAmongHeaders(t *testing.T) {
	t.Parallel()
	rules, err := backend.NewMetadataRules([]string{"baggage", "x-a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	none, err := backend.NewMetadataRules([]string{"x-a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := http.Header{"Baggage": {"a=1,b=2", "c=3"}, "X-A": {"1"}}
	for name, tc := range map[string]struct {
		rules backend.MetadataRules
		want  http.Header
	}{
		"as any header":   {rules, in},
		"listed":          {rules.WithBaggage(baggage(t, "a", "c")), http.Header{"Baggage": {"a=1,c=3"}, "X-A": {"1"}}},
		"nothing listed":  {rules.WithBaggage(baggage(t)), http.Header{"X-A": {"1"}}},
		"not let through": {none.WithBaggage(baggage(t, "*")), http.Header{"X-A": {"1"}}},
	} {
		if diff := cmp.Diff(tc.want, tc.rules.Inbound(in)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for _, wrong := range []string{"", "a b", "é", "a,b", "a=1"} {
		if _, err := backend.NewBaggage([]string{wrong}); err == nil {
			t.Errorf("%q is a name", wrong)
		}
	}
}

// FuzzBaggage: what crosses is within the bounds, and crosses again as it is.
func FuzzBaggage(f *testing.F) {
	for _, seed := range []string{"a=1", "a=1;p,b=2", ",,=;=", "a=\"x\"", strings.Repeat("a=1,", 100)} {
		f.Add(seed, "b=2")
	}
	b := baggage(f, "a*", "b")
	f.Fuzz(func(t *testing.T, one, two string) {
		got := b.Filter(one, two)
		if len(got) > 8192 || strings.Count(got, ",") > 63 || !backend.IsFieldValue(got) {
			t.Fatalf("%q crosses", got)
		}
		if again := b.Filter(got); again != got {
			t.Fatalf("%q is filtered to %q", got, again)
		}
	})
}
