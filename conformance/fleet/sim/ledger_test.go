// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/natsmodel"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// ledger is what really happened, which no client sees whole.
type ledger struct {
	mu sync.Mutex
	// started counts the calls of the backend, and runs those that go on, by replica.
	started map[string]int
	runs    map[string][]*replica
	// tasks are all that were announced, records what the store has of them, and leases what it had of those of replicas.
	tasks   []announcedTask
	records map[string]seen
	leases  map[string]held
	// last is the last message of each stream, and sums are those of all.
	last map[string]uint64
	sums map[string][]uint64
	// ran counts the consents that ran.
	ran map[string]int
	// approvals are those of calls.
	approvals approvals
}

type announcedTask struct{ id, method, name string }

// seen is a record of a task.
type seen struct {
	version   uint64
	owner     string
	takeovers uint32
	status    outriggerv1.TaskStatus
}

func newLedger() ledger {
	return ledger{
		started: map[string]int{}, runs: map[string][]*replica{}, records: map[string]seen{}, ran: map[string]int{},
		leases: map[string]held{}, last: map[string]uint64{}, sums: map[string][]uint64{}, approvals: approvals{},
	}
}

func (l *ledger) begin(w *world, r *replica, method, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := method + " " + name
	l.started[key]++
	if method == "Pay" {
		w.exercise(propertyOnce)
	}
	if method == "Pay" && l.started[key] > 1 {
		w.violate(propertyOnce, "%s runs again at %s", key, r.name)
	}
	if len(l.runs[key]) > 0 {
		w.reach("work runs at two replicas until the first hears of it")
	}
	l.runs[key] = append(l.runs[key], r)
}

func (l *ledger) end(r *replica, method, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := method + " " + name
	if i := slices.Index(l.runs[key], r); i >= 0 {
		l.runs[key] = slices.Delete(l.runs[key], i, i+1)
	}
}

// killed forgets the work of a replica.
func (l *ledger) killed(r *replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range l.runs {
		l.runs[key] = slices.DeleteFunc(l.runs[key], func(one *replica) bool { return one == r })
	}
}

// going is how much work goes on.
func (l *ledger) going() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, rs := range l.runs {
		n += len(rs)
	}
	return n
}

func (l *ledger) announced(w *world, id, method, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.exercise(propertyIDs)
	for _, one := range l.tasks {
		if one.id == id {
			w.violate(propertyIDs, "%s is the id of %s and %s", id, one.name, name)
		}
	}
	l.tasks = append(l.tasks, announcedTask{id, method, name})
}

func (l *ledger) consented(w *world, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.exercise(propertyConsent)
	if l.ran[name]++; l.ran[name] > 1 {
		w.violate(propertyConsent, "%s ran %d times", name, l.ran[name])
	}
}

// stored notes a message that a server has stored. All servers store the same, and what is stored shows who owns what.
func (w *world) stored(_ int, m natsmodel.Stored) {
	l := &w.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.last[m.Stream]; m.Sequence <= last {
		w.exercise(propertyKept)
		if m.Sequence > last-uint64(len(l.sums[m.Stream])) {
			at := uint64(len(l.sums[m.Stream])) - (last - m.Sequence) - 1
			if l.sums[m.Stream][at] != sumOf(&m) {
				w.violate(propertyKept, "%s has two messages %d", m.Stream, m.Sequence)
			}
		}
		return
	}
	l.last[m.Stream] = m.Sequence
	l.sums[m.Stream] = append(l.sums[m.Stream], sumOf(&m))
	kind, isBucket := strings.CutPrefix(m.Stream, "KV_outrigger_sim_")
	if !isBucket {
		return
	}
	key := strings.TrimPrefix(m.Subject, "$KV."+strings.TrimPrefix(m.Stream, "KV_")+".")
	isGone := len(m.Data) == 0
	switch {
	case strings.HasPrefix(key, "fresh."):
	case kind == "owners":
		l.lease(key, m.TTL, isGone)
	case kind == "approvals" && !isGone:
		record := new(statev1.ApprovalRecord)
		if w.unseal(kind, key, m.Data, record) {
			l.approvalStored(w, key, record)
		}
	case kind == "tasks" && !isGone:
		record := new(statev1.TaskRecord)
		if w.unseal(kind, key, m.Data, record) {
			l.record(w, m.Sequence, record)
		}
	}
}

// unseal reads what is stored of a bucket.
func (w *world) unseal(kind, key string, data []byte, into proto.Message) bool {
	value, err := w.sealer.OpenRaw(keys.Binding{Purpose: "state/" + kind, Digest: keys.Digest([]byte(key))}, data[1:])
	if err == nil {
		err = proto.Unmarshal(value, into)
	}
	if err != nil {
		w.violate(propertyWorks, "stored %s: %v", kind, err)
	}
	return err == nil
}

func sumOf(m *natsmodel.Stored) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.Subject))
	_, _ = h.Write(m.Header)
	_, _ = h.Write(m.Data)
	return h.Sum64()
}

// held is a lease: since when it is held without a break, and until when. Its replica may take it for held since steady: a renewal that
// was asked for in time may be stored late.
type held struct{ since, steady, until time.Time }

func (l *ledger) lease(owner string, ttl time.Duration, isGone bool) {
	now := time.Now()
	before := l.leases[owner]
	switch {
	case isGone:
		before.until = now
	case before.until.After(now):
		before.until = now.Add(ttl)
	case before.until.Add(ttl).After(now):
		before = held{now, before.steady, now.Add(ttl)}
	default:
		before = held{now, now, now.Add(ttl)}
	}
	l.leases[owner] = before
}

// decisionTakes is how long it may take from the look at a lease to the takeover that follows from it.
const decisionTakes = 15 * time.Second

// record notes what the store has of a task. The owner changes only by a takeover or a handover, what has ended does not change, and
// its owner wrote its result. Who takes a task over has held a lease for as long, and who had it does not.
func (l *ledger) record(w *world, version uint64, record *statev1.TaskRecord) {
	one := seen{version: version, owner: record.GetOwner(), takeovers: record.GetTakeovers(), status: record.GetTask().GetStatus()}
	before, known := l.records[record.GetId()]
	l.records[record.GetId()] = one
	if result := record.GetTask().GetResult(); one.status == outriggerv1.TaskStatus_TASK_STATUS_COMPLETED && result.GetStatus() == "success" {
		if author := result.GetContent()[0].GetText().GetText(); author != one.owner {
			w.violate(propertyOwner, "%s belongs to %s, and has the result of %s", record.GetId(), one.owner, author)
		}
	}
	if !known {
		return
	}
	switch {
	case isFinal(before.status):
		w.violate(propertyKept, "%s has ended, and changes: %+v, %+v", record.GetId(), before, one)
	case one.takeovers < before.takeovers, one.owner != before.owner && one.owner != "" && one.takeovers == before.takeovers && !isFinal(one.status):
		w.violate(propertyOwner, "%s went from %+v to %+v", record.GetId(), before, one)
	case one.owner == before.owner && one.takeovers > before.takeovers:
		w.reach("a replica takes its own task over")
		if r := w.byOwner(one.owner); r != nil && !r.hasFailedWrites() {
			w.violate(propertyOwner, "%s was taken over by its own replica %s, none of whose writes has failed", record.GetId(), r.name)
		}
	case one.owner == before.owner, one.owner == "":
	case w.clocksDiffer:
	default:
		w.exercise(propertyOwner)
		now := time.Now()
		was, is := l.leases[before.owner], l.leases[one.owner]
		if before.owner != "" && was.until.After(now) && now.Sub(was.since) > decisionTakes {
			w.violate(propertyOwner, "%s was taken over from %s, which has held its lease for %v", record.GetId(), before.owner, now.Sub(was.since))
		}
		// The first write of a lease may be stored two operations after it counts from.
		if held := now.Sub(is.steady); held < w.lease-2*operationTimeout {
			w.violate(propertyOwner, "%s was taken over by %s, which has held its lease for %v", record.GetId(), one.owner, held)
		}
	}
}

// byOwner is the replica whose tasks have an owner, or nil.
func (w *world) byOwner(owner string) *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		if r.store.Self() == owner {
			return r
		}
	}
	return nil
}

// hasFailedWrites reports whether the replica has seen a write of a task fail, which may have been stored all the same.
func (r *replica) hasFailedWrites() bool {
	for _, one := range r.client.Stats() {
		if one.Store == "tasks" {
			return one.Ended[state.OpUpdate][state.Unavailable]+one.Ended[state.OpUpdate][state.Failed]+one.Ended[state.OpCreate][state.Unavailable]+one.Ended[state.OpCreate][state.Failed] > 0
		}
	}
	return false
}

func isFinal(s outriggerv1.TaskStatus) bool {
	switch s {
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, outriggerv1.TaskStatus_TASK_STATUS_FAILED, outriggerv1.TaskStatus_TASK_STATUS_CANCELLED:
		return true
	}
	return false
}
