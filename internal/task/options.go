// SPDX-License-Identifier: Apache-2.0

package task

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Defaults of Options.
const (
	// DefaultPollInterval is how often a client may look without being a burden:
	// most tasks take seconds to minutes.
	DefaultPollInterval = time.Second
	// DefaultMaxTimeout ends work without a bound: a day is longer than what
	// anyone waits for.
	DefaultMaxTimeout = 24 * time.Hour
	// DefaultGrace is how long work may go on after its time is over, to say so
	// itself.
	DefaultGrace = 5 * time.Second
	// DefaultMaxRunning is twice [defaults.MaxTasks]: as many again may be calls that
	// are no tasks yet, and work that does not heed its end.
	DefaultMaxRunning = 2 * defaults.MaxTasks
	// DefaultMaxQuestions is how many questions one task may ask in its life: more
	// than any person answers.
	DefaultMaxQuestions = 1024
	// DefaultMaxMessage is the longest status message in bytes: a sentence. The
	// contract admits 64 KiB, which every look at the task would carry.
	DefaultMaxMessage = 1024
)

// Options configure a [Manager]. Zero fields take the defaults of this package.
type Options struct {
	// TTL is how long a task is remembered after its end.
	TTL time.Duration
	// PollInterval is how long a client should wait between two looks.
	PollInterval time.Duration
	// MaxTimeout bounds every [Spec.Timeout]. Grace is how long after its time the
	// work may still return a result of its own; then the task ends without it.
	MaxTimeout, Grace time.Duration
	// MaxRunning is how much work may go on at a time, calls that are no tasks yet
	// and work that does not heed its end included.
	MaxRunning int
	// Share is how much of MaxRunning one caller may have.
	Share share.Rule
	// MaxQuestions is how many questions one task may ask, MaxMessage how many
	// bytes of a status message are kept.
	MaxQuestions, MaxMessage int
	// Now is the clock for what records say. Nil: [time.Now].
	Now func() time.Time
	// Rand is where ids come from, one reader at a time. Nil: crypto/rand.
	Rand io.Reader
	// OnChange is called after each change of a task, also those that came through
	// another process, with the task as [Manager.Get] shows it: one call after the
	// other, those of one task in their order, without a lock. No work waits for it;
	// where it falls behind, changes of one task that do not touch its status are
	// told once, with the newest state. The creation of a task is no change. Nil:
	// nothing.
	OnChange func(principal string, t *outriggerv1.Task)
	// OnPanic is told of every panic of work, and of OnChange. Nil: nothing.
	OnPanic func(value any, stack []byte)
	// OnError is told where the store failed and no caller could be told. Nil:
	// nothing.
	OnError func(error)
	// ErrorResult is the result that a call would have got for an error, nil where
	// it would have got a JSON-RPC error; then ErrorObject is that error. Where one
	// is nil, it is what the canonical table has for a tools/call of MCP
	// 2026-07-28.
	ErrorResult func(*errmap.Error, errmap.About) *outriggerv1.ToolResult
	ErrorObject func(*errmap.Error, errmap.About) *outriggerv1.ErrorObject
}

func (o Options) withDefaults() Options {
	defaults.Fill(&o.TTL, defaults.TaskTTL)
	defaults.Fill(&o.PollInterval, DefaultPollInterval)
	defaults.Fill(&o.MaxTimeout, DefaultMaxTimeout)
	defaults.Fill(&o.Grace, DefaultGrace)
	defaults.Fill(&o.MaxRunning, DefaultMaxRunning)
	defaults.Fill(&o.MaxQuestions, DefaultMaxQuestions)
	defaults.Fill(&o.MaxMessage, DefaultMaxMessage)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.OnPanic == nil {
		o.OnPanic = func(any, []byte) {}
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	if o.ErrorResult == nil {
		o.ErrorResult = ErrorResult
	}
	if o.ErrorObject == nil {
		o.ErrorObject = ErrorObject
	}
	return o
}
