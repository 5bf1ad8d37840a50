// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// questionRules are those of the contract for what a task asks at a time: how many
// questions, and how long their keys may be.
var questionRules = sync.OnceValue(func() schema.FieldRules { return schema.FieldRulesOf(new(outriggerv1.Task), "input_requests") })

// Errors of [Ask].
var (
	// errNoTask means that the context does not belong to the work of a task.
	errNoTask = errors.New("task: not a task, so it cannot ask")
	// errTooManyQuestions means that more than 64 questions would be outstanding, or that
	// the task has reached its limit of questions ([Options.MaxQuestions]).
	errTooManyQuestions = errors.New("task: too many questions")
	// errEnded means that the work returned, or the store deleted its task, before the
	// questions were answered.
	errEnded = errors.New("task: ended")
)

// Ask sends questions to the caller of the task whose work has this context. It waits
// for all answers and returns them by the keys of the questions. Answers are untrusted
// and may have any shape.
//
// The task shows all outstanding questions, also of concurrent calls of Ask, and has the
// status input_required until each is answered. If the task has already shown a key, it
// shows the question under a different key, because clients treat a key as one question
// forever. The answers have the original key. A call that is not a task yet becomes one
// now. Do not change questions after a call of Ask.
//
// The errors are [errNoTask], [errTooManyQuestions], [errEnded], the errors of the
// store, and the cause of ctx. If the call cannot become a task, the error is [ErrFull]
// or [ErrClosed]. Questions without a waiter disappear.
func Ask(ctx context.Context, questions map[string]*outriggerv1.InputRequest) (map[string]*outriggerv1.InputResponse, error) {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok {
		return nil, errNoTask
	}
	for key, question := range questions {
		if question.GetRequest() == nil {
			return nil, fmt.Errorf("task: question %q asks nothing", key)
		}
	}
	if len(questions) == 0 {
		return map[string]*outriggerv1.InputResponse{}, nil
	}
	if err := r.needTask(ctx); err != nil {
		return nil, err
	}
	shown, err := r.reserve(questions)
	if err != nil {
		return nil, err
	}
	if err := r.pose(ctx, shown, questions); err != nil {
		return nil, err
	}
	answers, err := r.collect(ctx, shown)
	if err != nil {
		r.withdraw(shown)
	}
	return answers, err
}

// needTask makes a task of a call.
func (r *run) needTask(ctx context.Context) error {
	answer := make(chan error, 1) // the answer does not block
	select {
	case <-r.settled:
		return nil
	case r.asking <- answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done(): // ctx need not end with it
		return context.Cause(r.ctx)
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reserve returns the keys under which questions are shown, each never shown
// before, by the keys that the work gave them.
func (r *run) reserve(questions map[string]*outriggerv1.InputRequest) (map[string]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(questions) > questionRules().MaxItems || len(r.asked)+len(questions) > r.m.opts.MaxQuestions {
		return nil, errTooManyQuestions
	}
	prefix := "q"
	if r.takeovers > 0 {
		prefix = "q" + strconv.Itoa(r.takeovers) + "."
	}
	shown := make(map[string]string, len(questions))
	// Sorted, so that the same work shows the same keys.
	for _, key := range slices.Sorted(maps.Keys(questions)) {
		name := key
		if r.takeovers > 0 {
			name = "" // it may have been shown
		}
		for n := len(r.asked) + 1; ; n++ {
			_, taken := r.asked[name]
			if !taken && name != "" && len(name) <= questionRules().Keys.MaxBytes && utf8.ValidString(name) {
				break
			}
			name = prefix + strconv.Itoa(n)
		}
		r.asked[name] = struct{}{}
		shown[key] = name
	}
	return shown, nil
}

// pose shows questions.
func (r *run) pose(ctx context.Context, shown map[string]string, questions map[string]*outriggerv1.InputRequest) error {
	var tooMany bool
	ended, err := r.change(ctx, func(record *Record) bool {
		open := maps.Clone(record.Task.GetInputRequests())
		if open == nil {
			open = make(map[string]*outriggerv1.InputRequest, len(shown))
		}
		for key, name := range shown {
			open[name] = questions[key]
		}
		if tooMany = len(open) > questionRules().MaxItems; tooMany {
			return false
		}
		record.Answers = r.unread(record.Answers)
		setOpen(record.Task, open)
		return true
	})
	switch {
	case ended:
		return r.endedError(ctx)
	case errors.Is(err, ErrNotFound):
		return errEnded
	case err == nil && tooMany:
		return errTooManyQuestions
	}
	return err
}

// collect waits for the answers.
func (r *run) collect(ctx context.Context, shown map[string]string) (map[string]*outriggerv1.InputResponse, error) {
	for {
		changed := r.update() // before the look, so that no change is missed
		record, err := r.m.store.Get(ctx, r.id)
		switch {
		case errors.Is(err, ErrNotFound):
			return nil, errEnded
		case err == nil && isFinal(record.Task.GetStatus()):
			return nil, r.endedError(ctx)
		case err != nil:
			return nil, err
		}
		if answers, all := answered(record.Answers, shown); all {
			r.markRead(shown)
			return answers, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// answered returns the answers under the keys that the work gave its questions,
// where all are there.
func answered(given map[string]*outriggerv1.InputResponse, shown map[string]string) (map[string]*outriggerv1.InputResponse, bool) {
	answers := make(map[string]*outriggerv1.InputResponse, len(shown))
	for key, name := range shown {
		answer, ok := given[name]
		if !ok {
			return nil, false
		}
		answers[key] = answer
	}
	return answers, true
}

// withdraw takes questions back that have no waiter left.
func (r *run) withdraw(shown map[string]string) {
	r.markRead(shown)
	err := r.write(func(record *Record) bool {
		open := maps.Clone(record.Task.GetInputRequests())
		before := len(open)
		for _, name := range shown {
			delete(open, name)
		}
		if len(open) == before {
			return false
		}
		record.Answers = r.unread(record.Answers)
		setOpen(record.Task, open)
		return true
	})
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTaken) {
		r.m.opts.OnError(fmt.Errorf("task: withdraw a question: %w", err))
	}
}

// markRead notes that the answers to questions are needed no longer. They leave
// the record with its next change, because to leave is none that a caller sees.
func (r *run) markRead(shown map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range shown {
		r.read[name] = struct{}{}
	}
}

// unread returns the answers that the work still needs.
func (r *run) unread(answers map[string]*outriggerv1.InputResponse) map[string]*outriggerv1.InputResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := maps.Clone(answers)
	maps.DeleteFunc(left, func(name string, _ *outriggerv1.InputResponse) bool {
		_, read := r.read[name]
		return read
	})
	return left
}

// endedError is why a task that has ended cannot ask. The end of the work's
// context, which knows, follows that of its task.
func (r *run) endedError(ctx context.Context) error {
	select {
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// setOpen sets the questions that are outstanding, and the status that belongs to
// them.
func setOpen(t *outriggerv1.Task, open map[string]*outriggerv1.InputRequest) {
	if len(open) == 0 {
		t.InputRequests, t.Status = nil, outriggerv1.TaskStatus_TASK_STATUS_WORKING
		return
	}
	t.InputRequests, t.Status = open, outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED
}
