// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"time"
)

// Limits bounds what a source may cost. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the most descriptor bytes that one source may deliver. Default 256 MiB: the whole of googleapis with
	// comments is about a third of that.
	MaxBytes int
	// MaxFiles is the most .proto files of one source. Default 20,000, twice the size of googleapis.
	MaxFiles int
	// MaxServices is the most services that one source may list. Default 5,000: googleapis has about 1,500.
	MaxServices int
	// LoadTimeout bounds one load of one source that talks to a peer. Default 10 s, the time for which an edge lets its
	// callers wait for the first catalog.
	LoadTimeout time.Duration
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	l.MaxBytes = cmp.Or(max(l.MaxBytes, 0), 256<<20)
	l.MaxFiles = cmp.Or(max(l.MaxFiles, 0), 20_000)
	l.MaxServices = cmp.Or(max(l.MaxServices, 0), 5_000)
	l.LoadTimeout = cmp.Or(max(l.LoadTimeout, 0), 10*time.Second)
	return l
}
