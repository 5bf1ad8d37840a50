// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// mutation is one fault that a program may be given: text in the place of other text of the same line.
type mutation struct {
	kind         string
	line, column int // from 1
	length       int
	text         string
	rules        []string
}

func (m mutation) apply(text string) string {
	lines := strings.Split(text, "\n")
	line := lines[m.line-1]
	lines[m.line-1] = line[:m.column-1] + m.text + line[m.column-1+m.length:]
	return strings.Join(lines, "\n")
}

// mutator finds the faults that a program may be given.
type mutator struct {
	w    *check.World
	out  []mutation
	vars map[string]bool
	// targets are names that are given a value, exact those whose value is a list of a known length.
	targets map[*syntax.Ident]bool
	exact   map[string]bool
}

func (m *mutator) add(kind string, at syntax.Position, length int, text string, rules ...string) {
	m.out = append(m.out, mutation{kind, int(at.Line), int(at.Col), length, text, rules})
}

// mutations are the faults that a right program may be given, each of which the types can know.
func mutations(w *check.World, text string) []mutation {
	file, err := (&syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}).Parse("program", text, 0)
	if err != nil {
		panic(err)
	}
	m := &mutator{w: w, vars: map[string]bool{}, targets: map[*syntax.Ident]bool{}, exact: map[string]bool{}}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			m.target(n.LHS)
			m.names(n)
		case *syntax.ForStmt:
			m.target(n.Vars)
		case *syntax.ForClause:
			m.target(n.Vars)
		case *syntax.IndexExpr:
			if lit, ok := n.Y.(*syntax.Literal); ok && m.exact[path(n.X)] {
				m.add("index", lit.TokenPos, len(lit.Raw), "2", "out-of-range")
			}
		case *syntax.CallExpr:
			m.call(n)
		case *syntax.DotExpr:
			m.dot(n)
		case *syntax.Ident:
			if n.Name == "acc" && !m.targets[n] || n.Name == "len" || n.Name == "str" || n.Name == "sorted" || n.Name == "enumerate" {
				m.add("name", n.NamePos, len(n.Name), n.Name+"_q", "unknown-name")
			}
		case *syntax.BinaryExpr:
			if n.Op == syntax.EQL {
				m.enum(n.Y)
			}
		}
		return true
	})
	return m.out
}

func (m *mutator) target(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.Ident:
		m.vars[e.Name], m.targets[e] = true, true
	case *syntax.ParenExpr:
		m.target(e.X)
	case *syntax.TupleExpr:
		for _, one := range e.List {
			m.target(one)
		}
	}
}

// names gives an assignment one name more than there are values.
func (m *mutator) names(n *syntax.AssignStmt) {
	call, ok := n.RHS.(*syntax.CallExpr)
	isExact := false
	if ok && len(call.Args) == 1 && path(call.Fn) == "parallel" {
		_, isExact = call.Args[0].(*syntax.ListExpr)
	}
	if id, ok := n.LHS.(*syntax.Ident); ok {
		m.exact[id.Name] = isExact
		return
	}
	to, ok := n.LHS.(*syntax.TupleExpr)
	if _, isTuple := n.RHS.(*syntax.TupleExpr); !ok || !isExact && !isTuple {
		return
	}
	if last, ok := to.List[len(to.List)-1].(*syntax.Ident); ok {
		m.add("names", last.NamePos, len(last.Name), last.Name+", more", "wrong-arity")
	}
}

func path(e syntax.Expr) string {
	switch e := e.(type) {
	case *syntax.Ident:
		return e.Name
	case *syntax.DotExpr:
		return path(e.X) + "." + e.Name.Name
	case *syntax.IndexExpr:
		if lit, ok := e.Y.(*syntax.Literal); ok {
			if text, ok := lit.Value.(string); ok {
				return text
			}
			return path(e.X)
		}
	}
	return ""
}

// dot misspells a field of a result.
func (m *mutator) dot(n *syntax.DotExpr) {
	root, _, _ := strings.Cut(path(n), ".")
	if m.vars[root] && root != "acc" && n.Name.Name != "items" && n.Name.Name != "upper" {
		m.add("field", n.Name.NamePos, len(n.Name.Name), n.Name.Name+"x", "unknown-field")
	}
}

// enum misspells a value of an enum.
func (m *mutator) enum(e syntax.Expr) {
	if lit, ok := e.(*syntax.Literal); ok && lit.Token == syntax.STRING {
		m.add("enum value", lit.TokenPos, len(lit.Raw), lit.Raw[:len(lit.Raw)-1]+"Q\"", "unknown-value")
	}
}

func (m *mutator) call(n *syntax.CallExpr) {
	name := path(n.Fn)
	t, ok := m.w.Catalog.Lookup(name)
	if !ok {
		if id, isName := n.Fn.(*syntax.Ident); isName && id.Name == "parallel" && len(n.Args) == 2 {
			m.parallel(n)
		}
		return
	}
	if dot, ok := n.Fn.(*syntax.DotExpr); ok {
		m.add("tool", dot.Name.NamePos, len(dot.Name.Name), dot.Name.Name+"q", "unknown-tool")
		root := dot.X
		for {
			inner, ok := root.(*syntax.DotExpr)
			if !ok {
				break
			}
			root = inner.X
		}
		if id, ok := root.(*syntax.Ident); ok {
			m.add("module", id.NamePos, len(id.Name), id.Name+"_q", "unknown-name")
		}
	}
	in := m.w.Input(t)
	for i, arg := range n.Args {
		named, ok := arg.(*syntax.BinaryExpr)
		if !ok || named.Op != syntax.EQ {
			continue
		}
		id := named.X.(*syntax.Ident)
		f := in.Field(id.Name)
		if f == nil {
			continue
		}
		if !in.Open {
			m.add("argument", id.NamePos, len(id.Name), id.Name+"_q", "unknown-argument")
		}
		m.value(named.Y, f.Type)
		start, end := named.Span()
		if f.Required && start.Line == end.Line {
			length := int(end.Col - start.Col)
			if i < len(n.Args)-1 {
				length += 2 // the comma
			}
			m.add("missing argument", start, length, "", "missing-argument")
		}
		if lit := int(start.Col); lit > 0 {
			m.add("positional argument", start, int(named.OpPos.Col-start.Col)+1, "", "positional-argument", "syntax")
		}
	}
}

func (m *mutator) parallel(n *syntax.CallExpr) {
	t, ok := m.w.Catalog.Lookup(path(n.Args[0]))
	if !ok {
		return
	}
	if comp, ok := n.Args[1].(*syntax.Comprehension); ok {
		m.dict(comp.Body, m.w.Input(t), "unknown-argument")
	}
}

func (m *mutator) dict(e syntax.Expr, t *types.Type, rule string) {
	dict, ok := e.(*syntax.DictExpr)
	if !ok || t == nil || t.Kind != types.Message {
		return
	}
	for _, one := range dict.List {
		entry := one.(*syntax.DictEntry)
		key, ok := entry.Key.(*syntax.Literal)
		if !ok {
			continue
		}
		name, _ := key.Value.(string)
		f := t.Field(name)
		if f == nil {
			continue
		}
		if !t.Open {
			m.add("key", key.TokenPos, len(key.Raw), strconv.Quote(name+"_q"), rule)
		}
		m.value(entry.Value, f.Type)
	}
}

// value gives an argument a literal of another type.
func (m *mutator) value(e syntax.Expr, t *types.Type) {
	if t == nil {
		return
	}
	m.dict(e, t, "unknown-field")
	start, end := e.Span()
	if start.Line != end.Line || t.Kind == types.Message && t.Open {
		return
	}
	length := int(end.Col - start.Col)
	if t.Kind == types.List || t.Kind == types.Map || t.Kind == types.Message {
		switch e.(type) {
		case *syntax.ListExpr, *syntax.DictExpr:
			length = int(end.Col - start.Col)
		default:
			return // the ends of other expressions are not told exactly
		}
	}
	if _, isLiteral := e.(*syntax.Literal); !isLiteral && t.Kind < types.Message {
		return
	}
	wrong := map[types.Kind][]string{
		types.Bool: {`"yes"`, "1"}, types.Int: {`"many"`, "1.5", "[1]", "True"}, types.Float: {`"much"`, "[1.5]", "{}"}, types.String: {"5", "[]", "True"},
		types.Bytes: {"5"}, types.Timestamp: {`"yesterday"`, "1717221600"}, types.Duration: {`"soon"`, "300"}, types.Enum: {`"NO_SUCH_VALUE"`, "{}"},
		types.Message: {`"text"`, "5", "[]"}, types.List: {`"text"`, "5", "{}"}, types.Map: {`"text"`, "5", "[]"},
	}[t.Kind]
	if t.Kind == types.String && t.Name != "" {
		wrong = []string{"5", "True"} // the paths of a mask may be a list
	}
	for _, text := range wrong {
		m.add("type of "+text, start, length, text, "wrong-type", "unknown-value")
	}
	if t.Kind == types.Int && t.Bits > 0 {
		text := "99999999999999999999"
		if t.Unsigned {
			text = "-1"
		} else if t.Bits == 32 {
			text = "2147483648"
		}
		m.add("range", start, length, text, "out-of-range")
	}
}

// TestWrongProgramsAreRefused gives right programs one fault each: the check finds it, on its line, before any call.
func TestWrongProgramsAreRefused(t *testing.T) {
	t.Parallel()
	const wanted = 300
	found, would, total := 0, 0, 0
	kinds := map[string]int{}
	for i, file := range catalogs {
		w := world(t, file)
		for seed := range uint64(wanted / len(catalogs)) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			right := random(w, 10_000+seed)
			all := mutations(w, right)
			if len(all) == 0 {
				continue
			}
			// Each kind as often as any other.
			byKind := map[string][]mutation{}
			for _, one := range all {
				byKind[one.kind] = append(byKind[one.kind], one)
			}
			var names []string
			for name := range byKind {
				names = append(names, name)
			}
			slices.Sort(names)
			list := byKind[names[r.IntN(len(names))]]
			m := list[r.IntN(len(list))]
			wrong := m.apply(right)
			total++
			kinds[m.kind]++
			if isFound, why := finds(w, wrong, m); isFound {
				found++
			} else {
				t.Errorf("%s %d: %s at %d:%d is not found: %s\n%s", file, seed, m.kind, m.line, m.column, why, wrong)
			}
			if p, faults := program.Parse(wrong, limits()); len(faults) == 0 {
				out := p.Run(t.Context(), w, []byte("{}"), &answers{w: w, isStrict: true, number: map[*catalog.Tool]int{}})
				if out.Err == nil {
					would++
					t.Logf("%s %d: %s at %d:%d would have run:\n%s", file, seed, m.kind, m.line, m.column, wrong)
				}
			}
		}
	}
	t.Logf("%d of %d wrong programs are found before any call (%v); %d of them would have come to their ends, because the fault was not reached", found, total, kinds, would)
	if total < 240 {
		t.Errorf("only %d programs", total)
	}
}

// finds reports whether a fault is found where it is.
func finds(w *check.World, text string, m mutation) (bool, string) {
	p, faults := program.Parse(text, limits())
	if len(faults) == 0 {
		_, faults = p.Check(w, []byte("{}"))
	}
	for _, f := range faults {
		if f.Line == m.line && slices.Contains(m.rules, f.Rule) {
			return true, ""
		}
	}
	return false, fmt.Sprint(faults)
}
