// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"container/heap"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// DefaultMaxSpent is how many tokens a [Spent] remembers at a time: 72 a second
// over [defaults.StateTTL], in about 10 MB.
const DefaultMaxSpent = 1 << 16

// SpentOptions configure a [Spent]. Zero fields take the defaults of this
// package.
type SpentOptions struct {
	// Max is how many tokens may be remembered at a time.
	Max int
	// Now is the clock, which should be that of the [Sealer]. Nil: [time.Now].
	Now func() time.Time
}

// Spent remembers which tokens were used, for those that may be used once. It
// knows what this process has seen: the replay of a token to another replica is
// not noticed. Make one with [NewSpent].
type Spent struct {
	max int
	now func() time.Time

	mu    sync.Mutex
	known map[[sha256.Size]byte]struct{}
	order expiries
	// latest is the latest moment seen: a clock that is set back must not bring
	// back what was forgotten.
	latest                    time.Time
	spent, replayed, overfull uint64
}

// NewSpent returns a Spent that remembers nothing yet.
func NewSpent(o SpentOptions) *Spent {
	s := &Spent{max: o.Max, now: o.Now, known: map[[sha256.Size]byte]struct{}{}}
	defaults.Fill(&s.max, DefaultMaxSpent)
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Spend reports whether the token may be used: true exactly once for each token
// until the moment given, which is when the token expires ([Sealer.OpenUntil]).
// It is false where the token was spent before, where that moment has passed,
// and where the guard is full of tokens that have not expired: what cannot be
// remembered could be used again. Only tokens that were opened belong here, or
// anyone could fill it.
func (s *Spent) Spend(token string, until time.Time) bool {
	// The hash makes every entry small, however long the token.
	sum := sha256.Sum256([]byte(token))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	_, again := s.known[sum]
	switch {
	case again || !s.latest.Before(until):
		s.replayed++
		return false
	case len(s.known) >= s.max:
		s.overfull++
		return false
	}
	s.known[sum] = struct{}{}
	heap.Push(&s.order, expiry{until: until, sum: sum})
	s.spent++
	return true
}

// forget drops what has expired. Each entry is dropped once, so its cost belongs
// to the call that made it.
func (s *Spent) forget() {
	if now := s.now(); now.After(s.latest) {
		s.latest = now
	}
	for len(s.order) > 0 && !s.latest.Before(s.order[0].until) {
		delete(s.known, s.order[0].sum)
		heap.Pop(&s.order)
	}
}

// SpentStats are what a [Spent] has done so far.
type SpentStats struct {
	// Held is how many tokens are remembered now.
	Held int
	// Spent counts tokens that were used, Replayed those refused because they had
	// been used or had expired, Overfull those refused for want of room.
	Spent, Replayed, Overfull uint64
}

// Stats returns the counts of one moment.
func (s *Spent) Stats() SpentStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
	return SpentStats{Held: len(s.known), Spent: s.spent, Replayed: s.replayed, Overfull: s.overfull}
}

type expiry struct {
	until time.Time
	sum   [sha256.Size]byte
}

// expiries is a heap: the first to expire is at its top.
type expiries []expiry

func (e expiries) Len() int           { return len(e) }
func (e expiries) Less(i, j int) bool { return e[i].until.Before(e[j].until) }
func (e expiries) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push implements [heap.Interface].
func (e *expiries) Push(x any) {
	if entry, ok := x.(expiry); ok {
		*e = append(*e, entry)
	}
}

// Pop implements [heap.Interface].
func (e *expiries) Pop() any {
	last := len(*e) - 1
	entry := (*e)[last]
	*e = (*e)[:last]
	return entry
}
