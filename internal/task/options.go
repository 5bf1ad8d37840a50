// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

const (
	// PollInterval is how often a client may poll without adding load: most tasks take
	// seconds to minutes.
	PollInterval = time.Second
	// maxTimeout ends work that has no timeout. A day is longer than a caller waits.
	maxTimeout = 24 * time.Hour
	// maxWaiting is the same for work that waits first: longer than others may take to approve a call.
	maxWaiting = 8 * maxTimeout
	// Grace is how long work may run after its timeout, so that it can report the timeout
	// itself. Then the task ends without it.
	Grace = 5 * time.Second
	// defaultMaxRunning is twice [defaults.MaxTasks]. The other half is for calls that
	// are not tasks yet, and work that ignores its cancellation.
	defaultMaxRunning = 2 * defaults.MaxTasks
	// maxMessage is the maximum size of a status message in bytes: a sentence. The contract
	// allows 64 KiB, which every poll of the task would carry.
	maxMessage = 1024
)

// Options configure a [Manager]. Zero fields take the defaults of this package.
type Options struct {
	// TTL is how long a task is kept after its end.
	TTL time.Duration
	// MaxRunning is the maximum amount of work that runs at a time. It includes calls
	// that are not tasks yet and work that ignores its cancellation.
	MaxRunning int
	// Share is the part of MaxRunning that one caller may have.
	Share peer.Rule
	// MaxTakeovers is how often the work of one task is run again after a process that died:
	// what ends every process that runs it must not end them all. MaxHandovers is how often
	// it is run again after one that drained.
	MaxTakeovers, MaxHandovers int
	// Now is the clock for the times in records. Nil means [time.Now].
	Now func() time.Time
	// OnChange is called after each change of a task, including changes by another
	// process, with the task as [Manager.Get] returns it. Calls are sequential, in the
	// order of the changes of a task, and without a lock. No work waits for OnChange. If
	// it falls behind, changes of one task that keep its status are merged into one call
	// with the newest state. The creation of a task is not a change. Nil means no
	// callback.
	OnChange func(principal string, t *outriggerv1.Task)
	// OnPanic is called for every panic of work, and of OnChange. Nil means no callback.
	OnPanic func(value any, stack []byte)
	// OnError is called if the store failed and no caller could receive the error. Nil
	// means no callback.
	OnError func(error)
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.TTL, defaults.TaskTTL)
	defaults.Fill(&o.MaxRunning, defaultMaxRunning)
	defaults.Fill(&o.MaxTakeovers, defaults.StateMaxTakeovers)
	defaults.Fill(&o.MaxHandovers, defaults.StateMaxHandovers)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnPanic == nil {
		o.OnPanic = func(any, []byte) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	return o
}
