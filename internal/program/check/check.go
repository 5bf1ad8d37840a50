// SPDX-License-Identifier: Apache-2.0

// Package check finds the faults of a program of catalog.run before anything runs, with the types of the tools that its caller sees.
//
// A finding is a fault of one of two kinds. A fault of writing is a name that does not exist, an argument that is missing or a literal
// that no value of its type is: it is reported wherever it is. A fault of types is an expression that fails each time it is reached, such
// as a text plus a number: it is reported unless the program never reaches it, or only behind a test of the type. All else is left to the
// run, because a variable may hold what its type does not say.
//
// Types flow through assignments, loops, comprehensions and functions. The program is passed over a fixed number of times: each pass knows
// what the one before found out about variables, parameters and results of functions, and the first one knows nothing. What a pass
// believes is therefore always true, and the time is linear in the size of the program.
package check

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// World is the catalog as one caller sees it. It is safe for concurrent use. It keeps the types of the tools that programs use.
type World struct {
	// Catalog has the tools that the caller may see, each with the results that it may see.
	Catalog *catalog.Catalog
	// May returns why the caller may not call a tool, nil where it may. Nil permits all.
	May func(*catalog.Tool) *errmap.Error

	of *World // has what is below; nil for the world itself

	inputs, outputs sync.Map // of *types.Type by *catalog.Tool
	once            sync.Once
	modules         map[string]bool
	roots           []string
}

// For returns the world for callers with other permissions. They share its types.
func (w *World) For(may func(*catalog.Tool) *errmap.Error) *World {
	return &World{Catalog: w.Catalog, May: may, of: w.whole()}
}

func (w *World) whole() *World {
	if w.of != nil {
		return w.of
	}
	return w
}

// Input returns types.Input of a tool, the same one each time.
func (w *World) Input(t *catalog.Tool) *types.Type { return cached(&w.whole().inputs, t, types.Input) }

// Output returns types.Output of a tool, the same one each time.
func (w *World) Output(t *catalog.Tool) *types.Type {
	return cached(&w.whole().outputs, t, types.Output)
}

func cached(known *sync.Map, t *catalog.Tool, create func(*catalog.Tool) *types.Type) *types.Type {
	v, ok := known.Load(t)
	if !ok {
		v, _ = known.LoadOrStore(t, create(t))
	}
	made, _ := v.(*types.Type)
	return made
}

// index finds out which names tools begin with, and returns the world that has them.
func (w *World) index() *World {
	w = w.whole()
	w.once.Do(func() {
		w.modules = map[string]bool{}
		for _, t := range w.Catalog.Tools() {
			for _, name := range [...]string{t.Name, t.Alias} {
				for i := range len(name) {
					if name[i] == '.' {
						w.modules[name[:i]] = true
					}
				}
			}
		}
		for name := range w.modules {
			if !strings.Contains(name, ".") {
				w.roots = append(w.roots, name)
			}
		}
		slices.Sort(w.roots)
	})
	return w
}

// has reports whether a name is that of a tool or of a module of tools.
func (w *World) has(name string) bool {
	if w.index().modules[name] {
		return true
	}
	_, ok := w.Catalog.Lookup(name)
	return ok
}

// Finding is a fault in a program.
type Finding struct {
	// Line and Column are those of its place, from 1; a column counts characters.
	Line, Column int
	// Rule names the kind of fault, such as "unknown-field".
	Rule string
	// Message says what is wrong, and Instead what to write; Instead is empty where that is not known.
	Message, Instead string
}

// The rules.
const (
	ruleUnknownName     = "unknown-name"
	ruleUnknownTool     = "unknown-tool"
	ruleNotPermitted    = "not-permitted"
	ruleUnknownArgument = "unknown-argument"
	ruleMissingArgument = "missing-argument"
	rulePositional      = "positional-argument"
	ruleRepeated        = "repeated-argument"
	ruleUnknownField    = "unknown-field"
	ruleUnknownValue    = "unknown-value"
	ruleWrongType       = "wrong-type"
	ruleOutOfRange      = "out-of-range"
	ruleOneOf           = "one-of"
	ruleOperands        = "wrong-operands"
	ruleArity           = "wrong-arity"
	ruleNotCallable     = "not-callable"
	ruleNotIterable     = "not-iterable"
	ruleReadOnly        = "read-only"
	ruleNotPaged        = "not-paged"
	ruleNoResult        = "no-result"
	ruleUnsupported     = "unsupported"
	ruleMore            = "more"
	ruleTooComplex      = "too-complex"
)

// Planned is what a program may call.
type Planned struct {
	Tool *catalog.Tool
	// AtMost is how often at most; negative where only the limits of the run bound it.
	AtMost int
	// Places are the first calls in the program, in their order.
	Places []syntax.Position
}

const (
	// maxFindings bounds what is reported. One more says how many there are.
	maxFindings = 100
	// rounds is how often a program is passed over; only the last pass reports.
	rounds = 4
	// maxSteps bounds the work of one program beside the passes themselves: types in types.
	maxSteps = 50_000
	// leastWork and nodeWork are the steps that a check may take: so many, and more for each node of the tree. A step looks at one node,
	// joins two types or takes back one change of a variable. Most programs need five for a node.
	leastWork = 100_000
	nodeWork  = 48
	// maxCompared bounds the names of tools that unknown ones are compared with.
	maxCompared = 20_000
	// maxPlaces bounds the places of the calls of a tool.
	maxPlaces = 100
	// maxNames bounds the variables that an unknown name is compared with.
	maxNames = 1000
	// resultName is the global whose value is that of the program, inputsName the one that has the inputs.
	resultName, inputsName = "result", "inputs"
)

// Program checks a program. inputs is the type of the global inputs by its JSON text, "{}" for none. All faults are returned at once, in
// the order of their places; a program that would run without a fault of types is never refused. It binds the names in the file, which
// must not be in use elsewhere at the same time.
//
// The plan has each tool that the program calls, and each whose name it uses otherwise. It is complete.
func Program(file *syntax.File, w *World, inputs []byte) ([]Planned, []Finding) {
	c := newChecker(w, inputs)
	return c.program(file)
}

func newChecker(w *World, inputs []byte) *checker {
	return &checker{world: w, steps: maxSteps, defs: map[*syntax.Ident]*function{}, functions: map[syntax.Node]*function{}, inputs: inputValue(inputs)}
}

func (c *checker) program(file *syntax.File) ([]Planned, []Finding) {
	c.bind(file)
	c.survey(file)
	for c.round = range rounds {
		c.begin()
		c.statements(file.Stmts)
	}
	if c.work < 0 {
		return nil, []Finding{{
			Line: 1, Column: 1, Rule: ruleTooComplex, Message: fmt.Sprintf("the program takes more than %d steps to be checked", c.budget),
			Instead: "several programs, with fewer loops in one another",
		}}
	}
	if !c.setsResult(file) {
		place := syntax.MakePosition(nil, 1, 1)
		if n := len(file.Stmts); n > 0 {
			place = syntax.Start(file.Stmts[n-1])
		}
		c.report(place, ruleNoResult, "the program sets no result", resultName+" = …")
	}
	return c.planned(), c.found()
}

func (c *checker) found() []Finding {
	slices.SortStableFunc(c.findings, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	if more := len(c.findings) - maxFindings; more > 0 {
		c.findings = c.findings[:maxFindings:maxFindings]
		last := c.findings[maxFindings-1]
		c.findings = append(c.findings, Finding{Line: last.Line, Column: last.Column, Rule: ruleMore, Message: fmt.Sprintf("%d more faults follow", more)})
	}
	return c.findings
}

// report adds a fault.
func (c *checker) report(at syntax.Position, rule, message, instead string) {
	if c.round < rounds-1 {
		return
	}
	c.findings = append(c.findings, Finding{Line: int(at.Line), Column: int(at.Col), Rule: rule, Message: message, Instead: instead})
}

// fault adds a fault of types, unless the program does not surely get here.
func (c *checker) fault(at syntax.Position, rule, message, instead string) {
	if !c.unsure && !c.dead {
		c.report(at, rule, message, instead)
	}
}

// isKnown reports whether a name that is neither the program's nor a builtin's has a meaning.
func (c *checker) isKnown(name string) bool {
	return name == inputsName || name == toolsName || name == jsonName || c.world.has(name)
}

// bind binds the names of the program. Those that nothing has are found later: the resolver would compare each with all others.
func (c *checker) bind(file *syntax.File) {
	err := resolve.File(file, func(name string) bool { return builtins()[name] == nil && !isConstant(name) },
		func(string) bool { return true })
	var list resolve.ErrorList
	if !errors.As(err, &list) {
		return
	}
	c.round = rounds - 1
	for _, e := range list {
		c.report(e.Pos, ruleUnsupported, e.Msg, "")
	}
}

// maxSwapped bounds the names in which swapped letters are looked for, and maxKnown those that they are compared with.
const maxSwapped, maxKnown = 24, 200

// nearest is the known name that a writer most likely meant, empty for none: one in which few letters are others, or two are swapped.
func nearest(name string, known []string) string {
	if near := schema.Nearest(name, known); near != "" || len(name) > maxSwapped || len(known) > maxKnown {
		return near
	}
	for i := range len(name) - 1 {
		swapped := name[:i] + name[i+1:i+2] + name[i:i+1] + name[i+2:]
		if near := schema.Nearest(swapped, known); near != "" {
			return near
		}
	}
	return ""
}

// nearestName is what a writer most likely meant by a name that nothing has.
func (c *checker) nearestName(name string) string {
	if other := python(kAny, name); other != "" {
		return other
	}
	known := append(builtinNames(), inputsName, toolsName, jsonName)
	known = append(known, c.world.index().roots...)
	if module, ok := c.file.Module.(*resolve.Module); ok {
		for _, b := range module.Globals[:min(len(module.Globals), maxNames)] {
			known = append(known, b.First.Name)
		}
	}
	if near := nearest(name, known); near != "" {
		return near
	}
	return c.nearestTool(name)
}

// nearestTool is the name of the tool that was most likely meant; empty for none. It looks at a number of names in all.
func (c *checker) nearestTool(name string) string {
	if c.compared > maxCompared {
		return ""
	}
	c.compared += len(c.world.Catalog.Tools())
	return strings.Join(c.world.Catalog.Nearest(name, 1), "")
}

// planned is the plan, by the places of the first calls.
func (c *checker) planned() []Planned {
	out := make([]Planned, 0, len(c.plan))
	for _, p := range c.plan {
		p.Places = append(p.Places, c.anyTool[min(1, len(c.anyTool)):]...)
		slices.SortFunc(p.Places, comparePlaces)
		p.Places = slices.Compact(p.Places)
		out = append(out, *p)
	}
	slices.SortStableFunc(out, func(a, b Planned) int {
		return cmp.Or(comparePlaces(a.Places[0], b.Places[0]), cmp.Compare(a.Tool.Name, b.Tool.Name))
	})
	return out
}

func comparePlaces(a, b syntax.Position) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
}
