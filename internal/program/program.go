// SPDX-License-Identifier: Apache-2.0

// Package program runs the programs of catalog.run: small programs in Starlark whose world is a catalog of tools. Intermediate results
// stay in the sidecar.
//
// [Parse] reads a program, [Program.Check] finds its faults before anything runs, and [Program.Run] runs it. Each call of a tool goes to a
// [Host], which makes it as any other call of its caller. A program has no clock, no randomness, no files and no imports: the same program
// with the same answers makes the same calls, numbered in the same order, also where they run at once.
package program

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/program/check"
)

// Limits bound a program. All are positive.
type Limits struct {
	// Bytes is the size of the source, Depth how deep it may be nested.
	Bytes, Depth int
	// Steps are steps of the interpreter, Calls calls of tools, Parallel how many of them run at once.
	Steps           uint64
	Calls, Parallel int
	// Time is how long a run takes at most, with its calls.
	Time time.Duration
	// Memory bounds the values that are made in a run, in bytes by an estimate that is never less than half of what they take; Result the
	// JSON of the result.
	Memory, Result int64
}

// Program is a program that was read. It is immutable, and safe for concurrent use. It has no tree: the check and the run each change theirs.
type Program struct {
	source string
	limits Limits
}

const (
	// fileName is that of all programs.
	fileName = "program"
	// maxFindings bounds the faults that a program is refused with, and maxRepairs how often the rest of one is read after a fault.
	maxFindings = 100
	maxRepairs  = 20
)

func options() *syntax.FileOptions {
	return &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}
}

// Parse reads a program. What is not in the language is a finding that says how to write it. There is a program if there are no findings.
func Parse(source string, limits Limits) (*Program, []check.Finding) {
	if len(source) > limits.Bytes {
		return nil, []check.Finding{{
			Line: 1, Column: 1, Rule: "too-large", Message: fmt.Sprintf("the program has %d bytes; the limit is %d: pass data as inputs", len(source), limits.Bytes),
		}}
	}
	read := scan(source, limits.Depth)
	if t := read.tooDeep; t != nil { // the parser recurses, and what comes after it even more
		return nil, []check.Finding{{
			Line: t.line, Column: t.column, Rule: "too-deep", Message: fmt.Sprintf("the program is nested more than %d deep", limits.Depth),
			Instead: "several statements",
		}}
	}
	findings := read.findings
	var err error
	if !read.isUnreadable {
		_, err = options().Parse(fileName, source, 0)
	}
	if err != nil {
		findings = append(findings, syntaxFaults(source, read, err)...)
	}
	if len(findings) > 0 {
		slices.SortStableFunc(findings, func(a, b check.Finding) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		if more := len(findings) - maxFindings + read.more; more > 0 {
			findings = findings[:min(len(findings), maxFindings)]
			findings[len(findings)-1].Message += fmt.Sprintf(" (and %d more faults)", more)
		}
		return nil, findings
	}
	return &Program{source: source, limits: limits}, nil
}

// syntaxFaults are those that the parser finds: the first, and then those of the statements after it, each read without the ones that
// were wrong. A statement whose fault has a finding that says more gets no other.
func syntaxFaults(source string, read *reader, err error) []check.Finding {
	lines := strings.SplitAfter(source, "\n")
	starts := read.starts
	var out []check.Finding
	for range maxRepairs {
		var fault syntax.Error
		if !errors.As(err, &fault) {
			return append(out, check.Finding{Line: 1, Column: 1, Rule: "syntax", Message: err.Error()})
		}
		line := int(fault.Pos.Line)
		from, to := block(starts, line, len(lines))
		isKnown := false
		for l := range read.faulty {
			isKnown = isKnown || l >= from && l < to
		}
		if open := read.unclosed(fault); !isKnown && open != nil {
			return append(out, check.Finding{
				Line: open.line, Column: open.column, Rule: "syntax", Message: fmt.Sprintf("the %s is not closed; line %d does not continue what is in it", open.text, line),
				Instead: closing(open.text),
			})
		}
		if !isKnown {
			out = append(out, check.Finding{Line: line, Column: read.beginning(line, int(fault.Pos.Col)), Rule: "syntax", Message: fault.Msg})
		}
		for i := from - 1; i < min(to-1, len(lines)); i++ {
			lines[i] = "\n"
		}
		if _, err = options().Parse(fileName, strings.Join(lines, ""), 0); err == nil {
			return out
		}
	}
	return out
}

// block is the lines of the statement that has a line: from the first to the one after the last.
func block(starts []int, line, lines int) (from, to int) {
	from, to = 1, lines+1
	for _, start := range starts {
		if start > line {
			return from, start
		}
		from = start
	}
	return from, to
}

// Check finds faults before a run, and what the program may call.
func (p *Program) Check(w *check.World, inputs []byte) ([]check.Planned, []check.Finding) {
	file, err := options().Parse(fileName, p.source, 0)
	if err != nil { // Parse had none
		return nil, []check.Finding{{Line: 1, Column: 1, Rule: "syntax", Message: err.Error()}}
	}
	return check.Program(file, w, inputs)
}

// Call is a call of a tool by a program.
type Call struct {
	// Number counts the calls of a run from 1. It depends on the program and the answers before alone.
	Number int
	// Line and Column are the place of the call in the program, from 1.
	Line, Column int
	Tool         *catalog.Tool
	// Arguments are a JSON object.
	Arguments []byte
}

// Host makes the calls of a run. Calls are made by up to Limits.Parallel goroutines at once.
type Host interface {
	// Call makes a call and returns the JSON of its result. An error ends the program, unless that is the error of an item of a parallel
	// that asked for errors.
	Call(ctx context.Context, c *Call) ([]byte, *errmap.Error)
	// Resume is called when all calls that were under way have ended, before the program goes on.
	Resume(ctx context.Context)
}

// Outcome is how a run ended.
type Outcome struct {
	// Result is the JSON of the global result; nil where the program did not set it or did not end.
	Result []byte
	// Err is why the run ended early; nil where it did not. Line and Column are the place where it ended.
	Err          *errmap.Error
	Line, Column int
	// Failed is the call whose error Err is, which is at that place; nil where the run ended for another reason.
	Failed *Call
	// Calls are those that were made, in the order of their numbers.
	Calls []Made
	// Steps are those that the interpreter took.
	Steps uint64
}

// Made is a call that was made.
type Made struct {
	Call *Call
	Err  *errmap.Error
}

// run is a program that runs.
type run struct {
	limits  Limits
	world   *check.World
	host    Host
	ctx     context.Context //nolint:containedctx // the interpreter has no way to pass one
	thread  *starlark.Thread
	methods methods
	tools   map[*catalog.Tool]*callable

	// stopped is why the run ended early, failed the call whose error that is; nil for none.
	stopped *errmap.Error
	failed  *Call
	// memory counts bytes of values, charged the steps that are not steps of the interpreter.
	memory  int64
	charged uint64
	number  int
	calls   []Made
	// resultAt is where the program sets its result last.
	resultAt syntax.Position
}

// Run runs a program with its inputs, a JSON object. It never panics, and it returns when ctx ends.
func (p *Program) Run(ctx context.Context, w *check.World, inputs []byte, host Host) (out *Outcome) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.limits.Time, errOwnTime)
	defer cancel()
	r := newRun(ctx, p.limits, w, host)
	waited := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		r.thread.Cancel("time")
		close(waited)
	})
	defer func() {
		if !stop() {
			<-waited
		}
	}()
	defer func() {
		if v := recover(); v != nil {
			out = r.outcome(nil, errors.New("panic"))
			out.Err = panicked(v)
		}
	}()
	globals, err := r.exec(p.source, inputs)
	return r.outcome(globals, err)
}

func newRun(ctx context.Context, limits Limits, w *check.World, host Host) *run {
	r := &run{
		limits: limits, world: w, host: host, ctx: ctx, thread: &starlark.Thread{Name: fileName}, methods: newMethods(),
		tools: map[*catalog.Tool]*callable{},
	}
	r.thread.OnMaxSteps = r.checkpoint
	r.thread.SetMaxExecutionSteps(min(checkSteps, limits.Steps+1))
	return r
}

// errOwnTime is why a context ended whose run took too long.
var errOwnTime = errors.New("the program took too long") //nolint:gochecknoglobals // a constant

// TimedOut is the error of a run that took longer than its limit.
func TimedOut(limit time.Duration) *errmap.Error {
	return errmap.New(errmap.Timeout, errmap.Message(fmt.Sprintf("Program timed out: it ran longer than %s", limit)),
		errmap.Advice("Use parallel([…]), or make fewer calls."), errmap.Retryable(false))
}

func panicked(v any) *errmap.Error {
	return errmap.Wrap(errmap.InternalError, fmt.Errorf("panic in a program: %v\n%s", v, debug.Stack()))
}

// exec runs the source, which was parsed once. Its tree is changed and resolved for this run.
func (r *run) exec(source string, inputs []byte) (starlark.StringDict, error) {
	given, err := r.inputsOf(inputs)
	if err != nil {
		return nil, err
	}
	file, err := options().Parse(fileName, source, 0)
	if err != nil {
		return nil, err
	}
	r.resultAt = lastResult(file)
	rewrite(file)
	globals := starlark.StringDict{"inputs": given, "tools": &module{run: r}, "json": &jsonModule{r}}
	for name, fn := range r.operations() {
		globals[name] = builtin(strings.TrimPrefix(name, "."), fn)
	}
	for name, fn := range r.builtins() {
		globals[name] = builtin(name, fn)
	}
	compiled, err := starlark.FileProgram(file, func(name string) bool {
		if globals[name] != nil {
			return true
		}
		if v := r.global(name); v != nil {
			globals[name] = v
			return true
		}
		return false
	})
	if err != nil {
		return nil, r.undefined(err)
	}
	return compiled.Init(r.thread, globals)
}

// lastResult is the last place where a program sets its result.
func lastResult(file *syntax.File) (at syntax.Position) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.AssignStmt:
			if id, ok := n.LHS.(*syntax.Ident); ok && id.Name == "result" {
				at = id.NamePos
			}
			return false
		case *syntax.DefStmt, *syntax.ExprStmt:
			return false
		}
		return true
	})
	return at
}

// global is a name that is neither the program's nor a builtin: a module or a tool. Functions of the interpreter that are not in the
// language are refused when they are called.
func (r *run) global(name string) starlark.Value {
	if v := r.named(name); v != nil {
		return v
	}
	switch name {
	case "None", "True", "False":
		return nil
	}
	if starlark.Universe.Has(name) {
		return builtin(name, func(*starlark.Thread, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return nil, fmt.Errorf("there is no %s", name)
		})
	}
	return nil
}

// undefined is the first fault of names, with the nearest tools.
func (r *run) undefined(err error) error {
	var list resolve.ErrorList
	if !errors.As(err, &list) || len(list) == 0 {
		return err
	}
	text := list[0].Msg
	if name, ok := strings.CutPrefix(text, "undefined: "); ok {
		name, _, _ = strings.Cut(name, " ")
		text = "there is no " + name
		if near := r.world.Catalog.Nearest(name, 3); len(near) > 0 {
			text += "; the nearest tools are " + strings.Join(near, ", ")
		}
	}
	return placed{list[0].Pos, text}
}

// placed is a fault with its place, found before the run.
type placed struct {
	pos  syntax.Position
	text string
}

func (p placed) Error() string { return p.text }

// outcome is how the run ended.
func (r *run) outcome(globals starlark.StringDict, err error) *Outcome {
	out := &Outcome{Calls: r.calls, Steps: r.thread.Steps}
	if err == nil {
		if v, ok := globals["result"]; ok {
			var isOver bool
			out.Result, isOver, err = r.json(v, r.limits.Result, true)
			if err != nil {
				out.Result = nil
				err = placed{r.resultAt, "result: " + err.Error()}
			}
			if isOver {
				r.stopped = errmap.New(errmap.ResourceExhausted, errmap.Over(errmap.LimitResultBytes),
					errmap.Message(fmt.Sprintf("Result too large: the value of result has more than %d bytes of JSON", r.limits.Result)),
					errmap.Advice("Put less into result: counts, names, the fields that matter."))
			}
		}
		if err == nil {
			return out
		}
	}
	out.Line, out.Column = placeOf(err)
	switch ended := r.ctx.Err(); {
	case r.stopped != nil:
		out.Err = r.stopped
		if out.Failed = r.failed; out.Failed != nil {
			out.Line, out.Column = out.Failed.Line, out.Failed.Column
		}
	case ended != nil:
		out.Err = r.ended(nil)
	default:
		out.Err = fault(err, out.Line, out.Column)
	}
	return out
}

// ended is why the context ended, with the error of the call that it ended.
func (r *run) ended(said *errmap.Error) *errmap.Error {
	switch {
	case errors.Is(context.Cause(r.ctx), errOwnTime):
		return TimedOut(r.limits.Time)
	case errors.Is(r.ctx.Err(), context.DeadlineExceeded):
		if said != nil && said.Code == errmap.Timeout {
			return said
		}
		return errmap.New(errmap.Timeout)
	}
	return errmap.New(errmap.Cancelled)
}

func placeOf(err error) (line, column int) {
	var before placed
	if errors.As(err, &before) {
		return int(before.pos.Line), int(before.pos.Col)
	}
	var in *starlark.EvalError
	if errors.As(err, &in) {
		for i := range in.CallStack {
			if pos := in.CallStack.At(i).Pos; pos.Filename() == fileName && pos.Line > 0 {
				return int(pos.Line), int(pos.Col)
			}
		}
	}
	return 0, 0
}

// fault is the error of a program that is wrong.
func fault(err error, line, column int) *errmap.Error {
	text := err.Error()
	if line > 0 {
		text = fmt.Sprintf("line %d, column %d: %s", line, column, text)
	}
	return errmap.InvalidInput("", false, errmap.Violation{Path: "/program", Keyword: "program", Message: text})
}
