// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// syncLater is whether servers acknowledge what they have not written, as without the `sync_interval: always` of our manifests.
const syncLater = false

// result is what came of one simulation.
type result struct {
	Seed  uint64
	Steps int
	// At is the step at which a property was broken first, Faults are the numbers of the faults.
	At     int
	Broken []string
	Faults []int

	sum     string
	reached map[string]int
	faults  []*fault
	lines   string
}

// simulate runs one simulation.
func simulate(t *testing.T, p plan) (out result) {
	t.Helper()
	t.Run(fmt.Sprint(p.seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, p.seed)
		synctest.Test(t, func(t *testing.T) { out = newWorld(t, p).simulate() })
	})
	return out
}

func newWorld(t *testing.T, p plan) *world {
	t.Helper()
	seedRuntime(p.seed)
	resetIDs()
	w := &world{
		t: t, plan: p, sum: newSum(), start: time.Now(), woken: make(chan struct{}, 1), cut: map[string][servers]bool{},
		rng: rand.New(rand.NewPCG(p.seed, 1)), faulty: rand.New(rand.NewPCG(p.seed, 2)),
		reached: map[string]int{}, history: histories{}, ledger: newLedger(), events: eventLog{at: map[string]uint64{}},
	}
	w.slow = newWeights(w.rng)
	w.lease = []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}[w.faulty.IntN(3)]
	w.maxTasks, w.maxConsents = []int{1024, 1024, 12}[w.faulty.IntN(3)], []int64{4 << 20, 4 << 20, 6 << 10}[w.faulty.IntN(3)]
	w.hasTools = w.faulty.IntN(4) == 0
	// Drawn apart, so that seeds without approvals are what they were before there were any.
	if apart := rand.New(rand.NewPCG(p.seed, 4)); apart.IntN(4) == 0 {
		w.hasApprovals = true
		w.rule = approval.Rule{
			Name: "two", Groups: []string{"risk"}, Count: 2, Digest: [32]byte{1}, Within: []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second}[apart.IntN(3)],
		}
	}
	w.cluster = natsmodel.New(natsmodel.Options{Servers: servers, SyncLater: syncLater, Stored: w.stored}, w.start, rand.New(rand.NewPCG(p.seed, 3)))
	w.sealer = keys.NewSealer(keys.SealerOptions{Keys: keys.RandomKeys(), MaxPayload: 1 << 20, TTL: time.Hour})
	return w
}

func (w *world) simulate() result {
	// A cluster has its leaders before replicas come, or not.
	if w.faulty.IntN(4) > 0 {
		w.run(w.start.Add(10 * time.Second))
		w.start = time.Now()
	}
	for slot := range replicaSlots {
		w.startReplica(slot)
	}
	for i := range 3 {
		w.actor(fmt.Sprintf("t%d", i), w.tasks)
	}
	for i := range 2 {
		w.actor(fmt.Sprintf("c%d", i), w.useConsents)
	}
	w.actor("p", w.calls)
	w.actor("q", w.calls)
	if w.faulty.IntN(2) == 0 {
		w.events.publishing = 2
		w.actor("e0", w.publishes)
		w.actor("e1", w.publishes)
		w.actor("s0", w.subscribes)
		w.actor("s1", w.subscribes)
	}
	if w.hasTools {
		w.actor("g0", w.registers)
		w.actor("g1", w.registers)
	}
	if w.hasApprovals {
		w.actor("v0", w.askForApproval)
		w.actor("v1", w.askForApproval)
		w.actor("o0", w.decides)
		w.actor("o1", w.decides)
	}
	w.planFaults()
	over := w.run(w.start.Add(storms))
	if !over {
		over = w.settleDown()
	}
	w.end()
	if !over {
		w.check()
	}
	out := result{Seed: w.plan.seed, Steps: w.steps, At: w.brokenAt, Broken: w.broken, reached: w.reached, faults: w.faults, lines: w.lines.String()}
	for _, f := range w.faults {
		out.Faults = append(out.Faults, f.number)
	}
	_, _ = fmt.Fprint(w.sum, w.steps, w.clock.Load(), w.broken)
	out.sum = fmt.Sprintf("%d steps, %016x", w.steps, w.sum.Sum64())
	return out
}

// settleDown mends everything and waits until all is well.
func (w *world) settleDown() (over bool) {
	for _, f := range w.faults {
		if f.begun && !f.ended {
			f.undo()
		}
		f.begun, f.ended = true, true
	}
	clear(w.cut)
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	w.slow = weights{deliver: usual, pass: 4}
	for i := range servers {
		w.slow.server[i], w.slow.client[i], w.slow.apply[i] = usual, usual, usual
		for j := range servers {
			w.slow.route[i][j] = usual
		}
	}
	w.say("calm")
	for limit := time.Now().Add(calmWithin); ; {
		if over := w.run(time.Now().Add(500 * time.Millisecond)); over {
			return true
		}
		why := w.notWell()
		if why == "" {
			break
		}
		if time.Now().After(limit) {
			w.violate(propertyWell, "%s", why)
			return false
		}
	}
	w.auditMemory()
	w.actor("auditor", func(a *actor) {
		w.audit(a)
		if w.hasTools {
			w.auditRegistrations(a)
		}
		w.auditApprovals()
	})
	for limit := time.Now().Add(calmWithin); !w.actors[len(w.actors)-1].isDone(); {
		if over := w.run(time.Now().Add(100 * time.Millisecond)); over {
			return true
		}
		if time.Now().After(limit) {
			w.violate(propertyWell, "the audit takes more than %v", calmWithin)
			return false
		}
	}
	return false
}

// end ends all that runs. Nothing is delivered any more.
func (w *world) end() {
	w.mu.Lock()
	w.closing = true
	replicas := slices.Clone(w.replicas)
	live := slices.Clone(w.live)
	w.mu.Unlock()
	for _, c := range live {
		w.reset(c)
	}
	for _, r := range replicas {
		if r.isPresent() {
			w.count(r)
			w.running.Go(r.end)
		}
	}
	for _, a := range w.actors {
		close(a.turn)
	}
	w.running.Wait()
	time.Sleep(keep + time.Minute) // a manager tries to store a result for as long as its task would be kept
}

// TestChild runs simulations. The other tests start it, as another process.
func TestChild(t *testing.T) {
	path := os.Getenv(reportPath)
	if path == "" {
		t.Skip("it is started by the other tests")
	}
	if !isExact {
		t.Fatal("it needs the edits of package overlay")
	}
	runtime.MemProfileRate = 0
	// What a process does once, and draws random numbers for, is done before the first one.
	simulate(t, plan{seed: 1 << 40, steps: 3000})
	all := report{Reached: map[string]int{}, Sums: map[uint64]string{}}
	p := planned(t)
	for range *seedsFlag {
		// Collected between two simulations, and in none. Pools that nats.go keeps for the process are empty after the second time:
		// they have timers, which belong to one simulation.
		runtime.GC()
		runtime.GC()
		debug.SetGCPercent(-1)
		one := simulate(t, p)
		debug.SetGCPercent(100)
		all.add(report{Seeds: 1, Steps: one.Steps, Reached: one.reached, Sums: map[uint64]string{p.seed: one.sum}})
		if p.trace {
			fmt.Print(one.lines)
			for _, f := range one.faults {
				fmt.Println(f)
			}
			fmt.Printf("seed %d: %s\n", one.Seed, one.sum)
		}
		if len(one.Broken) > 0 {
			all.Failed = append(all.Failed, one)
		}
		p.seed++
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
