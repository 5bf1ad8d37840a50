// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"slices"
)

// Level is how bad a finding is.
type Level uint8

// The levels. Error: a client refuses or cuts something. Warning: something works worse than it could, or not with every
// version of a client. Note: worth knowing.
const (
	Note Level = iota
	Warning
	Error
)

// String returns "note", "warning" or "error".
func (l Level) String() string {
	switch l {
	case Error:
		return "error"
	case Warning:
		return "warning"
	default:
		return "note"
	}
}

// MarshalText returns the text of String.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one thing that a client does not take well.
type Finding struct {
	Level Level  `json:"level"`
	Rule  string `json:"rule"`
	// Client is the name of the client; empty if it holds for every client.
	Client string `json:"client,omitempty"`
	// Tool is the canonical name of the tool; empty if it is about the list.
	Tool string `json:"tool,omitempty"`
	// Path is a JSON Pointer into the tool's entry of the list, to the first place.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Fix     Fix    `json:"fix"`
}

// Report is what Run found.
type Report struct {
	// OK is set if there is no finding of level Error.
	OK bool `json:"ok"`
	// Tools is the number of tools that clients list, and Tokens what the list costs, by an estimate of four bytes a token.
	Tools  int `json:"tools"`
	Tokens int `json:"tokens"`
	// Clients are the names of those whose facts were applied.
	Clients []string `json:"clients"`
	// Counts are the numbers of findings, those that are omitted included.
	Counts Counts `json:"counts"`
	// Findings are sorted: errors first, then by tool, rule and client.
	Findings []Finding `json:"findings"`
	// Omitted is the number of findings beyond Options.MaxFindings.
	Omitted int `json:"omitted"`

	changes []change // of all findings, those that are omitted included
}

// Counts are numbers of findings by level.
type Counts struct {
	Error   int `json:"error"`
	Warning int `json:"warning"`
	Note    int `json:"note"`
}

// String returns the counts in words.
func (c Counts) String() string {
	return fmt.Sprintf("%s, %s, %s", plural(c.Error, "error"), plural(c.Warning, "warning"), plural(c.Note, "note"))
}

func plural(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func (c *Counts) add(l Level) {
	switch l {
	case Error:
		c.Error++
	case Warning:
		c.Warning++
	default:
		c.Note++
	}
}

// settle sorts and counts the findings, and cuts them to the limit.
func (r *Report) settle(most int) {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Client, b.Client), cmp.Compare(a.Path, b.Path))
	})
	for _, f := range r.Findings {
		r.Counts.add(f.Level)
	}
	r.OK = r.Counts.Error == 0
	if len(r.Findings) > most {
		r.Omitted = len(r.Findings) - most
		r.Findings = r.Findings[:most]
	}
}
