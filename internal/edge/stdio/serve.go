// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Options configure Serve. Zero fields mean their defaults.
type Options struct {
	Mode   Mode
	Limits jsonrpc.Limits
	// AnyID also accepts integer ids in the canonical dialect.
	AnyID bool
	// UUIDs accepts only UUIDs there, as the contract requires for deterministic ids.
	// AnyID takes precedence.
	UUIDs bool
	// Grace bounds how long calls may continue during shutdown. After the end of input,
	// all requests that were read still start, and the grace period counts from the last
	// start. After the end of the context, it counts from there. Calls that have not
	// finished by then get UNAVAILABLE.
	Grace time.Duration
	// MaxConcurrent bounds the concurrent requests. Further ones wait in the queue. A
	// request that waits for its client, or for changes, does not count.
	MaxConcurrent int
	// MaxQueueBytes bounds the size of requests that were read and not answered. Above
	// it, nothing is read, so that the peer has to wait.
	MaxQueueBytes int
	// QueueBytes, if set, is updated with the current size of these requests.
	QueueBytes *atomic.Int64
	// MaxBatch bounds the entries of a batch of MCP 2025-03-26.
	MaxBatch int
}

// flushTime is what the peer has to take the last answers after the grace
// period: an unread pipe must not keep the process alive.
const flushTime = time.Second

// errStuck is returned by Serve if the peer did not read its responses.
var errStuck = errors.New("standard output was not read: responses are lost")

// Serve reads messages from in, one per line, and writes responses to out until the
// input or ctx ends. All requests that were read by then still run within the grace
// period, and requests that do not finish in time get UNAVAILABLE. After ctx has
// ended, lines are still read while calls are in flight: cancellations take effect,
// and new requests are refused.
//
// A pipe has flow control, so requests that arrive too fast are not refused. They
// wait in the queue, and when it is full, the peer has to wait.
//
// It returns nil at the end of input, at the end of ctx, and if the peer closed its
// end. Otherwise it returns errStuck, or the error of a failed read or write. If it
// stops before the end of input and in is an io.Closer, it closes in, so that a
// pending read returns.
func Serve(ctx context.Context, rpc *dialect.Handler, in io.Reader, out io.Writer, o Options) error {
	s := newSession(rpc, out, o)
	defer s.cancel(nil)
	lines := make(chan line)
	go readLines(in, s.limits.MaxBytes, lines, s.stop, s.now)
	ended := make(chan error, 1)
	go func() { ended <- s.converse(ctx, lines) }()

	err := s.wait(ctx, ended)
	close(s.stop)
	if c, ok := in.(io.Closer); ok && !s.inputEnded.Load() {
		_ = c.Close()
	}
	return err
}

// wait bounds the end of a conversation, whatever it is busy with.
func (s *session) wait(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return s.awaitReplies(ctx, ended, time.Now())
	case <-s.ending:
	}
	return s.awaitReplies(ctx, ended, time.Time{})
}

// awaitReplies waits for the end of what was read, until the grace period is over and its
// replies have been flushed. The period began at a fixed time, or, where that is
// zero, begins anew with each request that begins.
func (s *session) awaitReplies(ctx context.Context, ended <-chan error, fixed time.Time) error {
	since, told := time.Now(), ctx.Done()
	if !fixed.IsZero() {
		since, told = fixed, nil
	}
	timer := time.NewTimer(s.opts.Grace)
	defer timer.Stop()
	for told != nil {
		select {
		case err := <-ended:
			return err
		case <-told: // a process that is to end does so in time, whatever waits
			return s.awaitReplies(ctx, ended, time.Now())
		case <-timer.C:
		}
		if begun := s.queue.lastBegun(); begun.After(since) {
			since = begun
		}
		left := s.opts.Grace - time.Since(since)
		if left <= 0 {
			return s.flush(ended, true)
		}
		timer.Reset(left)
	}
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return s.flush(ended, false)
	}
}

// flush cuts off what still runs, and waits for the last replies to be written. A
// peer that reads slowly may go on as long as it reads, where isPatient is set.
func (s *session) flush(ended <-chan error, isPatient bool) error {
	s.cancel(correlate.ErrDrainCut)
	timer := time.NewTimer(flushTime)
	defer timer.Stop()
	for written := s.out.writes.Load(); ; {
		select {
		case err := <-ended:
			return err
		case <-timer.C:
		}
		now := s.out.writes.Load()
		if !isPatient || now == written {
			return errStuck
		}
		written = now
		timer.Reset(flushTime)
	}
}
