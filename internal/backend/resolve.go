// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// Resolver finds the addresses of a host. A *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of host, the preferred ones first. network is "ip".
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// lookupTimeout bounds one look-up. It is twice what the system's resolver waits for one server.
	lookupTimeout = 10 * time.Second
	// leastLookupGap is the shortest time between two look-ups, however many connections fail.
	leastLookupGap = time.Second
	// maxMissing is how many look-ups in a row say that there is no such name before addresses that cannot be reached are dropped.
	maxMissing = 3
	// shownAddresses bounds the addresses in a line of the log.
	shownAddresses = 10
)

// start begins to look up the name. Nothing of it runs before the first call.
func (b *balancer) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.tasks.Go(b.follow)
		b.tasks.Go(b.compare)
	}
}

// countAddresses returns how many addresses the host of a target has, of one family; 0 where that is not known.
func (c *Client) countAddresses(ctx context.Context) int {
	if c.target.socket != "" {
		return 0
	}
	resolver := c.opts.Resolver
	if resolver == nil {
		resolver = new(net.Resolver)
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := resolver.LookupNetIP(ctx, "ip", c.target.Host())
	if err != nil || len(found) == 0 {
		return 0
	}
	return len(ofFamily(found[0], found))
}

// ofFamily are the addresses of the family of one, each once. Those of the other family are mostly of the same servers.
func ofFamily(one netip.Addr, found []netip.Addr) (out []netip.Addr) {
	for _, addr := range found {
		if addr = addr.Unmap(); addr.Is4() == one.Unmap().Is4() && !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out
}

// look asks for a look-up, after a connection failed: the address may be gone.
func (b *balancer) look() { signal(b.soon) }

// follow looks up the name until the client is closed: in intervals, and soon after something failed.
func (b *balancer) follow() {
	host := b.client.target.Host()
	for pause := leastLookupGap; ; {
		ctx, cancel := context.WithTimeout(b.base, lookupTimeout)
		found, err := b.client.opts.Resolver.LookupNetIP(ctx, "ip", host)
		cancel()
		if b.base.Err() != nil {
			return
		}
		if err == nil && len(found) == 0 {
			err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
		}
		b.take(found, err)
		wait := b.every
		if pause = min(2*pause, b.every); err == nil {
			pause = leastLookupGap
		} else {
			wait = min(pause, wait)
		}
		if !sleep(b.base, jittered(leastLookupGap)) {
			return
		}
		timer := time.NewTimer(max(0, jittered(wait)-leastLookupGap))
		select {
		case <-b.base.Done():
		case <-b.soon:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take takes the outcome of a look-up. Addresses that are known stay in use while the name cannot be looked up.
func (b *balancer) take(found []netip.Addr, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	log := b.client.opts.Log
	b.lookups++
	switch failedBefore := b.failed != nil; {
	case err != nil:
		b.failures++
		b.miss(err)
		if !failedBefore {
			log.Warn("backend name not resolved", zap.String("host", b.client.target.Host()), zap.Int("addresses", len(b.all)), logkey.Error(err))
		}
	default:
		if failedBefore {
			log.Info("backend name resolved again", zap.String("host", b.client.target.Host()))
		}
		b.missing = 0
		b.use(found)
	}
	b.failed = err
	if b.stale {
		b.renew()
	}
	b.publish()
}

// miss takes a look-up that failed. Where the name is gone for good, as that of a service without servers is, another process may get
// an address of it: those that can be reached stay until their connection ends.
func (b *balancer) miss(err error) {
	failed := new(net.DNSError)
	if !errors.As(err, &failed) || !failed.IsNotFound {
		b.missing = 0
		return
	}
	if b.missing++; b.missing < maxMissing {
		return
	}
	for _, e := range b.all {
		e.gone = true
	}
	b.drop()
}

// use has the calls go to the addresses that were found.
func (b *balancer) use(found []netip.Addr) {
	wanted, leftOut := b.selected(found)
	var added, removed []string
	for _, e := range b.all {
		isGone := !slices.Contains(wanted, e.address)
		if isGone && !e.gone {
			removed = append(removed, e.address)
		}
		e.gone = isGone
	}
	for _, address := range wanted {
		if !slices.ContainsFunc(b.all, func(e *endpoint) bool { return e.address == address }) {
			added = append(added, address)
			b.all = append(b.all, b.newEndpoint(address, len(wanted)))
		}
	}
	b.drop()
	if leftOut > 0 && leftOut != b.leftOut {
		b.client.opts.Log.Warn("backend has more addresses than are used", zap.Int("addresses", len(wanted)), zap.Int("left_out", leftOut))
	}
	b.leftOut = leftOut
	if len(added)+len(removed) == 0 {
		return
	}
	if b.lookups > 1 {
		b.renew()
	}
	b.client.opts.Log.Info("backend addresses changed", zap.Int("addresses", len(wanted)),
		zap.Strings("added", added[:min(len(added), shownAddresses)]), zap.Strings("removed", removed[:min(len(removed), shownAddresses)]))
}

// drop ends the use of addresses that the name has no longer. One that can be reached is better than none until one can be that the
// name has.
func (b *balancer) drop() {
	if !slices.ContainsFunc(b.all, func(e *endpoint) bool { return e.gone }) {
		return
	}
	hasOther := slices.ContainsFunc(b.all, func(e *endpoint) bool { return e.up && !e.gone })
	b.all = slices.DeleteFunc(slices.Clone(b.all), func(e *endpoint) bool {
		if !e.gone || e.up && !hasOther {
			return false
		}
		b.release(e)
		return true
	})
}

// selected are the addresses to use, with the port, and how many more there are. Beyond the bound those stay that are in use, and
// others are taken at random, so that many sidecars together use all of them.
func (b *balancer) selected(found []netip.Addr) (wanted []string, leftOut int) {
	_, port := b.client.target.hostPort()
	var fresh []string
	if !b.one.IsValid() || len(ofFamily(b.one, found)) == 0 {
		b.one = found[0]
	}
	for _, addr := range ofFamily(b.one, found) {
		address := net.JoinHostPort(addr.String(), port)
		if slices.ContainsFunc(b.all, func(e *endpoint) bool { return e.address == address && !e.gone }) {
			wanted = append(wanted, address)
		} else {
			fresh = append(fresh, address)
		}
	}
	room := max(0, b.most-len(wanted))
	if leftOut = len(fresh) - room; leftOut <= 0 {
		return append(wanted, fresh...), 0
	}
	rand.Shuffle(len(fresh), func(i, j int) { fresh[i], fresh[j] = fresh[j], fresh[i] }) //nolint:gosec // a guess gains nothing
	return append(wanted, fresh[:room]...), leftOut
}

// newEndpoint begins to use one of some addresses.
func (b *balancer) newEndpoint(address string, addresses int) *endpoint {
	e := &endpoint{address: address, doubt: make(chan struct{}, 1), idle: make(chan struct{}, 1), cut: make(chan struct{})}
	e.base, e.leave = context.WithCancel(b.base)
	e.client = b.client.at(b.dialer(address), max(1, b.maxConns/addresses))
	e.since.Store(b.now())
	b.tasks.Go(func() {
		b.tend(e)
		b.mu.Lock()
		defer b.mu.Unlock()
		b.leaving = slices.DeleteFunc(b.leaving, func(other *endpoint) bool { return other == e })
	})
	return e
}

// release ends the use of an address that the name has no longer. Its calls go on. As many addresses as there may be at all can
// wait for theirs; beyond that, the first ones are closed.
func (b *balancer) release(e *endpoint) {
	if e.back != nil {
		e.back.Stop()
	}
	e.leave()
	b.leaving = append(b.leaving, e)
	if len(b.leaving) > b.most {
		close(b.leaving[0].cut)
		b.leaving = b.leaving[1:]
	}
}
