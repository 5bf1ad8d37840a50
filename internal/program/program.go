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
	"time"

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

// Program is a program that was read. It is immutable.
type Program struct {
	file   *syntax.File
	limits Limits
}

// Parse reads a program. What is not in the language is a finding that says how to write it.
func Parse(source string, limits Limits) (*Program, []check.Finding) { return nil, nil }

// Check finds faults before a run, and what the program may call.
func (p *Program) Check(w *check.World, inputs []byte) ([]check.Planned, []check.Finding) {
	return check.Program(p.file, w, inputs)
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

// Host makes the calls of a run. It is used by up to Limits.Parallel goroutines at once.
type Host interface {
	// Call makes a call and returns the JSON of its result. An error ends the program, unless that is the error of an item of a parallel
	// that asked for errors.
	Call(ctx context.Context, c *Call) ([]byte, *errmap.Error)
}

// Outcome is how a run ended.
type Outcome struct {
	// Result is the JSON of the global result; nil where the program did not set it or did not end.
	Result []byte
	// Err is why the run ended early; nil where it did not. Line and Column are the place where it ended.
	Err          *errmap.Error
	Line, Column int
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

// Run runs a program with its inputs, a JSON object. It never panics, and it returns when ctx ends.
func (p *Program) Run(ctx context.Context, w *check.World, inputs []byte, host Host) *Outcome {
	return &Outcome{}
}
