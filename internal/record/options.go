// SPDX-License-Identifier: Apache-2.0

package record

import (
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Defaults of Options.
const (
	// DefaultMaxPending is the number of calls in the in-flight table.
	DefaultMaxPending = defaults.MaxInFlight
	// DefaultMaxPendingBytes is twice DefaultMaxPending lines of the usual 500 bytes,
	// with extra room for payloads.
	DefaultMaxPendingBytes = 32 << 20
	// DefaultMaxHold is twice the default timeout of a call, so that ordinary calls are
	// always in order.
	DefaultMaxHold = 2 * defaults.Timeout
	// DefaultMaxOpen is four full in-flight tables. It only guards against an owner that
	// does not end its entries.
	DefaultMaxOpen = 4 * defaults.MaxInFlight
	// DefaultMaxPayloadBytes is a long page of JSON. It shows what was requested, and a
	// thousand of them fit in memory.
	DefaultMaxPayloadBytes = 16 << 10
	// DefaultFlushEvery is the contract's maximum age of an unwritten line.
	DefaultFlushEvery = 250 * time.Millisecond
)

// Options configure a run. Zero fields take the defaults of this package.
type Options struct {
	// Dir is the directory of the records of all runs. It is required.
	Dir string
	// Deterministic fixes the clock, durations, generated trace ids and the name of the
	// run directory, so that the same input gives the same bytes. It removes the files of
	// an earlier deterministic run in that directory. Such a run waits for a slow disk
	// instead of dropping lines.
	Deterministic bool
	// Payloads records params and results, redacted.
	Payloads bool
	// Redact are the names of members whose values are never recorded. Each is a whole
	// name and covers all spellings: api_key also means apiKey and API-Key. Nil means
	// redact.DefaultNames.
	Redact []string
	// MaxFileBytes is the size at which a run continues in a new file. MaxFiles bounds
	// the files of all runs together; the oldest are removed first.
	MaxFileBytes int64
	MaxFiles     int
	// MaxPending bounds the lines that are held back to keep the order, and, separately,
	// the lines in the disk queue.
	MaxPending int
	// MaxPendingBytes bounds the bytes of both. Lines held back may use half of it.
	MaxPendingBytes int
	// MaxHold bounds how long one entry may hold back others. It does not apply to a
	// deterministic run.
	MaxHold time.Duration
	// MaxOpen bounds the entries that have begun and not ended.
	MaxOpen int
	// MaxPayloadBytes bounds each of params and result of a line. A larger one is left
	// out, with a note of its size.
	MaxPayloadBytes int
	// FlushEvery is the longest time that a finished line waits for others before it is
	// written.
	FlushEvery time.Duration
	// Now is the clock. Nil means the system clock. Deterministic overrides it.
	Now func() time.Time
	// Log receives errors, once per episode. Nil discards them.
	Log *zap.Logger

	// open opens an event file for appending; nil is the operating system's.
	open func(path string) (file, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		return o, errors.New("run records: no directory is set")
	}
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
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
