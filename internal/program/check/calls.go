// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program/types"
)

// arguments are those of a call.
type arguments struct {
	positional []syntax.Expr
	named      []namedArgument
	// rest is *args, more is **kwargs; nil for none.
	rest, more syntax.Expr
}

type namedArgument struct {
	name  *syntax.Ident
	value syntax.Expr
}

func argumentsOf(e *syntax.CallExpr) arguments {
	var a arguments
	for _, arg := range e.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if id, ok := arg.X.(*syntax.Ident); ok && arg.Op == syntax.EQ {
				a.named = append(a.named, namedArgument{id, arg.Y})
				continue
			}
		case *syntax.UnaryExpr:
			switch arg.Op {
			case syntax.STAR:
				a.rest = arg.X
				continue
			case syntax.STARSTAR:
				a.more = arg.X
				continue
			}
		}
		a.positional = append(a.positional, arg)
	}
	return a
}

// pass passes over arguments of which nothing is wanted, and returns the positional ones.
func (c *checker) pass(a arguments) []*value {
	out := make([]*value, 0, len(a.positional))
	for _, e := range a.positional {
		out = append(out, c.expr(e))
	}
	for _, n := range a.named {
		c.expr(n.value)
	}
	if a.rest != nil {
		c.expr(a.rest)
	}
	if a.more != nil {
		c.expr(a.more)
	}
	return out
}

// call passes over a call.
func (c *checker) call(e *syntax.CallExpr) *value {
	f, a := c.callee(e.Fn), argumentsOf(e)
	at := callPlace(e)
	if f.isAny() {
		c.pass(a)
		if dot, ok := unparen(e.Fn).(*syntax.DotExpr); ok && storing(dot.Name.Name) {
			c.store(dot.X, nil, only(kAny))
		}
		return only(kAny)
	}
	switch f.kind {
	case kTool:
		return c.callTool(f.tool, a, at)
	case kModule:
		if f.tool != nil {
			return c.callTool(f.tool, a, at)
		}
	case kFunction:
		return c.callFunction(f.def, a)
	case kBuiltin:
		return c.callBuiltin(f.name, a, at)
	case kMethod:
		return c.callMethod(e, f, a)
	case kEnum, kTimestamp, kDuration, kBytes:
		c.pass(a)
		return only(kAny)
	}
	c.pass(a)
	c.fault(at, ruleNotCallable, f.words()+" cannot be called", "")
	return only(kAny)
}

// callPlace is where the name of what is called is.
func callPlace(e *syntax.CallExpr) syntax.Position {
	switch fn := e.Fn.(type) {
	case *syntax.DotExpr:
		return start(fn)
	case *syntax.IndexExpr:
		return startOf(fn.X, e.Lparen)
	}
	return startOf(e.Fn, e.Lparen)
}

// callTool passes over the call of a tool.
func (c *checker) callTool(t *catalog.Tool, a arguments, at syntax.Position) *value {
	c.planCall(t, at, c.times)
	c.toolArguments(t, a, at)
	return ofType(c.world.Output(t))
}

// toolArguments passes over the arguments of a tool.
func (c *checker) toolArguments(t *catalog.Tool, a arguments, at syntax.Position) {
	for i, e := range a.positional {
		c.expr(e)
		if i == 0 {
			c.report(start(e), rulePositional, t.Name+" takes its arguments by their names", c.firstArguments(t))
		}
	}
	in := c.world.Input(t)
	if in == nil || in.Kind != types.Message {
		a.positional = nil
		c.pass(a)
		return
	}
	g := c.given(in, t.Name, "argument", ruleUnknownArgument)
	for _, n := range a.named {
		g.member(n.name.Name, n.name.NamePos, n.value)
	}
	if a.rest != nil {
		c.expr(a.rest)
		c.report(start(a.rest), rulePositional, t.Name+" takes its arguments by their names", c.firstArguments(t))
	}
	if a.more != nil {
		c.more(g, a.more)
	}
	if len(a.positional) == 0 && a.rest == nil {
		g.close(at)
	}
}

// more passes over **kwargs.
func (c *checker) more(g *given, e syntax.Expr) {
	dict, ok := unparen(e).(*syntax.DictExpr)
	if !ok {
		g.isWhole = false
		c.expr(e)
		return
	}
	for _, one := range dict.List {
		entry, ok := one.(*syntax.DictEntry)
		if !ok {
			continue
		}
		key := c.expr(entry.Key)
		if !key.is(kString) || key.text == nil {
			g.isWhole = false
			c.expr(entry.Value)
			continue
		}
		g.member(*key.text, start(entry.Key), entry.Value)
	}
}

// firstArguments shows how arguments are given.
func (c *checker) firstArguments(t *catalog.Tool) string {
	return c.hint(func() string {
		for _, f := range c.world.Input(t).Fields() {
			return f.Name + "=…"
		}
		return ""
	})
}

// planCall notes that a tool may be called.
func (c *checker) planCall(t *catalog.Tool, at syntax.Position, times int) {
	p := c.plan[t]
	if p == nil {
		p = &Planned{Tool: t}
		c.plan[t] = p
		if c.world.May != nil {
			if err := c.world.May(t); err != nil {
				message := "the caller may not call " + t.Name
				if err.Message != "" {
					message += ": " + err.Message
				}
				c.report(at, ruleNotPermitted, message, "")
			}
		}
	}
	if p.AtMost = sum(p.AtMost, times); times < 0 {
		p.AtMost = -1
	}
	if len(p.Places) < maxPlaces {
		p.Places = append(p.Places, at)
	}
}

// maxParams bounds the parameters of a function that are told apart.
const maxParams = 64

// callFunction passes over the call of a function of the program.
func (c *checker) callFunction(f *function, a arguments) *value {
	f.now.times = sum(f.now.times, c.times)
	named := a.named
	a.named = nil
	args := c.pass(a)
	if a.rest != nil || a.more != nil || len(args) > len(f.params) {
		f.now.isLoose = true
	}
	for i, v := range args {
		if i < len(f.now.args) {
			f.now.args[i] = c.join(f.now.args[i], v.plain().orAny())
		}
	}
	for _, n := range named {
		v := c.expr(n.value)
		for i, p := range f.params[:min(len(f.params), maxParams)] {
			if id := paramName(p); id != nil && id.Name == n.name.Name {
				f.now.args[i] = c.join(f.now.args[i], v.plain().orAny())
			}
		}
	}
	if len(f.params) > maxParams {
		f.now.isLoose = true
	}
	if c.isFirst() {
		return only(kAny)
	}
	return f.before.result.orAny()
}

// callMethod passes over the call of a method.
func (c *checker) callMethod(e *syntax.CallExpr, f *value, a arguments) *value {
	args := c.pass(a)
	of := f.of
	if storing(f.name) && of.is(kList, kDict, kSet, kRecord, kMessage) {
		if of.isResult && !of.isOrError {
			c.fault(callPlace(e), ruleReadOnly, "a result cannot be changed", "list(…) or dict(…) of it")
			return only(kAny)
		}
		if dot, ok := unparen(e.Fn).(*syntax.DotExpr); ok {
			c.store(dot.X, of, c.storedBy(f.name, args))
		} else {
			c.now.isWild = true
		}
	}
	if f.name == "get" && len(a.positional) > 0 {
		c.compareKey(of, a.positional[0])
	}
	return c.methodResult(f, args)
}

// storedBy is what a method puts into a list.
func (c *checker) storedBy(name string, args []*value) *value {
	switch {
	case name == "append" && len(args) == 1, name == "add" && len(args) == 1:
		return args[0]
	case name == "insert" && len(args) == 2:
		return args[1]
	case name == "extend" && len(args) == 1 && args[0] != nil:
		return args[0].items()
	}
	return only(kAny)
}

// callParallel passes over parallel([tool(…), …]) and parallel(tool, [{…}, …]).
func (c *checker) callParallel(a arguments, at syntax.Position) *value {
	isOrError := false
	for _, n := range a.named {
		if n.name.Name == "errors" {
			isTrue, isKnown := truth(c.expr(n.value))
			isOrError = isTrue || !isKnown
			continue
		}
		c.expr(n.value)
		c.report(n.name.NamePos, ruleUnknownArgument, "parallel has no argument "+n.name.Name+"; it has errors", "errors=True")
	}
	if a.rest != nil || a.more != nil || len(a.positional) == 0 || len(a.positional) > 2 {
		a.named = nil
		c.pass(a)
		if a.rest == nil && a.more == nil {
			c.report(at, ruleArity, "parallel takes a list of calls, or a tool and a list of arguments", "parallel([…])")
		}
		return only(kAny)
	}
	out := &value{kind: kList}
	if len(a.positional) == 2 {
		out.elem, out.most = c.parallelOf(a.positional[0], a.positional[1])
		if listed(a.positional[1]) != nil && out.most > 0 && out.most <= maxParts+1 {
			out.parts = slices.Repeat([]*value{out.elem.orAny()}, out.most-1)
		}
	} else {
		v := c.expr(a.positional[0])
		if v.is(kInt, kFloat, kString, kBool, kNone, kMessage, kTool) && !v.isOrError {
			c.fault(start(a.positional[0]), ruleWrongType, "parallel takes a list of calls, found "+v.words(), "parallel([…])")
		}
		out = c.parallelItems(a.positional[0], v)
	}
	if isOrError {
		out.elem = orError(out.elem)
		for i, part := range out.parts {
			out.parts[i] = orError(part)
		}
	}
	out.elem = out.elem.orAny()
	return c.made(out)
}

// parallelItems is what comes of the list of a parallel.
func (c *checker) parallelItems(list syntax.Expr, v *value) *value {
	known := v.knownParts()
	if known == nil {
		return &value{kind: kList, elem: c.parallelItem(v.element().plain(), list), most: v.length()}
	}
	items := make([]*value, 0, len(known))
	for i, part := range known {
		at := list
		if written := listed(list); len(written) == len(known) {
			at = written[i]
		}
		items = append(items, c.parallelItem(part.plain(), at))
	}
	return c.of(kList, items)
}

// parallelItem is what comes of an element of the list of a parallel.
func (c *checker) parallelItem(v *value, at syntax.Expr) *value {
	if v.is(kFunction, kTool) && !v.isOrError {
		c.fault(start(at), ruleWrongType, "parallel takes the calls themselves, found "+v.words(), "parallel([tool(name=x) for x in list])")
		return only(kAny)
	}
	return v
}

// orError is what is known of a value that may be the error of a call.
func orError(v *value) *value {
	if v == nil || v.kind == kAny {
		return v
	}
	own := *v
	own.isOrError = true
	return &own
}

// parallelOf passes over a tool and the list of the arguments of its calls.
func (c *checker) parallelOf(tool, list syntax.Expr) (elem *value, most int) {
	f := c.callee(tool)
	if f.is(kFunction) {
		c.used(f, start(tool))
	}
	if !f.is(kTool) {
		c.expr(list)
		if !f.isAny() {
			c.fault(start(tool), ruleWrongType, "parallel takes a tool, found "+f.words(), "")
		}
		return only(kAny), 0
	}
	at, calls := start(tool), 0
	in := c.world.Input(f.tool)
	each := func(e syntax.Expr) *value {
		if dict, ok := unparen(e).(*syntax.DictExpr); ok && in != nil && in.Kind == types.Message {
			c.message(dict, in, f.tool.Name)
		} else {
			c.want(e, in, f.tool.Name)
		}
		return nil
	}
	switch list := unparen(list).(type) {
	case *syntax.ListExpr:
		calls = len(list.List) + 1
		for _, e := range list.List {
			each(e)
		}
	case *syntax.Comprehension:
		calls = c.comprehension(list, func() *value { return each(list.Body) }).length()
	default:
		calls = c.expr(list).length()
	}
	c.planCall(f.tool, at, product(c.times, calls))
	return ofType(c.world.Output(f.tool)), calls
}

// PageLimit is the argument of paginate that says how many items are wanted, unless the tool has one of that name.
const PageLimit = "limit"

// withoutLimit are the arguments for the tool of paginate.
func (c *checker) withoutLimit(t *catalog.Tool, a arguments) arguments {
	in := c.world.Input(t)
	if in == nil || in.Kind != types.Message || in.Open || in.Field(PageLimit) != nil {
		return a
	}
	a.named = slices.Clone(a.named)
	for i, n := range a.named {
		if n.name.Name != PageLimit {
			continue
		}
		if v := c.expr(n.value); v.is(kString, kFloat, kList, kTuple, kDict, kMessage) && !v.isOrError && !v.isNullable {
			c.fault(start(n.value), ruleWrongType, "limit of paginate is a number of items, found "+v.words(), "")
		}
		a.named = slices.Delete(a.named, i, i+1)
		break
	}
	if dict, ok := a.more.(*syntax.DictExpr); ok {
		own := *dict
		own.List = slices.DeleteFunc(slices.Clone(dict.List), func(e syntax.Expr) bool {
			entry, ok := e.(*syntax.DictEntry)
			if !ok {
				return false
			}
			key, ok := unparen(entry.Key).(*syntax.Literal)
			return ok && key.Value == PageLimit
		})
		a.more = &own
	}
	return a
}

// callPaginate passes over paginate(tool, name=…).
func (c *checker) callPaginate(a arguments, at syntax.Position) *value {
	if len(a.positional) == 0 {
		c.pass(a)
		if a.rest == nil {
			c.report(at, ruleArity, "paginate takes a tool and its arguments", "")
		}
		return only(kAny)
	}
	f := c.callee(a.positional[0])
	if !f.is(kTool) {
		c.used(f, at)
		a.positional = a.positional[1:]
		c.pass(a)
		if !f.isAny() {
			c.fault(at, ruleWrongType, "paginate takes a tool, found "+f.words(), "")
		}
		return only(kAny)
	}
	place := start(a.positional[0])
	a.positional = a.positional[1:]
	times := -1 // as many as there are pages
	if c.times == 0 {
		times = 0
	}
	c.planCall(f.tool, place, times)
	c.toolArguments(f.tool, c.withoutLimit(f.tool, a), place)
	if f.tool.Paging == nil {
		if in, out := c.world.Input(f.tool), c.world.Output(f.tool); f.tool.Native || in == nil || out == nil ||
			in.Field("page_token") != nil && out.Field("next_page_token") != nil {
			return only(kAny)
		}
		c.report(place, ruleNotPaged, f.tool.Name+" does not list in pages", fmt.Sprintf("%s(…)", f.tool.Name))
		return only(kAny)
	}
	field := c.world.Output(f.tool).Field(f.tool.Paging.Items)
	if field == nil {
		return only(kAny)
	}
	return c.made(listOf(ofType(field.Type.Elem())))
}
