// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Limits bound what a catalog may hold. The Limits of package source bound the cost of a source. The zero value means
// the defaults.
type Limits struct {
	// MaxTools is the maximum number of tools in a catalog. The default is [defaults.MaxTools]: all of googleapis has 11,345.
	// More is an error, because a truncated list would hide tools silently.
	MaxTools int
	// MaxNameBytes is the maximum length of a canonical name. The default is 128, the limit of outrigger.v1.Tool.name.
	// A method with a longer name is left out with a warning.
	MaxNameBytes int
	// MaxTitleRunes is the maximum length of a title. The default is 120, one line of a client's list. Longer ones are cut.
	MaxTitleRunes int
	// MaxDescriptionBytes is the maximum length of a description. The default is 8,192, more than a model benefits from.
	// Longer ones are cut with a warning.
	MaxDescriptionBytes int
	// MaxRegistrations is the maximum number of registered tools. The default is 1,000, the catalog size for which
	// registration is measured.
	MaxRegistrations int
	// MaxRegisteredBytes is the maximum total size of all registrations. The default is 16 MiB, 16 KiB each: a
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
