// SPDX-License-Identifier: Apache-2.0

package compat

// Limits bounds what a comparison may cost. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the largest list of tools that is read or kept. Default 512 MiB: as many tools as a catalog holds, with
	// 26 KiB each.
	MaxBytes int
	// MaxTools is the most tools of one list. Default 20,000, the most that a catalog holds by default.
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
	for _, d := range [...]struct {
		value     *int
		byDefault int
	}{
		{&l.MaxBytes, 512 << 20}, {&l.MaxTools, 20_000}, {&l.MaxDepth, 128}, {&l.MaxSteps, 200_000}, {&l.MaxChanges, 1_000},
	} {
		if *d.value <= 0 {
			*d.value = d.byDefault
		}
	}
	return l
}
