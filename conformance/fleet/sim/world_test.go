// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

const (
	// servers is the number of NATS servers.
	servers = 3
	// storms is how long faults happen, and calmWithin how long everything may take to be well again after the last one.
	storms     = 20 * time.Second
	calmWithin = 90 * time.Second
	// maxSteps bounds the steps of a simulation.
	maxSteps = 400_000
	// maxBroken bounds what is kept of broken properties.
	maxBroken = 20
)

// plan is what a simulation is made of.
type plan struct {
	seed uint64
	// steps ends it early; zero does not.
	steps int
	// without are the faults that are left out, by their number.
	without map[int]bool
	// trace prints each step.
	trace bool
}

// world is one simulation: replicas, a network, servers, and clients. One goroutine, the scheduler, decides what happens next.
type world struct {
	t    *testing.T
	plan plan
	// rng orders what can happen, and faulty makes faults.
	rng, faulty *rand.Rand
	cluster     *natsmodel.Cluster
	sealer      *keys.Sealer
	start       time.Time
	// advanced is the time that the servers know.
	advanced time.Time
	steps    int
	lines    strings.Builder
	sum      hash.Hash64
	slow     weights
	faults   []*fault
	lease    time.Duration
	// maxTasks and maxConsents are limits of the stores.
	maxTasks    int
	maxConsents int64
	// clocksDiffer: a clock was set, so that leases may end early.
	clocksDiffer bool
	// hasApprovals: calls wait for approval by the rule.
	hasApprovals bool
	rule         approval.Rule
	// hasTools: tools are registered, which costs the catalogs of all replicas.
	hasTools bool
	// cut are the ways between replicas and servers that are interrupted, by the name of the replica.
	cut map[string][servers]bool

	// clock orders what clients do.
	clock   atomic.Int64
	woken   chan struct{}
	actors  []*actor
	running sync.WaitGroup

	mu       sync.Mutex
	replicas []*replica // present and former
	live     []*wire
	wires    int
	calm     bool
	closing  bool
	reached  map[string]int
	// broken are the properties that are, and brokenAt is the step of the first.
	broken   []string
	brokenAt int
	history  histories
	ledger   ledger
	consents []*consent
	asked    []*asked
	// version is that of the last registration.
	version int64
	events  eventLog
}

// weights are how likely things are to be chosen, so that in some simulations a server or a way is slow.
type weights struct {
	server, client [servers]int
	route          [servers][servers]int
	apply          [servers]int
	deliver        int
	pass           int
}

const usual = 16

func newWeights(rng *rand.Rand) weights {
	one := func() int { return []int{usual, usual, usual, usual, 4, 1}[rng.IntN(6)] }
	var out weights
	for i := range servers {
		out.server[i], out.client[i], out.apply[i] = one(), one(), one()
		for j := range servers {
			out.route[i][j] = one()
		}
	}
	out.deliver, out.pass = one(), []int{2, 4, 8, 16}[rng.IntN(4)]
	return out
}

// choice is something that can happen next.
type choice struct {
	weight int
	kind   choiceKind
	wire   *wire
	step   natsmodel.Step
	actor  *actor
}

type choiceKind uint8

const (
	pass choiceKind = iota
	dial
	send
	receive
	model
	act
)

// active says that something happened that the scheduler may not know.
func (w *world) active() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// note makes bytes part of what a replay must repeat.
func (w *world) note(data []byte) { _, _ = w.sum.Write(data) }

// say notes a step.
func (w *world) say(format string, args ...any) {
	if !w.plan.trace {
		return
	}
	fmt.Fprintf(&w.lines, "%6d %12v %016x ", w.steps, time.Since(w.start), w.sum.Sum64())
	fmt.Fprintf(&w.lines, format+"\n", args...)
}

// now is the next moment of the history of clients.
func (w *world) now() int64 { return w.clock.Add(1) }

// reach counts something that a simulation is to reach.
func (w *world) reach(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reached[name]++
}

// exercise counts a look at something that a property is about.
func (w *world) exercise(property string) { w.reach("property: " + property) }

// violate notes that a property is broken.
func (w *world) violate(property, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) == 0 {
		w.brokenAt = w.steps
	}
	if len(w.broken) < maxBroken {
		w.broken = append(w.broken, property+": "+fmt.Sprintf(format, args...))
	}
}

// settle has the model know the time, and the network what it said.
func (w *world) settle() {
	synctest.Wait()
	if now := time.Now(); now.After(w.advanced) {
		w.advanced = now
		w.cluster.Advance(now)
	}
	w.collect()
}

// choices are what can happen now, in an order that depends on nothing else.
func (w *world) choices(out []choice) []choice {
	out = append(out, choice{weight: w.slow.pass, kind: pass})
	w.mu.Lock()
	live := w.live
	w.mu.Unlock()
	for _, c := range live {
		if w.cut[c.replica.name][c.server] {
			continue
		}
		c.mu.Lock()
		switch {
		case !c.open && !c.closed && c.broken == nil:
			out = append(out, choice{weight: w.slow.server[c.server], kind: dial, wire: c})
		case !c.open:
		default:
			if len(c.toServer) > 0 {
				out = append(out, choice{weight: w.slow.server[c.server], kind: send, wire: c})
			}
			if c.broken == nil && !c.closed && (len(c.toClient) > 0 || c.ended) {
				out = append(out, choice{weight: w.slow.client[c.server], kind: receive, wire: c})
			}
		}
		c.mu.Unlock()
	}
	for _, s := range w.cluster.Pending() {
		weight := w.slow.deliver
		switch s.Kind {
		case natsmodel.Route:
			weight = w.slow.route[s.From][s.Server]
		case natsmodel.Apply, natsmodel.Expire:
			weight = w.slow.apply[s.Server]
		}
		out = append(out, choice{weight: weight, kind: model, step: s})
	}
	for _, a := range w.actors {
		if a.isWaiting() {
			out = append(out, choice{weight: usual, kind: act, actor: a})
		}
	}
	return out
}

// run simulates until the time is over.
func (w *world) run(until time.Time) (over bool) {
	var buffer []choice
	for {
		w.settle()
		now := time.Now()
		if !now.Before(until) {
			return false
		}
		if w.plan.steps > 0 && w.steps >= w.plan.steps {
			return true
		}
		if w.steps >= maxSteps {
			w.violate(propertyMemory, "more than %d steps", maxSteps)
			return true
		}
		w.breakThings(now)
		buffer = w.choices(buffer[:0])
		total := 0
		for i := range buffer {
			total += buffer[i].weight
		}
		at := w.rng.IntN(total)
		i := 0
		for ; at >= buffer[i].weight; i++ {
			at -= buffer[i].weight
		}
		w.steps++
		w.do(&buffer[i], len(buffer) == 1, until)
	}
}

func (w *world) do(c *choice, idle bool, until time.Time) {
	switch c.kind {
	case pass:
		w.pass(idle, until)
	case dial:
		w.establish(c.wire)
		w.say("%s connects to n%d: %d", c.wire.replica.name, c.wire.server, c.wire.number)
	case send:
		for _, stream := range [...]string{"tasks", "consents"} {
			if w.cluster.Leading("KV_outrigger_sim_"+stream) > 1 {
				w.reach("a client asks while two servers lead")
			}
		}
		data := w.deliverToServer(c.wire, w.part())
		w.say("%s > n%d on %d: %s", c.wire.replica.name, c.wire.server, c.wire.number, data)
	case receive:
		data := w.deliverToClient(c.wire, w.part())
		w.say("n%d > %s on %d: %s", c.wire.server, c.wire.replica.name, c.wire.number, data)
	case model:
		w.cluster.Do(c.step)
		w.say("%v", c.step)
	case act:
		w.say("%s acts", c.actor.name)
		c.actor.grant()
	}
}

// part is how much of what is on the way arrives at once: most often all.
func (w *world) part() int {
	if w.rng.IntN(8) == 0 {
		return 1 + w.rng.IntN(256)
	}
	return 1 << 30
}

// pass lets time pass: a little while something could happen, else until it does.
func (w *world) pass(idle bool, until time.Time) {
	now := time.Now()
	d := 10 * time.Microsecond << w.rng.IntN(13)
	if idle {
		d = until.Sub(now)
		if next, ok := w.nextFault(); ok {
			d = min(d, next.Sub(now))
		}
	}
	if next, ok := w.cluster.Next(); ok {
		d = min(d, next.Sub(now))
	}
	d = max(d, time.Microsecond)
	select {
	case <-w.woken: // what was heard before is known
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.woken:
	}
	w.say("time passes")
}

// actor is a client: a script whose steps the scheduler begins.
type actor struct {
	w    *world
	name string
	id   int
	rand *rand.Rand
	turn chan struct{}

	mu      sync.Mutex
	waiting bool
	done    bool
}

// actor starts a client.
func (w *world) actor(name string, script func(*actor)) {
	a := &actor{w: w, name: name, id: len(w.actors), rand: rand.New(rand.NewPCG(w.plan.seed, uint64(len(w.actors)+10))), turn: make(chan struct{})}
	w.actors = append(w.actors, a)
	w.running.Go(func() {
		script(a)
		a.mu.Lock()
		a.done = true
		a.mu.Unlock()
		w.active()
	})
}

// isDone reports whether the script has ended.
func (a *actor) isDone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.done
}

// step waits for a while, and then for the scheduler. It reports false at the end.
func (a *actor) step(least, most time.Duration) bool {
	time.Sleep(least + time.Duration(a.rand.Int64N(int64(most-least)+1)))
	a.mu.Lock()
	a.waiting = true
	a.mu.Unlock()
	a.w.active()
	_, ok := <-a.turn
	return ok
}

func (a *actor) isWaiting() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting
}

func (a *actor) grant() {
	a.mu.Lock()
	a.waiting = false
	a.mu.Unlock()
	a.turn <- struct{}{}
}

func newSum() hash.Hash64 { return fnv.New64a() }
