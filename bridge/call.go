// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// maxRounds bounds how often one request may ask its client something:
// more than any dialogue has, and an end to one that goes in circles.
const maxRounds = 32

// dialogue runs a request whose caller can be asked in between: each question
// goes to the client, and the request is made again with the answers, until
// there is none left.
func dialogue(ctx context.Context, req *Request, round func(context.Context, *Request) *Response) *Response {
	for range maxRounds {
		resp := round(ctx, req)
		in := resp.inputRequired()
		if resp.Err != nil || in == nil || req.AskClient == nil {
			return resp
		}
		whole, err := req.Complete()
		if err != nil {
			return &Response{Err: err, Tool: resp.Tool, Decision: resp.Decision}
		}
		req.enter(stageAsk)
		asked := time.Now()
		answers, err := req.AskClient(ctx, in)
		req.waited(asked)
		req.Span.Step(telemetry.StepAsk, asked)
		if err != nil {
			return &Response{Err: err.Naming(req.Tool), Tool: resp.Tool, Decision: resp.Decision}
		}
		req = whole.again(answers, in.GetRequestState())
	}
	return &Response{Err: errmap.Because(errmap.InvalidToolOutput, fmt.Sprintf("backend exceeded %d input rounds", maxRounds))}
}

// calls runs calls of tools: each goes the way of its kind, step by step.
type calls struct {
	parts *parts

	// find turns away what cannot be called or is over its rate. reject does so before the call has its own context.
	find, reject []named
	ways         [kinds][]named
}

// parts are the parts of a bridge whose steps make up the ways of calls.
type parts struct {
	directory  *directory
	counter    *counter
	gatekeeper *gatekeeper
	rates      *rates
	admission  *admission
	encoder    *encoder
	rulebook   *rulebook
	rounds     *rounds
	previews   *previews
	answers    *answers
	auditor    *auditor
	sender     *sender
	rpcs       *rpcs
	tasks      *tasks
	natives    *natives
	compacts   *compacts
	programs   *programs
	operations *operations
	approvals  *approvals
	exchanger  *exchanger
	decoder    *decoder
	digests    *digests
}

// newCalls lists the steps of each kind of call, in their order.
func newCalls(p *parts) *calls {
	w := &calls{parts: p}
	w.find = []named{{stageResolve, w.resolve}, {stageGate, p.gatekeeper.gate}, {stageLimit, p.rates.limit}}
	w.reject = append(slices.Clip(w.find), named{stageRoom, p.admission.room})
	var share, permit, plain, approve, record step
	if p.rates.askShared != nil {
		share = p.rates.share
	}
	if p.rulebook.rules != nil {
		permit, plain = p.rulebook.permit, p.rulebook.permit
	}
	if p.rulebook.rules != nil && p.approvals.service != nil {
		permit, plain, approve = p.rulebook.permitCall, p.approvals.permit, p.approvals.approve
	}
	if p.auditor.trail.IsOn() {
		record = p.auditor.recordCall
	}
	shared, permitted, recorded := named{stageShare, share}, named{stagePermit, permit}, named{stageRecord, record}
	admitted, validated, result := named{stageAdmit, p.admission.admit}, named{stageValidate, p.encoder.validate}, named{stageResult, p.decoder.result}
	around, claimed := named{stageEnvelope, envelope}, named{stageClaim, nil}
	if p.answers.store != nil {
		claimed.run = p.answers.claim
	}
	way := func(is stage, invoke step) []named {
		return steps(shared, admitted, around, named{stageWanted, wanted}, validated, permitted, claimed, named{stageReopen, p.rounds.reopen},
			named{stageConfirm, p.rounds.confirm}, named{stageApprove, approve}, recorded, named{is, invoke}, result)
	}
	w.ways = [kinds][]named{
		plainCall: steps(shared, admitted, around, validated, named{stagePermit, plain}, recorded, named{stageUnary, p.sender.unary}, result),
		unaryCall: way(stageUnary, p.sender.unary),
		previewCall: steps(shared, admitted, around, named{stagePreview, p.previews.choose}, named{stageWanted, wanted}, validated,
			named{stagePreview, p.previews.mark}, permitted, recorded, named{stageUnary, p.sender.unary}, named{stageResult, p.previews.result}),
		pagedCall:     way(stagePaged, p.rpcs.paged),
		streamCall:    way(stageStreamed, p.rpcs.streamed),
		taskCall:      way(stageTask, p.tasks.invokeTask),
		operationCall: way(stageOperation, p.operations.invokeOperation),
		continuation:  way(stageContinue, p.operations.continueOperation),
		nativeCall:    way(stageNative, p.natives.invokeNative),
		compactCall:   way(stageCompact, p.compacts.invokeCompact),
		programCall: steps(shared, around, named{stageWanted, wanted}, validated, named{stageReopen, p.rounds.reopen},
			named{stageProgram, p.programs.run}, result),
		exchangeCall: steps(shared, named{stageExchange, p.exchanger.exchange}),
	}
	return w
}

// steps lists steps without those that the configuration leaves out, which are nil.
func steps(all ...named) []named {
	return slices.DeleteFunc(all, func(s named) bool { return s.run == nil })
}

// kindOf is the kind of a call whose tool is known.
func (w *calls) kindOf(c *toolCall) kind {
	switch {
	case c.req.Exchange != nil:
		return exchangeCall
	case c.tool.Compact == catalog.CompactRun:
		return programCall
	case c.tool.Compact != catalog.NotCompact:
		return compactCall
	case c.req.Wanted.Preview:
		return previewCall
	case c.tool.Continues != catalog.NoContinuation:
		return continuation
	case c.tool.Operation != nil && c.isJSON():
		return operationCall
	case c.tool.Native:
		return nativeCall
	}
	// Items that follow come with the request, so the call cannot outlive it.
	if w.parts.tasks.manager != nil && c.req.Arguments.Encoding == EncodingJSON && c.req.Items == nil {
		if _, ok := c.tool.RunsOn(w.parts.tasks.after); ok {
			return taskCall
		}
	}
	if kind := rpcKind(c); kind != unaryCall || c.blocked != nil || c.req.Repeated || len(c.req.RequestState) > 0 || c.req.Wanted.Fields != "" || w.parts.answers.covers(c) {
		return kind
	}
	return plainCall
}

// call runs a call to its end. checked is the call whose first steps are done, nil for none: a request that is made again after
// a question begins anew.
func (w *calls) call(ctx context.Context, req *Request, checked *toolCall) *Response {
	return dialogue(ctx, req, func(ctx context.Context, req *Request) *Response {
		c := checked
		checked = nil
		if c != nil {
			return w.round(ctx, c, nil)
		}
		return w.round(ctx, &toolCall{req: req}, w.find)
	})
}

// round runs one round of a call, after steps that come before its way. The first error ends it.
func (w *calls) round(ctx context.Context, c *toolCall, before []named) *Response {
	defer w.parts.admission.leave(c)
	if resp := w.walk(ctx, c, before); resp != nil {
		return resp
	}
	resp := w.walk(ctx, c, w.ways[w.kindOf(c)])
	if resp == nil {
		resp = c.response()
	}
	if c.claimed != nil {
		w.parts.answers.settle(ctx, c, resp)
	}
	return resp
}

// walk takes steps until one fails, or the round has its outcome; then it returns the response.
func (w *calls) walk(ctx context.Context, c *toolCall, steps []named) *Response {
	for i := range steps {
		c.req.enter(steps[i].stage)
		if err := steps[i].run(ctx, c); err != nil {
			if c.tool != nil {
				err = c.named(err, c.shownName())
			}
			c.resp.Err = w.parts.decoder.explained(ctx, c, err)
			return c.response()
		}
		if c.resp.Outcome != nil || c.isOver {
			return c.response() // this round has its outcome
		}
	}
	return nil
}

// resolve finds the tool and refuses what cannot be called.
func (w *calls) resolve(ctx context.Context, c *toolCall) *errmap.Error {
	span := c.req.Span
	start := span.Now()
	cat, err := w.parts.directory.catalog(ctx)
	span.Step(telemetry.StepCatalog, start)
	if err != nil {
		return err
	}
	start = span.Now()
	c.tool, err = w.parts.directory.find(ctx, cat, c.req)
	span.Step(telemetry.StepAuthorize, start)
	if err != nil {
		return err
	}
	c.catalog = cat
	w.parts.counter.found(c)
	if c.req.Exchange != nil {
		return w.parts.digests.check(c)
	}
	if c.req.Items != nil && !c.tool.TakesStream() {
		return errmap.Because(errmap.InvalidParams, "tool "+c.tool.Name+" does not take a stream of items")
	}
	if (c.tool.Streams() || c.tool.TakesStream()) && c.req.Arguments.Encoding != EncodingJSON {
		return errmap.Because(errmap.MethodNotFound, "tool "+c.tool.Name+" is a streaming RPC; call it as a tool, or call the backend directly")
	}
	if c.req.Wanted.Digest != "" {
		return w.parts.digests.check(c)
	}
	return nil
}

// envelope has the message around the call checked against its arguments.
func envelope(_ context.Context, c *toolCall) *errmap.Error {
	if c.req.Envelope == nil {
		return nil
	}
	return c.req.Envelope.Check(c.tool, c.arguments())
}

// reopen reads what the caller brought back from an earlier round. Most calls
// bring nothing, and most tools ask nothing.
func (r *rounds) reopen(ctx context.Context, c *toolCall) *errmap.Error {
	c.state = &state{}
	if !c.tool.Native && !c.req.Repeated && len(c.req.RequestState) == 0 {
		return nil
	}
	var err *errmap.Error
	if c.req, err = c.req.Complete(); err != nil {
		return err
	}
	*c.state, err = r.openState(ctx, c.req.Caller, c.digest(), c.req.RequestState, c.req.At("request_state"))
	c.req.Span.Link(c.state.asker)
	c.keepRequestID(c.state.requestID)
	return err
}

// rejected returns the response to a call that rates, shares or a full queue turn away, and nil for the others. It
// waits for nothing, and ctx is that of the edge: the one of the request, with which others may end it, is not made yet.
// So it costs little to say no.
//
// A call that is not turned away is returned with what was found out.
func (w *calls) rejected(ctx context.Context, req *Request) (*toolCall, *Response) {
	if w.parts.directory.catalogs.Current() == nil {
		return nil, nil // resolve would wait
	}
	c := &toolCall{req: req}
	if resp := w.walk(ctx, c, w.reject); resp != nil {
		return nil, resp
	}
	return c, nil
}
