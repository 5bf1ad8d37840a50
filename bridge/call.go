// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// toolCall is one tools/call on its way: each step adds a fact.
type toolCall struct {
	req *Request
	// claim is the right to be given up for another attempt.
	claim backend.Claim
	tool  *catalog.Tool
	// catalog is what the tool was found in.
	catalog *catalog.Catalog
	// deadline is when the caller stops waiting, once the backend is called.
	deadline time.Time
	// learnUntil bounds all look-ups of types for this call; see learnFor.
	learnUntil time.Time
	// blocked is what the gate said where the user may still be asked.
	blocked *errmap.Error
	// state is what the caller brought back from an earlier round.
	state state
	// wire is what the backend is sent, pooled where it is of the bridge's buffers. For an RPC that takes a stream it is the
	// first message, if there is one.
	wire             []byte
	pooled, hasFirst bool
	// checking is the context of the check of the arguments.
	checking timely
	// header and items are the JSON of what is sent to an RPC that takes a stream; the header is nil where there is none.
	header []byte
	items  [][]byte
	answer *Answer
	resp   Response
	// place is the call's right to run. Its deadline counts the time that it waited for it.
	place policy.Place
	// turn is the answer's right to the CPU, from the answer to the end of the call.
	turn policy.Turn
	// releaseStream gives back the place of a stream; nil for other calls.
	releaseStream func()
	// isChecked: the steps before admission are done.
	isChecked bool
	// isPart: the call is within a request that was counted for its caller before.
	isPart bool
	// worked: the tool did what it was asked to, or said why it could not; so its latency counts.
	worked bool
	// alone: while memory is short, no other call of a caller with flow control
	// runs beside it.
	alone bool
	// repaired are the arguments after something in them was decoded, and repairs
	// say what; both nil where nothing was.
	repaired []byte
	repairs  []string
	// mask selects the fields of the result that the caller wants; nil for all.
	mask *content.Mask
	// noted is what there is to say about how the result fits; empty for nothing.
	noted string
	// odd counts the values of the result that JSON has no standard form for, and oddMore is set once that is noted without
	// their names. itemNumber is the number of the message of a stream that is being read, zero for none.
	odd, itemNumber int
	oddMore         bool
	// isFetch: the result of an earlier call is fetched, with the fields which it chose.
	isFetch bool
	// under names the member of the answer that holds the result; empty where the result is the whole answer.
	under string
}

// arguments is the JSON text of the arguments; there is always one.
func (c *toolCall) arguments() []byte {
	if c.repaired != nil {
		return c.repaired
	}
	if c.req.Arguments.Bytes == nil {
		return emptyObject
	}
	return c.req.Arguments.Bytes
}

// digest ties a state to this call.
func (c *toolCall) digest() [32]byte {
	return requestDigest(OpCall, c.tool.Name, c.arguments())
}

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

// inputRequired is the question that a response is, nil where it is none.
func (r *Response) inputRequired() *outriggerv1.InputRequired {
	if in := r.Outcome.GetInputRequired(); in != nil {
		return in
	}
	if asks, ok := r.Message.(interface {
		GetInputRequired() *outriggerv1.InputRequired
	}); ok {
		return asks.GetInputRequired()
	}
	return nil
}

// A step adds facts to a call, ends the round with its outcome, or ends the call with an error.
type step func(ctx context.Context, c *toolCall) *errmap.Error

// kind is the kind of a call, by what its tool is and how it was called. Each has a list of steps.
type kind uint8

const (
	plainCall     kind = iota // an RPC with one message each way, of a caller who asks for nothing more
	unaryCall                 // the same for a caller who has a field mask, or may be asked for consent
	pagedCall                 // an RPC that lists in pages
	streamCall                // an RPC that takes or answers with a stream, called as a tool
	taskCall                  // an RPC that may run on as a task
	operationCall             // an RPC that answers with a long-running operation
	continuation              // a tool that continues an operation
	nativeCall                // a tool of a backend that implements outrigger.v1.ToolService
	compactCall               // a tool of a compact catalog
	exchangeCall              // a streaming RPC, called as such
	kinds
)

// calls runs calls of tools: each goes the way of its kind, step by step.
type calls struct {
	*callParts

	// find turns away what cannot be called or is over its rate. reject does so before the call has its own context.
	find, reject []step
	ways         [kinds][]step
}

// callParts are the parts whose steps make up the ways.
type callParts struct {
	directory  *directory
	counter    *counter
	gatekeeper *gatekeeper
	rates      *rates
	admission  *admission
	encoder    *encoder
	rulebook   *rulebook
	rounds     *rounds
	auditor    *auditor
	rpcs       *rpcs
	tasks      *tasks
	natives    *natives
	compacts   *compacts
	operations *operations
	exchanger  *exchanger
	decoder    *decoder
}

// newCalls lists the steps of each kind of call, in their order.
func newCalls(p *callParts) *calls {
	w := &calls{callParts: p}
	w.find = []step{w.resolve, p.gatekeeper.gate, p.rates.limit}
	w.reject = append(slices.Clip(w.find), p.admission.room)
	var share, permit, record step
	if p.rates.askShared != nil {
		share = p.rates.share
	}
	if p.rulebook.rules != nil {
		permit = p.rulebook.permit
	}
	if p.auditor.trail.IsOn() {
		record = p.auditor.recordCall
	}
	way := func(invoke step) []step {
		return steps(share, p.admission.admit, envelope, wanted, p.encoder.validate, permit, p.rounds.reopen, p.rounds.confirm, record, invoke, p.decoder.result)
	}
	w.ways = [kinds][]step{
		plainCall:     steps(share, p.admission.admit, envelope, p.encoder.validate, permit, record, p.rpcs.unary, p.decoder.result),
		unaryCall:     way(p.rpcs.unary),
		pagedCall:     way(p.rpcs.paged),
		streamCall:    way(p.rpcs.streamed),
		taskCall:      way(p.tasks.invokeTask),
		operationCall: way(p.operations.invokeOperation),
		continuation:  way(p.operations.continueOperation),
		nativeCall:    way(p.natives.invokeNative),
		compactCall:   way(p.compacts.invokeCompact),
		exchangeCall:  steps(share, p.exchanger.admitStream, p.exchanger.exchange),
	}
	return w
}

// steps lists steps without those that the configuration leaves out, which are nil.
func steps(all ...step) []step {
	return slices.DeleteFunc(all, func(s step) bool { return s == nil })
}

// kindOf is the kind of a call whose tool is known.
func (w *calls) kindOf(c *toolCall) kind {
	switch {
	case c.req.Exchange != nil:
		return exchangeCall
	case c.tool.Compact != catalog.NotCompact:
		return compactCall
	case c.tool.Continues != catalog.NoContinuation:
		return continuation
	case c.tool.Operation != nil && c.isJSON():
		return operationCall
	case c.tool.Native:
		return nativeCall
	}
	// Items that follow come with the request, so the call cannot outlive it.
	if w.tasks.manager != nil && c.req.Arguments.Encoding == EncodingJSON && c.req.Items == nil {
		if _, ok := c.tool.RunsOn(w.tasks.after); ok {
			return taskCall
		}
	}
	if kind := rpcKind(c); kind != unaryCall || c.blocked != nil || c.req.Repeated || len(c.req.RequestState) > 0 || c.req.Wanted.Fields != "" {
		return kind
	}
	return plainCall
}

// call runs one round of a call. The first error ends it.
func (w *calls) call(ctx context.Context, req *Request) *Response {
	c := req.taken()
	defer w.admission.leave(c)
	if !c.isChecked {
		if resp := w.walk(ctx, c, w.find); resp != nil {
			return resp
		}
	}
	if resp := w.walk(ctx, c, w.ways[w.kindOf(c)]); resp != nil {
		return resp
	}
	return c.response()
}

// walk takes steps until one fails, or the round has its outcome; then it returns the response.
func (w *calls) walk(ctx context.Context, c *toolCall, steps []step) *Response {
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			if c.tool != nil {
				err = c.named(err, c.shownName())
			}
			c.resp.Err = w.decoder.explained(ctx, c, err)
			return c.response()
		}
		if c.resp.Outcome != nil {
			return c.response() // this round has its outcome
		}
	}
	return nil
}

// response is what has become of the call.
func (c *toolCall) response() *Response {
	c.reportRepairs()
	c.resp.Tool = c.tool
	return &c.resp
}

// named is an error with the name of the tool and the message that it is about. An argument of catalog.call is none of the tool.
func (c *toolCall) named(err *errmap.Error, name string) *errmap.Error {
	if c.req.Through != "" && err.Tool == c.req.Through {
		return err.Naming(err.Tool)
	}
	out := err.Naming(name)
	if out.Document == nil {
		out.Document = c.document(out.Code)
	}
	return out
}

// document is the message that an error is about, nil for none.
func (c *toolCall) document(code errmap.Code) protoreflect.MessageDescriptor {
	rpc := c.tool.Method.Descriptor
	switch {
	case c.tool.Native || c.tool.Compact != catalog.NotCompact || rpc == nil:
		return nil
	case code == errmap.InvalidToolOutput:
		return rpc.Output()
	case code == errmap.ToolExecutionFailed && c.req.Procedure == "":
		return rpc.Input()
	case code == errmap.InvalidToolInput && (c.req.Exchange != nil || !c.tool.TakesStream()):
		return rpc.Input()
	}
	return nil
}

// shownName is the tool's name as the caller wrote it.
func (c *toolCall) shownName() string {
	if c.req.Tool != "" {
		return c.req.Tool
	}
	return c.tool.Name
}

// resolve finds the tool and refuses what cannot be called.
func (w *calls) resolve(ctx context.Context, c *toolCall) *errmap.Error {
	span := c.req.Span
	start := span.Now()
	cat, err := w.directory.Catalog(ctx)
	span.Step(telemetry.StepCatalog, start)
	if err != nil {
		return err
	}
	start = span.Now()
	c.tool, err = w.directory.find(ctx, cat, c.req)
	span.Step(telemetry.StepAuthorize, start)
	if err != nil {
		return err
	}
	c.catalog = cat
	w.counter.found(c)
	if c.req.Exchange != nil {
		return nil
	}
	if c.req.Items != nil && !c.tool.TakesStream() {
		return errmap.Because(errmap.InvalidParams, "tool "+c.tool.Name+" does not take a stream of items")
	}
	if (c.tool.Streams() || c.tool.TakesStream()) && c.req.Arguments.Encoding != EncodingJSON {
		return errmap.Because(errmap.MethodNotFound, "tool "+c.tool.Name+" is a streaming RPC; call it as a tool, or call the backend directly")
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
	if !c.tool.Native && !c.req.Repeated && len(c.req.RequestState) == 0 {
		return nil
	}
	var err *errmap.Error
	if c.req, err = c.req.Complete(); err != nil {
		return err
	}
	c.state, err = r.openState(ctx, c.req.Caller, c.digest(), c.req.RequestState, c.req.At("request_state"))
	c.req.Span.Link(c.state.asker)
	return err
}

// completed notes whether the tool answered, with a result or its own error. Only then its latency counts.
func (c *toolCall) completed(err *errmap.Error) { c.worked = err == nil || err.FromTool() }

// forgetArguments frees the arguments: the wire bytes say all that the backend is
// to know.
func (c *toolCall) forgetArguments() {
	c.repaired = nil
	c.req.Forget()
}

// emptyObject represents arguments that were not sent.
var emptyObject = []byte(jsontext.EmptyObject)

// events is what takes the events of a call on behalf of its caller; nil where
// the caller wants none. Nothing is passed on after the call has ended.
func (c *toolCall) events(ctx context.Context) func(*outriggerv1.ToolEvent) {
	if c.req.Events == nil {
		return nil
	}
	return func(e *outriggerv1.ToolEvent) {
		if ctx.Err() == nil {
			c.req.Events(e)
		}
	}
}

// EventFilter selects the events of a call that its caller asked for. It keeps state
// between the calls of one request and is not safe for concurrent use.
type EventFilter struct {
	// Progress is set if the caller wants progress. Level is the minimum log level;
	// unspecified is none.
	Progress bool
	Level    outriggerv1.LogLevel

	// last is the progress of the last report, once there is one.
	last    float64
	hasLast bool
}

// Wants reports whether the caller gets an event. A report of progress is dropped
// unless it is above the one before it (MCP, progress).
func (f *EventFilter) Wants(e *outriggerv1.ToolEvent) bool {
	switch e := e.GetEvent().(type) {
	case *outriggerv1.ToolEvent_Progress:
		now := e.Progress.GetProgress()
		if !f.Progress || f.hasLast && now <= f.last {
			return false
		}
		if !math.IsNaN(now) {
			f.last, f.hasLast = now, true
		}
		return true
	case *outriggerv1.ToolEvent_Log:
		return f.Level != outriggerv1.LogLevel_LOG_LEVEL_UNSPECIFIED && e.Log.GetLevel() >= f.Level
	case *outriggerv1.ToolEvent_Partial, *outriggerv1.ToolEvent_Quiet:
		return true
	}
	return false
}

// rejected returns the response to a request that rates, shares or a full queue turn away, and nil for the others. It
// waits for nothing, and ctx is that of the edge: the one of the request, with which others may end it, is not made yet.
// So it costs little to say no.
//
// A call that is not turned away keeps what was found out; see [Request.taken].
func (b *Bridge) rejected(ctx context.Context, req *Request) *Response {
	if req.Op != OpCall {
		if err := b.limitOther(req); err != nil {
			return &Response{Err: err}
		}
		return nil
	}
	if req.meter == nil || b.catalogs.Current() == nil {
		return nil // resolve would wait
	}
	c := &toolCall{req: req}
	if resp := b.calls.walk(ctx, c, b.calls.reject); resp != nil {
		return resp
	}
	c.isChecked, req.meter.checked = true, c
	return nil
}

// taken returns the call that rejected has begun, once: a request that is made again after a question begins anew.
func (r *Request) taken() *toolCall {
	if r.meter == nil || r.meter.checked == nil {
		return &toolCall{req: r}
	}
	c := r.meter.checked
	r.meter.checked = nil
	return c
}
