// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// operationTimeout is how long an operation of the state waits.
const operationTimeout = defaults.StateOperationTimeout

// patience is how long a caller waits. An operation of the state takes two seconds, and some need several.
const patience = 10 * time.Second

// histories are what clients did and saw, by model.
type histories map[string][]porcupine.Operation

func (w *world) add(model string, a *actor, call int64, input, output any) {
	w.put(model, porcupine.Operation{ClientId: a.id, Input: input, Call: call, Output: output, Return: w.now()})
}

// open adds an operation whose outcome is not known.
func (w *world) open(model string, a *actor, call int64, input, output any) {
	w.put(model, porcupine.Operation{ClientId: a.id, Input: input, Call: call, Output: output, Return: math.MaxInt64})
}

func (w *world) put(model string, op porcupine.Operation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history[model] = append(w.history[model], op)
}

// pick returns a replica that takes calls, or nil.
func (a *actor) pick() *replica {
	var out []*replica
	a.w.mu.Lock()
	for _, r := range a.w.replicas {
		if !r.dead && (!r.draining || a.rand.IntN(2) == 0) {
			out = append(out, r)
		}
	}
	a.w.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	return out[a.rand.IntN(len(out))]
}

// ask calls a replica. It reports whether there is an answer: there is none of a
// replica that was killed, and one that drains takes no calls.
func (a *actor) ask(r *replica, what string, f func(context.Context)) (answered bool) {
	answered = true
	alive := a.within(r, what, func(ctx context.Context) {
		call, err := r.table.Register(ctx, r.table.NewOrigin(), jsonrpc.IntID(1))
		if err != nil {
			a.w.reach("a call is refused by a drain")
			answered = false
			return
		}
		defer call.Finish()
		f(call.Context())
		if errors.Is(call.Ended(), correlate.ErrDrainCut) {
			a.w.reach("a drain cuts a call")
		}
	})
	return alive && answered
}

// within does something within the patience of a caller, which must suffice. It reports whether the replica is still there.
func (a *actor) within(r *replica, what string, f func(context.Context)) (alive bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	began := time.Now()
	f(ctx)
	if took := time.Since(began); took > patience+time.Second {
		a.w.violate(propertyAnswer, "%s at %s took %v", what, r.name, took)
	}
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return !r.dead
}

// tasks calls tools as tasks, and follows them.
func (w *world) tasks(a *actor) {
	for n := 0; a.step(10*time.Millisecond, 2*time.Second); n++ {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		method := "Look"
		if a.rand.IntN(10) < 4 {
			method = "Pay"
		}
		lasts := time.Duration(a.rand.Int64N(int64(3 * time.Second)))
		if a.rand.IntN(5) == 0 {
			lasts += time.Duration(a.rand.Int64N(int64(10 * time.Second)))
		}
		name := fmt.Sprintf("%s-%d~%v", a.name, n, lasts.Round(time.Millisecond))
		a.beginTask(r, method, name)
	}
}

func (a *actor) beginTask(r *replica, method, name string) {
	w := a.w
	spec := task.Spec{Principal: principal, Tool: "shop." + method, Timeout: time.Minute, TTL: keep, About: errmap.About{ToolCall: true, Idempotent: method == "Look"}}
	if method == "Look" {
		spec.Again = []byte(name)
	}
	if a.rand.IntN(3) == 0 {
		spec.After = time.Duration(a.rand.Int64N(int64(time.Second)))
	}
	var out *task.Outcome
	var err error
	call := w.now()
	began := w.began(r)
	if !a.ask(r, "begin "+name, func(ctx context.Context) { out, err = r.tasks.Start(ctx, spec, r.work(method, name)) }) {
		return
	}
	switch {
	case err != nil:
		w.refused(r, method, name, spec.After == 0, err)
	case out.Task != nil:
		id := out.Task.GetTaskId()
		w.add("tasks", a, call, models.TaskInput{Kind: "begin", ID: id, Method: method, Name: name}, models.TaskOutput{})
		w.ledger.announced(w, id, method, name)
		a.follow(id)
	case out.Err != nil:
		if began {
			w.reach("a call is answered by a drain")
		}
	case out.Result.GetExplanation() != models.ResultOf(method, name):
		w.violate(propertyIDs, "the call %s %s got %q", method, name, out.Result.GetExplanation())
	default:
		w.reach("a call ends before it is a task")
		if began {
			w.reach("a drained call has its result")
		}
	}
}

// follow asks for a task at any replica until it has ended, and a little longer, and cancels some.
func (a *actor) follow(id string) {
	cancels := -1
	if a.rand.IntN(6) == 0 {
		cancels = a.rand.IntN(4)
	}
	after := 1 + a.rand.IntN(2)
	for i := 0; after > 0; i++ {
		if !a.step(20*time.Millisecond, 800*time.Millisecond) {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		if i == cancels {
			a.cancel(r, id)
		}
		if got := a.look(r, id); got != nil && got.Status != "working" {
			after--
		}
	}
}

func (a *actor) cancel(r *replica, id string) {
	var err error
	call := a.w.now()
	in := models.TaskInput{Kind: "cancel", ID: id}
	if a.ask(r, "cancel", func(ctx context.Context) { err = r.tasks.Cancel(ctx, principal, id) }) && err == nil {
		a.w.add("tasks", a, call, in, models.TaskOutput{})
		a.w.reach("a cancellation is acknowledged")
		return
	}
	a.w.open("tasks", a, call, in, models.TaskOutput{})
}

// look asks for a task once. Nil means that nothing was learned.
func (a *actor) look(r *replica, id string) *models.TaskOutput {
	var got *outriggerv1.Task
	var err error
	call := a.w.now()
	if !a.ask(r, "get", func(ctx context.Context) { got, err = r.tasks.Get(ctx, principal, id) }) {
		return nil
	}
	var out models.TaskOutput
	switch {
	case errors.Is(err, task.ErrNotFound):
		out.Status = models.Gone
	case err != nil:
		a.w.unanswered(r, "get", err)
		return nil
	default:
		out = outputOf(got)
	}
	a.w.say("%s sees %s as %+v at %s", a.name, id, out, r.name)
	a.w.add("tasks", a, call, models.TaskInput{Kind: "get", ID: id}, out)
	return &out
}

// outputOf is what a task shows.
func outputOf(t *outriggerv1.Task) models.TaskOutput {
	switch t.GetStatus() {
	case outriggerv1.TaskStatus_TASK_STATUS_WORKING:
		return models.TaskOutput{Status: "working"}
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED:
		return models.TaskOutput{Status: models.Completed, Text: t.GetResult().GetExplanation()}
	case outriggerv1.TaskStatus_TASK_STATUS_FAILED:
		text := t.GetError().GetMessage()
		if strings.Contains(text, models.OutcomeUnknown) {
			text = models.OutcomeUnknown
		}
		return models.TaskOutput{Status: models.Failed, Text: text}
	case outriggerv1.TaskStatus_TASK_STATUS_CANCELLED:
		return models.TaskOutput{Status: models.Cancelled}
	}
	return models.TaskOutput{Status: t.GetStatus().String()}
}

// consent is a consent that was given to a call.
type consent struct {
	name, token string
}

// consents uses consents, some of them again, at any replica.
func (w *world) useConsents(a *actor) {
	for n := 0; a.step(5*time.Millisecond, time.Second); n++ {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		one := a.consent(n)
		call := w.now()
		binding := keys.Binding{Purpose: "consent", Principal: principal, Digest: keys.Digest([]byte(one.name))}
		_, until, err := w.sealer.OpenUntil(binding, one.token)
		if err != nil {
			w.violate(propertyWorks, "open a consent: %v", err)
			return
		}
		var fresh bool
		began := time.Now()
		isAlive := a.ask(r, "consent", func(ctx context.Context) { fresh, err = r.consents.Spend(ctx, one.token, until) })
		w.say("%s uses %s at %s: %v, %v", a.name, one.name, r.name, fresh, err)
		switch {
		case !isAlive:
			w.open("consents", a, call, one.name, models.Unknown)
		case err != nil:
			w.unanswered(r, "consent", err)
			w.open("consents", a, call, one.name, models.Unknown)
		case fresh:
			w.ledger.consented(w, one.name)
			if time.Since(began) >= operationTimeout {
				w.reach("a consent runs although its acknowledgement was lost")
			}
			w.add("consents", a, call, one.name, models.Ran)
		default:
			w.reach("a consent was used before")
			w.add("consents", a, call, one.name, models.UsedBefore)
		}
	}
}

// consent returns a new one, or one that may have been used.
func (a *actor) consent(n int) *consent {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.consents) > 0 && a.rand.IntN(2) == 0 {
		return w.consents[len(w.consents)-1-a.rand.IntN(min(3, len(w.consents)))]
	}
	one := &consent{name: fmt.Sprintf("%s-%d", a.name, n)}
	token, err := w.sealer.Seal(keys.Binding{Purpose: "consent", Principal: principal, Digest: keys.Digest([]byte(one.name))}, []byte(one.name))
	if err != nil {
		w.broken = append(w.broken, "the simulation works: "+err.Error())
	}
	one.token = token
	w.consents = append(w.consents, one)
	return one
}
