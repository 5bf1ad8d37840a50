// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Limits bounds what a source may cost. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the most descriptor bytes that one source may deliver. [defaults.MaxDescriptorBytes] by default: the whole of googleapis with
	// comments is about a third of that.
	MaxBytes int
	// MaxFiles is the most .proto files of one source. Default 20,000, twice the size of googleapis.
	MaxFiles int
	// MaxServices is the most services that one source may list. Default 5,000: googleapis has about 1,500.
	MaxServices int
	// LoadTimeout bounds one load of one source that talks to a peer. [defaults.CatalogWait] by default, the time for which an edge lets its
	// callers wait for the first catalog.
	LoadTimeout time.Duration
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxBytes, defaults.MaxDescriptorBytes)
	defaults.Fill(&l.MaxFiles, 20_000)
	defaults.Fill(&l.MaxServices, 5_000)
	defaults.Fill(&l.LoadTimeout, defaults.CatalogWait)
	return l
}
