// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"

	"go.starlark.net/syntax"
)

// Names of functions that a program's own names cannot be, because no token is like them. A program calls them where it was rewritten.
const (
	fnAttr     = ".attr"
	fnIndex    = ".index"
	fnSlice    = ".slice"
	fnKey      = ".key"
	fnTarget   = ".target"
	fnDict     = ".dict"
	fnArgs     = ".args"
	fnKwargs   = ".kwargs"
	fnAugment  = ".augment"
	fnSetIndex = ".setindex"
	fnEnter    = ".enter"
	fnLater    = ".later"
)

// parallelName is the builtin whose list of calls waits.
const parallelName = "parallel"

// largeBody is how many nodes a function may have before each of its calls costs a step for each of them: the interpreter makes room for
// the whole body at once.
const largeBody = 64

// rewriter puts calls of the run in the place of all operations that can take much time or memory at one step: the interpreter has no
// bounds for them. What is left of the program takes at most [stepBytes] a step.
type rewriter struct {
	// defers is set where parallel is the builtin, and not a name of the program.
	defers bool
}

func rewrite(file *syntax.File) {
	r := &rewriter{defers: !binds(file, parallelName)}
	r.stmts(file.Stmts)
}

// binds reports whether a program gives a value to a name.
func binds(file *syntax.File, name string) bool {
	found := false
	target := func(e syntax.Expr) {
		syntax.Walk(e, func(n syntax.Node) bool {
			if id, ok := n.(*syntax.Ident); ok && id.Name == name {
				found = true
			}
			return !found
		})
	}
	params := func(list []syntax.Expr) {
		for _, p := range list {
			switch p := p.(type) {
			case *syntax.BinaryExpr:
				target(p.X)
			case *syntax.UnaryExpr:
				if p.X != nil {
					target(p.X)
				}
			default:
				target(p)
			}
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			target(n.LHS)
		case *syntax.DefStmt:
			target(n.Name)
			params(n.Params)
		case *syntax.LambdaExpr:
			params(n.Params)
		case *syntax.ForStmt:
			target(n.Vars)
		case *syntax.ForClause:
			target(n.Vars)
		}
		return !found
	})
	return found
}

func (r *rewriter) stmts(list []syntax.Stmt) {
	for i, s := range list {
		list[i] = r.stmt(s)
	}
}

func (r *rewriter) stmt(s syntax.Stmt) syntax.Stmt {
	switch s := s.(type) {
	case *syntax.AssignStmt:
		return r.assign(s)
	case *syntax.DefStmt:
		r.params(s.Params)
		size := nodes(s)
		r.stmts(s.Body)
		if size > largeBody {
			s.Body = append([]syntax.Stmt{&syntax.ExprStmt{X: enter(s.Def, size)}}, s.Body...)
		}
	case *syntax.ExprStmt:
		s.X = r.expr(s.X)
	case *syntax.ForStmt:
		r.target(s.Vars)
		s.X = r.expr(s.X)
		r.stmts(s.Body)
	case *syntax.IfStmt:
		s.Cond = r.expr(s.Cond)
		r.stmts(s.True)
		r.stmts(s.False)
	case *syntax.ReturnStmt:
		s.Result = r.expr(s.Result)
	}
	return s
}

func nodes(n syntax.Node) int {
	count := 0
	syntax.Walk(n, func(n syntax.Node) bool {
		if n != nil {
			count++
		}
		return true
	})
	return count
}

func enter(at syntax.Position, size int) syntax.Expr {
	return call(at, fnEnter, &syntax.Literal{Token: syntax.INT, TokenPos: at, Value: int64(size)})
}

func call(at syntax.Position, name string, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Args: args, Rparen: at}
}

func literal(at syntax.Position, s string) *syntax.Literal {
	return &syntax.Literal{Token: syntax.STRING, TokenPos: at, Value: s}
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

func (r *rewriter) assign(s *syntax.AssignStmt) syntax.Stmt {
	if s.Op == syntax.EQ {
		s.RHS = r.expr(s.RHS)
		r.target(s.LHS)
		return s
	}
	value := r.expr(s.RHS)
	op := literal(s.OpPos, (s.Op - syntax.PLUS_EQ + syntax.PLUS).String())
	switch lhs := unparen(s.LHS).(type) {
	case *syntax.Ident:
		s.RHS = call(s.OpPos, fnAugment, op, &syntax.Ident{NamePos: lhs.NamePos, Name: lhs.Name}, value)
		s.Op = syntax.EQ
	case *syntax.IndexExpr:
		return &syntax.ExprStmt{X: call(lhs.Lbrack, fnSetIndex, op, r.expr(lhs.X), r.expr(lhs.Y), value)}
	default: // attributes cannot be set: the interpreter says so
		r.target(s.LHS)
		s.RHS, s.Op = value, syntax.EQ
	}
	return s
}

// target rewrites what is assigned to.
func (r *rewriter) target(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		r.target(e.X)
	case *syntax.TupleExpr:
		for _, one := range e.List {
			r.target(one)
		}
	case *syntax.ListExpr:
		for _, one := range e.List {
			r.target(one)
		}
	case *syntax.IndexExpr:
		e.X = r.expr(e.X)
		e.Y = call(e.Lbrack, fnTarget, r.expr(e.Y))
	case *syntax.DotExpr:
		e.X = r.expr(e.X)
	}
}

func (r *rewriter) exprs(list []syntax.Expr) {
	for i, e := range list {
		list[i] = r.expr(e)
	}
}

// params rewrites the defaults of parameters.
func (r *rewriter) params(list []syntax.Expr) {
	for _, p := range list {
		if b, ok := p.(*syntax.BinaryExpr); ok {
			b.Y = r.expr(b.Y)
		}
	}
}

func (r *rewriter) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return r.binary(e)
	case *syntax.CallExpr:
		return r.call(e, "")
	case *syntax.Comprehension:
		return r.comprehension(e, r.expr)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = r.expr(e.Cond), r.expr(e.True), r.expr(e.False)
	case *syntax.DictExpr:
		for _, one := range e.List {
			r.entry(one)
		}
		return call(e.Lbrace, fnDict, e)
	case *syntax.DotExpr:
		return call(e.Name.NamePos, fnAttr, r.expr(e.X), literal(e.Name.NamePos, e.Name.Name))
	case *syntax.IndexExpr:
		return call(e.Lbrack, fnIndex, r.expr(e.X), r.expr(e.Y))
	case *syntax.LambdaExpr:
		r.params(e.Params)
		size := nodes(e)
		e.Body = r.expr(e.Body)
		if size > largeBody {
			e.Body = &syntax.BinaryExpr{X: enter(e.Lambda, size), OpPos: e.Lambda, Op: syntax.AND, Y: e.Body} // it is true
		}
	case *syntax.ListExpr:
		r.exprs(e.List)
	case *syntax.ParenExpr:
		e.X = r.expr(e.X)
	case *syntax.SliceExpr:
		return call(e.Lbrack, fnSlice, r.expr(e.X), r.orNone(e.Lo), r.orNone(e.Hi), r.orNone(e.Step))
	case *syntax.TupleExpr:
		r.exprs(e.List)
	case *syntax.UnaryExpr:
		e.X = r.expr(e.X)
	}
	return e
}

func (r *rewriter) orNone(e syntax.Expr) syntax.Expr {
	if e == nil {
		return &syntax.Ident{Name: "None"}
	}
	return r.expr(e)
}

func (r *rewriter) binary(e *syntax.BinaryExpr) syntax.Expr {
	if e.Op == syntax.AND || e.Op == syntax.OR {
		e.X, e.Y = r.expr(e.X), r.expr(e.Y)
		return e
	}
	return call(e.OpPos, operator(e.Op), r.expr(e.X), r.expr(e.Y))
}

// operator is the name of the function that does what an operator does.
func operator(op syntax.Token) string { return fmt.Sprintf(".%s", op) }

func (r *rewriter) entry(e syntax.Expr) {
	one, ok := e.(*syntax.DictEntry)
	if !ok {
		return
	}
	if _, isLiteral := one.Key.(*syntax.Literal); !isLiteral {
		one.Key = call(one.Colon, fnKey, r.expr(one.Key))
	}
	one.Value = r.expr(one.Value)
}

// comprehension rewrites one whose elements are rewritten by element.
func (r *rewriter) comprehension(e *syntax.Comprehension, element func(syntax.Expr) syntax.Expr) syntax.Expr {
	for _, clause := range e.Clauses {
		switch clause := clause.(type) {
		case *syntax.ForClause:
			r.target(clause.Vars)
			clause.X = r.expr(clause.X)
		case *syntax.IfClause:
			clause.Cond = r.expr(clause.Cond)
		}
	}
	if entry, ok := e.Body.(*syntax.DictEntry); ok {
		entry.Key, entry.Value = call(entry.Colon, fnTarget, r.expr(entry.Key)), r.expr(entry.Value)
		return call(e.Lbrack, fnDict, e)
	}
	e.Body = element(e.Body)
	return e
}

// call rewrites a call: one of a function of the run with the callee as its first argument, if that has a name. The place of a call is where
// it begins.
func (r *rewriter) call(e *syntax.CallExpr, through string) syntax.Expr {
	e.Lparen = syntax.Start(e.Fn)
	isParallel := false
	if id, ok := unparen(e.Fn).(*syntax.Ident); ok && r.defers && id.Name == parallelName {
		isParallel = true
	}
	for i, arg := range e.Args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				arg.Y = r.expr(arg.Y)
				continue
			}
		case *syntax.UnaryExpr:
			switch arg.Op { //nolint:exhaustive // the two of calls
			case syntax.STAR:
				arg.X = call(arg.OpPos, fnArgs, r.expr(arg.X))
				continue
			case syntax.STARSTAR:
				arg.X = call(arg.OpPos, fnKwargs, r.expr(arg.X))
				continue
			}
		}
		if isParallel && i == 0 {
			e.Args[i] = r.calls(arg)
			continue
		}
		e.Args[i] = r.expr(arg)
	}
	e.Fn = r.expr(e.Fn)
	if through != "" {
		e.Args = append([]syntax.Expr{e.Fn}, e.Args...)
		e.Fn = &syntax.Ident{NamePos: e.Lparen, Name: through}
	}
	return e
}

// calls rewrites the list of a parallel: the calls in it wait.
func (r *rewriter) calls(e syntax.Expr) syntax.Expr {
	switch e := unparen(e).(type) {
	case *syntax.ListExpr:
		for i, one := range e.List {
			e.List[i] = r.later(one)
		}
		return e
	case *syntax.Comprehension:
		if !e.Curly {
			return r.comprehension(e, r.later)
		}
	}
	return r.expr(e)
}

func (r *rewriter) later(e syntax.Expr) syntax.Expr {
	switch one := unparen(e).(type) {
	case *syntax.CallExpr:
		return r.call(one, fnLater)
	case *syntax.CondExpr:
		one.Cond, one.True, one.False = r.expr(one.Cond), r.later(one.True), r.later(one.False)
		return one
	}
	return r.expr(e)
}
