// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Limits bounds what a catalog may hold. What a source may cost is for Limits of package source. The zero value means the
// defaults.
type Limits struct {
	// MaxTools is the most tools of one catalog. [defaults.MaxTools] by default: all of googleapis has 11,345. More is an error: a list cut
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
	defaults.Fill(&l.MaxTools, defaults.MaxTools)
	defaults.Fill(&l.MaxNameBytes, 128)
	defaults.Fill(&l.MaxTitleRunes, 120)
	defaults.Fill(&l.MaxDescriptionBytes, 8_192)
	defaults.Fill(&l.MaxRegistrations, 1_000)
	defaults.Fill(&l.MaxRegisteredBytes, 16<<20)
	return l
}
