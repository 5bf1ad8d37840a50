// SPDX-License-Identifier: Apache-2.0

package grpcwire

import "time"

// maxPings is how many pings a peer gets between two pieces of answers. Servers of
// gRPC take more than that for abuse and end the connection with all calls on it:
// the first ping behind a piece of an answer is free, two more within five minutes
// are tolerated. One stays in hand.
const maxPings = 2

// checksPerDoubt is how often a connection is looked at while it is becoming
// suspicious.
const checksPerDoubt = 4

// pulse is what a connection knows of its peer's being there. Any byte read is a
// sign of life.
type pulse struct {
	// owed is when a call was made since which nothing has been read; zero where
	// something has been, or no call is left.
	owed time.Time
	// pinged is whether a ping is out and nothing has been read since. The time that
	// has passed since then is counted in looks at the connection: while this process
	// itself stands still, the peer is not to blame.
	pinged  bool
	silence time.Duration
	// leaves is where the ping ends among the connection's bytes.
	leaves int64
	// left are the pings that the peer still tolerates; last is when one was sent.
	left int
	last time.Time
	// replaced is set when a younger connection has reached the peer while this one
	// was under suspicion; looks are those since then.
	replaced bool
	looks    int
}

// Suspect reports whether the peer has failed to answer a ping within SuspectAfter while
// calls are in flight or were given up. One byte from the peer clears the suspicion.
// Calls on a suspect connection continue; new ones should use another connection.
func (c *Conn) Suspect() bool { return c.doubt.Load() }

// Replaced tells the connection that a newer one has reached the peer. A suspect
// connection then gives up the calls that are safe to retry if it stays silent for two
// more checks, and all calls when the ping has had no answer for PingTimeout. A
// connection that has not been replaced is kept: the whole peer is stalled, and its
// responses may still come.
func (c *Conn) Replaced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubt.Load() {
		c.pulse.replaced = true
	}
}

// watchInterval is how often check looks: a part of the shortest time that it has
// to tell.
func (c *Conn) watchInterval() time.Duration {
	o := &c.opts
	shortest := min(o.PingTimeout, o.WriteTimeout, o.PingAfter, o.IdleTimeout) / 2
	return max(min(shortest, min(o.QuietAfter, o.SuspectAfter)/checksPerDoubt), time.Millisecond)
}

// check finds out what never happened.
func (c *Conn) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed {
		return
	}
	now, p := time.Now(), &c.pulse
	behind := (p.pinged || !p.owed.IsZero()) && c.behind()
	if p.pinged && !behind {
		p.silence += c.watchInterval()
	}
	if !c.writeBegan.IsZero() {
		c.stuck += c.watchInterval()
	}
	switch {
	case c.stuck > c.opts.WriteTimeout && !c.writeBegan.IsZero():
		c.fail(ErrStuck)
		return
	case len(c.streams) == 0 && now.Sub(c.lastUsed) > c.opts.IdleTimeout:
		c.fail(ErrIdle)
		return
	case p.silence >= c.opts.SuspectAfter && !c.doubt.Load():
		c.suspect(true)
	case !p.owed.IsZero() && now.Sub(p.owed) > c.opts.QuietAfter && c.mayPing(now) && !behind,
		len(c.streams) > 0 && now.Sub(c.lastRead) > c.opts.PingAfter:
		c.ping(now)
	}
	if p.pinged && !behind && c.isDead(now) {
		c.fail(ErrSilent)
		return
	}
	c.watch.Reset(c.watchInterval())
}

// behind reports whether the silence is ours: the reader is at work, bytes of the
// peer wait to be read, or our ping has not been given to the socket although that
// takes more. A process that gets too little of a processor would take each for the
// peer's death.
func (c *Conn) behind() bool {
	if c.pulse.pinged && c.handed < c.pulse.leaves && c.writeBegan.IsZero() {
		return true
	}
	return !c.parked.Load() || hasUnread(c.nc)
}

// isDead decides about a connection whose ping has no answer. Calls that may be
// repeated leave one that was replaced earlier than the others.
func (c *Conn) isDead(now time.Time) bool {
	p := &c.pulse
	if p.replaced {
		if p.looks++; p.looks > 1 {
			c.leave()
		}
		if len(c.streams) == 0 {
			return true // nothing is lost
		}
	}
	if p.silence < c.opts.PingTimeout {
		return false
	}
	quiet := c.lastRead
	if p.owed.After(quiet) {
		quiet = p.owed
	}
	return p.replaced || len(c.streams) == 0 || now.Sub(quiet) > c.opts.PingAfter
}

// leave ends the calls that will be made again elsewhere. Any other is better off
// here: its answer may still come.
func (c *Conn) leave() {
	for _, s := range c.streams {
		if s.req.Again != nil && s.req.Again.Claim() {
			c.cut(s, ErrSilent, codeCancel)
		}
	}
}

// suspect begins or ends suspicion.
func (c *Conn) suspect(is bool) {
	c.doubt.Store(is)
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
}

// alive notes that something was read.
func (c *Conn) alive(now time.Time) {
	c.lastRead = now
	p := &c.pulse
	p.owed, p.pinged, p.silence = time.Time{}, false, 0
	if c.doubt.Load() {
		p.replaced, p.looks = false, 0
		c.suspect(false)
	}
}

// progress notes a piece of an answer, behind which servers count pings anew.
func (c *Conn) progress() { c.pulse.left = maxPings }

// owes notes that a call was made, or, with none left, that nothing is owed.
func (c *Conn) owes(now time.Time) {
	if len(c.streams) == 0 {
		c.pulse.owed = time.Time{}
	} else if c.pulse.owed.IsZero() {
		c.pulse.owed = now
	}
}

// mayPing reports whether the peer tolerates a ping.
func (c *Conn) mayPing(now time.Time) bool {
	p := &c.pulse
	return !p.pinged && (p.left > 0 || now.Sub(p.last) > c.opts.PingAfter)
}

// gaveUp is told of a call without an answer. A peer from which nothing has come
// since the call was made is asked whether it is there, so that a connection that
// is dead is found out before the next caller waits for it. Where it would take
// offence, the connection takes no more calls instead.
func (c *Conn) gaveUp(s *stream) {
	now := time.Now()
	switch {
	case !c.lastRead.Before(s.made), c.pulse.pinged, c.behind():
	case c.mayPing(now):
		c.ping(now)
	case now.Sub(s.made) > c.opts.QuietAfter:
		c.retire(ErrSilent)
	}
}

// ping asks the peer for a sign of life, once at a time.
func (c *Conn) ping(now time.Time) {
	p := &c.pulse
	if p.pinged {
		return
	}
	p.pinged, p.silence, p.last = true, 0, now
	p.left = max(p.left-1, 0)
	c.out = appendFrameHeader(c.out, 8, framePing, 0, 0)
	c.out = append(c.out, "outrigge"...)
	p.leaves = c.place()
	c.startWriting()
}
