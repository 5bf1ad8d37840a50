// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

const (
	// refund and restock are tools whose calls two people approve; a restock may be repeated.
	refund, restock = "Refund", "Restock"
	// againPrefix is what the record of a task that waits for approval begins with.
	againPrefix = "approval "
)

// operators are those of all replicas. bob has two entries, and the requester has one.
func operators() map[string]approval.Approver {
	out := map[string]approval.Approver{}
	for name, callsAs := range map[string][]string{"ann": nil, "bob": {"bot"}, "bob-at-home": {"bot"}, "cid": nil, "ally": {principal}} {
		out[name] = approval.Approver{Name: name, Groups: []string{"risk"}, CallsAs: callsAs}
	}
	return out
}

// personOf is who an operator is.
func personOf(operator string) string {
	switch operator {
	case "bob-at-home":
		return "bob"
	case "ally":
		return principal
	}
	return operator
}

// asked is a call that needs approval.
type asked struct {
	method, name string
	// id is that of its approval, once its caller heard of one.
	id string
	// over: its caller knows what became of it.
	over bool
}

func (c *asked) isIdempotent() bool { return c.method == restock }

// of is the call as it is asked about.
func (w *world) of(c *asked) *approval.Call {
	return &approval.Call{
		Requester: principal, Principal: principal, Tool: "shop." + c.method, Rule: w.rule,
		Arguments: sha256.Sum256([]byte(c.name)), ArgumentsJSON: []byte(`"` + c.name + `"`),
	}
}

// askForApproval makes calls that need approval, some of them twice and at once, and some as tasks.
func (w *world) askForApproval(a *actor) {
	for n := 0; a.step(10*time.Millisecond, time.Second); n++ {
		c := a.toAsk(n)
		if c == nil {
			return // all is calm, and nothing is left
		}
		r := a.pick()
		if r == nil {
			continue
		}
		asTask := c.id == "" && a.rand.IntN(2) == 0
		var err *errmap.Error
		if !a.ask(r, "approval "+c.name, func(ctx context.Context) { err = r.attempt(ctx, c, asTask) }) {
			continue
		}
		w.say("%s calls %s at %s: %v", a.name, c.name, r.name, err)
		w.heard(r, c, err)
	}
}

// toAsk is a new call, or one whose end is not known; nil once there is none.
func (a *actor) toAsk(n int) *asked {
	w := a.w
	w.mu.Lock()
	defer w.mu.Unlock()
	var open []*asked
	for _, c := range w.asked {
		if !c.over {
			open = append(open, c)
		}
	}
	if len(open) > 0 && (w.calm || len(open) > 6 || a.rand.IntN(3) > 0) {
		return open[a.rand.IntN(len(open))]
	}
	if w.calm {
		return nil
	}
	c := &asked{method: refund, name: fmt.Sprintf("%s-%d~%v", a.name, n, time.Duration(a.rand.Int64N(int64(3*time.Second))).Round(time.Millisecond))}
	if a.rand.IntN(2) == 0 {
		c.method = restock
	}
	w.asked = append(w.asked, c)
	return c
}

// heard notes what the caller of a call learned.
func (w *world) heard(r *replica, c *asked, err *errmap.Error) {
	over := false
	switch {
	case err == nil:
		over = true
		w.reach("an approved call ends with its caller")
	case err.Code == errmap.ApprovalRequired:
	case errors.Is(err, approval.ErrRuns):
		w.reach("a call that was approved runs elsewhere")
	case err.Code == errmap.PermissionDenied, errors.Is(err, errAsTask):
		over = true
	case strings.Contains(err.Error(), "outcome unknown"):
		over = true
		w.reach("an approved call ends as unknown")
	case err.Code == errmap.Unavailable, err.Code == errmap.Timeout, err.Code == errmap.Cancelled:
		w.reach("an approval finds the state unavailable")
	default:
		w.violate(propertyErrors, "approval of %s at %s: %v", c.name, r.name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.over = c.over || over
}

// errAsTask is the cause of the end of a call that goes on as a task.
var errAsTask = errors.New("it goes on as a task")

// attempt is one request of a caller, as package bridge has it: nil once the call has run.
func (r *replica) attempt(ctx context.Context, c *asked, asTask bool) *errmap.Error {
	of := r.w.of(c)
	r.w.mu.Lock()
	known := c.id
	r.w.mu.Unlock()
	record, err := r.office.Ask(ctx, of, known)
	if err != nil {
		return err
	}
	r.w.mu.Lock()
	c.id = record.GetId()
	r.w.mu.Unlock()
	if isFresh := record.GetState() == approval.Waiting || record.GetState() == approval.Approved; isFresh && asTask {
		return r.asTask(ctx, c, record.GetId())
	}
	if record.GetState() == approval.Waiting {
		return approval.Refusal(record)
	}
	claim, err := r.office.Claim(ctx, of, record.GetId(), c.isIdempotent())
	if err != nil {
		return err
	}
	_, err = r.run(ctx, c, claim, func(string) {})
	return err
}

// run runs a call that was taken to run, and notes its end.
func (r *replica) run(ctx context.Context, c *asked, claim *approval.Claim, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
	r.w.ledger.approvedRun(r.w, r, c, claim.ID)
	result, err := r.work(c.method, c.name)(ctx, report)
	if cause := context.Cause(ctx); errors.Is(cause, task.ErrClosed) || errors.Is(cause, task.ErrTaken) {
		return result, err
	}
	r.office.Finish(ctx, claim, false)
	return result, err
}

// asTask makes the call a task that waits.
func (r *replica) asTask(ctx context.Context, c *asked, id string) *errmap.Error {
	w := &waiting{r: r, call: c, id: id}
	_, err := r.tasks.Start(ctx, task.Spec{
		Principal: principal, Tool: "shop." + c.method, Timeout: time.Minute, TTL: keep, Waits: w.waits,
		About: errmap.About{ToolCall: true, Idempotent: c.isIdempotent()}, Again: []byte(againPrefix + c.method + " " + c.name + " " + id),
	}, w.work)
	if err != nil {
		return task.Canonical(ctx, err)
	}
	r.w.reach("a call waits for approval as a task")
	return errmap.Wrap(errmap.Cancelled, errAsTask)
}

// waiting is the work of a task that waits for approval, as package bridge has it.
type waiting struct {
	r       *replica
	call    *asked
	id      string
	resumed bool
	begun   bool
}

func (w *waiting) waits() bool {
	w.r.w.mu.Lock()
	defer w.r.w.mu.Unlock()
	return !w.begun
}

// resumeWaiting goes on with a task of another replica that waits for approval.
func (r *replica) resumeWaiting(again string) (task.Run, task.Spec, error) {
	r.w.reach("a task that waits for approval is taken over")
	parts := strings.Fields(again)
	w := &waiting{r: r, call: &asked{method: parts[0], name: parts[1], id: parts[2]}, id: parts[2], resumed: true}
	return w.work, task.Spec{About: errmap.About{Idempotent: w.call.isIdempotent()}, Waits: w.waits}, nil
}

func (w *waiting) work(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
	for {
		claim, err := w.await(ctx)
		switch {
		case claim != nil:
			w.r.w.mu.Lock()
			w.begun = true
			w.r.w.mu.Unlock()
			return w.r.run(ctx, w.call, claim, report)
		case err != nil && err.Code == errmap.Unavailable && ctx.Err() == nil:
			w.r.w.reach("a task waits for a store that is away")
			time.Sleep(time.Second)
		case err != nil:
			return nil, err
		}
	}
}

// await is one question and its answer; neither is set where it is to be asked again.
func (w *waiting) await(ctx context.Context) (*approval.Claim, *errmap.Error) {
	of := w.r.w.of(w.call)
	record, err := w.r.office.Ask(ctx, of, w.id)
	if err != nil {
		return nil, err
	}
	mine := w.resumed && record.GetId() == w.id
	switch state := record.GetState(); {
	case state == approval.Waiting:
		w.id = record.GetId()
		_, err = w.r.office.Wait(ctx, w.id)
		return nil, err
	case state == approval.Approved, state == approval.Running && mine:
		w.id = record.GetId()
	case state == approval.Done && mine:
		return nil, approval.Unknown(of.Tool)
	default:
		return nil, approval.Refusal(record)
	}
	claim, err := w.r.office.Claim(ctx, of, w.id, w.call.isIdempotent())
	if err != nil && mine && record.GetState() == approval.Running && (errors.Is(err, approval.ErrRuns) || err.Code == errmap.Unavailable) {
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			return nil, errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
		return nil, nil //nolint:nilnil // said above
	}
	return claim, err
}

// decides is an operator with several entries that looks for calls that wait, and approves or denies some.
func (w *world) decides(a *actor) {
	names := []string{"ann", "bob", "bob-at-home", "cid", "ally"}
	for a.step(10*time.Millisecond, 600*time.Millisecond) {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		who := operators()[names[a.rand.IntN(len(names))]]
		approve := a.rand.IntN(8) > 0
		at := a.rand.Uint64()
		var record *statev1.ApprovalRecord
		var err *errmap.Error
		isThere := a.ask(r, "decide", func(ctx context.Context) {
			var all []*statev1.ApprovalRecord
			if all, err = r.office.List(ctx, false); err == nil && len(all) > 0 {
				record, err = r.office.Decide(ctx, all[at%uint64(len(all))].GetId(), who, approve, "because")
			}
		})
		w.say("%s decides as %s at %s: %v, %v", a.name, who.Name, r.name, record, err)
		switch {
		case !isThere || record == nil && err == nil:
		case err == nil:
			w.ledger.decided(record.GetId(), who.Name, approve)
		case errors.Is(err, approval.ErrOver), err.Code == errmap.ResourceNotFound:
		case err.Code == errmap.PermissionDenied:
			w.reach("an operator may not decide")
		case err.Code == errmap.Unavailable, err.Code == errmap.Timeout, err.Code == errmap.Cancelled:
			w.reach("a decision finds the state unavailable")
		default:
			w.violate(propertyErrors, "a decision at %s: %v", r.name, err)
		}
	}
}
