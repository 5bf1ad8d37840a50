// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// Client is a deployment's place in NATS. Make one with [Open], declare what is needed
// with [Client.Bucket] and [Client.Stream], and run [Client.Run].
type Client struct {
	opts      Options
	config    *configv1.State
	url, name string
	replicas  int
	timeout   time.Duration // of one operation
	// id is that of this client among all of the deployment.
	id string
	// looking wakes Run.
	looking chan struct{}

	mu     sync.Mutex
	link   *link
	places []place
	// changed is closed, and another put into its place, whenever the link, its connection
	// or a place changed.
	changed chan struct{}
	health  Health
	// failed is when an operation failed last, whole when all places were found last.
	failed, whole time.Time
	closed        bool
	// looked is how many places the present look covers.
	looked int
}

// place is a bucket, a stream or a channel, as Run sees it.
type place interface {
	// ensure makes or checks it. It returns whether it is another one than before.
	ensure(ctx context.Context, l *link) error
	stats() Stats
}

// Health is how the state is doing.
type Health struct {
	// OK means that operations can be expected to succeed. Why says why not.
	OK  bool
	Why string
	// Since is when that changed last.
	Since time.Time
}

// Open returns a client. Wrong options are errors; a server that cannot be reached is
// not. [Client.Close] closes it.
func Open(o Options) (*Client, error) {
	c := newClient(o)
	c.id, c.health = rand.Text(), Health{Why: notYet, Since: time.Now()}
	l, err := c.dial()
	if err != nil {
		return nil, err
	}
	c.mu.Lock() // its handlers look at it already
	c.link = l
	c.mu.Unlock()
	return c, nil
}

// Close closes the connection. Operations are [ErrUnavailable] from then on.
func (c *Client) Close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	l := c.link
	c.closed = true
	c.mu.Unlock()
	l.nc.Close()
}

// Reload connects again by the files as they are now, and then leaves the old
// connection. If they cannot be used, nothing changes.
func (c *Client) Reload() error {
	l, err := c.dial()
	if err != nil {
		return err
	}
	c.mu.Lock()
	old := c.link
	if c.closed {
		old = l
	} else {
		c.link = l
	}
	c.mu.Unlock()
	c.moved()
	c.wake()
	old.nc.Close()
	return nil
}

// Run keeps the state usable until ctx ends: it makes what was declared as soon as NATS
// can be reached, looks at it again after each interruption, and logs both.
func (c *Client) Run(ctx context.Context) {
	pause := time.NewTimer(lookAgain)
	defer pause.Stop()
	for {
		c.look(ctx)
		next := lookAgain
		if c.Health().OK {
			next = 10 * lookAgain // what somebody deleted is found by operations, and here without any
		}
		pause.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-c.looking:
		case <-pause.C:
		}
	}
}

// look makes or checks every place once, and says how it went.
func (c *Client) look(ctx context.Context) {
	c.mu.Lock()
	l, places := c.link, slices.Clone(c.places)
	c.looked = len(places)
	c.mu.Unlock()
	if !l.nc.IsConnected() {
		why := errors.New("not connected")
		if last := l.nc.LastError(); last != nil {
			why = fmt.Errorf("not connected: %w", last)
		}
		c.report(ctx, why, false)
		return
	}
	l.forgive()
	var err error
	for _, p := range places {
		err = errors.Join(err, p.ensure(ctx, l))
	}
	c.report(ctx, err, true)
}

// report notes how a look went, and logs what changed.
func (c *Client) report(ctx context.Context, err error, connected bool) {
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if err != nil {
		c.worsen(now, err)
		return
	}
	c.whole = now
	// An operation that fails while everything is in its place keeps the state degraded
	// until a look finds that none has failed for a while.
	if connected && !c.health.OK && c.looked == len(c.places) && now.Sub(c.failed) >= lookAgain {
		away := now.Sub(c.health.Since)
		c.health = Health{OK: true, Since: now}
		c.opts.Log.Info("shared state available", zap.Duration("after_ms", away))
	}
}

// notYet is why nothing can be used before the first look, which is no reason to warn.
const notYet = "not connected yet"

// worsen notes that the state cannot be used; the first time is a warning. c.mu is held.
func (c *Client) worsen(now time.Time, err error) {
	warned := !c.health.OK && c.health.Why != notYet
	if c.health.OK {
		c.health.Since = now
	}
	why := err.Error()
	if warned && why == c.health.Why {
		return
	}
	c.health.OK, c.health.Why = false, why
	if !warned {
		c.opts.Log.Warn("shared state unavailable: calls that need it fail; all others go on", logkey.Error(err))
	}
}

// failing notes an operation that failed for want of a store.
func (c *Client) failing(err error) {
	c.mu.Lock()
	now := time.Now()
	switch {
	case !errors.Is(err, errNotHere):
		c.failed = now
		c.worsen(now, err)
	case c.health.OK:
		c.worsen(now, err)
	}
	c.mu.Unlock()
	c.wake()
}

// errNotHere is the part of an error that says that an operation was not tried, because
// what is missing is known.
var errNotHere = errors.New("not connected, or not found yet")

// lost notes the loss of a connection, which Run finds too, but later.
func (c *Client) lost(l *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || l != c.link {
		return
	}
	if err == nil {
		err = nats.ErrDisconnected
	}
	c.worsen(time.Now(), fmt.Errorf("not connected: %w", err))
}

// Health returns how the state is doing.
func (c *Client) Health() Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.health
}

// Stats returns the counts of every bucket and stream.
func (c *Client) Stats() []Stats {
	c.mu.Lock()
	places := slices.Clone(c.places)
	c.mu.Unlock()
	out := make([]Stats, 0, len(places))
	for _, p := range places {
		out = append(out, p.stats())
	}
	return out
}

// add adds a place.
func (c *Client) add(p place) {
	c.mu.Lock()
	c.places = append(c.places, p)
	if c.health.OK { // of a place that no one has looked at, it is not known
		c.health = Health{Why: notYet, Since: time.Now()}
	}
	c.mu.Unlock()
	c.wake()
}

// wake has Run look at once.
func (c *Client) wake() {
	select {
	case c.looking <- struct{}{}:
	default:
	}
}

// moved tells watchers that they may be on a connection that has lost something.
func (c *Client) moved() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// now returns the link, and what is closed when it changes.
func (c *Client) now() (*link, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link, c.changed
}

// do runs one operation within its time, and counts it.
func (c *Client) do(ctx context.Context, n *counts, op Op, f func(context.Context, *link) error) error {
	start := time.Now()
	l, _ := c.now()
	var err error
	if l.nc.IsConnected() {
		within, cancel := context.WithTimeout(ctx, c.timeout)
		err = classify(ctx, f(within, l))
		cancel()
	} else {
		err = fmt.Errorf("%w: %w", ErrUnavailable, errNotHere)
	}
	n.countEnd(op, time.Since(start), err)
	if errors.Is(err, ErrUnavailable) {
		c.failing(err)
	}
	return err
}
