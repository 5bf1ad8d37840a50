// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/net/http2"
)

// maxIdleWorkers is how many goroutines may wait for a request at most. Using one again
// saves its stack, which a handler makes grow.
const maxIdleWorkers = 64

// startPending starts the handlers of requests whose bodies have not ended: nothing more
// is there to read at the moment.
func (c *Conn) startPending() error {
	if len(c.pending) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.pending {
		c.pending[i] = nil
		if s.over {
			continue
		}
		if err := c.start(s); err != nil {
			return err
		}
	}
	c.pending = c.pending[:0]
	return nil
}

// start has a handler run for a stream, now or when there is room.
func (c *Conn) start(s *stream) error {
	if s.started {
		return nil
	}
	s.started = true
	if limit := c.opts.Server.ReadTimeout; limit > 0 && !s.halfClosed {
		s.reading.deadline = time.Now().Add(limit)
	}
	switch {
	case c.running >= c.opts.MaxStreams:
		if c.queue = append(c.queue, s); len(c.queue) > queuedPerStream*c.opts.MaxStreams {
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
		}
		return nil
	case c.idle > 0:
		c.idle--
		c.running++
		c.work <- s
	default:
		c.running++
		go c.worker(s)
	}
	return nil
}

// worker runs handlers until there are more workers than work.
func (c *Conn) worker(s *stream) {
	for s != nil {
		c.run(s)
		if s = c.next(); s == nil {
			return
		}
	}
}

// next is the stream whose handler runs next, nil where this goroutine is not needed.
func (c *Conn) next() *stream {
	c.mu.Lock()
	c.running--
	for len(c.queue) > 0 {
		s := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		if s.over {
			continue
		}
		c.running++
		c.mu.Unlock()
		return s
	}
	// As many may wait as there are requests, and one.
	wanted := min(c.running+1, maxIdleWorkers)
	if c.failed || c.idle >= wanted {
		if !c.failed && c.idle > wanted {
			c.idle--
			c.work <- nil
		}
		c.mu.Unlock()
		return nil
	}
	c.idle++
	c.mu.Unlock()
	return <-c.work
}

// run answers one request.
func (c *Conn) run(s *stream) {
	w := &s.res
	w.begin(s)
	handled := false
	defer func() {
		if !handled {
			c.panicked(s, recover())
		}
		s.cancel()
	}()
	if s.refusal != nil {
		s.refusal(w, s.req)
	} else {
		c.opts.Handler.ServeHTTP(w, s.req)
	}
	handled = true
	w.finish()
}

// panicked ends the stream of a handler that did not return.
func (c *Conn) panicked(s *stream, p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		logf(c.opts.Server, "http2: panic serving %v: %v\n%s", c.remote, p, debug.Stack())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutOff(s, http.ErrAbortHandler, http2.ErrCodeInternal)
}
