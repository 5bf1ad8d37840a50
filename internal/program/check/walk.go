// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/resolve"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// checker checks one program.
type checker struct {
	world    *World
	file     *syntax.File
	inputs   *value
	findings []Finding
	plan     map[*catalog.Tool]*Planned

	// round counts the passes. steps is what is left of maxSteps, work of budget, which bounds all steps; negative work ends the check.
	round, steps, work, budget int
	// anyTool are the places of calls that may be of any tool.
	anyTool []syntax.Position
	// compared counts the names of tools that unknown ones were compared with.
	compared int

	// defs are the functions by the variables that have no other value, functions all of them by their nodes.
	defs      map[*syntax.Ident]*function
	functions map[syntax.Node]*function
	// isTesting is set for a program that looks at types itself. guarded are the names that it asks values for.
	isTesting bool
	guarded   map[string]bool

	// before and now are what the pass before and this one found out.
	before, now facts

	// in is the function whose body is passed over, nil at the top level. env are the variables there, log the changes of env that may be
	// taken back.
	in  *function
	env map[*syntax.Ident]*value
	log []change
	// times is how often the place is reached at most; negative where that is not known.
	times int
	// dead is set behind the end of a way through the program, unsure where a fault of types may be none.
	dead, unsure bool
	returned     *value
}

// facts are what a pass found out.
type facts struct {
	// values are those of variables, by all assignments together.
	values map[*syntax.Ident]*value
	// stored are what was put into the lists and dicts of variables later. shared are variables whose list or dict another one may have
	// too.
	stored map[*syntax.Ident]*value
	shared map[*syntax.Ident]bool
	// isWild is set where a list or dict is changed that may be that of any variable.
	isWild bool
}

// change is an earlier value of a variable.
type change struct {
	variable *syntax.Ident
	value    *value
}

// function is a function of the program.
type function struct {
	params []syntax.Expr
	// escapes is set for a function whose calls are not all known.
	escapes bool
	// before and now are what the pass before and this one found out.
	before, now called
}

// called are the calls of a function: its arguments, its results and the number of calls.
type called struct {
	args    []*value
	result  *value
	times   int
	isLoose bool // some arguments are not known
}

func (c *checker) begin() {
	for key := range c.now.stored {
		c.now.isWild = c.now.isWild || c.now.shared[key]
	}
	c.now.isWild = c.now.isWild || c.round > 1 && c.before.isWild
	c.before, c.now = c.now, facts{values: map[*syntax.Ident]*value{}, stored: map[*syntax.Ident]*value{}, shared: map[*syntax.Ident]bool{}}
	c.before.isWild = c.before.isWild || c.isFirst()
	for _, f := range c.functions {
		f.before, f.now = f.now, called{args: make([]*value, len(f.params))}
	}
	c.env, c.log, c.in, c.times, c.dead, c.unsure = map[*syntax.Ident]*value{}, nil, nil, 1, false, false
	c.plan, c.anyTool = map[*catalog.Tool]*Planned{}, nil
}

// isFirst is set in the pass that knows nothing.
func (c *checker) isFirst() bool { return c.round == 0 }

// survey finds the functions of a program, and what it looks at itself.
func (c *checker) survey(file *syntax.File) {
	assigned := map[*syntax.Ident]int{}
	named := map[*syntax.Ident]*function{}
	c.file, c.guarded = file, map[string]bool{}
	c.budget = leastWork
	defer func() { c.work = c.budget }()
	c.round = rounds - 1 // what is found here is found once
	syntax.Walk(file, func(n syntax.Node) bool {
		c.budget += nodeWork
		switch n := n.(type) {
		case *syntax.Ident:
			if scopeOf(n) == resolve.Predeclared && !c.isKnown(n.Name) {
				c.unknownName(n)
			}
		case *syntax.DefStmt:
			f := &function{params: n.Params}
			c.functions[n], named[variable(n.Name)] = f, f
			assigned[variable(n.Name)]++
			countParams(n.Params, assigned)
		case *syntax.LambdaExpr:
			c.functions[n] = &function{params: n.Params, escapes: true}
			countParams(n.Params, assigned)
		case *syntax.AssignStmt:
			countTargets(n.LHS, assigned)
		case *syntax.ForStmt:
			countTargets(n.Vars, assigned)
		case *syntax.ForClause:
			countTargets(n.Vars, assigned)
		case *syntax.CallExpr:
			c.surveyCall(n)
		}
		return true
	})
	for v, f := range named {
		if assigned[v] == 1 {
			c.defs[v] = f
		} else {
			f.escapes = true
		}
	}
}

// unknownName reports a name that nothing has, or that is assigned later.
func (c *checker) unknownName(id *syntax.Ident) {
	message, instead := "nothing has the name "+id.Name, c.hint(func() string { return c.nearestName(id.Name) })
	if instead == id.Name {
		message, instead = id.Name+" has no value yet: it is assigned after this line", id.Name+" = … above"
	}
	c.report(id.NamePos, ruleUnknownName, message, instead)
}

func (c *checker) surveyCall(n *syntax.CallExpr) {
	id, ok := n.Fn.(*syntax.Ident)
	if !ok || !isUniversal(id) {
		return
	}
	switch id.Name {
	case "type", "hasattr", "dir":
		c.isTesting = true
	case "getattr":
	default:
		return
	}
	if len(n.Args) > 1 {
		if name, ok := n.Args[1].(*syntax.Literal); ok && (id.Name == "hasattr" || len(n.Args) > 2) {
			text, _ := name.Value.(string)
			c.guarded[text] = true
		}
	}
}

func countParams(params []syntax.Expr, assigned map[*syntax.Ident]int) {
	for _, p := range params {
		if id := paramName(p); id != nil {
			assigned[variable(id)]++
		}
	}
}

// paramName is the variable of a parameter; nil for a lone star.
func paramName(p syntax.Expr) *syntax.Ident {
	switch p := p.(type) {
	case *syntax.Ident:
		return p
	case *syntax.BinaryExpr:
		id, _ := p.X.(*syntax.Ident)
		return id
	case *syntax.UnaryExpr:
		id, _ := p.X.(*syntax.Ident)
		return id
	}
	return nil
}

func countTargets(target syntax.Expr, assigned map[*syntax.Ident]int) {
	eachTarget(target, func(id *syntax.Ident) { assigned[variable(id)]++ })
}

// eachTarget calls f for the variables that an assignment sets.
func eachTarget(target syntax.Expr, f func(*syntax.Ident)) {
	switch t := target.(type) {
	case *syntax.Ident:
		f(t)
	case *syntax.ParenExpr:
		eachTarget(t.X, f)
	case *syntax.TupleExpr:
		for _, one := range t.List {
			eachTarget(one, f)
		}
	case *syntax.ListExpr:
		for _, one := range t.List {
			eachTarget(one, f)
		}
	}
}

// variable identifies a variable by its first use.
func variable(id *syntax.Ident) *syntax.Ident {
	if b, ok := id.Binding.(*resolve.Binding); ok && b.First != nil {
		return b.First
	}
	return id
}

func scopeOf(id *syntax.Ident) resolve.Scope {
	if b, ok := id.Binding.(*resolve.Binding); ok {
		return b.Scope
	}
	return resolve.Undefined
}

func isUniversal(id *syntax.Ident) bool { return scopeOf(id) == resolve.Universal }

// setsResult reports whether the program sets its result.
func (c *checker) setsResult(file *syntax.File) bool {
	module, ok := file.Module.(*resolve.Module)
	return ok && slices.ContainsFunc(module.Globals, func(b *resolve.Binding) bool { return b.First.Name == resultName })
}

// set gives a variable a value. isFresh is set where no other variable has a list or dict of it.
func (c *checker) set(id *syntax.Ident, v *value, isFresh bool) {
	key := variable(id)
	if stored := c.before.stored[key]; stored != nil && v.is(kList, kDict, kSet) && !v.isResult {
		own := *v
		own.elem, own.most, own.parts = c.join(v.held(), stored), 0, nil
		v = &own
	}
	if !isFresh && v.is(kList, kDict, kSet, kAny) && !v.isResult {
		c.now.shared[key] = true
	}
	c.hold(key, v)
	c.now.values[key] = c.join(c.now.values[key], v)
}

func (c *checker) hold(key *syntax.Ident, v *value) {
	c.log = append(c.log, change{key, c.env[key]})
	c.env[key] = v
}

// get is the value of a variable.
func (c *checker) get(id *syntax.Ident) *value {
	key := variable(id)
	if f := c.defs[key]; f != nil {
		return &value{kind: kFunction, def: f, name: id.Name}
	}
	scope := scopeOf(id)
	if scope == resolve.Free || scope == resolve.Global && c.in != nil {
		return c.ever(key)
	}
	if v := c.env[key]; v != nil {
		return v
	}
	return only(kAny)
}

// ever is what a variable may be at any time.
func (c *checker) ever(key *syntax.Ident) *value {
	if v := c.before.values[key]; v != nil && !c.isFirst() {
		return v.plain()
	}
	return only(kAny)
}

// back takes back changes of variables, and returns what they were.
func (c *checker) back(to int) []change {
	var out []change
	seen := map[*syntax.Ident]bool{}
	c.work -= len(c.log) - to
	for i := len(c.log) - 1; i >= to; i-- {
		at := c.log[i]
		if !seen[at.variable] {
			seen[at.variable] = true
			out = append(out, change{at.variable, c.env[at.variable]})
		}
		c.env[at.variable] = at.value
	}
	c.log = c.log[:to]
	return out
}

// either passes over two ways through the program, of which one is taken.
func (c *checker) either(first, second func()) {
	mark, dead := len(c.log), c.dead
	first()
	firstDead := c.dead
	ends := c.back(mark)
	c.dead = dead
	second()
	secondDead := c.dead
	switch {
	case firstDead && !dead:
	case secondDead && !dead:
		c.back(mark)
		for _, end := range ends {
			c.hold(end.variable, end.value)
		}
	default:
		c.meet(mark, ends)
	}
	c.dead = dead || firstDead && secondDead
}

// meet joins the changes of a way through the program with those since a mark, which are of another one.
func (c *checker) meet(mark int, ends []change) {
	isJoined := map[*syntax.Ident]bool{}
	for _, end := range ends {
		isJoined[end.variable] = true
	}
	c.work -= len(c.log) - mark
	for _, at := range slices.Clone(c.log[mark:]) {
		if !isJoined[at.variable] { // the first entry has what was before
			isJoined[at.variable] = true
			c.hold(at.variable, c.join(c.env[at.variable], at.value))
		}
	}
	for _, end := range ends {
		c.hold(end.variable, c.join(end.value, c.env[end.variable]))
	}
}

func (c *checker) statements(list []syntax.Stmt) {
	for _, s := range list {
		c.statement(s)
	}
}

func (c *checker) statement(s syntax.Stmt) {
	if c.work--; c.work < 0 {
		return
	}
	switch s := s.(type) {
	case *syntax.AssignStmt:
		c.assignment(s)
	case *syntax.ExprStmt:
		c.expr(s.X)
		if call, ok := s.X.(*syntax.CallExpr); ok {
			if id, ok := call.Fn.(*syntax.Ident); ok && isUniversal(id) && id.Name == "fail" {
				c.dead = true
			}
		}
	case *syntax.IfStmt:
		c.ifStatement(s)
	case *syntax.ForStmt:
		c.forStatement(s)
	case *syntax.DefStmt:
		c.define(s)
	case *syntax.ReturnStmt:
		v := only(kNone)
		if s.Result != nil {
			v = c.expr(s.Result)
		}
		if c.in != nil {
			c.returned = c.join(c.returned, v.plain())
		}
		c.dead = true
	case *syntax.BranchStmt:
		if s.Token != syntax.PASS {
			c.dead = true
		}
	case *syntax.WhileStmt: // which is not in the language
		c.expr(s.Cond)
		c.loop(s, s.Body, 0)
	}
}

func (c *checker) ifStatement(s *syntax.IfStmt) {
	isTrue, isKnown := truth(c.expr(s.Cond))
	unsure := c.unsure
	branch := func(body []syntax.Stmt, isOut bool) func() {
		return func() {
			c.unsure = unsure || c.isTesting || isOut
			c.statements(body)
		}
	}
	c.either(branch(s.True, isKnown && !isTrue), branch(s.False, isKnown && isTrue))
	c.unsure = unsure
}

func (c *checker) forStatement(s *syntax.ForStmt) {
	v := c.expr(s.X)
	elem := c.iterated(s.X, v)
	mark := len(c.log)
	c.loopBody(s, v.length(), func() {
		c.unpack(s.Vars, elem)
		c.statements(s.Body)
	})
	c.afterLoop(mark)
}

func (c *checker) loop(s syntax.Stmt, body []syntax.Stmt, most int) {
	mark := len(c.log)
	c.loopBody(s, most, func() { c.statements(body) })
	c.afterLoop(mark)
}

// loopBody passes over the body of a loop. What it assigns may have any of its values when it begins.
func (c *checker) loopBody(s syntax.Stmt, most int, body func()) {
	c.assigned(s, func(id *syntax.Ident) {
		key := variable(id)
		if old := c.env[key]; old != nil {
			c.hold(key, c.join(old, c.ever(key)))
		}
	})
	times, unsure, dead := c.times, c.unsure, c.dead
	c.times = product(c.times, most)
	c.unsure = c.unsure || most == 1
	body()
	c.times, c.unsure, c.dead = times, unsure, dead
}

// afterLoop makes what a loop may have assigned what it may be at any time.
func (c *checker) afterLoop(mark int) {
	for _, at := range c.back(mark) {
		c.hold(at.variable, c.join(c.env[at.variable], c.ever(at.variable)))
	}
}

// length is how many elements a value has at most, and one more; 0 where that is not known.
func (v *value) length() int {
	if v == nil {
		return 0
	}
	return v.most
}

// product is how often a loop runs in all, by the number of elements and one more.
func product(times, most int) int {
	switch {
	case times == 0:
		return 0
	case most == 0:
		return -1
	case times < 0 && most > 1:
		return -1
	}
	return bounded(times * (most - 1))
}

// maxTimes is where numbers of calls end that say something.
const maxTimes = 1_000_000

func bounded(n int) int {
	if n < 0 || n > maxTimes {
		return -1
	}
	return n
}

// sum adds numbers of calls.
func sum(a, b int) int {
	if a < 0 || b < 0 {
		return -1
	}
	return bounded(a + b)
}

// define passes over a function.
func (c *checker) define(s *syntax.DefStmt) {
	f := c.functions[s]
	c.body(f, s.Params, func() {
		c.statements(s.Body)
		if !c.dead {
			c.returned = c.join(c.returned, only(kNone))
		}
	}, nil)
	c.set(s.Name, &value{kind: kFunction, def: f, name: s.Name.Name}, true)
}

// body passes over the body of a function. given are arguments that are known apart from its calls; nil for none.
func (c *checker) body(f *function, params []syntax.Expr, pass func(), given []*value) {
	defaults := make([]*value, len(params))
	for i, p := range params {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			defaults[i] = c.expr(b.Y).plain()
		}
	}
	in, env, log, times, dead, unsure, returned := c.in, c.env, c.log, c.times, c.dead, c.unsure, c.returned
	c.in, c.env, c.log, c.dead, c.returned = f, map[*syntax.Ident]*value{}, nil, false, nil
	isKnown := !c.isFirst() && !f.escapes
	c.times = -1
	if isKnown {
		c.times = f.before.times
		c.unsure = c.unsure || c.times == 0
	}
	for i, p := range params {
		id := paramName(p)
		if id == nil {
			continue
		}
		v := only(kAny)
		switch _, isRest := p.(*syntax.UnaryExpr); {
		case isRest:
		case i < len(given) && given[i] != nil:
			v = given[i]
		case isKnown && !f.before.isLoose && i < len(f.before.args):
			if joined := c.join(f.before.args[i], defaults[i]); joined != nil {
				v = joined
			}
		}
		c.set(id, v.plain(), false)
	}
	pass()
	f.now.result = c.join(f.now.result, c.returned)
	c.in, c.env, c.log, c.times, c.dead, c.unsure, c.returned = in, env, log, times, dead, unsure, returned
}

// assigned calls f for the variables that a statement assigns, with those of the statements in it.
func (c *checker) assigned(s syntax.Stmt, f func(*syntax.Ident)) {
	c.work--
	switch s := s.(type) {
	case *syntax.AssignStmt:
		eachTarget(s.LHS, f)
	case *syntax.ForStmt:
		eachTarget(s.Vars, f)
		for _, inner := range s.Body {
			c.assigned(inner, f)
		}
	case *syntax.WhileStmt:
		for _, inner := range s.Body {
			c.assigned(inner, f)
		}
	case *syntax.IfStmt:
		for _, inner := range slices.Concat(s.True, s.False) {
			c.assigned(inner, f)
		}
	case *syntax.DefStmt:
		f(s.Name)
	}
}

// assignment passes over an assignment.
func (c *checker) assignment(s *syntax.AssignStmt) {
	v := c.expr(s.RHS)
	if s.Op == syntax.EQ {
		to, from := listed(s.LHS), listed(s.RHS)
		if len(to) == 0 || len(to) != len(from) || len(from) != len(v.parts) {
			c.assign(s.LHS, v, isFresh(s.RHS))
			return
		}
		for i, one := range to {
			c.assign(one, v.parts[i], isFresh(from[i]))
		}
		return
	}
	old := c.expr(s.LHS)
	op := s.Op - syntax.PLUS_EQ + syntax.PLUS
	var made *value
	if op == syntax.PLUS && old.is(kList) && !v.isAny() && v.items() != nil {
		made = old // it takes the elements of any value that has some
	} else {
		made = c.binary(s.OpPos, op, old, v)
	}
	if id, ok := s.LHS.(*syntax.Ident); ok {
		if old.is(kList, kDict, kSet, kAny) && !old.isResult {
			c.store(s.LHS, old, c.added(old, v))
			made = old.orAny()
		}
		c.set(id, made.plain(), true)
		return
	}
	if old.is(kList, kDict, kSet, kAny) && !old.isResult {
		c.now.isWild = true // it is changed where it is
	}
	c.assign(s.LHS, made, true)
}

// listed are the elements of a tuple or list that is written as such; nil for any other expression.
func listed(e syntax.Expr) []syntax.Expr {
	switch e := unparen(e).(type) {
	case *syntax.TupleExpr:
		return e.List
	case *syntax.ListExpr:
		return e.List
	}
	return nil
}

// added is what an addition to a list puts into it.
func (c *checker) added(old, v *value) *value {
	if old.is(kList) && v != nil {
		if elem := v.items(); elem != nil {
			return elem
		}
	}
	return only(kAny)
}

func (v *value) orAny() *value {
	if v == nil {
		return only(kAny)
	}
	return v
}

// isFresh reports whether an expression makes a new value that no variable has yet, or one that cannot be changed.
func isFresh(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Literal, *syntax.ListExpr, *syntax.DictExpr, *syntax.TupleExpr, *syntax.Comprehension, *syntax.LambdaExpr, *syntax.UnaryExpr:
		return true
	case *syntax.ParenExpr:
		return isFresh(e.X)
	case *syntax.BinaryExpr:
		return e.Op != syntax.AND && e.Op != syntax.OR
	case *syntax.Ident:
		return isUniversal(e)
	case *syntax.CondExpr:
		return isFresh(e.True) && isFresh(e.False)
	case *syntax.CallExpr:
		id, ok := e.Fn.(*syntax.Ident)
		return ok && isUniversal(id) && builtins()[id.Name] != nil && builtins()[id.Name].isFresh
	}
	return false
}

// store notes that a list or dict holds one more value.
func (c *checker) store(in syntax.Expr, list, v *value) {
	if !list.is(kList, kDict, kSet, kAny) && list != nil || list != nil && list.isResult {
		return
	}
	id, ok := unparen(in).(*syntax.Ident)
	if !ok {
		c.now.isWild = true
		return
	}
	c.now.stored[variable(id)] = c.join(c.now.stored[variable(id)], v.plain().orAny())
}

// made is a new list, dict or set. Nothing is known of what it holds where anything may change it.
func (c *checker) made(v *value) *value {
	if !c.before.isWild {
		return v
	}
	return &value{kind: v.kind, elem: only(kAny)}
}

func unparen(e syntax.Expr) syntax.Expr {
	for {
		p, ok := e.(*syntax.ParenExpr)
		if !ok {
			return e
		}
		e = p.X
	}
}

// assign gives a target a value.
func (c *checker) assign(target syntax.Expr, v *value, isFresh bool) {
	switch t := target.(type) {
	case *syntax.Ident:
		c.set(t, v.orAny(), isFresh)
	case *syntax.ParenExpr:
		c.assign(t.X, v, isFresh)
	case *syntax.TupleExpr, *syntax.ListExpr:
		c.unpack(t, v)
	case *syntax.IndexExpr:
		in := c.expr(t.X)
		c.expr(t.Y)
		if in.isResult && in.is(kList, kDict, kMessage) && !in.isOrError {
			c.fault(t.Lbrack, ruleReadOnly, "a result cannot be changed", "list(…) or dict(…) of it")
			return
		}
		c.store(t.X, in, v)
	case *syntax.DotExpr:
		in := c.expr(t.X)
		if in.is(kMessage, kModule, kTool, kRecord) && !in.isOrError {
			c.fault(t.Name.NamePos, ruleReadOnly, in.words()+" cannot be changed", "a dict with the new value")
		}
	}
}

// unpack gives the elements of a value to several targets.
func (c *checker) unpack(target syntax.Expr, v *value) {
	switch unparen(target).(type) {
	case *syntax.TupleExpr, *syntax.ListExpr:
	default:
		c.assign(target, v.orAny().plain(), false)
		return
	}
	list := listed(target) // nil for () and []
	switch n := len(v.knownParts()); {
	case v.isAny():
		v = nil
	case v.items() == nil:
		instead := ""
		if lists := v.lists(); len(lists) == 1 {
			instead = "." + lists[0]
		}
		c.fault(start(target), ruleNotIterable, v.words()+" cannot be unpacked", instead)
		v = nil
	case n > 0 && n != len(list):
		c.fault(start(target), ruleArity, fmt.Sprintf("%s has %s, for %s", v.words(), counted(n, "element"), counted(len(list), "name")), "")
		v = nil
	}
	for i, one := range list {
		part := only(kAny)
		switch {
		case v == nil:
		case v.parts != nil:
			part = v.parts[i]
		default:
			part = v.items()
		}
		c.assign(one, part.plain(), false)
	}
}

// knownParts are the elements that are known one by one.
func (v *value) knownParts() []*value {
	if v == nil {
		return nil
	}
	return v.parts
}

// sortedNames are the names in a set.
func sortedNames[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
