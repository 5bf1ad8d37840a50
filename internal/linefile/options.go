// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"errors"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Sync says when written lines are synced to the disk.
type Sync uint8

// The policies. SyncNever leaves it to the operating system, except that Commit and Close
// sync. SyncInterval syncs after an interval, and SyncAlways after each write.
const (
	SyncNever Sync = iota
	SyncInterval
	SyncAlways
)

// ParseSync parses "never", "interval" or "always".
func ParseSync(s string) (Sync, error) {
	switch s {
	case "never":
		return SyncNever, nil
	case "interval":
		return SyncInterval, nil
	case "always":
		return SyncAlways, nil
	}
	return SyncNever, fmt.Errorf("fsync %q: want never, interval or always", s)
}

// Defaults of Options.
const (
	// DefaultMaxPendingBytes is that of the audit trail.
	DefaultMaxPendingBytes = defaults.AuditMaxQueuedBytes
	// DefaultFlushEvery is how long a line may wait for others before it is written. It
	// bounds what a killed process loses.
	DefaultFlushEvery = 100 * time.Millisecond
	// DefaultCommitWait is longer than a busy disk takes for an fsync, and shorter than
	// callers wait for a response.
	DefaultCommitWait = 5 * time.Second
	// closeWait bounds how long Close waits for a disk or a stream that hangs.
	closeWait = 10 * time.Second
	// maxBackoff bounds the pause between attempts while the disk fails.
	maxBackoff = 5 * time.Second
	// gatherBytes is how much may gather before it is written at once.
	gatherBytes = 64 << 10
)

// Options configure a Writer. Zero fields take the defaults of this package.
type Options struct {
	// Path is the file. Out, if set, is a stream to write to instead: it is neither synced
	// nor rotated, and Path is only its name.
	Path string
	Out  io.Writer
	// MaxFileBytes is the size at which the file is rotated. MaxFiles bounds the number of
	// files, the current one included; zero keeps all.
	MaxFileBytes int64
	MaxFiles     int
	// Sync says when lines are synced, and SyncEvery is the interval of SyncInterval.
	Sync      Sync
	SyncEvery time.Duration
	// MaxPendingBytes bounds the queue of lines that wait for the disk.
	MaxPendingBytes int
	// FlushEvery is the longest time that a queued line waits for others.
	FlushEvery time.Duration
	// CommitWait bounds how long Commit waits.
	CommitWait time.Duration
	// Log receives errors, once per episode. Nil discards them.
	Log *zap.Logger

	// open opens the file for appending; nil is the operating system's.
	open func(path string) (file, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Path == "" {
		return o, errors.New("linefile: no path is set")
	}
	defaults.Fill(&o.MaxFileBytes, defaults.MaxFileBytes)
	defaults.Fill(&o.SyncEvery, defaults.AuditSyncInterval)
	defaults.Fill(&o.MaxPendingBytes, DefaultMaxPendingBytes)
	defaults.Fill(&o.FlushEvery, DefaultFlushEvery)
	defaults.Fill(&o.CommitWait, DefaultCommitWait)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.open == nil {
		o.open = openFile
	}
	return o, nil
}
