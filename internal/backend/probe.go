// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Attempt is one attempt of a probe.
type Attempt struct {
	// What describes the attempt, such as "gRPC over HTTP/2".
	What string
	// Cause is why the attempt proved nothing.
	Cause error
}

// ProbeError lists the attempts of a failed probe. It is the cause of the *Error that
// Probe and calls return.
type ProbeError struct {
	Target   Target
	Attempts []Attempt
}

// Error implements error.
func (e *ProbeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no protocol found at %s", e.Target)
	for _, a := range e.Attempts {
		fmt.Fprintf(&b, "; %s: %v", a.What, a.Cause)
	}
	return b.String()
}

// Unwrap returns the causes of the attempts.
func (e *ProbeError) Unwrap() []error {
	causes := make([]error, 0, len(e.Attempts))
	for _, a := range e.Attempts {
		causes = append(causes, a.Cause)
	}
	return causes
}

// reflectionProcedures exist on most backends that serve no health check.
func reflectionProcedures() []string {
	return []string{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	}
}

// Probe detects the protocol and remembers it. Once the protocol is known, Probe returns
// at once. It runs no method except the standard health check. If the backend serves
// neither health nor reflection, a probe may fail although a call can still detect the
// protocol, because a call knows a procedure that exists. procedures names some for that
// purpose: the probe asks which content types they accept and does not run them. The
// error is an *Error whose cause is a *ProbeError.
func (c *Client) Probe(ctx context.Context, procedures ...string) error {
	for _, p := range procedures {
		if !validProcedure(p) {
			return newError(KindRejected, fmt.Sprintf("procedure %q is not of the form /package.Service/Method", clip(p)), nil)
		}
	}
	_, err := c.find(ctx, append(slices.Clone(procedures), c.hints()...))
	return err
}

// search is one probe, shared by everyone who needs its result.
type search struct {
	hints []string
	done  chan struct{}
	link  *link  // valid once done is closed
	err   *Error // likewise
}

// find returns the link, looking for it where it is not known. Concurrent
// callers share one search; it does not end with the caller that began it. A
// caller whose hints the shared search did not have gets a search of its own
// when that one failed.
func (c *Client) find(ctx context.Context, hints []string) (*link, error) {
	for {
		if l := c.link.Load(); l != nil {
			return l, nil
		}
		if k := ended(ctx); k != 0 {
			return nil, ourEnd(k, false)
		}
		s, err := c.join(hints)
		if err != nil {
			return nil, err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, ourEnd(ended(ctx), false)
		}
		switch {
		case s.link != nil:
			return s.link, nil
		case s.err.Kind != KindGarbage, covers(s.hints, hints):
			return nil, s.err
		}
	}
}

// findBest is find, and looks again where the link is second best because the backend was slow,
// as one that starts is. Calls use that link meanwhile.
func (c *Client) findBest(ctx context.Context) (*link, error) {
	hints := c.hints()
	l, err := c.find(ctx, hints)
	if err != nil || !l.late || time.Now().Before(l.again) {
		return l, err
	}
	s, err := c.join(hints)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return c.find(ctx, hints)
}

func covers(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// join returns the search under way, or begins one. One that ended since the
// caller looked is over, so that its result is looked for again.
func (c *Client) join(hints []string) (*search, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, newError(KindUnreachable, "the sidecar is shutting down", errClosed)
	case c.search != nil:
		return c.search, nil
	}
	if l := c.link.Load(); l != nil && !l.late {
		found := &search{done: make(chan struct{}), link: l}
		close(found.done)
		return found, nil
	}
	s := &search{hints: hints, done: make(chan struct{})}
	c.search = s
	c.probes.Go(func() {
		ctx, cancel := context.WithTimeout(c.base, c.opts.ProbeTimeout)
		defer cancel()
		l, err := c.look(ctx, hints)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.search = nil
		s.link, s.err = l, err
		if l != nil {
			l.putOff(c.link.Load(), time.Now())
			c.link.Store(l)
		}
		close(s.done)
	})
	return s, nil
}

// reconsider forgets a link that was found by probing when the peer turns out
// not to speak that protocol, or that version of HTTP (any more): the next call looks
// again. Servers without HTTP/1.1 may close the connection without a word.
func (c *Client) reconsider(l *link, e *Error) {
	isSilent := !l.pool.http2() && e.HTTPStatus == 0 && (e.Kind == KindTransport || e.Kind == KindUnreachable)
	if l.probed && (isSilent || e.Kind == KindGarbage || e.Kind == KindForeign || errors.Is(e.cause, errNoHTTP2)) {
		c.link.CompareAndSwap(l, nil)
	}
}

// lacksHTTP2 forgets a link over HTTP/2 to a peer that no longer offers it.
func (c *Client) lacksHTTP2(l *link) {
	if l.pool.http2() {
		c.link.CompareAndSwap(l, nil)
	}
}

// look tries one protocol after the other.
func (c *Client) look(ctx context.Context, hints []string) (*link, *Error) {
	p := &prober{client: c, hints: hints}
	l := p.run(ctx)
	if l != nil {
		l.probed = true
		l.late = slices.ContainsFunc(p.attempts, func(a Attempt) bool { return errors.Is(a.Cause, context.DeadlineExceeded) })
		if l.protocol != ProtocolGRPC {
			c.wires.closeIdle() // what the probe opened there is of no use any more
		}
		return l, nil
	}
	cause := &ProbeError{Target: c.target, Attempts: p.attempts}
	switch {
	case c.base.Err() != nil:
		return nil, newError(KindUnreachable, "the sidecar is shutting down", errClosed)
	case p.answered:
		return nil, newError(KindGarbage, "the backend answers, but in no known protocol", cause)
	default:
		return nil, newError(KindUnreachable, "cannot reach the backend", cause)
	}
}
