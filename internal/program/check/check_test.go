// SPDX-License-Identifier: Apache-2.0

package check

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/syntax"
	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the goldens")

const demo = "../../demo/demo.binpb"

func build(t testing.TB, path string) *catalog.Catalog {
	t.Helper()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func parse(text string) (*syntax.File, error) {
	options := &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
	return options.Parse("program", text, 0)
}

func mustParse(t testing.TB, text string) *syntax.File {
	t.Helper()
	file, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func show(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "%d:%d %s: %s", f.Line, f.Column, f.Rule, f.Message)
		if f.Instead != "" {
			fmt.Fprintf(&b, " -> %s", f.Instead)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestFindings compares the findings of programs with the record, one program for each rule. The one named right has none.
func TestFindings(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	paths, err := filepath.Glob("testdata/findings/*.star")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".star")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, findings := Program(mustParse(t, string(text)), w, []byte(`{"order_ids":[1,2,3]}`))
			got, golden := show(findings), strings.TrimSuffix(path, ".star")+".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if name != "right" && !strings.Contains(got, " "+name+": ") && name != "unknown-argument" {
				t.Errorf("no finding is of the rule %s", name)
			}
		})
	}
}

// TestNotPermitted reports each tool that the caller may not call once.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo), May: func(t *catalog.Tool) *errmap.Error {
		if t.Metadata.Destructive {
			return errmap.New(errmap.PermissionDenied, errmap.Message("it needs the scope fleet.write"))
		}
		return nil
	}}
	_, findings := Program(mustParse(t, "result = [fleet.cancel_order(order_id=i) for i in [1]]\nfleet.cancel_order(order_id=2)\n"), w, nil)
	want := "1:11 not-permitted: the caller may not call fleet.cancel_order: it needs the scope fleet.write\n"
	if diff := cmp.Diff(want, show(findings)); diff != "" {
		t.Error(diff)
	}
}

// TestPlan counts calls.
func TestPlan(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	const get = "fleet.get_order(order_id=1)"
	for _, tt := range []struct{ program, want string }{
		{get, "fleet.get_order 1 @1:1"},
		{get + "\n" + get, "fleet.get_order 2 @1:1 @2:1"},
		{"for i in range(5):\n  " + get, "fleet.get_order 5 @2:3"},
		{"for i in range(2, 9, 3):\n  for j in [1, 2]:\n    " + get, "fleet.get_order 6 @3:5"},
		{"x = [" + get + " for i in [1, 2] for j in (1, 2, 3) if i]", "fleet.get_order 6 @1:6"},
		{"x = parallel([" + get + " for i in inputs.ids])", "fleet.get_order 3 @1:15"},
		{"x = parallel(fleet.get_order, [{\"order_id\": i} for i in inputs.ids[:2]])", "fleet.get_order 2 @1:14"},
		{"x = parallel(fleet.get_order, inputs.ids)", "fleet.get_order 3 @1:14"},
		{"for o in fleet.find_orders().orders:\n  fleet.cancel_order(order_id=o.id)", "fleet.find_orders 1 @1:10\nfleet.cancel_order! -1 @2:3"},
		{"for o in fleet.find_orders().orders[:4]:\n  fleet.cancel_order(order_id=o.id)", "fleet.find_orders 1 @1:10\nfleet.cancel_order! 4 @2:3"},
		{"x = paginate(fleet.list_vehicles)", "fleet.list_vehicles -1 @1:14"},
		{"def f(i):\n  return fleet.get_order(order_id=i)\nx = [f(i) for i in range(3)]\nf(4)", "fleet.get_order 4 @2:10"},
		{"def f(i):\n  return fleet.get_order(order_id=i)\ndef g(i):\n  f(i)\n  f(1)\nx = [g(i) for i in range(3)]", "fleet.get_order 6 @2:10"},
		{"def f(i):\n  return fleet.get_order(order_id=i)\nx = sorted([1, 2], key=f)", "fleet.get_order -1 @2:10"},
		{"x = [t(order_id=1) for t in [fleet.get_order]]", "fleet.get_order -1 @1:6 @1:36"},
		{"get = fleet.get_order\nget(order_id=1)", "fleet.get_order -1 @1:13 @2:1"},
		{"x = tools[\"fleet.get_order\"](order_id=1)", "fleet.get_order 1 @1:5"},
		{"xs = [1, 2]\nxs.append(3)\nfor x in xs:\n  " + get, "fleet.get_order -1 @4:3"},
		{"for x in []:\n  " + get, "fleet.get_order 0 @2:3"},
		{"n = 4\nfor x in range(n * 2):\n  " + get, "fleet.get_order 8 @3:3"},
		{"for i in range(1000):\n  for j in range(10000):\n    " + get, "fleet.get_order -1 @3:5"},
		{"def f():\n  " + get + "\nx = 1", "fleet.get_order 0 @2:3"},
	} {
		plan, _ := Program(mustParse(t, tt.program+"\nresult = 1\n"), w, []byte(`{"ids":[1,2,3]}`))
		var lines []string
		for _, p := range plan {
			line := p.Tool.Name
			if p.IsDestructive() {
				line += "!"
			}
			line += fmt.Sprintf(" %d", p.AtMost)
			for _, at := range p.Places {
				line += fmt.Sprintf(" @%d:%d", at.Line, at.Col)
			}
			lines = append(lines, line)
		}
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s\ngot  %s\nwant %s", tt.program, got, tt.want)
		}
	}
}
