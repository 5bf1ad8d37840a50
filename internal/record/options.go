// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of Options.
const (
	// DefaultMaxPending is as many lines as the in-flight table has calls.
	DefaultMaxPending = defaults.MaxInFlight
	// DefaultMaxPendingBytes is twice DefaultMaxPending lines of the usual
	// 500 bytes, and then some for payloads.
	DefaultMaxPendingBytes = 32 << 20
	// DefaultMaxHold is twice the default timeout of a call, so that ordinary
	// calls always stand in order.
	DefaultMaxHold = 2 * defaults.Timeout
	// DefaultMaxOpen is four full in-flight tables. It only guards against an
	// owner that forgets to end its entries.
	DefaultMaxOpen = 4 * defaults.MaxInFlight
	// DefaultMaxPayloadBytes is a long page of JSON: enough to see what was
	// asked, little enough to keep a thousand of them in memory.
	DefaultMaxPayloadBytes = 16 << 10
	// DefaultFlushEvery is the contract's bound on how old an unwritten line
	// may become.
	DefaultFlushEvery = 250 * time.Millisecond
)

// Options of a run. Zero fields take the defaults of this package.
type Options struct {
	// Dir is the folder that holds the records of all runs. It is required.
	Dir string
	// Deterministic fixes the clock, durations, generated trace ids and the
	// name of the run's folder, so that the same input leaves the same bytes.
	// What an earlier deterministic run left in that folder is removed. Such a
	// run waits for a slow disk where another would drop lines.
	Deterministic bool
	// Payloads records params and results, redacted.
	Payloads bool
	// Redact are the names of the members whose values are never recorded, as
	// whole names in any spelling: api_key stands for apiKey and API-Key too.
	// Nil means DefaultRedact.
	Redact []string
	// MaxFileBytes is the size at which a run goes on in a further file;
	// MaxFiles bounds the files of all runs together, the oldest go first.
	MaxFileBytes int64
	MaxFiles     int
	// MaxPending bounds the lines that are held back for the sake of order,
	// and once more the lines that wait for the disk.
	MaxPending int
	// MaxPendingBytes bounds the bytes of both; half of it may be held back.
	MaxPendingBytes int
	// MaxHold bounds how long one entry may hold back others; a deterministic
	// run has no such bound.
	MaxHold time.Duration
	// MaxOpen bounds the entries that were begun and not ended.
	MaxOpen int
	// MaxPayloadBytes bounds params and result of one line, each. What is
	// larger is left out, with a note of its size.
	MaxPayloadBytes int
	// FlushEvery is how long a finished line may wait for others before it is
	// written.
	FlushEvery time.Duration
	// Now is the clock; nil is the system's. Deterministic overrules it.
	Now func() time.Time
	// Log is told what goes wrong, once for each episode; nil discards.
	Log *zap.Logger

	// open opens an event file for appending; nil is the operating system's.
	open func(path string) (file, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("run records: no directory is set")
	}
	if o.Redact == nil {
		o.Redact = DefaultRedact()
	}
	defaults.Fill(&o.MaxFileBytes, defaults.MaxFileBytes)
	defaults.Fill(&o.MaxFiles, defaults.MaxFiles)
	defaults.Fill(&o.MaxPending, DefaultMaxPending)
	defaults.Fill(&o.MaxPendingBytes, DefaultMaxPendingBytes)
	defaults.Fill(&o.MaxHold, DefaultMaxHold)
	defaults.Fill(&o.MaxOpen, DefaultMaxOpen)
	defaults.Fill(&o.MaxPayloadBytes, DefaultMaxPayloadBytes)
	defaults.Fill(&o.FlushEvery, DefaultFlushEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Deterministic {
		o.Now = func() time.Time { return deterministicStart }
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.open == nil {
		o.open = openFile
	}
	return o, nil
}

// deterministicStart is the only time that a deterministic run knows.
var deterministicStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)
