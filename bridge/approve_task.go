// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

// waitingCall is a call that waits for approval as a task.
type waitingCall struct {
	// of is the call as it was asked about; nil where another replica did.
	of *approval.Call
	id string
	// who is the caller, nil for one without authentication.
	who  *identity.Identity
	call *statev1.TaskCall
	// resumed: another replica began to wait, and may have run the call.
	resumed bool
	// refused says why the call must not run here; nil where it may.
	refused *errmap.Error
	runs    atomic.Bool
}

// waits reports whether the call has not been taken to run.
func (w *waitingCall) waits() bool { return !w.runs.Load() }

// await waits until the call may run, and takes it.
func (w *waitingCall) await(ctx context.Context, a *approvals, own *toolCall, report func(string)) *errmap.Error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.who.WhenWithdrawn(func() { cancel(identity.ErrRevoked) })()
	if w.refused != nil {
		if r, err := a.service.Get(ctx, w.id); err == nil && (r.GetState() == approval.Running || r.GetState() == approval.Done) {
			return approval.Unknown(own.tool.Name)
		}
		return w.left(ctx, a, w.refused)
	}
	for range maxAsks {
		over, err := w.ask(ctx, a, own, report)
		for err != nil && err.Code == errmap.Unavailable && pause(ctx, lookAgain) {
			over, err = w.ask(ctx, a, own, report) // the store is away: nothing has run, and people may take hours
		}
		if err != nil {
			return w.left(ctx, a, err)
		}
		if over {
			return nil
		}
	}
	return errmap.Because(errmap.Unavailable, "the policy changes too often to ask for approval")
}

// ask asks for approval by the rules of now, and waits. It reports whether the call may run.
func (w *waitingCall) ask(ctx context.Context, a *approvals, own *toolCall, report func(string)) (over bool, err *errmap.Error) {
	if err = w.began(ctx, a, own.tool); err != nil {
		return false, err
	}
	of, err := w.current(ctx, a, own.tool)
	if err != nil {
		return false, err
	}
	if of == nil { // the rules have been changed, and ask no more
		if err = w.waive(ctx, a, own.tool); err != nil {
			return false, err
		}
		w.runs.Store(true)
		return true, nil
	}
	return w.round(ctx, a, own, of, report)
}

// pause waits, and reports false where the context ends first.
func pause(ctx context.Context, long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// began is the error of a call that another replica has begun without an approval: it knew of rules that asked for none.
func (w *waitingCall) began(ctx context.Context, a *approvals, tool *catalog.Tool) *errmap.Error {
	if !w.resumed || tool.IsRepeatable() {
		return nil
	}
	r, err := a.service.Get(ctx, w.call.GetApproval())
	if err == nil && approval.IsWaived(r) {
		err = approval.Unknown(tool.Name)
	}
	return err
}

// waive takes a call to run it here without an approval, which it ends for that: the replica that takes the task over finds it ended,
// and approvers are not asked for nothing.
func (w *waitingCall) waive(ctx context.Context, a *approvals, tool *catalog.Tool) *errmap.Error {
	const why = "the policy rules ask for no approval of the call any more; call again if it has not run"
	first := w.call.GetApproval() // another replica knows this one only
	if w.id != "" && w.id != first {
		if err := a.service.Cancel(ctx, w.id, why); err != nil {
			return err
		}
	}
	r, isOurs, err := a.service.Waive(ctx, first, why)
	switch {
	case err != nil:
		return err
	case isOurs, tool.IsRepeatable() && (approval.IsWaived(r) || r.GetState() == approval.Running || r.GetState() == approval.Done):
		return nil
	case w.resumed && r.GetState() != approval.Denied && r.GetState() != approval.Expired:
		return approval.Unknown(tool.Name)
	}
	return approval.Refusal(r)
}

// current is the call as the rules ask about it now; nil where they ask no more. The caller must still be permitted.
func (w *waitingCall) current(ctx context.Context, a *approvals, tool *catalog.Tool) (*approval.Call, *errmap.Error) {
	if err := a.directory.authorities.MayUse(w.who, tool); err != nil {
		return nil, err
	}
	rule, effect, err := a.rulebook.rules.MayCall(w.who, tool, w.call.GetWire())
	if err != nil {
		return nil, err
	}
	if effect != effectApprove {
		return nil, nil //nolint:nilnil // said above
	}
	asks, ok := a.rulebook.rules.Asks(rule)
	if !ok {
		return nil, errmap.Because(errmap.Unavailable, "the policy rules were replaced a moment ago")
	}
	of := toApprove(tool, w.call.GetWire(), asks)
	if of == nil {
		return nil, errmap.Because(errmap.InternalError, "the arguments of the call cannot be read")
	}
	of.Principal, of.Requester = w.call.GetCaller(), w.call.GetCaller()
	switch {
	case w.of != nil:
		of.Requester, of.Preview = w.of.Requester, w.of.Preview
	case w.who != nil:
		of.Requester = w.who.Name()
	case w.call.GetWho().GetOperator() != "":
		of.Requester = w.call.GetWho().GetOperator()
	}
	return of, nil
}

// round is one question and its answer. It reports whether the call may run now; if not, it is to be asked about again.
func (w *waitingCall) round(ctx context.Context, a *approvals, own *toolCall, of *approval.Call, report func(string)) (over bool, err *errmap.Error) {
	r, err := a.service.Ask(ctx, of, w.id)
	if err != nil {
		return false, err
	}
	if isOpen := r.GetState() == approval.Waiting || r.GetState() == approval.Approved; isOpen {
		if err = w.keep(ctx, r.GetId()); err != nil {
			return false, err
		}
	}
	if r.GetState() == approval.Waiting {
		w.id = r.GetId()
		report(waitText(r, of))
		_, err = a.service.Wait(ctx, w.id)
		return false, err // what it came to, Ask returns, about the caller and the rules of that time
	}
	switch r.GetState() {
	case approval.Cancelled:
		if r.GetId() != w.id {
			return false, approval.Refusal(r)
		}
		w.id = "" // ask anew
		return false, nil
	case approval.Done:
		if w.resumed && r.GetId() == w.id {
			return false, approval.Unknown(own.tool.Name)
		}
		return false, approval.Refusal(r)
	case approval.Running:
		if w.resumed && r.GetId() == w.id {
			return w.claim(ctx, a, own, of, true)
		}
		return false, approval.Refusal(r)
	case approval.Approved:
		w.id = r.GetId()
		return w.claim(ctx, a, own, of, false)
	}
	return false, approval.Refusal(r)
}

// keep has a replica that takes the task over begin with the approval that the call waits for now.
func (w *waitingCall) keep(ctx context.Context, id string) *errmap.Error {
	if id == w.call.GetApproval() {
		return nil
	}
	next, _ := proto.Clone(w.call).(*statev1.TaskCall)
	next.Approval = id
	again, err := proto.Marshal(next)
	if err == nil {
		err = task.BeginWith(ctx, again)
	}
	if err != nil {
		return task.Canonical(ctx, err)
	}
	w.call = next
	return nil
}

// claim takes the call to run it here. Where another replica seems to run it, it waits for the end of that.
func (w *waitingCall) claim(ctx context.Context, a *approvals, own *toolCall, of *approval.Call, elsewhere bool) (over bool, err *errmap.Error) {
	for {
		claim, err := a.service.Claim(ctx, of, w.id, own.tool.IsRepeatable()) // the stored call has its id
		switch {
		case err == nil:
			own.approved.claim = claim
			w.runs.Store(true)
			return true, nil
		case elsewhere && errors.Is(err, approval.ErrChanged):
			return false, approval.Unknown(own.tool.Name) // it has run, or may have
		case errors.Is(err, approval.ErrChanged):
			w.id = ""
			return false, nil
		case !elsewhere || !errors.Is(err, approval.ErrRuns) && err.Code != errmap.Unavailable:
			return false, err
		}
		if !pause(ctx, lookAgain) {
			return false, errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
	}
}

// left is the end of a call that does not run: its approval ends with it, unless another replica goes on.
func (w *waitingCall) left(ctx context.Context, a *approvals, err *errmap.Error) *errmap.Error {
	why := ""
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, identity.ErrRevoked):
		why = "the credentials of its caller ended"
		err = errmap.New(errmap.PermissionDenied, errmap.Tool(w.call.GetTool()), errmap.Message("Permission denied: "+why+" before the call was approved and run"))
	case errors.Is(cause, task.ErrCancelled):
		why = "its caller cancelled it"
	case ctx.Err() == nil && err.Code == errmap.PermissionDenied:
		why = "its caller may not make the call any more"
	}
	if why == "" || w.id == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.tasks.sender.deadlines.most)
	defer cancel()
	_ = a.service.Cancel(ctx, w.id, why) // it expires otherwise
	return err
}

// refuse has the call end without a run.
func (w *waitingCall) refuse(why string) {
	w.refused = errmap.New(errmap.PermissionDenied, errmap.Tool(w.call.GetTool()), errmap.Message("Permission denied: "+why))
}

// resume makes the work of a call that waits again, on another replica than the one that began it. waits is nil where the call was
// taken to run: it has begun, and what ends each replica that runs it must not end them all.
func (a *approvals) resume(own *toolCall, call *statev1.TaskCall) (waits func() bool, err error) {
	if a.service == nil || a.rulebook.rules == nil {
		return nil, errors.New("bridge: there are no approvals")
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	r, failed := a.service.Get(ctx, call.GetApproval())
	if failed != nil && failed.Code == errmap.Unavailable {
		return nil, task.ErrNotYet
	}
	w := &waitingCall{id: call.GetApproval(), call: call, resumed: true}
	if source := call.GetWho().GetSource(); source != "" {
		isOAuth := source == string(identity.SourceOAuth)
		switch {
		case isOAuth && a.again != nil:
			w.who = a.again(factsOf(call.GetIdentity()), call.GetIdentity().GetStanding())
		case !isOAuth && a.named != nil:
			w.who = a.named(call.GetWho().GetName())
		}
		switch {
		case w.who != nil && w.who.Principal() == call.GetCaller():
		case isOAuth || a.named == nil:
			w.refuse("the credentials of its caller cannot be checked by the replica that took it over")
		default:
			w.refuse("there is no caller " + call.GetWho().GetName() + " any more")
		}
	}
	a.held(own, w)
	if r.GetState() == approval.Running {
		return nil, nil //nolint:nilnil // said above
	}
	return w.waits, nil
}
