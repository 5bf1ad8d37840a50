// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"sync"
)

// DefaultMaxCounted is the number of tools whose rejections are counted
// separately, so that a page of metrics stays readable. The others are counted
// together.
const DefaultMaxCounted = 256

// OtherTools is the name for tools that are counted together. It is not a valid
// tool name, which has a dot.
const OtherTools = "other"

// Refusals is the number of rejections of a tool.
type Refusals struct {
	// Tool is its canonical name; empty for requests that call no tool.
	Tool  string
	Count uint64
}

// refusals counts what is refused. The zero value counts DefaultMaxCounted tools
// one by one. It is safe for concurrent use.
type refusals struct {
	most int

	mu     sync.Mutex
	byTool map[string]uint64
}

// add counts one more.
func (r *refusals) add(tool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byTool == nil {
		r.byTool = map[string]uint64{}
	}
	if _, known := r.byTool[tool]; !known && len(r.byTool) >= cmp.Or(r.most, DefaultMaxCounted) {
		tool = OtherTools
	}
	r.byTool[tool]++
}

// list is the counts, sorted by tool.
func (r *refusals) list() []Refusals {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Refusals, 0, len(r.byTool))
	for tool, n := range r.byTool {
		out = append(out, Refusals{tool, n})
	}
	slices.SortFunc(out, func(a, b Refusals) int { return cmp.Compare(a.Tool, b.Tool) })
	return out
}
