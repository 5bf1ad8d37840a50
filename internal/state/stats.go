// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Op is a kind of operation.
type Op uint8

// The operations.
const (
	opGet Op = iota
	OpCreate
	OpUpdate
	opDelete
	opAppend
	opTell
	ops
)

// String returns the operation as metrics name it.
func (o Op) String() string {
	return [ops]string{"get", "create", "update", "delete", "append", "tell"}[o]
}

// Outcome is how an operation ended.
type Outcome uint8

// The outcomes.
const (
	Stored Outcome = iota
	missing
	conflict
	full
	Unavailable
	Failed
	outcomes
)

// String returns the outcome as metrics name it.
func (o Outcome) String() string {
	return [outcomes]string{"ok", "not_found", "conflict", "full", "unavailable", "error"}[o]
}

// outcomeOf sorts an error.
func outcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Stored
	case errors.Is(err, ErrNotFound):
		return missing
	case errors.Is(err, ErrConflict), errors.Is(err, ErrExists):
		return conflict
	case errors.Is(err, ErrFull), errors.Is(err, ErrTooLarge):
		return full
	case errors.Is(err, ErrUnavailable):
		return Unavailable
	}
	return Failed
}

// counts are those of one bucket or stream.
type counts struct {
	ended    [ops][outcomes]atomic.Uint64
	took     [ops]telemetry.Durations
	in, out  atomic.Uint64
	observed atomic.Uint64
	// size and most are of the last look at the stream; zero most is before the first.
	size, most atomic.Int64
}

func (c *counts) countEnd(op Op, took time.Duration, err error) {
	c.ended[op][outcomeOf(err)].Add(1)
	c.durations(op).Add(took, telemetry.Trace{})
}

// durations are those of a kind of operation, by buckets from a write on loopback to the longest timeout.
func (c *counts) durations(op Op) telemetry.Histogram {
	return telemetry.Histogram{Durations: &c.took[op], Bounds: []time.Duration{
		250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
		10 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 10 * time.Second,
	}}
}

// Stats are the counts of one bucket or stream.
type Stats struct {
	// Store is its name without that of the deployment.
	Store string
	// Ended counts operations by kind and outcome.
	Ended map[Op]map[Outcome]uint64
	// Took are the durations by kind.
	Took map[Op]telemetry.Histogram
	// Written and Read are bytes as they were stored. Watched counts changes that watchers
	// were told.
	Written, Read, Watched uint64
	// Size is what the stream holds of MaxSize, in bytes, as of the last look at it, which is at most ten seconds ago while NATS
	// can be reached. Zero MaxSize: it was not looked at yet.
	Size, MaxSize int64
}

func (c *counts) snapshot(store string) Stats {
	out := Stats{
		Store: store, Ended: map[Op]map[Outcome]uint64{}, Took: map[Op]telemetry.Histogram{},
		Written: c.in.Load(), Read: c.out.Load(), Watched: c.observed.Load(), Size: c.size.Load(), MaxSize: c.most.Load(),
	}
	for op := range ops {
		took := c.durations(op)
		if took.Count() == 0 {
			continue
		}
		out.Ended[op], out.Took[op] = map[Outcome]uint64{}, took
		for outcome := range outcomes {
			out.Ended[op][outcome] = c.ended[op][outcome].Load()
		}
	}
	return out
}
