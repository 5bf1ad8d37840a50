// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program"
)

var untyped = flag.Int("untyped", 1500, "number of random programs without regard to types")

// careless writes a random program without regard to types. Each statement is reached, so that one that never works ends the
// program.
func careless(r *rand.Rand) string {
	g := &scribbler{r: r}
	for i, v := range names {
		if i < 3 || r.IntN(2) == 0 {
			g.line("%s = %s", v, g.literal())
		}
	}
	for range 3 + r.IntN(7) {
		g.statement(0)
	}
	g.line("result = 1")
	return g.out.String()
}

var names = []string{"a", "b", "c", "d"}

type scribbler struct {
	r      *rand.Rand
	out    strings.Builder
	indent string
	number int
}

func (g *scribbler) line(format string, args ...any) {
	g.out.WriteString(g.indent)
	fmt.Fprintf(&g.out, format+"\n", args...)
}

func (g *scribbler) one(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *scribbler) name() string { return g.one(names...) }

func (g *scribbler) literal() string {
	return g.one("1", "2.5", `"s"`, "[]", "[1]", `["s"]`, "[1, 2]", "{}", `{"k": 1}`, `{"k": "s"}`, `(1, "s")`, "[[1]]", "[[]]", `{"k": [1]}`, "None", "True",
		"fleet.get_order(order_id=1)", "fleet.find_orders()", "set([1])", "inputs.l", "inputs.o")
}

// value is an expression.
func (g *scribbler) value() string {
	switch g.r.IntN(16) {
	case 0, 1:
		return g.literal()
	case 2:
		return g.name() + " + " + g.name()
	case 3:
		return g.name() + "[0]"
	case 4:
		return g.name() + `["k"]`
	case 5:
		return "[" + g.name() + ", " + g.name() + "]"
	case 6:
		return `{"k": ` + g.name() + "}"
	case 7:
		return fmt.Sprintf("[x for x in %s]", g.name())
	case 8:
		return fmt.Sprintf("%s if inputs.%s else %s", g.name(), g.one("t", "f"), g.name())
	case 9:
		return g.name() + g.one(" or ", " and ") + g.name()
	case 10:
		return g.name() + g.one(`.get("k")`, ".values()", ".items()", ".keys()", ".pop()", ".id", ".orders", ".parcels", ".customer", "[:1]", " * 2", `.setdefault("k", [])`)
	case 11:
		return g.one("list", "sorted", "len", "str", "tuple", "dict", "reversed", "sum", "max", "enumerate") + "(" + g.name() + ")"
	case 12:
		return g.name() + g.one(" + 1", ` + "s"`, " + [1]", ` + ["s"]`, " - 1", " == 1", " % 2", " < 2", ` in ["s"]`)
	case 13:
		return "(lambda x: x" + g.one("", " + 1", ` + "s"`, "[0]") + ")(" + g.name() + ")"
	}
	return g.name()
}

func (g *scribbler) statement(depth int) {
	switch g.r.IntN(12) {
	case 0, 1, 2:
		g.line("%s = %s", g.name(), g.value())
	case 3:
		g.line("%s.append(%s)", g.name(), g.value())
	case 4:
		g.line("%s%s = %s", g.name(), g.one("[0]", `["k"]`), g.value())
	case 5:
		g.line("%s += %s", g.name(), g.value())
	case 6:
		g.line("%s, %s = %s, %s", g.name(), g.name(), g.name(), g.name())
	case 7:
		if depth < 2 {
			g.line("for %s in %s:", g.one("a", "x", "y"), g.one("[1]", "[1, 2]", g.name()+" or [1]", "[[1], [2]]", "range(2)"))
			g.block(depth)
		}
	case 8:
		// What is in a branch works, whether it is taken or not.
		g.line("if inputs.%s:", g.one("t", "f"))
		g.line("  %s = %s", g.name(), g.literal())
		if g.r.IntN(2) == 0 {
			g.line("else:\n%s  %s = %s", g.indent, g.name(), g.literal())
		}
	case 9:
		if depth == 0 {
			g.function()
		}
	case 10:
		g.line("%s.%s(%s)", g.name(), g.one("extend", "insert", "update", "remove", "add"), g.one(g.value(), "0, "+g.name()))
	default:
		g.line("%s", g.value())
	}
}

func (g *scribbler) block(depth int) {
	g.indent += "  "
	for range 1 + g.r.IntN(2) {
		g.statement(depth + 1)
	}
	g.line("pass")
	g.indent = g.indent[2:]
}

// function makes a function and calls it.
func (g *scribbler) function() {
	g.number++
	f := fmt.Sprintf("f%d", g.number)
	g.line("def %s(p, q = %s):", f, g.literal())
	g.line("  %s", g.one("p.append(1)", `p.append("s")`, "p += [1]", `p += "s"`, `p["k"] = 1`, "r = p", "q.append(p)", "a.append(p)", "p[0] = q", "pass"))
	g.line("  return %s", g.one("p", "q", "p + q", "[p]", "p[0]", "a", "a + p", "a[0]", "b"))
	g.line("%s = %s(%s)", g.name(), f, g.one(g.name(), g.name()+", "+g.name(), g.name()+", q="+g.name()))
	if g.r.IntN(2) == 0 {
		g.line("%s = [%s(x) for x in %s or [1]]", g.name(), f, g.name())
	}
}

// TestWhatRunsIsNotRefused runs random programs of which most are wrong: none that comes to its end has a finding.
func TestWhatRunsIsNotRefused(t *testing.T) {
	t.Parallel()
	w := world(t, catalogs[0])
	inputs := []byte(`{"t":true,"f":false,"l":[1,2],"o":{"k":"s"}}`)
	ran, found := 0, 0
	for seed := range uint64(*untyped) {
		text := careless(rand.New(rand.NewPCG(seed, 3)))
		p, faults := program.Parse(text, limits())
		if len(faults) > 0 {
			t.Fatalf("%v\n%s", faults, text)
		}
		_, findings := p.Check(w, inputs)
		out := p.Run(t.Context(), w, inputs, &answers{w: w, number: map[*catalog.Tool]int{}})
		switch {
		case out.Err == nil:
			ran++
			if len(findings) > 0 {
				t.Errorf("%d runs and is refused: %v\n%s", seed, findings, text)
			}
		case len(findings) > 0:
			found++
		}
	}
	t.Logf("%d programs: %d ran to their ends; %d of the other %d were refused", *untyped, ran, found, *untyped-ran)
}
