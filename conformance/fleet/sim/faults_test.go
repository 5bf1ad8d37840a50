// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
)

// fault is one thing that breaks for a while.
type fault struct {
	number int
	kind   *faultKind
	from   time.Duration // since the start
	lasts  time.Duration
	// server, other and slot are what it hits.
	server, other, slot int
	rand                *rand.Rand

	begun, ended bool
	// undo ends it; nil where there is nothing to end.
	undo func()
}

func (f *fault) String() string {
	return fmt.Sprintf("fault %d: %s, n%d and n%d, slot %d, from %v for %v", f.number, f.kind.name, f.server, f.other, f.slot, f.from, f.lasts)
}

// faultKind is a kind of faults. begin returns what ends it, or false where it makes no difference now.
type faultKind struct {
	name  string
	begin func(*world, *fault) (undo func(), ok bool)
}

// faultKinds are all that can break.
func faultKinds() []*faultKind {
	stop := func(how natsmodel.End) func(*world, *fault) (func(), bool) {
		return func(w *world, f *fault) (func(), bool) {
			if !w.cluster.Running(f.server) {
				return nil, false
			}
			w.cluster.Stop(f.server, how)
			return func() { w.cluster.Start(f.server) }, true
		}
	}
	return []*faultKind{
		{"a server ends", stop(natsmodel.Term)},
		{"a server is killed", stop(natsmodel.Kill)},
		{"a server loses power", stop(natsmodel.PowerLoss)},
		{"a server is paused", func(w *world, f *fault) (func(), bool) {
			w.cluster.Pause(f.server)
			return func() { w.cluster.Resume(f.server) }, w.cluster.Running(f.server)
		}},
		{"a leader is paused", func(w *world, f *fault) (func(), bool) {
			at, ok := w.leader(f)
			if ok {
				w.cluster.Pause(at)
			}
			return func() { w.cluster.Resume(at) }, ok
		}},
		{"a leader is cut off from the others", func(w *world, f *fault) (func(), bool) {
			at, ok := w.leader(f)
			if !ok {
				return nil, false
			}
			return w.isolate(at), true
		}},
		{"a server is cut off from the others", func(w *world, f *fault) (func(), bool) { return w.isolate(f.server), true }},
		{"two servers are cut off from each other", func(w *world, f *fault) (func(), bool) {
			w.cluster.Cut(f.server, f.other)
			return func() { w.cluster.Heal(f.server, f.other) }, true
		}},
		{"a disk is full", func(w *world, f *fault) (func(), bool) {
			w.cluster.Fill(f.server)
			return func() {
				w.cluster.Free(f.server)
				w.cluster.Stop(f.server, natsmodel.Term) // JetStream is off until then
				w.cluster.Start(f.server)
			}, w.cluster.Running(f.server)
		}},
		{"all disks are full", func(w *world, _ *fault) (func(), bool) {
			for server := range servers {
				w.cluster.Fill(server)
			}
			return func() {
				for server := range servers {
					w.cluster.Free(server)
					w.cluster.Stop(server, natsmodel.Term)
					w.cluster.Start(server)
				}
			}, true
		}},
		{"acknowledgements are lost", func(w *world, f *fault) (func(), bool) {
			for range 1 + f.rand.IntN(3) {
				w.cluster.LoseAck(f.server)
			}
			return nil, w.cluster.Running(f.server)
		}},
		{"a clock is set", func(w *world, f *fault) (func(), bool) {
			by := time.Duration(f.rand.Int64N(int64(20*time.Second))) - 10*time.Second
			w.cluster.StepClock(f.server, by)
			w.clocksDiffer = true
			return func() { w.cluster.StepClock(f.server, -by) }, true
		}},
		{"a server is slow", func(w *world, f *fault) (func(), bool) {
			before := w.slow
			w.slow.apply[f.server] = 1
			for i := range servers {
				w.slow.route[f.server][i], w.slow.route[i][f.server] = 1, 1
			}
			return func() { w.slow = before }, true
		}},
		{"a replica is cut off from a server", func(w *world, f *fault) (func(), bool) { return w.cutOff(f, f.server) }},
		{"a replica is cut off", func(w *world, f *fault) (func(), bool) { return w.cutOff(f, 0, 1, 2) }},
		{"connections break", func(w *world, f *fault) (func(), bool) {
			r := w.at(f.slot)
			if r == nil {
				return nil, false
			}
			w.mu.Lock()
			live := slices.Clone(w.live)
			w.mu.Unlock()
			for _, c := range live {
				if c.replica == r {
					w.reset(c)
				}
			}
			return nil, true
		}},
		{"a replica is killed", func(w *world, f *fault) (func(), bool) {
			r := w.at(f.slot)
			if r == nil {
				return nil, false
			}
			r.kill()
			return func() { w.startReplica(f.slot) }, true
		}},
		{"a replica drains", func(w *world, f *fault) (func(), bool) {
			r := w.at(f.slot)
			if r == nil {
				return nil, false
			}
			r.drain(time.Duration(f.rand.Int64N(int64(2 * time.Second))))
			return func() { w.startReplica(f.slot) }, true
		}},
	}
}

// leader is the leader of a stream. The fault lasts long enough for another one.
func (w *world) leader(f *fault) (server int, ok bool) {
	f.lasts = max(f.lasts, 4*time.Second+f.lasts%(8*time.Second))
	server = w.cluster.Leader("KV_outrigger_sim_" + []string{"tasks", "tasks", "consents", "owners"}[f.rand.IntN(4)])
	return server, server >= 0
}

// isolate cuts a server off from the others, and returns what ends that.
func (w *world) isolate(server int) func() {
	for other := range servers {
		w.cluster.Cut(server, other)
	}
	return func() {
		for other := range servers {
			w.cluster.Heal(server, other)
		}
	}
}

// at is the replica of a slot, or nil.
func (w *world) at(slot int) *replica {
	for _, r := range w.present() {
		if r.slot == slot {
			return r
		}
	}
	return nil
}

func (w *world) cutOff(f *fault, from ...int) (func(), bool) {
	r := w.at(f.slot)
	if r == nil {
		return nil, false
	}
	cut := w.cut[r.name]
	for _, server := range from {
		cut[server] = true
	}
	w.cut[r.name] = cut
	return func() { delete(w.cut, r.name) }, true
}

// planFaults draws what will break.
func (w *world) planFaults() {
	kinds := faultKinds()
	for n := range 1 + w.faulty.IntN(6) {
		f := &fault{number: n, kind: kinds[w.faulty.IntN(len(kinds))], server: w.faulty.IntN(servers), slot: w.faulty.IntN(replicaSlots)}
		f.other = (f.server + 1 + w.faulty.IntN(servers-1)) % servers
		f.from = time.Duration(w.faulty.Int64N(int64(storms)))
		// From 20 ms to 15 s, as likely short as long.
		f.lasts = time.Duration(float64(20*time.Millisecond) * math.Pow(750, w.faulty.Float64()))
		f.rand = rand.New(rand.NewPCG(w.plan.seed, uint64(1000+n)))
		if !w.plan.without[n] {
			w.faults = append(w.faults, f)
		}
	}
}

// nextFault is when something breaks or is mended next.
func (w *world) nextFault() (at time.Time, ok bool) {
	for _, f := range w.faults {
		next := f.from
		switch {
		case f.ended:
			continue
		case f.begun:
			next += f.lasts
		}
		if t := w.start.Add(next); !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// breakThings begins and ends the faults whose time it is.
func (w *world) breakThings(now time.Time) {
	since := now.Sub(w.start)
	for _, f := range w.faults {
		if !f.begun && since >= f.from {
			f.begun = true
			w.say("%v begins", f)
			undo, ok := f.kind.begin(w, f)
			if !ok {
				f.ended = true
				continue
			}
			f.undo, f.ended = undo, undo == nil
			w.reach("fault: " + f.kind.name)
			for _, other := range w.faults {
				if other != f && other.begun && (!other.ended || since-other.from < time.Second) {
					a, b := min(f.kind.name, other.kind.name), max(f.kind.name, other.kind.name)
					w.reach("pair: " + a + " + " + b)
				}
			}
		}
		if f.begun && !f.ended && since >= f.from+f.lasts {
			f.ended = true
			w.say("%v ends", f)
			f.undo()
		}
	}
}
