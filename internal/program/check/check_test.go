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
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
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

// TestToolsWithoutDescriptors checks programs with the JSON schemas that a native backend declares.
func TestToolsWithoutDescriptors(t *testing.T) {
	t.Parallel()
	native := &source.Native{
		Description: &outriggerv1.ServerDescription{Name: "notes"},
		Tools: []*outriggerv1.Tool{{
			Name: "add", Title: "Add", Description: "Adds a note.",
			InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"text":{"type":"string"},` +
				`"kind":{"enum":["memo","task"],"type":"string"},"at":{"$ref":"#/$defs/at"},"tags":{"type":"array","items":{"type":"string"}},"any":{}},` +
				`"required":["text"],"additionalProperties":false,"$defs":{"at":{"type":"object","properties":{"line":{"type":"integer"}},"additionalProperties":false}}}`)},
			OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: []byte(`{"type":"object","properties":{"id":{"type":"integer"},` +
				`"notes":{"type":"array","items":{"type":"object","properties":{"text":{"type":["string","null"]}},"additionalProperties":false}}},"additionalProperties":false}`)},
		}, {
			Name: "open", Title: "Open", Description: "Takes anything.",
			InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)},
		}},
	}
	c, err := catalog.Build([]*source.Loaded{{Source: "notes", Native: native}}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	program := `r = notes.add(text="a", kind="memo", at={"line": 3}, tags=["x"], any=[1])
for n in r.notes:
  r["notes"].append(n.txt)
notes.add(txt="a", kind="mem", at={"line": "three", "row": 1}, tags="x")
x = r.id + "a"
y = notes.open(whatever=1).result.deep
z = [k for k in r] + r.keys()
w = notes.add(text="a", at={"line": "3"})
result = r.notes[0].text + "!"
`
	_, findings := Program(mustParse(t, program), &World{Catalog: c}, nil)
	want := `3:3 read-only: a result cannot be changed -> list(…) or dict(…) of it
3:23 unknown-field: a message of a tool has no field txt; it has text -> text
4:1 missing-argument: notes.add needs text -> text=…
4:11 unknown-argument: notes.add has no argument txt; it has text, kind, at, tags, any -> text
4:25 unknown-value: the enum has no value mem; it has memo, task -> memo
4:44 wrong-type: line wants an int, found a string
4:53 unknown-field: the dict has no field row; it has line
4:69 wrong-type: tags wants a list, found a string
5:10 wrong-operands: + does not take an int and a string -> str(…)
8:37 wrong-type: line wants an int, found a string
`
	if diff := cmp.Diff(want, show(findings)); diff != "" {
		t.Error(diff)
	}
}

// TestInputs knows the inputs by their JSON.
func TestInputs(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	for _, tt := range []struct{ inputs, program, want string }{
		{`{"a":{"b":["x"]}}`, `result = inputs.a.b[0] + inputs["a"]["b"][0]`, ""},
		{`{"a":{"b":["x"]}}`, `result = inputs.a.c`, "1:19 unknown-field: a dict has no field c; it has b\n"},
		{`{"a":"x"}`, `result = inputs.a + 1`, "1:19 wrong-operands: + does not take a string and an int -> str(…)\n"},
		{`{"id":"first"}`, `result = fleet.get_order(order_id=inputs.id)`, "1:35 wrong-type: order_id wants an int of 64 bits from 0, found the string \"first\"\n"},
		{`{"id":"7"}`, `result = fleet.get_order(order_id=inputs.id)`, ""},
		{"", `result = inputs.a`, "1:17 unknown-field: inputs has no field a; it has none\n"},
		{"null", `result = inputs.get("a", 1) + 1`, ""},
		{"[1]", `result = inputs[0]`, ""},
	} {
		_, findings := Program(mustParse(t, tt.program), w, []byte(tt.inputs))
		if diff := cmp.Diff(tt.want, show(findings)); diff != "" {
			t.Errorf("%s with %s:\n%s", tt.program, tt.inputs, diff)
		}
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
			if p.Tool.Metadata.Destructive {
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

// TestTypesAreMadeOnce: worlds for other callers have the types of their world, whichever was asked first.
func TestTypesAreMadeOnce(t *testing.T) {
	t.Parallel()
	w := &World{Catalog: build(t, demo)}
	tool := w.Catalog.Tools()[0]
	none := func(*catalog.Tool) *errmap.Error { return errmap.New(errmap.PermissionDenied) }
	first, second := w.For(none), w.For(nil)
	if first.Input(tool) != second.Input(tool) || first.Output(tool) != w.Output(tool) || second.For(none).Input(tool) != w.Input(tool) {
		t.Error("a second run makes types again")
	}
	if first.May == nil || second.May != nil {
		t.Error("the permissions are not the caller's")
	}
}
