// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// errBalanceUnused is the fault of balancing options with a target of one address.
var errBalanceUnused = errors.New("balance given, but the URL is not one for many addresses (dns:///HOST:PORT, dns+grpcs://, …)")

// What decides about an address. The number of failures in a row and the slow start are Envoy's (consecutive_gateway_failure); the
// times, the share of ejections and the comparison of success rates are those of Envoy and of gRPC's A50.
const (
	// ejectAfter is how many calls in a row have to fail before an address gets none for a while.
	ejectAfter = 5
	// ejectFor is how long that is, times how often it happened, and at most longestEject. forgiveEvery takes one of these times off.
	ejectFor     = 30 * time.Second
	longestEject = 300 * time.Second
	forgiveEvery = 10 * time.Second
	// leastWeight is the share of an address at the beginning of its slow start.
	leastWeight = 0.1
	// aMoment is how long an address may be unreachable without a slow start afterwards.
	aMoment = time.Second
	// leastPatience is what a call must have had of time for its timeout to count against an address: a caller may have less than
	// any address needs.
	leastPatience = 100 * time.Millisecond
	// maxTries is how many addresses one attempt goes to while none has got its request.
	maxTries = 3
	// The pauses between attempts to reach an address, also of one that is there and does not keep its connections.
	firstReconnect   = 250 * time.Millisecond
	longestReconnect = 10 * time.Second
	// keepWarm is how often an address without other trouble is asked whether it is there. It is below the idle timeout of
	// connections, so that one is open whose loss shows.
	keepWarm = time.Minute
)

// balancer spreads the calls of a client over the addresses of its host. Each address has a client of its kind, with connections,
// protocol and probes; the balancer says which one makes a call: the one with fewer active calls of two that are chosen at random.
type balancer struct {
	client     *Client // that of the target
	dial       func(ctx context.Context, network, address string) (net.Conn, error)
	every      time.Duration // between look-ups
	slowStart  time.Duration
	most       int // addresses
	maxConns   int
	maxEjected int // percent
	rates      successRate

	begin sync.Once
	base  context.Context // ends with close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	begun time.Time
	soon  chan struct{} // asks for a look-up

	conns atomic.Int64
	// ready are the addresses that calls go to; nil while that is not known.
	ready atomic.Pointer[[]*endpoint]

	mu        sync.Mutex
	changed   chan struct{} // closed when ready is another, or a look-up has ended
	closed    bool
	all       []*endpoint
	one       netip.Addr  // of the family in use
	leaving   []*endpoint // not in the name any more, with calls
	leftOut   int
	failed    error // of the last look-up
	missing   int   // look-ups in a row that found no such name
	lookups   uint64
	failures  uint64 // of look-ups
	ejections uint64
	stale     bool // a server has come that may be of another version
	renewed   time.Time
}

// endpoint is one address.
type endpoint struct {
	address string
	client  *Client
	base    context.Context // ends when the name no longer has the address
	leave   context.CancelFunc
	doubt   chan struct{}
	idle    chan struct{} // of one that leaves: its last call has ended
	cut     chan struct{} // closed where it may no longer wait for that

	active atomic.Int64 // calls, streams until they end
	calls  atomic.Uint64
	failed atomic.Int32 // calls in a row
	// answered and lost are the calls of the interval in which addresses are compared.
	answered, lost atomic.Int32
	since          atomic.Int64 // when its slow start began, on the balancer's clock

	// What follows belongs to the balancer's lock.
	up       bool
	asked    bool      // once at least
	gone     bool      // the name has it no longer, and none that it has can be reached yet
	unheard  bool      // the log says that it cannot be reached
	fell     time.Time // when it was found unreachable
	ejected  bool
	until    time.Time // the end of the ejection
	times    int       // of ejections, less those that were forgiven
	returned time.Time // from the last ejection
	back     *time.Timer
}

// isDefault reports whether nothing was set about balancing: what has a default is there in any case.
func isDefault(o *configv1.BackendBalance) bool {
	return o == nil || o.GetResolveInterval().AsDuration() == defaults.BackendBalanceResolveInterval && o.GetSlowStart().AsDuration() == defaults.BackendBalanceSlowStart &&
		o.GetMaxAddresses() == defaults.BackendBalanceMaxAddresses && o.GetMaxConnections() == defaults.BackendBalanceMaxConnections &&
		o.GetMaxEjectedPercent() == defaults.BackendBalanceMaxEjectedPercent && newSuccessRate(o.GetSuccessRate()) == newSuccessRate(nil)
}

func newBalancer(c *Client) *balancer {
	o := c.opts.Config.GetBalance()
	b := &balancer{
		client: c, dial: c.opts.Dial, every: o.GetResolveInterval().AsDuration(), slowStart: defaults.BackendBalanceSlowStart,
		most: int(o.GetMaxAddresses()), maxConns: int(o.GetMaxConnections()), maxEjected: defaults.BackendBalanceMaxEjectedPercent,
		rates: newSuccessRate(o.GetSuccessRate()), changed: make(chan struct{}), soon: make(chan struct{}, 1), begun: time.Now(),
	}
	defaults.Fill(&b.every, defaults.BackendBalanceResolveInterval)
	defaults.Fill(&b.most, defaults.BackendBalanceMaxAddresses)
	defaults.Fill(&b.maxConns, defaults.BackendBalanceMaxConnections)
	if o.GetSlowStart() != nil { // 0 turns it off
		b.slowStart = o.GetSlowStart().AsDuration()
	}
	if o != nil && o.MaxEjectedPercent != nil {
		b.maxEjected = int(o.GetMaxEjectedPercent())
	}
	if c.opts.Resolver == nil {
		c.opts.Resolver = new(net.Resolver)
	}
	b.base, b.stop = context.WithCancel(context.Background())
	return b
}

// call makes a unary call.
func (b *balancer) call(ctx context.Context, procedure string, a *telemetry.Attempt, in []byte, header http.Header) (answer *Answer, err error) {
	err = b.do(ctx, func(e *endpoint) error {
		m, err := e.client.method(procedure)
		if err != nil {
			return err
		}
		answer, err = m.call(ctx, a, in, header)
		return err
	})
	return answer, err
}

// stream makes a server-streaming call.
func (b *balancer) stream(ctx context.Context, procedure string, a *telemetry.Attempt, in []byte, header http.Header, each func([]byte) error) (answer *Answer, err error) {
	var ours error // what the caller gets; the address is judged by what else there is
	err = b.do(ctx, func(e *endpoint) error {
		m, err := e.client.method(procedure)
		if err != nil {
			return err
		}
		answer, ours = m.stream(ctx, a, in, header, each)
		if late := new(Error); answer != nil && errors.As(ours, &late) && (late.Kind == KindTimeout || !late.Sent) {
			return errUnjudged // it was answering
		}
		return ours
	})
	if errors.Is(err, errUnjudged) {
		err = ours
	}
	return answer, err
}

// open opens a stream, which counts as an active call until it ends.
func (b *balancer) open(ctx context.Context, procedure string, a *telemetry.Attempt, kind connect.StreamType, header http.Header) (s *Stream, err error) {
	err = b.do(ctx, func(e *endpoint) error {
		m, err := e.client.method(procedure)
		if err != nil {
			return err
		}
		if s, err = m.open(ctx, a, kind, header); err != nil {
			return err
		}
		begun := time.Now()
		e.active.Add(1)
		s.done = func(err error) {
			if late := new(Error); errors.As(err, &late) && late.Kind == KindTimeout {
				err = errUnjudged // its caller may not have sent anything yet
			}
			b.leave(e, begun, err)
		}
		return errUnjudged
	})
	if errors.Is(err, errUnjudged) {
		return s, nil
	}
	return nil, err
}

// streams returns the endpoint for streaming RPCs of one of the addresses.
func (b *balancer) streams(ctx context.Context) (out source.Endpoint, err error) {
	err = b.do(ctx, func(e *endpoint) error {
		out, err = e.client.Streams(ctx)
		return err
	})
	return out, err
}

// Affinity is the address of a backend with many that a call belongs to: the server there has in memory what the call is about, such
// as a task. It is a wish: where the address is gone or cannot be reached, another one gets the call.
type Affinity struct {
	// Wanted is the wish; empty for none.
	Wanted string
	// Used is the address that got the call, set when it has ended; empty for a backend with one address.
	Used string
}

type affinityKey struct{}

// WithAffinity returns a context for one call and its attempts.
func WithAffinity(ctx context.Context, a *Affinity) context.Context {
	return context.WithValue(ctx, affinityKey{}, a)
}

// wanted is the address that a call belongs to; nil where it belongs to none, or that one is not there. An ejected one still has what
// it has.
func (b *balancer) wanted(a *Affinity) *endpoint {
	if a == nil || a.Wanted == "" {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.all, func(e *endpoint) bool { return e.up && !e.gone && e.address == a.Wanted })
	if i < 0 {
		return nil
	}
	return b.all[i]
}

// errUnjudged is the end of a call that says nothing of the address.
var errUnjudged = errors.New("backend: no outcome yet")

// do has the client of an address make a call, and that of another one where it certainly got nothing of the request.
func (b *balancer) do(ctx context.Context, run func(*endpoint) error) error {
	var last *atomic.Pointer[string]
	claim, _ := againOf(ctx).(*Claim)
	if claim != nil {
		last = &claim.last
	}
	affinity, _ := ctx.Value(affinityKey{}).(*Affinity)
	var tried []*endpoint
	var failed error
	for {
		e, err := b.choose(ctx, tried, last)
		if owner := b.wanted(affinity); owner != nil && len(tried) == 0 {
			e = owner
		}
		switch {
		case err != nil:
			return err
		case e == nil:
			return failed
		}
		if last != nil {
			last.Store(&e.address)
		}
		if affinity != nil {
			affinity.Used = e.address
		}
		failed = b.once(ctx, e, claim, run)
		tried = append(tried, e)
		if len(tried) == maxTries || !isUnsent(failed) || ctx.Err() != nil {
			return failed
		}
	}
}

// once makes one attempt. Like the guard, it takes the timeout of a hurried caller or of a process that stood still, and what was given
// up by claim, as no word about the address.
func (b *balancer) once(ctx context.Context, e *endpoint, claim *Claim, run func(*endpoint) error) (err error) {
	clock := b.client.opts.Clock
	begun, mark, said := b.enter(e), clock.Mark(), errUnjudged // what a panic leaves behind
	defer func() { b.leave(e, begun, said) }()
	err = run(e)
	said = err
	if failed := new(Error); errors.As(err, &failed) {
		isHurried, _ := ctx.Value(hurriedKey{}).(bool)
		if failed.Kind == KindTimeout && (isHurried || clock.Since(mark) > 0) || claim != nil && claim.taken.Load() && failed.Kind == KindTransport {
			said = errUnjudged
		}
	}
	return err
}

// isUnsent reports whether another address can have the request.
func isUnsent(err error) bool {
	failed := new(Error)
	return errors.As(err, &failed) && !failed.Sent && failed.HTTPStatus == 0 && (failed.Kind == KindUnreachable || failed.Kind == KindGarbage)
}

// choose returns the address for an attempt, after those in tried; nil where there is no other. last is where the attempt before
// it went, whose outcome is unknown: another one is better.
func (b *balancer) choose(ctx context.Context, tried []*endpoint, last *atomic.Pointer[string]) (*endpoint, error) {
	b.begin.Do(b.start)
	ready := b.ready.Load()
	for ; ready == nil; ready = b.ready.Load() {
		if err := b.await(ctx); err != nil {
			return nil, err
		}
	}
	among := *ready
	if len(tried) > 0 {
		among = without(among, tried...)
	} else if last != nil && last.Load() != nil {
		others := slices.DeleteFunc(slices.Clone(among), func(e *endpoint) bool { return e.address == *last.Load() })
		if len(others) > 0 {
			among = others
		}
	}
	return b.lessBusy(among), nil
}

// await waits for another look at the addresses. It fails where the name has none.
func (b *balancer) await(ctx context.Context) error {
	b.mu.Lock()
	changed, failed := b.changed, b.failed
	isThere, isEmpty := b.ready.Load() != nil, b.lookups > 0 && len(b.all) == 0
	b.mu.Unlock()
	switch {
	case isThere:
		return nil
	case isEmpty:
		b.look()
		return newError(KindUnreachable, "cannot find an address of the backend", failed)
	}
	select {
	case <-changed:
		return nil
	case <-b.base.Done():
		return newError(KindUnreachable, "the sidecar is shutting down", errClosed)
	case <-ctx.Done():
		return ourEnd(ended(ctx), false)
	}
}

func without(from []*endpoint, some ...*endpoint) []*endpoint {
	return slices.DeleteFunc(slices.Clone(from), func(e *endpoint) bool { return slices.Contains(some, e) })
}

// lessBusy is the one with fewer active calls of two. One in slow start gives way to the other as often as its weight says.
func (b *balancer) lessBusy(among []*endpoint) *endpoint {
	switch len(among) {
	case 0:
		return nil
	case 1:
		return among[0]
	}
	i, j := rand.IntN(len(among)), rand.IntN(len(among)-1) //nolint:gosec // a guess gains nothing
	if j >= i {
		j++
	}
	e, other := among[i], among[j]
	if other.active.Load() < e.active.Load() {
		e, other = other, e
	}
	if now := b.now(); b.slowStart > 0 {
		if mine, its := b.weight(e, now), b.weight(other, now); mine < its && rand.Float64()*its >= mine { //nolint:gosec // likewise
			return other
		}
	}
	return e
}

func (b *balancer) now() int64 { return int64(time.Since(b.begun)) }

// weight rises from leastWeight to 1 while an address starts slowly.
func (b *balancer) weight(e *endpoint, now int64) float64 {
	return min(1, max(leastWeight, float64(now-e.since.Load())/float64(b.slowStart)))
}

// enter counts a call that begins, and returns when that was.
func (b *balancer) enter(e *endpoint) time.Time {
	e.active.Add(1)
	e.calls.Add(1)
	return time.Now()
}

// leave counts the end of a call.
func (b *balancer) leave(e *endpoint, begun time.Time, err error) {
	if e.active.Add(-1) == 0 && e.base.Err() != nil {
		signal(e.idle)
	}
	switch judge(err, time.Since(begun)) {
	case answered:
		e.answered.Add(1)
		if e.failed.Load() != 0 {
			e.failed.Store(0)
		}
		return
	case failedOnTheWay, ranOut:
	case unclear:
		return
	}
	if failed := new(Error); errors.As(err, &failed) && failed.unmet {
		b.settle(e, err)
	}
	signal(e.doubt)
	e.lost.Add(1)
	if e.failed.Add(1) >= ejectAfter {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.eject(e, time.Now(), zap.Int32("failures", e.failed.Load()))
	}
}

// compare ejects the addresses whose success rate is far below that of the others, in intervals until the client is closed.
func (b *balancer) compare() {
	for begun := time.Now(); sleep(b.base, b.rates.interval); begun = time.Now() {
		b.mu.Lock()
		all := make([]tally, len(b.all))
		for i, e := range b.all {
			all[i] = tally{e: e, answered: int(e.answered.Swap(0)), lost: int(e.lost.Swap(0))}
		}
		for _, t := range b.rates.outliers(all) {
			b.eject(t.e, begun, zap.Int("failures", t.lost), zap.Int("success_percent", int(100*t.rate())))
		}
		b.mu.Unlock()
	}
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// judge says what the end of a call tells of its address. What the service itself answers is an answer, but for UNAVAILABLE.
func judge(err error, took time.Duration) guardOutcome {
	failed := new(Error)
	switch {
	case errors.Is(err, errUnjudged), errors.Is(err, errClosedStream):
		return unclear
	case !errors.As(err, &failed): // nil, or the receiver wanted no more
		return answered
	}
	switch failed.Kind {
	case KindStatus:
		if failed.Code == connect.CodeUnavailable {
			return failedOnTheWay
		}
		return answered
	case KindUnreachable:
		if failed.HTTPStatus == http.StatusTooManyRequests {
			return answered
		}
		return failedOnTheWay
	case KindTransport, KindForeign, KindGarbage:
		return failedOnTheWay
	case KindTimeout:
		if took >= leastPatience {
			return ranOut
		}
		return unclear
	case KindTooLarge, KindUnsupported:
		return answered
	case KindCancelled, KindRequestTooLarge, KindRejected:
	}
	return unclear
}

// eject keeps calls from an address for a while, unless too many others are kept away already, or it is the last one. until is
// when its failures began, up to which earlier ones are forgiven; why is for the log.
func (b *balancer) eject(e *endpoint, until time.Time, why ...zap.Field) {
	ejected, others := 0, 0
	for _, other := range b.all {
		switch {
		case !other.up: // it gets no calls in any case
		case other.ejected:
			ejected++
		case other != e:
			others++
		}
	}
	if b.closed || e.ejected || !slices.Contains(b.all, e) || others == 0 || ejected*100 >= b.maxEjected*len(b.all) {
		return
	}
	e.failed.Store(0)
	e.times = max(0, e.times-int(max(0, until.Sub(e.returned))/forgiveEvery)) + 1
	pause := min(time.Duration(e.times)*ejectFor, longestEject)
	e.ejected, e.until = true, time.Now().Add(pause)
	e.back = time.AfterFunc(pause, func() { b.readmit(e) })
	b.ejections++
	b.publish()
	b.client.opts.Log.Warn("backend address ejected", append(why, zap.String("address", e.address), zap.Duration("ejected_ms", pause), zap.Int("times", e.times))...)
}

// readmit ends an ejection.
func (b *balancer) readmit(e *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !slices.Contains(b.all, e) {
		return
	}
	e.ejected, e.returned = false, time.Now()
	e.failed.Store(0) // of calls that began before
	e.answered.Store(0)
	e.lost.Store(0)
	e.since.Store(b.now())
	b.publish()
	if e.up {
		b.client.opts.Log.Info("backend address back", zap.String("address", e.address))
	}
}

// settle takes whether an address can be reached; err is nil where it can.
func (b *balancer) settle(e *endpoint, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.all, e) {
		return
	}
	switch {
	case err == nil && e.unheard:
		e.unheard = false
		b.client.opts.Log.Info("backend address reachable again", zap.String("address", e.address))
	case err != nil && !e.unheard:
		e.unheard = true
		b.client.opts.Log.Warn("backend address unreachable", zap.String("address", e.address), logkey.Error(err))
	}
	isNew, wasUp := !e.asked, e.up
	e.asked, e.up = true, err == nil
	isAway := !slices.ContainsFunc(b.all, func(e *endpoint) bool { return e.up })
	if wasUp && !e.up || isAway {
		b.look() // the name may have others by now
	}
	if !isNew && wasUp == e.up {
		return
	}
	switch {
	case !e.up:
		e.fell = time.Now()
		if wasUp && isAway {
			signal(b.client.conns.lost)
		}
	case isNew:
		e.since.Store(b.now())
	default:
		if time.Since(e.fell) > aMoment {
			e.since.Store(b.now())
		}
		b.renew()
	}
	b.drop()
	b.publish()
}

// renew tells the client's owner that other servers have come, which may be of another version: once in the interval of look-ups, so
// that servers that come and go do not cause more. What it keeps back follows after one of the next look-ups.
func (b *balancer) renew() {
	if b.stale = time.Since(b.renewed) < b.every; !b.stale {
		b.renewed = time.Now()
		signal(b.client.conns.lost)
	}
}

// publish says which addresses get calls: those that can be reached and are not ejected. Where there is none, ejected ones are
// better than none, and where none can be reached, a call may try any. Calls wait until the first one has been asked.
func (b *balancer) publish() {
	ready := slices.DeleteFunc(slices.Clone(b.all), func(e *endpoint) bool { return !e.up || e.ejected })
	if len(ready) == 0 {
		ready = slices.DeleteFunc(slices.Clone(b.all), func(e *endpoint) bool { return !e.up })
	}
	if len(ready) == 0 && !slices.ContainsFunc(b.all, func(e *endpoint) bool { return !e.asked }) {
		ready = slices.Clone(b.all)
	}
	if len(ready) == 0 {
		b.ready.Store(nil)
	} else {
		b.ready.Store(&ready)
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// tend keeps the client of an address: connected while the name has the address, and then until its last call has ended.
func (b *balancer) tend(e *endpoint) {
	defer func() { _ = e.client.Close() }()
	for pause := firstReconnect; e.base.Err() == nil; {
		ctx, cancel := context.WithTimeout(e.base, b.client.opts.probeTimeout)
		err := e.client.Ping(ctx)
		cancel()
		if e.base.Err() != nil {
			break
		}
		b.settle(e, err)
		if err != nil {
			sleep(e.base, jittered(pause))
			pause = min(2*pause, longestReconnect)
			continue
		}
		asked, timer := time.Now(), time.NewTimer(jittered(keepWarm))
		select {
		case <-e.base.Done():
		case <-timer.C:
			pause = firstReconnect
		case <-e.client.Lost():
			b.look()
			if time.Since(asked) > longestReconnect {
				pause = firstReconnect
			}
			sleep(e.base, jittered(pause))
			pause = min(2*pause, longestReconnect)
		case <-e.doubt:
			sleep(e.base, jittered(firstReconnect)) // failing calls cause few questions
		}
		timer.Stop()
	}
	for e.active.Load() > 0 {
		select {
		case <-e.idle:
		case <-e.cut:
			return
		case <-b.base.Done():
			return
		}
	}
}

// any asks the clients of all addresses until one says yes, and reports whether one did.
func (b *balancer) any(ask func(*Client) bool) bool {
	b.mu.Lock()
	all := b.all
	b.mu.Unlock()
	return slices.ContainsFunc(all, func(e *endpoint) bool { return ask(e.client) })
}

// dialAny connects to one of the addresses.
func (b *balancer) dialAny(ctx context.Context, network, _ string) (net.Conn, error) {
	e, err := b.choose(ctx, nil, nil)
	if err != nil {
		return nil, err
	}
	return e.client.opts.Dial(ctx, network, e.address)
}

// errTooManyConns is why an address gets no further connection.
type tooManyConnsError int

// Error implements error.
func (e tooManyConnsError) Error() string {
	return fmt.Sprintf("%d connections to the addresses of the backend are open (backend.balance.max_connections)", int(e))
}

// dialer connects to one address, within the bound on the connections to all.
func (b *balancer) dialer(address string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		if n := b.conns.Add(1); n > int64(b.maxConns) {
			b.conns.Add(-1)
			return nil, tooManyConnsError(b.maxConns)
		}
		nc, err := b.dial(ctx, network, address)
		if err != nil {
			b.conns.Add(-1)
			return nil, err
		}
		return &countedConn{Conn: nc, count: &b.conns}, nil
	}
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	count *atomic.Int64
	once  sync.Once
}

// NetConn returns the underlying connection: what is unread there is no silence of the peer.
func (c *countedConn) NetConn() net.Conn { return c.Conn }

// Close implements [net.Conn].
func (c *countedConn) Close() error {
	c.once.Do(func() { c.count.Add(-1) })
	return c.Conn.Close()
}

// close ends everything. Calls in flight are cut off.
func (b *balancer) close() {
	b.mu.Lock()
	b.closed = true
	for _, e := range b.all {
		if e.back != nil {
			e.back.Stop()
		}
	}
	b.mu.Unlock()
	b.stop()
	b.tasks.Wait()
}

// AddressState is what the balancer does with an address.
type AddressState int

// The states of addresses.
const (
	// AddressReady: calls go to it.
	AddressReady AddressState = iota
	// AddressEjected: too many calls failed, in a row or by comparison.
	AddressEjected
	// AddressUnreachable: it does not answer.
	AddressUnreachable
)

// String returns the state as probes and metrics name it.
func (s AddressState) String() string {
	return [...]string{"ready", "ejected", "unreachable"}[s]
}

// AddressStates returns all states, for metrics.
func AddressStates() []AddressState {
	return []AddressState{AddressReady, AddressEjected, AddressUnreachable}
}

// AddressStats are the statistics of one address.
type AddressStats struct {
	Address string
	State   AddressState
	// Left is how long an ejection lasts, Times how often there was one lately.
	Left  time.Duration
	Times int
	// Active are the calls that run, Calls those that were begun.
	Active int64
	Calls  uint64
}

// BalanceStats are the statistics of a client whose target has many addresses.
type BalanceStats struct {
	// Addresses are those in use, in their order as text. LeftOut is how many more the name has. Draining are those that the name
	// has no longer, and that have calls.
	Addresses []AddressStats
	LeftOut   int
	Draining  int
	// Connections are open. Ejections counts how often an address was ejected, Lookups look-ups of the name, LookupsFailed those
	// that failed, and LookupError is why the last one did, "" if it did not.
	Connections                       int
	Ejections, Lookups, LookupsFailed uint64
	LookupError                       string
}

// AskAddresses waits until each address of a target with many was asked whether it is there, and returns the statistics. For a
// target with one address it returns nil, and how many addresses the name has: calls go to one of them.
func (c *Client) AskAddresses(ctx context.Context) (stats *BalanceStats, addresses int) {
	if c.many == nil {
		return nil, c.countAddresses(ctx)
	}
	for changed, isAsking := c.many.asking(); isAsking && ctx.Err() == nil; changed, isAsking = c.many.asking() {
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	stats = c.Balance()
	return stats, len(stats.Addresses)
}

// asking reports whether there is an address that was not asked yet, and returns what is closed when that may be otherwise.
func (b *balancer) asking() (changed <-chan struct{}, isAsking bool) {
	b.begin.Do(b.start)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed, b.lookups == 0 || slices.ContainsFunc(b.all, func(e *endpoint) bool { return !e.asked })
}

// Balance returns the statistics of the addresses; nil for a target with one.
func (c *Client) Balance() *BalanceStats {
	if c.many == nil {
		return nil
	}
	b := c.many
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &BalanceStats{
		LeftOut: b.leftOut, Draining: len(b.leaving), Connections: int(b.conns.Load()),
		Ejections: b.ejections, Lookups: b.lookups, LookupsFailed: b.failures,
	}
	if b.failed != nil {
		s.LookupError = b.failed.Error()
	}
	for _, e := range b.all {
		one := AddressStats{Address: e.address, Times: e.times, Active: e.active.Load(), Calls: e.calls.Load()}
		switch {
		case e.ejected:
			one.State, one.Left = AddressEjected, time.Until(e.until)
		case !e.up:
			one.State = AddressUnreachable
		}
		s.Addresses = append(s.Addresses, one)
	}
	slices.SortFunc(s.Addresses, func(a, b AddressStats) int { return strings.Compare(a.Address, b.Address) })
	return s
}
