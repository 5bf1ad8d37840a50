// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// mostWaiting is how many bytes of lines may wait for the one that is being
	// written; who comes then waits itself. A pipe on Linux holds as much.
	mostWaiting = 64 << 10
	// mostJoined is the largest line that is copied beside others, so that one write
	// takes them all.
	mostJoined = 16 << 10
)

// output writes lines, each whole and in the order in which it gets them. One
// goroutine at a time writes; what comes meanwhile waits for it and goes out
// together, because a write costs as much as the rest of a small call. After the
// first failure nothing more is written. Make one with newOutput.
type output struct {
	to     io.Writer
	failed func(error) // told of the first failure, once

	mu sync.Mutex
	// changed tells that there is room again, or that writing has ended.
	changed sync.Cond
	writing bool
	waiting [][]byte // in pieces, of which lines are made
	size    int      // of waiting
	spare   [][]byte // what waiting was, to be filled again
	err     error

	joined []byte // small lines as one, of who writes
	// writes counts what the peer has taken.
	writes atomic.Uint64
}

func newOutput(to io.Writer, failed func(error)) *output {
	o := &output{to: to, failed: failed}
	o.changed.L = &o.mu
	return o
}

// line writes one line, which comes in pieces and has its end. Characters at which some
// readers end a line are escaped. It returns once the
// line is written or waits for another to be; the pieces are the output's then.
// Its error is the first failure.
func (o *output) line(pieces ...[]byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && o.writing && o.size > mostWaiting {
		o.changed.Wait()
	}
	if o.err != nil {
		return o.err
	}
	for _, piece := range pieces {
		if len(piece) > 0 {
			piece = jsontext.WithoutLineEnds(piece)
			o.waiting, o.size = append(o.waiting, piece), o.size+len(piece)
		}
	}
	if !o.writing {
		o.writing = true
		o.drain()
		o.writing = false
		o.changed.Broadcast()
	}
	return o.err
}

// drain writes until nothing waits. The lock is held, but not while it writes.
func (o *output) drain() {
	for len(o.waiting) > 0 && o.err == nil {
		batch := o.waiting
		o.waiting, o.size, o.spare = o.spare[:0], 0, nil
		o.changed.Broadcast()
		err := o.unlocked(batch)
		clear(batch)
		o.spare = batch[:0]
		if err != nil {
			o.err = fmt.Errorf("write standard output: %w", err)
			o.waiting = nil
			o.failed(o.err)
		}
	}
}

// unlocked writes a batch, while others may add to the next one.
func (o *output) unlocked(batch [][]byte) error {
	o.mu.Unlock()
	defer o.mu.Lock()
	return o.writeAll(batch)
}

// writeAll writes pieces in their order, small ones together.
func (o *output) writeAll(pieces [][]byte) error {
	for len(pieces) > 0 {
		n, size := 1, len(pieces[0])
		for n < len(pieces) && size+len(pieces[n]) <= mostJoined {
			size += len(pieces[n])
			n++
		}
		text := pieces[0]
		if n > 1 {
			o.joined = o.joined[:0]
			for _, piece := range pieces[:n] {
				o.joined = append(o.joined, piece...)
			}
			text = o.joined
		}
		if _, err := o.to.Write(text); err != nil {
			return err
		}
		o.writes.Add(1)
		pieces = pieces[n:]
	}
	return nil
}

// awaitWritten returns when writing has ended, and says what went wrong.
func (o *output) awaitWritten() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.changed.Wait()
	}
	return o.err
}
