// SPDX-License-Identifier: Apache-2.0

// Package check finds the faults of a program of catalog.run before anything runs, with the types of the tools that its caller sees.
package check

import (
	"go.starlark.net/syntax"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// World is the catalog as one caller sees it.
type World struct {
	// Catalog has the tools that the caller may see, each with the results that it may see.
	Catalog *catalog.Catalog
	// May returns why the caller may not call a tool, nil where it may. Nil permits all.
	May func(*catalog.Tool) *errmap.Error
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

// Planned is what a program may call.
type Planned struct {
	Tool *catalog.Tool
	// AtMost is how often at most; negative where only the limits of the run bound it.
	AtMost int
	// Places are the calls in the program, in their order.
	Places []syntax.Position
}

// Program checks a program. inputs is the type of the global inputs by its JSON text, "{}" for none. All faults are returned at once, in
// the order of their places; a program that would run without a fault of types is never refused.
func Program(file *syntax.File, w *World, inputs []byte) ([]Planned, []Finding) { return nil, nil }
