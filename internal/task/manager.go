// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const (
	// idPrefix begins every id of the sidecar's own tasks.
	idPrefix = "t_"
	// idBytes is the randomness of an id: 160 bits, where RFC 4086 and common
	// practice want 128 of what must not be guessed.
	idBytes = 20
)

// Sentinels of [Manager].
var (
	// ErrClosed: the manager drains and begins nothing new. It is also the cause of
	// the end of a work's context that a drain cut off.
	ErrClosed = errors.New("task: shutting down")
	// ErrShare: the caller has its share of the tasks.
	ErrShare = errors.New("task: too many tasks of this caller")
	// ErrCancelled is the cause of the end of a work's context where its task was
	// cancelled.
	ErrCancelled = errors.New("task: cancelled by the caller")
)

// Manager runs work as tasks and answers for them. Make one with [New]; it needs
// no closing but [Manager.Drain] before the process ends.
type Manager struct {
	store Store
	opts  Options
	told  *teller

	mu      sync.Mutex
	runs    map[string]*run
	callers map[string]int // how many of them each caller has
	closing bool
	// idle is closed at the first moment without work while closing.
	idle chan struct{}

	became, stayed, completed, failed, cancelled, over atomic.Uint64
}

// New returns a manager over a store, which it watches.
func New(store Store, o Options) *Manager {
	m := &Manager{store: store, opts: o.withDefaults(), runs: map[string]*run{}, callers: map[string]int{}, idle: make(chan struct{})}
	m.told = newTeller(m.opts.OnChange, m.opts.OnPanic)
	store.Watch(m.changed)
	return m
}

// Get returns the caller's task. The message is the caller's own; what it points
// to, results and questions, is shared and must not be changed. Its errors are
// [ErrNotFound] and those of the store.
func (m *Manager) Get(ctx context.Context, principal, id string) (*outriggerv1.Task, error) {
	r, err := m.find(ctx, principal, id)
	if err != nil {
		return nil, err
	}
	return copyTask(r.Task), nil
}

// Cancel ends the caller's task as cancelled and the context of its work with
// [ErrCancelled]. Whether the work heeds that is its own affair; what it returns
// is dropped. On a task that has ended it does nothing. Its errors are
// [ErrNotFound] and those of the store.
func (m *Manager) Cancel(ctx context.Context, principal, id string) error {
	if _, err := m.find(ctx, principal, id); err != nil {
		return err
	}
	_, err := m.change(ctx, id, func(r *Record) bool {
		cancelled().apply(r)
		return true
	})
	return err
}

// Update answers questions of the caller's task, by their keys: all that are
// outstanding or some. Keys that are not outstanding, and answers without
// content, are ignored; on a task that has ended all are. The answers are kept
// until the work has read them, and must not be changed. Its errors are
// [ErrNotFound], [ErrFull] where there is no room for them, and those of the
// store.
func (m *Manager) Update(ctx context.Context, principal, id string, responses map[string]*outriggerv1.InputResponse) error {
	if _, err := m.find(ctx, principal, id); err != nil {
		return err
	}
	_, err := m.change(ctx, id, func(r *Record) bool {
		open, answers := maps.Clone(r.Task.GetInputRequests()), maps.Clone(r.Answers)
		if answers == nil {
			answers = map[string]*outriggerv1.InputResponse{}
		}
		taken := 0
		for key, response := range responses {
			if _, outstanding := open[key]; !outstanding || response.GetResponse() == nil {
				continue
			}
			answers[key] = response
			delete(open, key)
			taken++
		}
		r.Answers = answers
		setOpen(r.Task, open)
		return taken > 0
	})
	return err
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
// and again until no other writer was faster. f gets a record with a task of its own,
// stamped with the present, and reports whether it changed anything. A task that
// has ended is not changed, and that it has is reported.
func (m *Manager) change(ctx context.Context, id string, f func(*Record) bool) (ended bool, err error) {
	for {
		r, err := m.store.Get(ctx, id)
		if err != nil {
			return false, err
		}
		if isFinal(r.Task.GetStatus()) {
			return true, nil
		}
		r.Task = copyTask(r.Task)
		stamp(r.Task, m.opts.Now())
		if !f(&r) {
			return false, nil
		}
		if err = m.store.Update(ctx, r); !errors.Is(err, ErrConflict) {
			return false, err
		}
	}
}

// changed is told of every update in the store, wherever it came from.
func (m *Manager) changed(r Record) {
	m.mu.Lock()
	work := m.runs[r.ID]
	m.mu.Unlock()
	if work != nil {
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
	switch {
	case m.closing:
		return nil, ErrClosed
	case len(m.runs) >= m.opts.MaxRunning:
		return nil, ErrFull
	case !m.opts.Share.Allows(int64(m.callers[spec.Principal]), 1, int64(len(m.runs)), int64(m.opts.MaxRunning)):
		m.over.Add(1)
		return nil, ErrShare
	}
	var random [idBytes]byte
	if _, err := io.ReadFull(m.opts.Rand, random[:]); err != nil {
		return nil, fmt.Errorf("task: read random bytes: %w", err)
	}
	id := idPrefix + base64.RawURLEncoding.EncodeToString(random[:])
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

// Stats are what a manager has done so far.
type Stats struct {
	// Running is how much work goes on now, be it a task or not.
	Running int
	// Became counts calls that became tasks, Stayed those that would have and found
	// no room.
	Became, Stayed uint64
	// Completed, Failed and Cancelled count the ends of tasks.
	Completed, Failed, Cancelled uint64
	// Over counts what was refused because its caller had its share.
	Over uint64
}

// Stats returns the counts. Each is right, but they are not taken at one moment.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	running := len(m.runs)
	m.mu.Unlock()
	return Stats{
		Running: running, Became: m.became.Load(), Stayed: m.stayed.Load(),
		Completed: m.completed.Load(), Failed: m.failed.Load(), Cancelled: m.cancelled.Load(), Over: m.over.Load(),
	}
}

// clip makes a text a status message: UTF-8, and no longer than is kept.
func (m *Manager) clip(text string) string {
	const cut = "…"
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= m.opts.MaxMessage {
		return text
	}
	end := m.opts.MaxMessage - len(cut)
	if end < 0 {
		return ""
	}
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cut
}

// copyTask returns a message of its own that shares what t points to, so that a
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
