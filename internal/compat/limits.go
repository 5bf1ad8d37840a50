// SPDX-License-Identifier: Apache-2.0

package compat

import "github.com/outrigger-mcp/outrigger/internal/defaults"

// Limits bounds what a comparison may cost. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the largest list of tools that is read or kept. Default 512 MiB: as many tools as a catalog holds, with
	// 26 KiB each.
	MaxBytes int
	// MaxTools is the most tools of one list. [defaults.MaxTools] by default, as many as a catalog holds.
	MaxTools int
	// MaxDepth is how deep a schema is followed, references included. Default 128: derived schemas stay under 64.
	MaxDepth int
	// MaxSteps is how many pairs of subschemas are compared for one schema of a tool. Default 200,000, twenty times the
	// largest derived schema. A schema beyond it counts as changed.
	MaxSteps int
	// MaxChanges is the most changes that are reported for one tool. Default 1,000; more are not read, and one more says
	// that there are more. Breaking ones are kept first.
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
