// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const (
	// idPrefix begins every id of the sidecar's own tasks.
	idPrefix = "t_"
	// idBytes is the randomness of an id: 160 bits, where RFC 4086 and common
	// practice want 128 of what must not be guessed.
	idBytes = 20
)

// Errors of [Manager].
var (
	// ErrClosed means that the manager drains and starts nothing new. It is also the
	// cause of the context of work that a drain cut off.
	ErrClosed = errors.New("task: shutting down")
	// ErrShare means that the caller has used up its share of the tasks.
	ErrShare = errors.New("task: too many tasks of this caller")
	// ErrCancelled is the cause of the context of work whose task was cancelled.
	ErrCancelled = errors.New("task: cancelled by the caller")
	// ErrTaken is the cause of the context of work whose task another process has taken
	// over.
	ErrTaken = errors.New("task: taken over by another replica")
)

// Manager runs work as tasks and serves them. Make one with [New]. Call [Manager.Drain]
// before the process ends; no other cleanup is needed.
type Manager struct {
	store Store
	// replicas is the store, where processes share it, and self this process there; nil and
	// empty where they do not.
	replicas Replicas
	self     string
	opts     Options
	told     *teller

	mu      sync.Mutex
	runs    map[string]*run
	callers map[string]int // how many of them each caller has
	closing bool
	// idle is closed at the first moment without work while closing.
	idle chan struct{}
	// doubted are ids of records that may exist although their calls are no tasks.
	doubted map[string]struct{}

	became, stayed, completed, failed, cancelled, over atomic.Uint64
	takenOver, handedOver, unknown, lost               atomic.Uint64
}

// New returns a manager that uses and watches a store.
func New(store Store, o Options) *Manager {
	m := &Manager{store: store, opts: o.withDefaults(), runs: map[string]*run{}, callers: map[string]int{}, idle: make(chan struct{}), doubted: map[string]struct{}{}}
	if shared, ok := store.(Replicas); ok {
		m.replicas, m.self = shared, shared.Self()
	}
	m.told = newTeller(m.opts.OnChange, m.opts.OnPanic)
	store.Watch(m.changed)
	return m
}

// Get returns the caller's task. The caller owns the message. The results and questions
// that it points to are shared and must not be changed. The errors are [ErrNotFound] and
// those of the store.
func (m *Manager) Get(ctx context.Context, principal, id string) (*outriggerv1.Task, error) {
	r, err := m.Record(ctx, principal, id)
	return r.Task, err
}

// Record is [Manager.Get] with what is known of the task beside.
func (m *Manager) Record(ctx context.Context, principal, id string) (Record, error) {
	r, err := m.find(ctx, principal, id)
	if err != nil {
		return Record{}, err
	}
	r.Task = copyTask(r.Task)
	return r, nil
}

// Origin returns the [Spec.Origin] of the caller's task; nil if there is no such task, or it has none.
func (m *Manager) Origin(ctx context.Context, principal, id string) []byte {
	r, err := m.find(ctx, principal, id)
	if err != nil {
		return nil
	}
	return r.Origin
}

// Cancel ends the caller's task as cancelled and the context of its work with
// [ErrCancelled]. The work may ignore the cancellation; its result is dropped. Cancel
// has no effect on a task that has ended. The errors are [ErrNotFound] and those of the
// store.
func (m *Manager) Cancel(ctx context.Context, principal, id string) error {
	if _, err := m.find(ctx, principal, id); err != nil {
		return err
	}
	return m.change(ctx, id, func(r *Record) bool {
		cancelled().apply(r)
		return true
	})
}

// find returns the record of a caller's task.
func (m *Manager) find(ctx context.Context, principal, id string) (Record, error) {
	r, err := m.store.Get(ctx, id)
	if errors.Is(err, ErrNotFound) || err == nil && r.Principal != principal {
		return Record{}, ErrNotFound
	}
	return r, err
}

// change applies f to the record as it is now and has the store keep it, again
// and again until no other writer was faster. f gets a record with its own task,
// stamped with the present, and reports whether it changed anything. A task that
// has ended is not changed.
func (m *Manager) change(ctx context.Context, id string, f func(*Record) bool) error {
	for {
		r, err := m.store.Get(ctx, id)
		if err != nil || r.IsFinal() {
			return err
		}
		r.Task = copyTask(r.Task)
		stamp(r.Task, m.opts.Now())
		if !f(&r) {
			return nil
		}
		if err = m.store.Update(ctx, r); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// changed learns of every update in the store, wherever it came from.
func (m *Manager) changed(r Record) {
	m.mu.Lock()
	work := m.runs[r.ID]
	m.mu.Unlock()
	if work != nil {
		// What was written before this process took the task over may be heard of after it.
		if r.Owner != m.self && r.Owner != "" && r.Takeovers >= work.takeovers {
			work.taken()
		}
		work.noticed(r.Task.GetStatus())
	}
	switch r.Task.GetStatus() {
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED:
		m.completed.Add(1)
	case outriggerv1.TaskStatus_TASK_STATUS_FAILED:
		m.failed.Add(1)
	case outriggerv1.TaskStatus_TASK_STATUS_CANCELLED:
		m.cancelled.Add(1)
	}
	m.told.tell(r.Principal, r.Task)
}

// admit makes room for work, under a new id.
func (m *Manager) admit(ctx context.Context, spec Spec) (*run, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.hasRoom(spec.Principal); err != nil {
		return nil, err
	}
	var random [idBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	return m.enter(ctx, idPrefix+base64.RawURLEncoding.EncodeToString(random[:]), spec)
}

// hasRoom reports why there is no room for more work. m.mu is held.
func (m *Manager) hasRoom(principal string) error {
	switch {
	case m.closing:
		return ErrClosed
	case len(m.runs) >= m.opts.MaxRunning:
		return ErrFull
	case !m.opts.Share.Allows(int64(m.callers[principal]), 1, int64(len(m.runs)), int64(m.opts.MaxRunning)):
		m.over.Add(1)
		return ErrShare
	}
	return nil
}

// enter takes up work under an id. m.mu is held.
func (m *Manager) enter(ctx context.Context, id string, spec Spec) (*run, error) {
	if _, taken := m.runs[id]; taken {
		return nil, ErrExists
	}
	r := newRun(ctx, m, id, spec)
	m.runs[id] = r
	m.callers[spec.Principal]++
	return r, nil
}

// leave gives back the place of work that has returned.
func (m *Manager) leave(r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, r.id)
	if m.callers[r.spec.Principal]--; m.callers[r.spec.Principal] == 0 {
		delete(m.callers, r.spec.Principal)
	}
	if m.closing && len(m.runs) == 0 {
		close(m.idle)
	}
}

func (m *Manager) isClosing() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing
}

// Stats are the counts of a manager.
type Stats struct {
	// Running is the amount of work that runs now, as a task or not.
	Running int
	// Became counts calls that became tasks. Stayed counts calls that should have become
	// tasks and found no room.
	Became, Stayed uint64
	// Completed, Failed and Cancelled count ended tasks by status.
	Completed, Failed, Cancelled uint64
	// Over counts requests that were refused because the caller had used up its share.
	Over uint64
	// TakenOver counts tasks of other processes whose work runs again here, Unknown those
	// that ended here because no one can know what became of their work. HandedOver counts
	// tasks that a drain left to other processes, and Lost the work that ended here because
	// another process had taken its task over.
	TakenOver, Unknown, HandedOver, Lost uint64
}

// Stats returns the counts. Each count is correct, but they are not a snapshot of one
// moment.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	running := len(m.runs)
	m.mu.Unlock()
	return Stats{
		Running: running, Became: m.became.Load(), Stayed: m.stayed.Load(),
		Completed: m.completed.Load(), Failed: m.failed.Load(), Cancelled: m.cancelled.Load(), Over: m.over.Load(),
		TakenOver: m.takenOver.Load(), Unknown: m.unknown.Load(), HandedOver: m.handedOver.Load(), Lost: m.lost.Load(),
	}
}

// LongLived returns the work that [Stats.Running] counts, in no order.
func (m *Manager) LongLived() []*adminv1.LongLived {
	m.mu.Lock()
	runs := slices.Collect(maps.Values(m.runs))
	m.mu.Unlock()
	out := make([]*adminv1.LongLived, 0, len(runs))
	for _, r := range runs {
		ends, _ := r.ctx.Deadline()
		out = append(out, &adminv1.LongLived{
			Id: r.id[:min(len(r.id), shownID)], Caller: r.spec.Principal, Tool: r.spec.Tool, State: r.state(),
			Began: timestamppb.New(ends.Add(-r.spec.Timeout)), Ends: timestamppb.New(ends),
		})
	}
	return out
}

// shownID is how many characters operators see of an id: too few to ask for the task.
const shownID = 10

// state is the state of a run in words for operators.
func (r *run) state() string {
	r.mu.Lock()
	at := r.phase
	r.mu.Unlock()
	switch {
	case at == over:
		return "ending"
	case r.waits():
		return "waiting"
	case at == tasked:
		return "working"
	}
	return "not a task yet"
}

// clip makes a text a status message: UTF-8, and no longer than is kept.
func clip(text string) string {
	const cut = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage - len(cut)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// copyTask returns its own message that shares what t points to, so that a
// large result is not copied for every look at it.
func copyTask(t *outriggerv1.Task) *outriggerv1.Task {
	out := &outriggerv1.Task{}
	to := out.ProtoReflect()
	t.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	return out
}

// Answer answers a GetTaskRequest, an UpdateTaskRequest or a CancelTaskRequest about the caller's own task. shown changes the copy
// of the task that the caller gets. The errors are [ErrNotFound] and those of the store.
func (m *Manager) Answer(ctx context.Context, principal, id string, req proto.Message, shown func(*Record)) (proto.Message, error) {
	switch req.(type) {
	case *outriggerv1.GetTaskRequest:
		r, err := m.Record(ctx, principal, id)
		if err != nil {
			return nil, err
		}
		shown(&r)
		return r.Task, nil
	case *outriggerv1.UpdateTaskRequest:
		_, err := m.find(ctx, principal, id)
		return &outriggerv1.UpdateTaskResponse{}, err // it asks nothing, so that every answer is one too many
	default:
		return &outriggerv1.CancelTaskResponse{}, m.Cancel(ctx, principal, id)
	}
}
