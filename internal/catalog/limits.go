// SPDX-License-Identifier: Apache-2.0

package catalog

import "time"

// Limits bounds what a catalog may hold. What a source may cost is for Limits of package source. The zero value means the
// defaults.
type Limits struct {
	// MaxTools is the most tools of one catalog. Default 20,000: all of googleapis has 11,345. More is an error: a list cut
	// short would hide tools without a word.
	MaxTools int
	// MaxNameBytes is the longest canonical name. Default 128, which is what outrigger.v1.Tool.name admits. A method whose
	// name is longer is left out with a warning.
	MaxNameBytes int
	// MaxTitleRunes is the longest title. Default 120, one line of a client's list; longer ones are cut.
	MaxTitleRunes int
	// MaxDescriptionBytes is the longest description. Default 8,192, which is more than any model reads with profit;
	// longer ones are cut with a warning.
	MaxDescriptionBytes int
	// MaxRegistrations is the most tools that can be registered. Default 1,000, the size of catalog for which
	// registration is measured.
	MaxRegistrations int
	// MaxRegisteredBytes is the most that all registrations together may hold. Default 16 MiB, which is 16 KiB each: a
	// larger schema costs a model more context than the tool is worth.
	MaxRegisteredBytes int
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	positive(&l.MaxTools, 20_000)
	positive(&l.MaxNameBytes, 128)
	positive(&l.MaxTitleRunes, 120)
	positive(&l.MaxDescriptionBytes, 8_192)
	positive(&l.MaxRegistrations, 1_000)
	positive(&l.MaxRegisteredBytes, 16<<20)
	return l
}

// positive replaces a value that bounds nothing by its default.
func positive[T int | time.Duration](v *T, byDefault T) {
	if *v <= 0 {
		*v = byDefault
	}
}
