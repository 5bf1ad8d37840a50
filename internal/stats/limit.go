// SPDX-License-Identifier: Apache-2.0

package stats

import (
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// limitCounts are how often each of [errmap.Limits] was met. The keys are fixed
// when it is made.
type limitCounts map[errmap.Limit]*atomic.Uint64

func newLimitCounts() limitCounts {
	counts := limitCounts{}
	for _, l := range errmap.Limits() {
		counts[l] = new(atomic.Uint64)
	}
	return counts
}

// Over counts a request that was refused or cut short because of a limit. A value that
// is not in [errmap.Limits] counts nothing.
func (t *Stats) Over(l errmap.Limit) {
	if t == nil || l == "" {
		return
	}
	if n, ok := t.limits[l]; ok {
		n.Add(1)
	}
}

// TimesOver returns how many times Over has counted a limit.
func (t *Stats) TimesOver(l errmap.Limit) uint64 {
	if t == nil || t.limits[l] == nil {
		return 0
	}
	return t.limits[l].Load()
}

// HTTPRefused counts an HTTP request that was rejected at the HTTP level: for its path,
// its method, its headers, its size, or its sender.
func (t *Stats) HTTPRefused(edge Edge, code errmap.Code) {
	if t != nil {
		t.http.Count(edge, code)
	}
}
