// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// Replicas is what a [Store] that processes share knows about them. A process is an owner
// of work by the id of its lease, which it renews for as long as it lives.
type Replicas interface {
	// Self returns the id of this process. It never changes and is not empty.
	Self() string
	// Unfinished returns the tasks that have not ended, as far as this process has heard, in
	// another order each time, so that replicas share the work of one that has departed.
	Unfinished() []Unfinished
	// Alive reports whether an owner holds its lease, in the word of the store where that
	// matters. The error is [ErrUnavailable] or the cause of ctx.
	Alive(ctx context.Context, owner string) (bool, error)
	// Steady reports whether this process has held its own lease for a whole lease, and has
	// heard of all tasks: only then may it conclude that others do not hold theirs.
	Steady() bool
	// Departed returns a channel that is closed when an owner may have departed.
	Departed() <-chan struct{}
}

// Unfinished is a task that has not ended.
type Unfinished struct {
	ID, Owner string
}

const (
	// sweepInterval is the time between two looks for tasks without an owner, where no one
	// hears of one before.
	sweepInterval = time.Second
	// maxDoubted bounds the ids that are remembered to be deleted: those of some seconds
	// without a store. What is not deleted expires.
	maxDoubted = 1024
)

// ErrNotYet is the error of a [Resume] that may succeed later, for example because there
// are no tools yet.
var ErrNotYet = errors.New("task: not yet")

// Resume makes the work of a task of another process again, from its Again. The Spec has
// what the record does not: About and Origin. The error is [ErrNotYet], or why the work
// cannot be run again.
type Resume func(r Record) (Run, Spec, error)

// IsShared reports whether other processes may go on with tasks of this one.
func (m *Manager) IsShared() bool { return m.replicas != nil }

// Run takes over the tasks of processes that have departed, until ctx ends. It returns at
// once if processes share nothing. A nil resume runs nothing again.
func (m *Manager) Run(ctx context.Context, resume Resume) {
	if m.replicas == nil {
		return
	}
	pause := time.NewTimer(sweepInterval)
	defer pause.Stop()
	stray := map[string]bool{}
	for {
		departed := m.replicas.Departed()
		stray = m.sweep(ctx, resume, stray)
		pause.Reset(sweepInterval)
		select {
		case <-ctx.Done():
			return
		case <-departed:
		case <-pause.C:
		}
	}
}

// sweep looks for tasks without an owner. A task of this process without work is one if
// it was there at the last look, too: its work may have just ended, or not begun.
func (m *Manager) sweep(ctx context.Context, resume Resume, before map[string]bool) (stray map[string]bool) {
	stray = map[string]bool{}
	if m.isClosing() || !m.replicas.Steady() {
		return stray
	}
	m.deleteDoubted(ctx)
	alive := map[string]bool{"": false}
	for _, one := range m.replicas.Unfinished() {
		if one.Owner == m.self {
			if m.hasRun(one.ID) {
				continue
			}
			stray[one.ID] = true
			if !before[one.ID] {
				continue
			}
		} else {
			lives, known := alive[one.Owner]
			if !known {
				var err error
				if lives, err = m.replicas.Alive(ctx, one.Owner); err != nil {
					return stray
				}
				alive[one.Owner] = lives
			}
			if lives {
				continue
			}
		}
		if err := m.takeOver(ctx, one, resume); err != nil {
			if !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
				m.opts.OnError(err)
			}
			return stray
		}
	}
	return stray
}

// hasRun reports whether the work of a task goes on here.
func (m *Manager) hasRun(id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[id] != nil
}

// takeOver takes a task over, if it still has the owner that has departed. The error is
// one of the store.
func (m *Manager) takeOver(ctx context.Context, one Unfinished, resume Resume) error {
	record, err := m.store.Get(ctx, one.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return err
	case record.IsFinal() || record.Owner != one.Owner:
		return nil
	}
	if len(record.Again) > 0 && resume != nil {
		work, spec, err := resume(record)
		switch {
		case err == nil && spec.Waits == nil && !m.mayTakeOver(&record):
		case err == nil:
			return m.runAgain(ctx, record, work, spec)
		case errors.Is(err, ErrNotYet):
			return nil
		}
	}
	return m.endUnknown(ctx, record)
}

// mayTakeOver reports whether work may be run once more.
func (m *Manager) mayTakeOver(r *Record) bool {
	if isHandedOver(r) {
		return r.Handovers < m.opts.MaxHandovers
	}
	return r.Takeovers-r.Handovers < m.opts.MaxTakeovers
}

// isHandedOver reports whether a task was left to others by a process that drained.
func isHandedOver(r *Record) bool { return r.Owner == "" }

// runAgain runs the work of a task here, once the record says so. Without room it leaves
// the task to others.
func (m *Manager) runAgain(ctx context.Context, record Record, work Run, spec Spec) error {
	spec.Principal, spec.Tool, spec.Again = record.Principal, record.Tool, record.Again
	spec.Timeout, spec.TTL = record.Timeout, record.Keep
	m.mu.Lock()
	err := m.hasRoom(spec.Principal)
	var r *run
	if err == nil {
		r, err = m.enter(context.WithoutCancel(ctx), record.ID, spec)
	}
	if err == nil {
		r.takeovers, r.spec.Again = record.Takeovers+1, nil
	}
	m.mu.Unlock()
	if err != nil {
		return nil //nolint:nilerr // another process may have room
	}
	now := m.opts.Now()
	record.Task = copyTask(record.Task)
	stamp(record.Task, now)
	if isHandedOver(&record) || spec.Waits != nil {
		record.Handovers++
	}
	record.Takeovers++
	record.Owner = m.self
	record.Expires = now.Add(r.lifetime())
	record.Task.Ttl = durationpb.New(record.Expires.Sub(record.Task.GetCreatedAt().AsTime()))
	if err := m.store.Update(ctx, record); err != nil {
		r.close()
		if errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
			return nil // another process was faster
		}
		return err
	}
	m.takenOver.Add(1)
	r.mu.Lock()
	isMine := r.phase == calling // no one has cancelled it or taken it since
	if isMine {
		r.phase, r.wasTask = tasked, true
	}
	r.mu.Unlock()
	if !isMine {
		r.close()
		return nil
	}
	go r.do(work)
	return nil
}

// endUnknown ends a task whose work may have been done, in part or not at all.
func (m *Manager) endUnknown(ctx context.Context, record Record) error {
	record.Task = copyTask(record.Task)
	stamp(record.Task, m.opts.Now())
	record.Owner = m.self
	unknownEnding(record.Tool, record.Idempotent, "the replica that ran it stopped").apply(&record)
	err := m.store.Update(ctx, record)
	switch {
	case err == nil:
		m.unknown.Add(1)
	case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound):
		return nil
	}
	return err
}

// unknownEnding is the end of a task whose outcome no one knows. It is no result of the
// tool, so the task has failed.
func unknownEnding(tool string, idempotent bool, why string) ending {
	err := errmap.New(errmap.TransportError, errmap.Tool(tool), errmap.Retryable(idempotent),
		errmap.Message("Transport error: outcome unknown: "+why+" before this call could finish"))
	return failedWith(errorObject(err, errmap.About{ToolCall: true, Idempotent: idempotent})).inOwnWords()
}

// isTask reports whether the call is a task that has not ended.
func (r *run) isTask() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == tasked
}

// leaveBehind leaves a task to another process, at the end of a drain: to run the work
// again where it may be, else to know that no one knows its outcome. It reports whether
// the work is lost.
func (r *run) leaveBehind() (lost bool) {
	r.mu.Lock()
	was := r.phase
	r.phase = over
	r.mu.Unlock()
	if was != tasked {
		return false
	}
	again := r.mayRunAgain
	err := r.write(func(record *Record) bool {
		if again {
			record.Owner = ""
			return true
		}
		unknownEnding(r.spec.Tool, r.spec.About.Idempotent, "the sidecar shut down").apply(record)
		return true
	})
	r.cancel(ErrClosed)
	switch {
	case errors.Is(err, ErrTaken), errors.Is(err, ErrNotFound):
		return false
	case err != nil:
		// The lease ends with this process, and others see to it then.
		r.m.opts.OnError(err)
	}
	if again {
		r.m.handedOver.Add(1)
	} else {
		r.m.unknown.Add(1)
	}
	return !again
}

// taken ends work whose task another process has taken over.
func (r *run) taken() {
	r.mu.Lock()
	was := r.phase
	r.phase = over
	r.mu.Unlock()
	if was == tasked {
		r.m.lost.Add(1)
	}
	r.cancel(ErrTaken)
}

// doubt remembers a record that may exist although its call is no task.
func (m *Manager) doubt(id string) {
	if m.replicas == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.doubted) < maxDoubted {
		m.doubted[id] = struct{}{}
	}
}

// trust forgets a doubt: the record is that of a task.
func (m *Manager) trust(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.doubted, id)
}

// deleteDoubted deletes the records that no call belongs to. No one knows their ids.
func (m *Manager) deleteDoubted(ctx context.Context) {
	m.mu.Lock()
	ids := slices.Collect(maps.Keys(m.doubted))
	m.mu.Unlock()
	for _, id := range ids {
		if m.hasRun(id) {
			continue // it may still become a task
		}
		if m.store.Delete(ctx, id) != nil {
			return
		}
		m.mu.Lock()
		delete(m.doubted, id)
		m.mu.Unlock()
	}
}
