// SPDX-License-Identifier: Apache-2.0

package scopes

import (
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Rule gives a scope to tools for which nothing else does.
type Rule uint8

// The rules. None is the zero value: such tools need no scope. ReadWrite is [Read] for
// read-only tools and [Write] for all others.
const (
	None Rule = iota
	ReadWrite
)

// The scopes of [ReadWrite].
const (
	Read  = "tools:read"
	Write = "tools:write"
)

// ToolRule gives scopes to tools. Tools are globs over canonical names.
type ToolRule struct{ Tools, Scopes []string }

// OperationRule gives scopes to operations, by their names in the pipeline.
type OperationRule struct{ Operations, Scopes []string }

// ofTool is what a call of a tool needs, sorted. A tool that was registered for an RPC
// needs what the RPC's own tool needs too, so that another name is no way around it.
func (o *Options) ofTool(t *catalog.Tool) []string {
	need := slices.Clone(o.chosen(t))
	if base := t.Base; base != nil {
		need = append(need, o.chosen(base)...)
	}
	slices.Sort(need)
	return slices.Compact(need)
}

// chosen is what the first source says that says anything.
func (o *Options) chosen(t *catalog.Tool) []string {
	for _, r := range o.Tools {
		if glob.MatchAny(r.Tools, t.Name) || t.Alias != "" && glob.MatchAny(r.Tools, t.Alias) {
			return r.Scopes
		}
	}
	switch {
	case len(t.Scopes) > 0:
		return t.Scopes
	case o.Rule != ReadWrite:
		return nil
	case t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly:
		return []string{Read}
	}
	return []string{Write}
}

// ofOperation is what an operation needs, apart from tools, sorted.
func (o *Options) ofOperation(operation string) []string {
	for _, r := range o.Operations {
		if slices.Contains(r.Operations, operation) {
			return slices.Sorted(slices.Values(r.Scopes))
		}
	}
	return nil
}

// everyTool ends a scope that covers all scopes with the same beginning.
const everyTool = ":*"

// covers reports whether the held scopes include one that is needed: itself, or one above
// it ("tools:*" for "tools:read").
func covers(held []string, needed string) bool {
	for _, h := range held {
		if h == needed {
			return true
		}
		if above, ok := strings.CutSuffix(h, everyTool); ok && above != "" && len(needed) > len(above) && needed[:len(above)] == above && needed[len(above)] == ':' {
			return true
		}
	}
	return false
}

// coversAll reports whether the held scopes include all that are needed.
func coversAll(held, needed []string) bool {
	for _, n := range needed {
		if !covers(held, n) {
			return false
		}
	}
	return true
}
