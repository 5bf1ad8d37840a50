// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// shardCount is a power of two, well above the number of cores of one machine
// that a sidecar shares.
const shardCount = 64

// Options configure a [Table]. Zero fields take the defaults.
type Options struct {
	// MaxInFlight is the maximum number of calls that are registered and not
	// finished.
	MaxInFlight int
}

// Origin is the scope in which ids are unique. The zero Origin is valid, but
// NewOrigin never returns it.
type Origin uint64

// Table is the set of calls in flight. Make one with New. It does not need to be
// closed.
type Table struct {
	maxInFlight int64
	lastOrigin  atomic.Uint64
	inFlight    atomic.Int64
	draining    atomic.Bool
	full        atomic.Uint64
	drained     chan struct{} // closed at the first moment without calls while draining
	closeOnce   sync.Once
	shards      [shardCount]shard
}

// New returns an empty table.
func New(o Options) *Table {
	defaults.Fill(&o.MaxInFlight, defaults.MaxInFlight)
	t := &Table{maxInFlight: int64(o.MaxInFlight), drained: make(chan struct{})}
	for i := range t.shards {
		t.shards[i].byID = make(map[key]*Call)
		t.shards[i].byOrigin = make(map[Origin]*Call)
	}
	return t
}

// NewOrigin returns an origin that was not returned before. It takes no memory and
// needs no closing.
func (t *Table) NewOrigin() Origin { return Origin(t.lastOrigin.Add(1)) }

// shard is chosen by origin alone, so that CloseOrigin touches one shard. Origins
// are counted up, so their low bits spread evenly.
func (t *Table) shard(o Origin) *shard { return &t.shards[o%shardCount] }

// Register registers a call. A zero id is for callers without ids: it equals no
// other id and cannot be cancelled by id. The errors are ErrDuplicateID,
// ErrDraining and ErrFull; after an error there is nothing to finish.
func (t *Table) Register(ctx context.Context, o Origin, id jsonrpc.ID, opts ...CallOption) (*Call, error) {
	return t.RegisterNamed(ctx, o, id, "", opts...)
}

// RegisterNamed is Register for a call with a name for people, such as that of
// the tool. If a drain cuts the call off, it reports the name.
func (t *Table) RegisterNamed(ctx context.Context, o Origin, id jsonrpc.ID, name string, opts ...CallOption) (*Call, error) {
	return t.register(ctx, o, id, name, false, opts)
}

// RegisterPart is RegisterNamed for a call without an id that another one makes, which is in flight and waits for it. So neither a drain
// that has begun nor a full table keeps it out: the other could not end.
func (t *Table) RegisterPart(ctx context.Context, o Origin, name string) (*Call, error) {
	return t.register(ctx, o, jsonrpc.ID{}, name, true, nil)
}

func (t *Table) register(ctx context.Context, o Origin, id jsonrpc.ID, name string, isPart bool, opts []CallOption) (*Call, error) {
	// What comes after a drain has begun is not counted: callers that come again and
	// again could keep the count above zero.
	if !isPart && t.draining.Load() {
		return nil, ErrDraining
	}
	// Counted first, asked second: either this sees the drain, or the drain sees
	// the call.
	count := t.inFlight.Add(1)
	if !isPart && t.draining.Load() {
		t.release()
		return nil, ErrDraining
	}
	if !isPart && count > t.maxInFlight {
		t.full.Add(1)
		t.release()
		return nil, ErrFull
	}
	c := newCall(ctx, t, o, id, opts)
	c.name = name
	if !t.shard(o).add(c) {
		c.endContext(nil)
		t.release()
		return nil, ErrDuplicateID
	}
	return c, nil
}

// Cancel cancels the call with this id: its context ends with a *CancelError, and
// its Finish will return false. It reports whether there was such a call. The id
// may be reused at once.
func (t *Table) Cancel(o Origin, id jsonrpc.ID, reason string) bool {
	if id.IsZero() {
		return false
	}
	c := t.shard(o).remove(key{o, id.Key()})
	if c == nil {
		return false
	}
	c.endContext(newCancelError(reason))
	return true
}

// CloseOrigin ends all calls of an origin that is gone, also those without an id,
// with ErrOriginClosed: their Finish will return false. It returns their number.
// The table does not remember closed origins, so stop registering calls before
// you close one.
func (t *Table) CloseOrigin(o Origin) int {
	calls := t.shard(o).takeOrigin(o)
	for _, c := range calls {
		c.endContext(ErrOriginClosed)
	}
	return len(calls)
}

// InFlight returns the number of calls that are registered and not finished. A
// cancelled call counts until its Finish, because its work may continue.
func (t *Table) InFlight() int { return int(t.inFlight.Load()) }

// Crowded reports whether at least half of the places are taken. Edges that can hold
// requests back do so then.
func (t *Table) Crowded() bool { return t.inFlight.Load() >= (t.maxInFlight+1)/2 }

// Refused returns the number of calls that were rejected with ErrFull.
func (t *Table) Refused() uint64 { return t.full.Load() }

// release gives back one place.
func (t *Table) release() {
	if t.inFlight.Add(-1) == 0 && t.draining.Load() {
		t.markDrained()
	}
}

// key is an id within its origin.
type key struct {
	origin Origin
	id     string
}

// shard is the part of the table that holds the calls of some origins. Only the
// methods of this file touch it, and each holds the lock from start to end; what
// they hand out is acted upon after they returned.
type shard struct {
	mu       sync.Mutex
	byID     map[key]*Call    // calls that have an id
	byOrigin map[Origin]*Call // the first of a list that holds all calls of an origin

	_ [40]byte // fills a cache line, so that neighbours do not slow each other down
}

// add lists c and reports false, without effect, if its id is taken.
func (s *shard) add(c *Call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.id.IsZero() {
		k := key{c.origin, c.id.Key()}
		if _, taken := s.byID[k]; taken {
			return false
		}
		s.byID[k] = c
	}
	c.listed = true
	c.next = s.byOrigin[c.origin]
	if c.next != nil {
		c.next.previous = c
	}
	s.byOrigin[c.origin] = c
	return true
}

// finish reports whether it was called for c for the first time, and whether c
// was still listed.
func (s *shard) finish(c *Call) (first, won bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first = !c.finished
	c.finished = true
	won = c.listed
	if won {
		s.drop(c)
	}
	return first, won
}

// remove drops and returns the call with this key, or nil.
func (s *shard) remove(k key) *Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byID[k]
	if c != nil {
		s.drop(c)
	}
	return c
}

// takeOrigin drops and returns all calls of an origin.
func (s *shard) takeOrigin(o Origin) []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*Call
	for c := s.byOrigin[o]; c != nil; c = s.byOrigin[o] {
		s.drop(c)
		calls = append(calls, c)
	}
	return calls
}

// all returns the listed calls.
func (s *shard) all() []*Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var calls []*Call
	for _, first := range s.byOrigin {
		for c := first; c != nil; c = c.next {
			calls = append(calls, c)
		}
	}
	return calls
}

// drop takes a listed call out of both indexes. The lock is held.
func (s *shard) drop(c *Call) {
	c.listed = false
	if !c.id.IsZero() {
		delete(s.byID, key{c.origin, c.id.Key()})
	}
	switch {
	case c.previous != nil:
		c.previous.next = c.next
	case c.next != nil:
		s.byOrigin[c.origin] = c.next
	default:
		delete(s.byOrigin, c.origin)
	}
	if c.next != nil {
		c.next.previous = c.previous
	}
	c.previous, c.next = nil, nil
}
