// SPDX-License-Identifier: Apache-2.0

package source

import (
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Limits bound the cost of a source. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the maximum size of the descriptors of one source, in bytes. The default is [defaults.MaxDescriptorBytes].
	// All of googleapis with comments is about a third of that.
	MaxBytes int
	// MaxFiles is the maximum number of .proto files of one source. The default is 20,000, twice the size of googleapis.
	MaxFiles int
	// MaxServices is the maximum number of services of one source. The default is 5,000: googleapis has about 1,500.
	MaxServices int
	// LoadTimeout bounds one load of a source that talks to a peer. The default is [defaults.CatalogWait], the time that an
	// edge lets its callers wait for the first catalog.
	LoadTimeout time.Duration
	// FetchTimeout bounds one load of a source that fetches descriptor sets. The default is [defaults.FetchTimeout].
	FetchTimeout time.Duration
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	defaults.Fill(&l.MaxBytes, defaults.MaxDescriptorBytes)
	defaults.Fill(&l.MaxFiles, 20_000)
	defaults.Fill(&l.MaxServices, 5_000)
	defaults.Fill(&l.LoadTimeout, defaults.CatalogWait)
	defaults.Fill(&l.FetchTimeout, defaults.FetchTimeout)
	return l
}
