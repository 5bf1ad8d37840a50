// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"container/heap"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// SingleUse remembers tokens that may be used only once: those of one process, or of all replicas.
type SingleUse interface {
	// Spend reports whether the token may be used. It returns true exactly once for each token until the given time, which is
	// the token's own expiry. After an error it is not known.
	Spend(ctx context.Context, token string, until time.Time) (fresh bool, err error)
}

// DefaultMaxSpent is the maximum number of tokens that a [Spent] remembers: 72 a second
// over [defaults.StateTTL], in about 10 MB.
const DefaultMaxSpent = 1 << 16

// SpentOptions configure a [Spent]. Zero fields take the defaults of this
// package.
type SpentOptions struct {
	// Max is the maximum number of remembered tokens.
	Max int
	// Now is the clock. Use that of the [Sealer]. Nil means [time.Now].
	Now func() time.Time
}

// Spent remembers used tokens, for tokens that may be used only once. It knows only the
// tokens of this process: it does not detect a replay to another replica. Make one with
// [NewSpent].
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

// NewSpent returns an empty Spent.
func NewSpent(o SpentOptions) *Spent {
	s := &Spent{max: o.Max, now: o.Now, known: map[[sha256.Size]byte]struct{}{}}
	defaults.Fill(&s.max, DefaultMaxSpent)
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// Spend reports whether the token may be used. It returns true exactly once for each
// token until the given time, which is the expiry of the token ([Sealer.OpenUntil]). It
// returns false if the token was already spent, if that time has passed, or if the Spent
// is full of unexpired tokens, because a token that is not remembered could be used
// again. Pass only tokens that were opened. Otherwise any caller could fill it.
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

// SpentStats are the counts of a [Spent].
type SpentStats struct {
	// Held is the number of tokens that are remembered now.
	Held int
	// Spent counts tokens that were used. Replayed counts tokens that were refused
	// because they had been used or had expired. Overfull counts tokens that were refused
	// for lack of room.
	Spent, Replayed, Overfull uint64
}

// Stats returns a snapshot of the counts.
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
