// SPDX-License-Identifier: Apache-2.0

// Package listcost tells how much of a model's context a list of tools takes, and which tools take most of it. Models read
// the list with every request, and clients cut it or refuse it where it is too long. Nothing is left out of a list for its
// cost: a budget only warns.
package listcost

import (
	"slices"
	"sync"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// BytesPerToken is how many bytes of JSON are counted as one token. Tokenizers of large models need between three and five.
const BytesPerToken = 4

// maxDearest is how many tools are named.
const maxDearest = 10

// Tool is the cost of an entry of a list.
type Tool struct {
	Name  string
	Bytes int
}

// List is the cost of a list. It is immutable.
type List struct {
	// Version tells lists apart: it is the fingerprint of the catalog.
	Version string
	// Tools is the number of tools, and Bytes the size of their entries as JSON.
	Tools, Bytes int
	// Tokens is what the entries cost a model, by an estimate of BytesPerToken. `_meta` and icons do not count: clients keep
	// them to themselves.
	Tokens int
	// Dearest are the largest entries, at most maxDearest, the largest first.
	Dearest []Tool
}

// Measure returns the cost of a list of n tools. entry returns the name of the tool at an index, the size of its entry, and how
// much of that a model reads.
func Measure(version string, n int, entry func(i int) (name string, bytes, read int)) List {
	l := List{Version: version, Tools: n}
	for i := range n {
		name, size, read := entry(i)
		l.Bytes += size
		l.Tokens += read / BytesPerToken
		if len(l.Dearest) == maxDearest && size <= l.Dearest[maxDearest-1].Bytes {
			continue
		}
		at := len(l.Dearest)
		for at > 0 && l.Dearest[at-1].Bytes < size {
			at--
		}
		l.Dearest = slices.Insert(l.Dearest, at, Tool{Name: name, Bytes: size})
		l.Dearest = l.Dearest[:min(len(l.Dearest), maxDearest)]
	}
	return l
}

// Budget is what a list should cost at most. A bound of 0 is none.
type Budget struct{ Bytes, Tokens int }

// BudgetOf is the budget that a configuration describes.
func BudgetOf(c *configv1.Catalog) Budget {
	return Budget{Bytes: int(c.GetListBudgetBytes()), Tokens: int(c.GetListBudgetTokens())}
}

// IsExceeded reports whether a list costs more.
func (b Budget) IsExceeded(l List) bool {
	return b.Bytes > 0 && l.Bytes > b.Bytes || b.Tokens > 0 && l.Tokens > b.Tokens
}

// InBytes returns the tighter of the two bounds in bytes; 0 for none.
func (b Budget) InBytes() int {
	switch inTokens := b.Tokens * BytesPerToken; {
	case b.Bytes == 0:
		return inTokens
	case b.Tokens == 0:
		return b.Bytes
	default:
		return min(b.Bytes, inTokens)
	}
}

// maxVersions is how many versions are remembered that a warning was given for. Callers with permissions of their own have
// lists of their own; beyond this number, a warning may come again.
const maxVersions = 64

// Meter keeps the cost of the list that was made last, and warns of lists over the budget. Make one with NewMeter. It is safe
// for concurrent use.
type Meter struct {
	budget Budget
	warn   func(List)

	mu     sync.Mutex
	last   List
	warned []string // versions, the oldest first
}

// NewMeter returns a Meter that calls warn once for each version of a list that exceeds the budget. warn must return soon.
func NewMeter(budget Budget, warn func(List)) *Meter { return &Meter{budget: budget, warn: warn} }

// Listed tells the meter of a list that was made.
func (m *Meter) Listed(l List) {
	if m.isNew(l) {
		m.warn(l)
	}
}

func (m *Meter) isNew(l List) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = l
	if !m.budget.IsExceeded(l) || slices.Contains(m.warned, l.Version) {
		return false
	}
	if len(m.warned) == maxVersions {
		m.warned = slices.Delete(m.warned, 0, 1)
	}
	m.warned = append(m.warned, l.Version)
	return true
}

// Last returns the cost of the list that was made last; the zero List before the first.
func (m *Meter) Last() List {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// Budget returns the budget.
func (m *Meter) Budget() Budget { return m.budget }
