// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// run is one run of the test.
type run struct {
	t *testing.T
	f *fleet
	h *history
	// rand is the source of the schedule.
	rand    *rand.Rand
	seed    int64
	clients int // made so far
	odd     *oddities
}

// random returns a source for the next client.
func (r *run) random() *rand.Rand { return rand.New(rand.NewPCG(uint64(r.seed), uint64(r.clients)+2)) }

// wait lets a fault last.
func (*run) wait(d time.Duration) { time.Sleep(d) }

// calm is the time before the first fault.
const calm = 4 * time.Second

// TestFleet breaks a deployment at random for a while, mends it, and checks what its clients saw.
func TestFleet(t *testing.T) {
	r := &run{t: t, h: newHistory(), seed: *seed, odd: &oddities{t: t}}
	if r.seed == 0 {
		r.seed = time.Now().UnixNano()
	}
	t.Logf("-seed %d -duration %v", r.seed, *duration)
	r.rand = rand.New(rand.NewPCG(uint64(r.seed), 1))
	t.Cleanup(func() { r.h.keep(t) })
	r.f = startFleet(t)
	w := r.work()
	r.wait(calm)
	windows := r.faults(*duration)
	r.wait(calm)
	r.f.nats.whole()
	r.f.healthy()
	w.end(r)
	w.check(r, windows)
}

// faults injects one fault after the other, some in pairs, and heals each.
func (r *run) faults(lasts time.Duration) (windows []window) {
	all := r.chosen()
	counts := map[string]int{}
	var deck []int // of the faults that have not had their turn
	for until := time.Now().Add(lasts); time.Now().Before(until); {
		if len(deck) == 0 {
			deck = r.rand.Perm(len(all))
		}
		first := all[deck[0]]
		deck = deck[1:]
		var second sync.WaitGroup
		from, isPair := r.h.now(), r.rand.IntN(3) == 0
		ofReplica := first.ofReplica
		if isPair {
			// The fault of a replica, and what waits for replicas, belong to the goroutine of the test.
			other := all[r.rand.IntN(len(all))]
			lasts, beside := r.lasts(), *r
			beside.rand = rand.New(rand.NewPCG(uint64(r.rand.Int64()), 1))
			if !other.ofReplica && !other.isAlone() && !first.isAlone() && other.name != "nats-away" && other.name != first.name {
				counts[other.name]++
				second.Go(func() {
					from := r.h.now()
					other.inject(&beside, lasts)
					r.h.fault(other.name, from)
				})
			}
		}
		counts[first.name]++
		first.inject(r, r.lasts())
		r.h.fault(first.name, from)
		second.Wait()
		windows = append(windows, window{from: from, to: r.h.now(), ofReplica: ofReplica})
		r.wait(time.Second + time.Duration(r.rand.Int64N(int64(3*time.Second))))
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		r.t.Logf("fault %-18s %d times", name, counts[name])
	}
	return windows
}

// lasts draws how long a fault lasts: most shorter than a lease, some longer.
func (r *run) lasts() time.Duration {
	if r.rand.IntN(3) == 0 {
		return lease + time.Duration(r.rand.Int64N(int64(2*lease)))
	}
	return 200*time.Millisecond + time.Duration(r.rand.Int64N(int64(lease)))
}

// work is what the clients do.
type work struct {
	stop     context.CancelFunc
	clients  sync.WaitGroup // end when they are stopped
	readers  sync.WaitGroup // end when they have heard everything
	giveUp   context.CancelFunc
	tasks    taskLog
	events   *eventLog
	consents consentLog
	tools    registrationLog
	pings    []ping
	sessions []*sessionLog // one for each of their clients
	last     *client       // for the end
}

// work starts all clients.
func (r *run) work() *work {
	ctx, stop := context.WithCancel(context.Background())
	patient, giveUp := context.WithCancel(context.Background())
	w := &work{stop: stop, giveUp: giveUp, events: newEventLog(r.odd), consents: consentLog{odd: r.odd}, tools: registrationLog{odd: r.odd}}
	for i := range 3 {
		keeps := i == 0
		modern, api := &modernTasks{newClient(r, keeps), r.odd}, &connectTasks{newClient(r, keeps), r.odd}
		w.clients.Go(func() { tasksOf(ctx, modern.client, modern, &w.tasks) })
		w.clients.Go(func() { tasksOf(ctx, api.client, api, &w.tasks) })
	}
	for range 2 {
		publisher, asker := newClient(r, false), newClient(r, false)
		w.clients.Go(func() { publishes(ctx, publisher, w.events) })
		w.clients.Go(func() { consents(ctx, asker, &w.consents) })
		reader := &subscriber{client: newClient(r, false), log: w.events}
		w.readers.Go(func() { reader.run(patient) })
	}
	for range 4 { // who meet
		operator := newClient(r, false)
		w.clients.Go(func() { registers(ctx, operator, &w.tools) })
	}
	caller := newClient(r, false)
	w.clients.Go(func() { w.pings = pings(ctx, caller) })
	listener := &modernTasks{newClient(r, false), r.odd}
	w.clients.Go(func() { listens(ctx, listener, &w.tasks) })
	w.last = newClient(r, false)
	if *sessions != "none" {
		base := r.f.main.url()
		if *sessions == "one" {
			base = r.f.callersURL(0)
		}
		for range 6 {
			log := &sessionLog{odd: r.odd, calls: map[string]outcome{}}
			w.sessions = append(w.sessions, log)
			c := newClient(r, false)
			w.clients.Go(func() { opens(ctx, c, base, log) })
		}
	}
	r.t.Cleanup(func() {
		stop()
		giveUp()
		w.clients.Wait()
		w.readers.Wait()
	})
	return w
}

// end stops the clients, and waits until every task has ended and everything was heard.
func (w *work) end(r *run) {
	r.t.Helper()
	w.stop()
	w.clients.Wait()
	close(w.events.over)
	time.AfterFunc(testkit.Limit(), w.giveUp)
	w.readers.Wait()
	way := &modernTasks{w.last, r.odd}
	for _, b := range w.tasks.calls {
		if b.id == "" {
			continue
		}
		testkit.Until(r.t, "task "+b.id+" of "+b.method+" "+b.name+" ends", func() bool {
			got := w.last.look(context.Background(), way, b.id)
			return got != nil && got.Status != "working"
		})
	}
	w.tools.settle(r, w.last)
	for _, log := range w.sessions {
		log.settle(r)
	}
}

// check checks what the clients saw.
func (w *work) check(r *run, windows []window) {
	r.t.Helper()
	w.checkTasks(r)
	w.events.operations(r.h)
	r.t.Logf("events: %d published, %d acknowledged, %d heard", len(w.events.published), len(w.events.acknowledged), len(w.events.at))
	consented := w.consents.check(r.f.till)
	r.t.Logf("consents: %d, of which %d ran", len(w.consents.all), consented)
	if len(w.events.acknowledged) == 0 || consented == 0 || len(r.h.of("registrations")) == 0 {
		r.odd.add("nothing was checked")
	}
	r.h.check(r.t, "tasks", models.TaskModel())
	r.h.check(r.t, "events", models.EventModel())
	r.h.check(r.t, "consents", models.ConsentModel())
	r.h.check(r.t, "registrations", models.RegistrationModel())
	ended := 0
	for _, log := range w.sessions {
		log.check(r.f.till)
		r.t.Logf("legacy sessions: %d opened, %d ended, %d calls, %d without an answer, %d notices",
			log.opened, len(log.ended), len(log.calls), log.without, log.notices.Load())
		ended += len(log.ended)
	}
	if len(w.sessions) > 0 && ended == 0 {
		r.odd.add("no session was checked")
	}
	w.checkPings(r, windows)
}

// checkPings checks calls that need no state: while all replicas run, each succeeds, and takes no longer for what is broken
// around NATS.
func (w *work) checkPings(r *run, windows []window) {
	r.t.Helper()
	quiet, withoutNATS, withoutReplica := sorted(w.pings, windows)
	for name, some := range map[string][]ping{"nothing broken": quiet, "NATS or its ways broken": withoutNATS, "a replica stopped": withoutReplica} {
		failures := 0
		for _, p := range some {
			if p.failure == "" {
				continue
			}
			if failures++; name != "a replica stopped" {
				r.odd.add("a call without state, %s, %v to %v: %s", name, time.Duration(p.from), time.Duration(p.to), p.failure)
			}
		}
		r.t.Logf("calls without state, %s: %d, p50 %v, p99 %v, %d failed", name, len(some),
			quantile(some, 0.5).Round(10*time.Microsecond), quantile(some, 0.99).Round(10*time.Microsecond), failures)
	}
	before, during := quantile(quiet, 0.99), quantile(withoutNATS, 0.99)
	if *duration >= longRun && during > maxSlower*before+maxNoise {
		r.odd.add("a call without state takes %v instead of %v (p99) while NATS or its ways are broken", during, before)
	}
}

const (
	// longRun is the shortest run whose quantiles are compared. maxSlower and maxNoise are what a busy machine may add.
	longRun   = 10 * time.Minute
	maxSlower = 5
	maxNoise  = 200 * time.Millisecond
)

// checkTasks compares what the backend did with what clients were told.
func (w *work) checkTasks(r *run) {
	r.t.Helper()
	ended := map[string]string{}
	for _, op := range r.h.of("tasks") {
		in, out := op.Input.(models.TaskInput), op.Output.(models.TaskOutput) //nolint:forcetypeassert // all are
		if in.Kind == "get" && out.Status != "working" {
			ended[in.ID] = out.Status
		}
	}
	announced := map[string]int{}
	for _, b := range w.tasks.calls {
		n := r.f.till.count(b.method, b.name)
		switch {
		case b.method == "Pay" && n > 1:
			r.odd.add("Pay %s ran %d times", b.name, n)
		case b.method == "Pay" && b.refused && n > 0:
			r.odd.add("Pay %s ran although it was refused", b.name)
		case b.id != "" && n == 0 && ended[b.id] == models.Completed:
			r.odd.add("%s %s has a result and never ran", b.method, b.name)
		}
		if b.id != "" {
			announced[b.method+" "+ended[b.id]]++
		}
	}
	if len(announced) == 0 {
		r.odd.add("no task was announced")
	}
	r.t.Logf("calls that should become tasks: %d; announced tasks by how they ended: %v", len(w.tasks.calls), announced)
}
