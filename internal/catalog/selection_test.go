// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"
)

func TestSelection(t *testing.T) {
	t.Parallel()
	const service, method, name = "shop.v1.OrderDesk", "shop.v1.OrderDesk/GetOrder", "order_desk.get_order"
	for _, tc := range []struct {
		name             string
		include, exclude []string
		want             bool
	}{
		{"nothing said", nil, nil, true},
		{"service", []string{"shop.v1.OrderDesk"}, nil, true},
		{"package", []string{"shop.*"}, nil, true},
		{"another package", []string{"store.*"}, nil, false},
		{"one of two", []string{"store.*", "shop.*"}, nil, true},
		{"method", []string{"shop.v1.OrderDesk/GetOrder"}, nil, true},
		{"methods by prefix", []string{"*/Get*"}, nil, true},
		{"other methods", []string{"*/Delete*"}, nil, false},
		{"pasted path", []string{"/shop.v1.OrderDesk/GetOrder"}, nil, true},
		{"canonical name", []string{"order_desk.get_order"}, nil, true},
		{"canonical glob", []string{"order_desk.*"}, nil, true},
		{"MCP name", []string{"order_desk_get_*"}, nil, true},
		{"case counts", []string{"shop.v1.orderdesk"}, nil, false},
		{"a star spans no slash", []string{"shop*GetOrder"}, nil, false},
		{"a class", []string{"shop.v[0-9].OrderDesk"}, nil, true},
		{"a question mark", []string{"shop.v?.OrderDesk"}, nil, true},
		{"exclude wins", []string{"shop.*"}, []string{"*/Get*"}, false},
		{"exclude another", nil, []string{"*/Delete*"}, true},
		{"exclude by name", nil, []string{"order_desk.get_order"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := selection(t, tc.include, tc.exclude).takes(service, method, name, MCPName(name)); got != tc.want {
				t.Errorf("include %v, exclude %v takes %s: %v, want %v", tc.include, tc.exclude, method, got, tc.want)
			}
		})
	}
	if s := (*Selection)(nil); !s.takes(service, method) || s.namesService(service) || s.Skips(service) || !s.Skips("grpc.health.v1.Health") {
		t.Error("a nil selection does not take everything but infrastructure")
	}
}

func TestMalformedGlobsAreReportedTogether(t *testing.T) {
	t.Parallel()
	_, err := NewSelection([]string{"[a", "ok.*", ""}, []string{"a/b/c", `x\`})
	if err == nil {
		t.Fatal("malformed globs are accepted")
	}
	for _, want := range []string{`include glob "[a"`, `include glob "" is empty`, `exclude glob "a/b/c"`, `exclude glob "x\\"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not speak of %s: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "ok.*") {
		t.Errorf("a good glob is refused: %v", err)
	}
}

func FuzzSelection(f *testing.F) {
	for _, seed := range []string{"*", "a.*", "*/Get*", "[a", `a\`, "a/b/c", "[]a]", "[^a]"} {
		f.Add(seed, "a.B", "C")
	}
	f.Fuzz(func(t *testing.T, pattern, service, method string) {
		s, err := NewSelection([]string{pattern}, nil)
		if err != nil {
			return
		}
		x, err := NewSelection(nil, []string{pattern})
		if err != nil {
			t.Fatalf("%q is a glob to include and none to exclude: %v", pattern, err)
		}
		if s.takes(service, service+"/"+method) == x.takes(service, service+"/"+method) {
			t.Errorf("%q both includes and excludes, or neither", pattern)
		}
	})
}
