// SPDX-License-Identifier: Apache-2.0

package compat

import "github.com/outrigger-mcp/outrigger/internal/defaults"

// Limits bound the cost of a comparison. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the maximum size of a list of tools that is read or stored. The default is 512 MiB: as many tools as a
	// catalog holds, at 26 KiB each.
	MaxBytes int
	// MaxTools is the maximum number of tools in a list. The default is [defaults.MaxTools], the limit of a catalog.
	MaxTools int
	// MaxDepth is the maximum depth of a schema, references included. The default is 128: derived schemas stay under 64.
	MaxDepth int
	// MaxSteps is the maximum number of subschema pairs compared for one schema of a tool. The default is 200,000, twenty
	// times the largest derived schema. A schema beyond it counts as changed.
	MaxSteps int
	// MaxChanges is the maximum number of changes reported for one tool. The default is 1,000. If there are more, one
	// additional change says so. Breaking changes are kept first.
	MaxChanges int
}

func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxBytes, 512<<20)
	defaults.Fill(&l.MaxTools, defaults.MaxTools)
	defaults.Fill(&l.MaxDepth, 128)
	defaults.Fill(&l.MaxSteps, 200_000)
	defaults.Fill(&l.MaxChanges, 1_000)
	return l
}
