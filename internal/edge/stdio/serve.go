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

// Options configure Serve. Zero fields take their defaults.
type Options struct {
	Mode   Mode
	Limits jsonrpc.Limits
	// AnyID admits integers as ids in the canonical dialect.
	AnyID bool
	// UUIDs admits only UUIDs there, as the contract wants where ids are
	// deterministic. AnyID wins.
	UUIDs bool
	// Grace bounds how long calls may go on at the end. After the end of input it
	// counts from the last one that began, and all that were read begin; after the
	// end of the context it counts from there. What is not answered by then is
	// answered UNAVAILABLE.
	Grace time.Duration
	// MaxConcurrent bounds the requests that run at a time. More wait in the queue.
	// A request that waits for its client, or for changes, does not count.
	MaxConcurrent int
	// MaxQueueBytes bounds the requests that were read and not answered. While
	// there are more, nothing is read, so that the peer waits too.
	MaxQueueBytes int
	// QueueBytes, where set, is kept at their size.
	QueueBytes *atomic.Int64
	// MaxBatch bounds the entries of a batch of MCP 2025-03-26.
	MaxBatch int
}

// flushTime is what the peer has to take the last answers after the grace
// period: an unread pipe must not keep the process alive.
const flushTime = time.Second

// ErrStuck is what Serve returns where the peer did not read its answers.
var ErrStuck = errors.New("standard output was not read: responses are lost")

// Serve answers lines from in on out until the input ends or ctx does. All
// requests that were read by then are run and answered within the grace period,
// and what is not is answered UNAVAILABLE. After ctx has ended lines are still
// read while calls are in flight: cancellations count, and new requests are
// refused.
//
// A pipe has flow control, so requests that come too fast are not refused: they
// wait, and at last the peer does.
//
// It returns nil at the end of input, at the end of ctx and where the peer
// closed its end; ErrStuck, or the error of a failed read or write otherwise.
// Where it stops before the end of input and in is an io.Closer, it closes in,
// so that a pending read returns.
func Serve(ctx context.Context, rpc *dialect.Handler, in io.Reader, out io.Writer, o Options) error {
	s := newSession(rpc, out, o)
	defer s.cancel(nil)
	lines := make(chan line)
	go readLines(in, s.limits.MaxBytes, lines, s.stop)
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
		return s.end(ctx, ended, time.Now())
	case <-s.ending:
	}
	return s.end(ctx, ended, time.Time{})
}

// end waits for the end of what was read, until the grace period is over and its
// replies have been flushed. The period began at a fixed time, or, where that is
// zero, begins anew with each request that begins.
func (s *session) end(ctx context.Context, ended <-chan error, fixed time.Time) error {
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
			return s.end(ctx, ended, time.Now())
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
			return ErrStuck
		}
		written = now
		timer.Reset(flushTime)
	}
}
