// SPDX-License-Identifier: Apache-2.0

// Package board defines the dashboards and renders them as Grafana's JSON.
//
// The files in dashboards/ are its output, and a test compares them. Everything is a value that is not changed after it
// was made.
package board

// Board is a dashboard.
type Board struct {
	// UID identifies the dashboard in Grafana and in links. File is its file's name without the extension.
	UID, File          string
	Title, Description string
	// HasTool adds the variable $tool.
	HasTool bool
	Rows    []Row
}

// Row is a group of panels under a title.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel shows what its queries return.
type Panel struct {
	Title, Description string
	// Unit is one of Grafana's units.
	Unit string
	Kind Kind
	// Width and Height are in columns (24 a row) and rows of the grid. Zero is the kind's default.
	Width, Height uint32
	Queries       []Query
	// Runbook is the alert whose runbook the panel links to; empty for none.
	Runbook string
	// Warn and Fail are the values from which a number turns yellow and red; zero for none.
	Warn, Fail float64
	// IsStacked stacks the series.
	IsStacked bool
	// Max is the top of the scale; zero follows the data.
	Max float64
}

// Kind is how a panel shows values.
type Kind int

// The kinds. Lines are series over time, Number is the last value of each series, Table has a row for each instance and a
// column for each query.
const (
	Lines Kind = iota
	Number
	Table
)

// Query is an expression of PromQL. In selectors, SCOPE represents the instances that the dashboard's variables choose.
type Query struct {
	Expr string
	// Legend names the series, with labels in braces; for a table, it is the title of the column.
	Legend string
	// Unit is the unit of a column; the panel has that of everything else.
	Unit string
	// HasExemplars asks for exemplars: points that link to traces.
	HasExemplars bool
}

// Faults matches the codes of errors that are not the caller's and not the tool's own: the part of all calls that the
// objective is about. The rules have the same list, which a test compares.
const Faults = "UNAVAILABLE|TIMEOUT|TRANSPORT_ERROR|INTERNAL_ERROR|INVALID_TOOL_OUTPUT|SERIALIZATION_ERROR|RESOURCE_EXHAUSTED"

// Boards returns all dashboards.
func Boards() []Board { return []Board{service(), fleet()} }

// span is the width and height of a panel on the grid.
func (p Panel) span() (width, height uint32) {
	width, height = p.Width, p.Height
	defaults := map[Kind][2]uint32{Lines: {8, 8}, Number: {3, 4}, Table: {24, 8}}[p.Kind]
	if width == 0 {
		width = defaults[0]
	}
	if height == 0 {
		height = defaults[1]
	}
	return width, height
}
