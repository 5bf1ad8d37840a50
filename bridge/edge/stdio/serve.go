// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/correlate"
)

// Defaults of Options.
const (
	// DefaultGrace is how long calls in flight may go on after the input has
	// ended: the default timeout of one call.
	DefaultGrace = 30 * time.Second
	// DefaultMaxConcurrent is how many requests of the one peer run at a time.
	DefaultMaxConcurrent = 1024
	// DefaultMaxBatch is the default of limits.max_batch_entries.
	DefaultMaxBatch = 100
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
	// Grace bounds how long calls in flight may go on at the end. What is not
	// answered by then is answered UNAVAILABLE.
	Grace time.Duration
	// MaxConcurrent bounds the requests that run at a time; what comes on top
	// is answered UNAVAILABLE, because a reader that waits could not see a
	// cancellation.
	MaxConcurrent int
	// MaxBatch bounds the entries of a batch of MCP 2025-03-26.
	MaxBatch int
}

// flushTime is what the peer has to take the last answers after the grace
// period: a pipe that nobody reads must not keep the process alive.
const flushTime = time.Second

// ErrStuck is what Serve returns where the peer did not read its answers.
var ErrStuck = errors.New("standard output was not read: answers are lost")

// Serve answers lines from in on out until the input ends or ctx does. Then
// what is in flight is answered within the grace period, and what is not is
// answered UNAVAILABLE. After ctx has ended lines are still read while calls
// are in flight: cancellations count, and new requests are refused.
//
// It returns nil at the end of input, at the end of ctx and where the peer
// closed its end; ErrStuck, or the error of a failed read or write otherwise.
// Where it stops before the end of input and in is an io.Closer, it closes in,
// so that a pending read returns.
func Serve(ctx context.Context, b *bridge.Bridge, in io.Reader, out io.Writer, o Options) error {
	s := newSession(b, out, o)
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

// wait bounds the end of a conversation: the grace period begins when the input
// ends or ctx does, whatever the conversation is busy with.
func (s *session) wait(ctx context.Context, ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	case <-s.ending:
	}
	timer := time.NewTimer(s.opts.Grace)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err
	case <-timer.C:
	}
	s.cancel(correlate.ErrDrainCut)
	timer.Reset(flushTime)
	select {
	case err := <-ended:
		return err
	case <-timer.C:
		return ErrStuck
	}
}
