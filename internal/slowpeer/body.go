// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"io"

	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Body returns the body of a caller's request. The Budget counts the received bytes
// until the body is complete. Reading fails with the error of refuse once the caller
// exceeds its share, or all callers together exceed the maximum. The caller of Body must
// call Release at the end of the request to return the counted bytes.
func (b *Budget) Body(from io.ReadCloser, caller string, refuse func(share.Verdict) error) *Body {
	return &Body{ReadCloser: from, budget: b, caller: caller, refuse: refuse}
}

// Body is a request body whose bytes are counted. Only one goroutine may use it.
type Body struct {
	io.ReadCloser

	budget *Budget
	caller string
	refuse func(share.Verdict) error
	// read is what has come, held what counts.
	read, held int64
	done       bool
}

// Read implements [io.Reader]. It does not count small bodies.
func (r *Body) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.read += int64(n)
	if err != nil {
		r.Release()
		return n, err
	}
	if r.done || r.read <= LeastCounted {
		return n, nil
	}
	if verdict := r.grow(r.read - r.held); verdict != share.Granted {
		r.Release()
		return 0, r.refuse(verdict)
	}
	return n, nil
}

// grow counts more bytes. One body of a caller that holds nothing else may have
// any size that a message may have.
func (r *Body) grow(bytes int64) share.Verdict {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.held == 0 {
		b.hold(r.caller, "", bytes)
	} else {
		b.bytes += bytes
		b.callers[r.caller].bytes += bytes
	}
	r.held += bytes
	c := b.callers[r.caller]
	switch {
	case c.parts == 1:
		return share.Granted
	case c.bytes > b.most():
		b.over++
		return share.Over
	case b.bytes > b.opts.MaxBytes:
		b.full++
		return share.Full
	}
	return share.Granted
}

// Release returns the counted bytes to the Budget. It may be called again.
func (r *Body) Release() {
	r.done = true
	if r.held == 0 {
		return
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.budget.drop(r.caller, "", r.held)
	r.held = 0
}

// Close implements [io.Closer].
func (r *Body) Close() error {
	r.Release()
	return r.ReadCloser.Close()
}
