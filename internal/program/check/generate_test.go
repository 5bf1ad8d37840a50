// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// generator writes random programs that are right by the types of a catalog.
type generator struct {
	r     *rand.Rand
	w     *check.World
	tools []*catalog.Tool
	vars  []typed
	out   strings.Builder
	names int
}

// typed is an expression with its type.
type typed struct {
	text string
	typ  *types.Type
}

// programOf is a random program of some statements.
func programOf(w *check.World, r *rand.Rand) string {
	g := &generator{r: r, w: w, tools: w.Catalog.Tools()}
	g.line("acc = []")
	g.call()
	for range 2 + r.IntN(5) {
		g.statement()
	}
	g.line("result = {\"n\": len(acc), \"all\": acc[:3]}")
	return g.out.String()
}

func (g *generator) line(format string, args ...any) { fmt.Fprintf(&g.out, format+"\n", args...) }

func (g *generator) fresh(prefix string) string {
	g.names++
	return prefix + strconv.Itoa(g.names)
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.r.IntN(len(list))] }

// call makes a call with a variable for its result.
func (g *generator) call() {
	t := pick(g, g.tools)
	name := g.fresh("v")
	g.line("%s = %s", name, g.callOf(t))
	g.vars = append(g.vars, typed{name, g.w.Output(t)})
}

func (g *generator) callOf(t *catalog.Tool) string {
	name := t.Name
	switch g.r.IntN(8) {
	case 0:
		name = "tools[" + strconv.Quote(t.Name) + "]"
	case 1:
		if t.MCPName != "" && !strings.ContainsAny(t.MCPName, ".-/") {
			name = t.MCPName
		}
	}
	return name + "(" + strings.Join(g.members(g.w.Input(t), "%s=%s", 0), ", ") + ")"
}

// members are those of a message, the required ones and some of the others.
func (g *generator) members(t *types.Type, format string, depth int) []string {
	var out []string
	oneofs := map[string]bool{}
	for _, f := range t.Fields() {
		if !f.Required && (depth > 2 || g.chance(65)) || f.Oneof != "" && oneofs[f.Oneof] || isReserved(f.Name) {
			continue
		}
		if f.Type == nil || f.Type.Name == "google.protobuf.Any" || f.Type.Kind == types.Null {
			continue
		}
		if f.Oneof != "" {
			oneofs[f.Oneof] = true
		}
		name := f.Name
		if g.chance(30) && !isReserved(f.JSONName) {
			name = f.JSONName
		}
		out = append(out, fmt.Sprintf(format, name, g.expression(f.Type, depth+1)))
	}
	return out
}

// isReserved holds for the words that no name of a program may be.
func isReserved(name string) bool {
	return slices.Contains(strings.Fields("and as assert async await break class continue def del elif else except finally for from global if import "+
		"in is lambda load nonlocal not or pass raise return try while with yield"), name)
}

// expression is an expression of a type: a literal, or what a variable has.
func (g *generator) expression(t *types.Type, depth int) string {
	if g.chance(30) {
		var fit []string
		for _, one := range g.paths(false) {
			if same(one.typ, t) {
				fit = append(fit, one.text)
			}
		}
		if len(fit) > 0 {
			return pick(g, fit)
		}
	}
	return g.literal(t, depth)
}

func same(a, b *types.Type) bool {
	return a != nil && b != nil && a.Kind == b.Kind && a.Name == b.Name && a.Bits == b.Bits && a.Unsigned == b.Unsigned && a.Kind != types.List && a.Kind != types.Map
}

func (g *generator) literal(t *types.Type, depth int) string {
	if t == nil {
		return `"any"`
	}
	switch t.Kind { //nolint:exhaustive // the others have no literals
	case types.Bool:
		return pick(g, []string{"True", "False"})
	case types.Int:
		n := pick(g, []int64{0, 1, 7, 1000, 1 << 30})
		if !t.Unsigned && g.chance(20) {
			n = -n
		}
		return strconv.FormatInt(n, 10)
	case types.Float:
		return pick(g, []string{"1.5", "2", "-0.25", "1e3"})
	case types.String:
		if t.Name != "" {
			return `"name"`
		}
		return pick(g, []string{`"a"`, `"some text"`, `"x" + "y"`, `"%d" % 3`, `str(12)`})
	case types.Bytes:
		return pick(g, []string{`b"abc"`, `"YWJj"`})
	case types.Timestamp:
		return pick(g, []string{`"2026-06-01T06:00:00Z"`, `timestamp("2026-06-01T06:00:00+02:00")`})
	case types.Duration:
		return pick(g, []string{`"3s"`, `duration("1.5s")`})
	case types.Enum:
		return strconv.Quote(pick(g, t.Values))
	case types.Message:
		return "{" + strings.Join(g.members(t, "\"%s\": %s", depth), ", ") + "}"
	case types.List:
		var out []string
		for range g.r.IntN(3) {
			out = append(out, g.expression(t.Elem(), depth+1))
		}
		if t.Elem() != nil && t.Elem().Kind == types.Int && g.chance(30) {
			return "[i for i in range(3)]"
		}
		return "[" + strings.Join(out, ", ") + "]"
	case types.Map:
		key := `"k"`
		switch t.Key().Kind { //nolint:exhaustive // keys are no other
		case types.Int:
			key = "1"
		case types.Bool:
			key = "True"
		}
		return "{" + key + ": " + g.literal(t.Elem(), depth+1) + "}"
	}
	return "None"
}

// paths are the attributes of the variables, two deep. Those that may be None are among them if wanted.
func (g *generator) paths(nullable bool) []typed {
	var out []typed
	add := func(from typed) {
		for _, f := range from.typ.Fields() {
			name := f.Name
			if g.chance(20) {
				name = f.JSONName
			}
			if f.Type == nil || isReserved(name) || f.Type.Nullable && !nullable {
				continue
			}
			out = append(out, typed{from.text + "." + name, f.Type})
		}
	}
	for _, v := range g.vars {
		if v.typ == nil || v.typ.Kind != types.Message {
			continue
		}
		before := len(out)
		add(v)
		for _, deeper := range out[before:] {
			if deeper.typ.Kind == types.Message {
				add(deeper)
			}
		}
	}
	return out
}

// of are the paths of some kinds.
func (g *generator) of(kinds ...types.Kind) []typed {
	var out []typed
	for _, p := range g.paths(false) {
		for _, k := range kinds {
			if p.typ.Kind == k {
				out = append(out, p)
			}
		}
	}
	return out
}

// fieldOf is a field of a message that is no message and not None; empty for none.
func (g *generator) fieldOf(t *types.Type) *types.Field {
	var out []*types.Field
	for _, f := range t.Fields() {
		if f.Type != nil && !f.Type.Nullable && f.Type.Kind < types.Message && !isReserved(f.Name) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return pick(g, out)
}

func (g *generator) statement() {
	switch g.r.IntN(14) {
	case 0, 1:
		g.call()
	case 7, 8:
		g.several()
	case 9:
		g.pairs()
	case 2:
		t := pick(g, g.tools)
		name := g.fresh("p")
		form := "%s = parallel([%s for i in range(%d)])"
		if g.chance(40) {
			g.line("%s = parallel(%s, [{%s} for i in range(2)])", name, t.Name, strings.Join(g.members(g.w.Input(t), "\"%s\": %s", 0), ", "))
		} else {
			g.line(form, name, g.callOf(t), 1+g.r.IntN(3))
		}
		g.vars = append(g.vars, typed{name + "[0]", g.w.Output(t)})
	case 3:
		g.define()
	case 4:
		g.guard()
	case 5:
		if scalars := g.of(types.Int, types.String, types.Enum, types.Float, types.Timestamp, types.Duration); len(scalars) > 0 {
			g.scalar(pick(g, scalars))
		}
	case 6:
		if maps := g.of(types.Map); len(maps) > 0 {
			g.line("for k, v in %s.items():\n  acc.append(\"%%s=%%s\" %% (k, v))", pick(g, maps).text)
		}
	default:
		if lists := g.of(types.List); len(lists) > 0 {
			g.loop(pick(g, lists))
		}
	}
}

// several makes calls of different tools, with variables for their results one by one.
func (g *generator) several() {
	one, two, three := pick(g, g.tools), pick(g, g.tools), pick(g, g.tools)
	a, b, c := g.fresh("a"), g.fresh("b"), g.fresh("c")
	calls := fmt.Sprintf("%s, %s", g.callOf(one), g.callOf(two))
	switch g.r.IntN(4) {
	case 0:
		g.line("%s, %s = parallel([%s])", a, b, calls)
	case 1:
		g.line("%s, %s = %s", a, b, calls)
	case 2:
		g.line("(%s, %s), %s = parallel([%s]), %s", a, b, c, calls, g.callOf(three))
		g.vars = append(g.vars, typed{c, g.w.Output(three)})
	default:
		g.line("%s = parallel([%s])", c, calls)
		a, b = c+"[0]", c+pick(g, []string{"[1]", "[-1]"})
	}
	g.vars = append(g.vars, typed{a, g.w.Output(one)}, typed{b, g.w.Output(two)})
	g.use(a, g.w.Output(one))
	g.use(b, g.w.Output(two))
}

// use reads a field of a message.
func (g *generator) use(text string, t *types.Type) {
	if f := g.fieldOf(t); f != nil {
		g.line("acc.append(%s.%s)", text, f.Name)
	}
}

// pairs goes through pairs of messages of different types.
func (g *generator) pairs() {
	lists := slices.DeleteFunc(g.of(types.List), func(p typed) bool { return g.fieldOf(p.typ.Elem()) == nil })
	if len(lists) == 0 {
		return
	}
	one, two := pick(g, lists), pick(g, lists)
	f, h := g.fieldOf(one.typ.Elem()), g.fieldOf(two.typ.Elem())
	a, b := g.fresh("a"), g.fresh("b")
	switch g.r.IntN(4) {
	case 0:
		g.line("for %s, %s in zip(%s, %s):\n  acc.append([%s.%s, %s.%s])", a, b, one.text, two.text, a, f.Name, b, h.Name)
	case 1:
		g.line("acc.extend([(%s.%s, %s.%s) for i, (%s, %s) in enumerate(zip(%s, %s))])", a, f.Name, b, h.Name, a, b, one.text, two.text)
	case 2:
		g.line("for %s, %s in {str(o.%s): o for o in %s}.items():\n  acc.append(%s + str(%s.%s))", a, b, f.Name, one.text, a, b, f.Name)
	default:
		g.line("for %s, %s in [(x, y) for x in %s for y in %s]:\n  acc.append([%s.%s, %s.%s])", a, b, one.text, two.text, a, f.Name, b, h.Name)
	}
}

// scalar uses a value that is no message.
func (g *generator) scalar(p typed) {
	switch p.typ.Kind { //nolint:exhaustive // the others are not asked for
	case types.Int, types.Float:
		g.line("%s = %s * 2 + 1", g.fresh("n"), p.text)
		g.line("if %s > 3:\n  acc.append(%s)\nelse:\n  acc.append(-%s)", p.text, p.text, p.text)
	case types.String:
		g.line("%s = %s.upper() + \"!\" if %s else \"none\"", g.fresh("s"), p.text, p.text)
	case types.Enum:
		g.line("if %s == %q or %s in [%q]:\n  acc.append(%s)", p.text, pick(g, p.typ.Values), p.text, pick(g, p.typ.Values), p.text)
	case types.Timestamp:
		g.line("acc.append(str(%s))\n%s = %s + duration(\"5s\")", p.text, g.fresh("t"), p.text)
	case types.Duration:
		g.line("acc.append(%s > \"3s\")", p.text)
	}
}

// guard uses what may be None.
func (g *generator) guard() {
	var found []typed
	for _, p := range g.paths(true) {
		if p.typ.Nullable {
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return
	}
	p := pick(g, found)
	if f := g.fieldOf(p.typ); f != nil && g.chance(70) {
		g.line("if %s != None:\n  acc.append(%s.%s)", p.text, p.text, f.Name)
		return
	}
	g.line("%s = %s or None", g.fresh("o"), p.text)
}

// define makes a function of a message, and calls it.
func (g *generator) define() {
	for _, v := range g.vars {
		if v.typ == nil {
			continue
		}
		if f := g.fieldOf(v.typ); f != nil {
			name := g.fresh("f")
			g.line("def %s(x, more = 1):\n  if more > 3:\n    return None\n  return x.%s", name, f.Name)
			g.line("acc.append(%s(%s))", name, v.text)
			return
		}
	}
}

// loop goes through a list.
func (g *generator) loop(p typed) {
	elem := p.typ.Elem()
	x := g.fresh("x")
	f := g.fieldOf(elem)
	if f == nil {
		g.line("for i, %s in enumerate(%s):\n  if i > 3:\n    break\n  acc.append(%s)", x, p.text, x)
		return
	}
	switch g.r.IntN(5) {
	case 0:
		g.line("acc = acc + [%s.%s for %s in %s]", x, f.Name, x, p.text)
	case 1:
		g.line("acc.extend([%s.%s for %s in sorted(%s, key=lambda o: str(o.%s))])", x, f.Name, x, p.text, f.Name)
	case 2:
		d := g.fresh("d")
		g.line("%s = {str(%s.%s): %s for %s in %s}\nfor k in %s:\n  acc.append(%s[k].%s)", d, x, f.Name, x, x, p.text, d, d, f.Name)
	case 3:
		g.line("for %s in %s:\n  y = %s.%s\n  if not y:\n    continue\n  acc.append({\"y\": y})", x, p.text, x, f.Name)
	default:
		mark := len(g.vars)
		t := pick(g, g.tools)
		g.vars = append(g.vars, typed{x, elem})
		g.line("for %s in %s[:2]:\n  acc.append(%s.%s)\n  last = %s", x, p.text, x, f.Name, g.callOf(t))
		g.vars = g.vars[:mark]
	}
}

// answer is a random JSON value of a type.
func answer(r *rand.Rand, t *types.Type, depth int) string {
	if t == nil {
		return `"any"`
	}
	switch t.Kind { //nolint:exhaustive // the others are null
	case types.Bool:
		return strconv.FormatBool(r.IntN(2) == 0)
	case types.Int:
		n := strconv.Itoa(r.IntN(100))
		if t.Bits == 64 {
			return `"` + n + `"`
		}
		return n
	case types.Float:
		return strconv.FormatFloat(float64(r.IntN(1000))/8, 'f', -1, 64)
	case types.String:
		return string(jsontext.AppendString(nil, []string{"", "a", "some text"}[r.IntN(3)]))
	case types.Bytes:
		return `"` + base64.StdEncoding.EncodeToString([]byte("abc")[:r.IntN(3)]) + `"`
	case types.Timestamp:
		return `"2026-06-01T06:00:00Z"`
	case types.Duration:
		return `"4.5s"`
	case types.Enum:
		if t.Open && !t.Schema && r.IntN(10) == 0 {
			return "99"
		}
		return strconv.Quote(t.Values[r.IntN(len(t.Values))])
	case types.Message:
		return answerMessage(r, t, depth)
	case types.List:
		var out []string
		for range r.IntN(3) {
			if depth < 6 {
				out = append(out, answer(r, t.Elem(), depth+1))
			}
		}
		return "[" + strings.Join(out, ",") + "]"
	case types.Map:
		if r.IntN(2) == 0 || depth > 5 {
			return "{}"
		}
		return `{"1":` + answer(r, t.Elem(), depth+1) + `}`
	}
	return "null"
}

func answerMessage(r *rand.Rand, t *types.Type, depth int) string {
	var out []string
	oneofs := map[string]bool{}
	for _, f := range t.Fields() {
		if f.Type != nil && f.Type.Nullable && (r.IntN(2) == 0 || depth > 4) || f.Oneof != "" && oneofs[f.Oneof] {
			continue
		}
		if f.Oneof != "" {
			oneofs[f.Oneof] = true
		}
		out = append(out, strconv.Quote(f.JSONName)+":"+answer(r, f.Type, depth+1))
	}
	return "{" + strings.Join(out, ",") + "}"
}
