// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"time"
)

// Limits bounds what a source may cost. The zero value means the defaults.
type Limits struct {
	// MaxBytes is the most descriptor bytes that one source may deliver. Default 64 MiB: the whole of googleapis with
	// comments is about half of that.
	MaxBytes int
	// MaxFiles is the most .proto files of one source. Default 10,000, the size of googleapis.
	MaxFiles int
	// MaxServices is the most services that one source may list. Default 2,000: ten times the 200 services for which
	// discovery is measured.
	MaxServices int
	// LoadTimeout bounds one load of one source that talks to a peer. Default 10 s, the time for which an edge lets its
	// callers wait for the first catalog.
	LoadTimeout time.Duration
}

// withDefaults fills in what is zero or negative.
func (l Limits) withDefaults() Limits {
	l.MaxBytes = cmp.Or(max(l.MaxBytes, 0), 64<<20)
	l.MaxFiles = cmp.Or(max(l.MaxFiles, 0), 10_000)
	l.MaxServices = cmp.Or(max(l.MaxServices, 0), 2_000)
	l.LoadTimeout = cmp.Or(max(l.LoadTimeout, 0), 10*time.Second)
	return l
}
