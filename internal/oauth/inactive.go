// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/access"
)

const (
	// maxInactive bounds the inactive tokens that are remembered.
	maxInactive = 1024
	// inactiveFor is how long a token stays inactive without another introspection.
	inactiveFor = 10 * time.Second
)

// inactive remembers tokens that their issuer does not accept, so that a client that keeps
// sending one does not have it introspected each time.
type inactive struct {
	mu    sync.Mutex
	until map[access.Digest]time.Time
}

func (i *inactive) has(d access.Digest, now time.Time) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return now.Before(i.until[d])
}

func (i *inactive) add(d access.Digest, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.until == nil {
		i.until = map[access.Digest]time.Time{}
	}
	for old := range i.until {
		if len(i.until) < maxInactive {
			break
		}
		delete(i.until, old)
	}
	i.until[d] = now.Add(inactiveFor)
}
