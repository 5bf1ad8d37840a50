// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fieldmask"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// toolCall is one tools/call on its way: each step adds a fact.
type toolCall struct {
	req *Request
	// claim is the right to be given up for another attempt.
	claim resilience.Claim
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
	mask *fieldmask.Mask
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
func (b *Bridge) dialogue(ctx context.Context, req *Request, round func(*Bridge, context.Context, *Request) *Response) *Response {
	for range maxRounds {
		resp := round(b, ctx, req)
		in := resp.inputRequired()
		if resp.Err != nil || in == nil || req.AskClient == nil {
			return resp
		}
		whole, err := req.complete()
		if err != nil {
			return &Response{Err: err, Tool: resp.Tool, Decision: resp.Decision}
		}
		asked := time.Now()
		answers, err := req.AskClient(ctx, in)
		req.waited(asked)
		req.Span.Step(tracing.StepAsk, asked)
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

// call runs the steps of one tool call in their order. The first error ends it.
func (b *Bridge) call(ctx context.Context, req *Request) *Response {
	c := req.taken()
	defer b.leave(c)
	if !c.isChecked {
		if resp := b.steps(ctx, c, b.resolve, b.gate, b.limit); resp != nil {
			return resp
		}
	}
	if req.Exchange != nil {
		if resp := b.steps(ctx, c, b.share, b.admitStream, b.exchange); resp != nil {
			return resp
		}
		return c.response()
	}
	if resp := b.steps(ctx, c, b.share, b.admit, b.envelope, b.wanted, b.validate, b.permit, b.reopen, b.confirm, b.invoke, b.result); resp != nil {
		return resp
	}
	return c.response()
}

// steps runs steps until one fails, or the round has its outcome; then it returns the response.
func (b *Bridge) steps(ctx context.Context, c *toolCall, steps ...func(context.Context, *toolCall) *errmap.Error) *Response {
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			if c.tool != nil {
				err = c.named(err, c.shownName())
			}
			c.resp.Err = b.explained(ctx, c, err)
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
func (b *Bridge) resolve(ctx context.Context, c *toolCall) *errmap.Error {
	span := c.req.Span
	start := span.Now()
	cat, err := b.Catalog(ctx)
	span.Step(tracing.StepCatalog, start)
	if err != nil {
		return err
	}
	start = span.Now()
	c.tool, err = b.find(ctx, cat, c.req)
	span.Step(tracing.StepAuthorize, start)
	if err != nil {
		return err
	}
	c.catalog = cat
	b.found(c)
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

// gate asks the policy before the arguments are looked at. Where the policy is
// to ask the user, that comes after the arguments have been checked.
func (b *Bridge) gate(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Compact != catalog.NotCompact {
		return nil // the tool that it finds or calls is what matters
	}
	blocked := b.blocked(ctx, c.tool, c.req.Caller)
	mayAsk := b.opts.Confirm
	if blocked == nil {
		blocked, mayAsk = b.unconfirmed(c), true
	}
	if blocked != nil && mayAsk && b.canAsk(c) {
		c.blocked = blocked
		return nil
	}
	return blocked
}

// limit counts the call against the rates of its caller and its tool.
func (b *Bridge) limit(_ context.Context, c *toolCall) *errmap.Error {
	if err := b.opts.Limiter.Check(c.req.Caller, c.tool.Name); err != nil {
		return err
	}
	return b.unread(c.req, c.tool.Name)
}

// share counts the call against the rates that replicas share.
func (b *Bridge) share(ctx context.Context, c *toolCall) *errmap.Error {
	return b.shared(ctx, c.req, c.tool.Name, c.isPart)
}

// shareOther counts what is no call against the shared rate of its caller. A ping is free, as it is for limitOther.
func (b *Bridge) shareOther(ctx context.Context, req *Request) *errmap.Error {
	if req.Op == OpCall || req.Op == OpPing {
		return nil
	}
	return b.shared(ctx, req, "", false)
}

// shared asks about one request, if there is something to ask.
func (b *Bridge) shared(ctx context.Context, req *Request, tool string, isPart bool) *errmap.Error {
	if b.opts.Shared == nil {
		return nil
	}
	start := req.Span.Now()
	err := b.opts.Shared(ctx, req.Caller, tool, isPart)
	req.Span.Step(tracing.StepRates, start)
	if err != nil && err.Code == errmap.RateLimited {
		b.opts.Limiter.CountRefused(tool)
	}
	return err
}

// limitOther counts what is no call against the caller's rate. A ping is free,
// because one that is refused would look like a server that is gone.
func (b *Bridge) limitOther(req *Request) *errmap.Error {
	if req.Op == OpCall || req.Op == OpPing {
		return nil
	}
	if err := b.opts.Limiter.Check(req.Caller, ""); err != nil {
		return err
	}
	return b.unread(req, "")
}

// unread refuses a request of a caller that does not read its answers, and a call of a tool
// whose results are not read.
func (b *Bridge) unread(req *Request, tool string) *errmap.Error {
	if b.opts.Unread == nil {
		return nil
	}
	return b.opts.Unread(req.Caller, tool)
}

// envelope has the message around the call checked against its arguments.
func (b *Bridge) envelope(_ context.Context, c *toolCall) *errmap.Error {
	if c.req.Envelope == nil {
		return nil
	}
	return c.req.Envelope.Check(c.tool, c.arguments())
}

// reopen reads what the caller brought back from an earlier round. Most calls
// bring nothing, and most tools ask nothing.
func (b *Bridge) reopen(ctx context.Context, c *toolCall) *errmap.Error {
	if !c.tool.Native && !c.req.Repeated && len(c.req.RequestState) == 0 {
		return nil
	}
	var err *errmap.Error
	if c.req, err = c.req.complete(); err != nil {
		return err
	}
	c.state, err = b.openState(ctx, c.req.Caller, c.digest(), c.req.RequestState, c.req.pointer("request_state"))
	c.req.Span.Link(c.state.asker)
	return err
}

// invoke calls the backend, at once or as a task.
func (b *Bridge) invoke(ctx context.Context, c *toolCall) (err *errmap.Error) {
	if err := b.recordCall(ctx, c); err != nil {
		return err
	}
	switch { // what waits for an operation, whose time says nothing about the backend
	case c.tool.Compact != catalog.NotCompact:
		return b.invokeCompact(ctx, c)
	case c.tool.Continues != catalog.NoContinuation:
		return b.continueOperation(ctx, c)
	case c.tool.Operation != nil && c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == "":
		return b.invokeOperation(ctx, c)
	}
	defer func() { c.worked = err == nil || err.FromTool() }()
	if c.tool.Native {
		return b.invokeNative(ctx, c)
	}
	// Items that follow come with the request, so the call cannot outlive it.
	if after, ok := b.taskAfter(c.tool); ok && c.req.Arguments.Encoding == EncodingJSON && c.req.Items == nil {
		return b.invokeTask(ctx, c, after)
	}
	return b.invokeRPC(ctx, c)
}

// invokeRPC calls the backend under the shortest of the three deadlines.
func (b *Bridge) invokeRPC(ctx context.Context, c *toolCall) *errmap.Error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout(c))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	defer c.req.waited(time.Now())
	switch {
	case c.tool.TakesStream():
		return b.invokeExchange(ctx, c)
	case c.tool.Streams():
		return b.invokeStream(ctx, c)
	}
	if c.tool.Paging.FetchesAll() && c.isJSON() {
		return b.invokePages(ctx, c)
	}
	c.forgetArguments()
	err := b.callRPC(ctx, c)
	if err == nil {
		b.fitPage(ctx, c)
	}
	if c.pooled {
		b.buffers.Put(c.wire) // an Upstream keeps nothing of it
		c.wire, c.pooled = nil, false
	}
	b.keepMetadata(c)
	return err
}

// forgetArguments frees the arguments: the wire bytes say all that the backend is
// to know.
func (c *toolCall) forgetArguments() {
	c.repaired = nil
	c.req.forget()
}

// keepMetadata keeps what of the backend's metadata the caller may see.
func (b *Bridge) keepMetadata(c *toolCall) {
	if c.answer != nil {
		c.resp.Header = b.opts.Metadata.Outbound(c.answer.Header)
		c.resp.Trailer = b.trailer(c.req, c.answer.Trailer)
	}
}

// trailer is what of the backend's trailer the caller may see.
func (b *Bridge) trailer(req *Request, trailer http.Header) http.Header {
	if req.Procedure != "" {
		return b.opts.Metadata.Trailer(trailer)
	}
	return b.opts.Metadata.Outbound(trailer)
}

// timeout is the shortest of the caller's, the tool's and the default.
func (b *Bridge) timeout(c *toolCall) time.Duration {
	timeout := b.allowed(c)
	if c.req.Timeout > 0 {
		timeout = min(timeout, c.req.Timeout)
	}
	return timeout - c.place.Waited
}

// allowed is the shorter of the tool's and the default: what a call has where
// its caller does not say less.
func (b *Bridge) allowed(c *toolCall) time.Duration {
	if c.tool.Timeout > 0 {
		return min(b.opts.Timeout, c.tool.Timeout)
	}
	return b.opts.Timeout
}

// emptyObject stands for arguments that were not sent.
var emptyObject = []byte(jsontext.EmptyObject)

// events is what takes the events of a call on behalf of its caller; nil where
// the caller wants none. Nothing is passed on after the call has ended.
func (b *Bridge) events(ctx context.Context, c *toolCall) func(*outriggerv1.ToolEvent) {
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
