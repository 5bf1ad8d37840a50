// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/resilience"
	"github.com/outrigger-mcp/outrigger/bridge/schema"
	"github.com/outrigger-mcp/outrigger/bridge/transcode"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
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
	// wire is what the backend is sent, lent where it is of the bridge's buffers.
	wire   []byte
	lent   bool
	answer *Answer
	resp   Response
	// placed: the call holds one of the places of those that run. queued is how
	// long it waited for it, which its deadline counts.
	placed bool
	// alone: while memory is short, no other call of a caller with flow control
	// runs beside it.
	alone  bool
	queued time.Duration
	// repaired are the arguments after something in them was decoded, and repairs
	// say what; both nil where nothing was.
	repaired []byte
	repairs  []string
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
	return requestDigest(operationCall, c.tool.Name, c.arguments())
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
			return &Response{Err: err, Tool: resp.Tool}
		}
		asked := time.Now()
		answers, err := req.AskClient(ctx, in)
		req.waited(asked)
		if err != nil {
			return &Response{Err: err.Naming(req.Tool), Tool: resp.Tool}
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
	c := &toolCall{req: req}
	defer b.leave(c)
	steps := [...]func(context.Context, *toolCall) *errmap.Error{
		b.resolve,
		b.gate,
		b.limit,
		b.admit,
		b.envelope,
		b.repairing,
		b.reopen,
		b.confirm,
		b.invoke,
		b.result,
	}
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			if c.tool != nil {
				err = err.Naming(c.shownName())
			}
			c.resp.Err = b.explained(ctx, c, err)
			break
		}
		if c.resp.Outcome != nil {
			break // this round has its outcome
		}
	}
	if err := c.reportRepairs(); err != nil {
		c.resp.Err = err
	}
	c.resp.Tool = c.tool
	return &c.resp
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
	cat, err := b.Catalog(ctx)
	if err != nil {
		return err
	}
	c.tool, err = b.find(ctx, cat, c.req)
	if err != nil {
		return err
	}
	c.catalog = cat
	b.found(c)
	if !c.tool.IsCallable() {
		return errmap.Because(errmap.MethodNotFound, "tool "+c.tool.Name+" is an RPC that takes a stream of requests, which cannot be called yet; that is why lists leave it out")
	}
	if c.tool.Method.ServerStreaming && c.req.Arguments.Encoding != EncodingJSON {
		return errmap.Because(errmap.MethodNotFound, "tool "+c.tool.Name+" answers with a stream; call it as a tool, or ask the backend itself")
	}
	return nil
}

// gate asks the policy before the arguments are looked at. Where the policy is
// to ask the user, that comes after the arguments have been checked.
func (b *Bridge) gate(ctx context.Context, c *toolCall) *errmap.Error {
	blocked := b.blocked(ctx, c.tool, c.req.Caller)
	if blocked != nil && b.mayAsk(c) {
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
	return b.unread(c.req)
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
	return b.unread(req)
}

// unread refuses a request of a caller that does not read its answers.
func (b *Bridge) unread(req *Request) *errmap.Error {
	if b.opts.Unread == nil {
		return nil
	}
	return b.opts.Unread(req.Caller)
}

// envelope has the message around the call checked against its arguments.
func (b *Bridge) envelope(_ context.Context, c *toolCall) *errmap.Error {
	if c.req.Envelope == nil {
		return nil
	}
	return c.req.Envelope.Check(c.tool, c.arguments())
}

// validate turns the arguments into wire bytes, or names everything that is
// wrong with them.
func (b *Bridge) validate(_ context.Context, c *toolCall) *errmap.Error {
	if c.tool.Native {
		return declaredInput(c.tool, c.arguments())
	}
	var err error
	switch c.req.Arguments.Encoding {
	case EncodingProtobuf:
		c.wire = c.req.Arguments.Bytes
		if err = c.tool.In.CheckWire(c.wire); err == nil {
			return declaredMessage(c.tool, c.wire)
		}
	default:
		arguments := c.arguments()
		if failed := declaredInput(c.tool, arguments); failed != nil {
			return failed
		}
		c.wire, err = c.tool.In.ToWireWith(&b.buffers, nil, arguments)
		c.lent = err == nil
	}
	if err == nil {
		return nil
	}
	return inputError(c.tool, err)
}

// inputError tells arguments that break the schema or its rules from bytes that
// are no message at all, which only a typed pass-through can send, and both from
// a fault of ours.
func inputError(tool *catalog.Tool, err error) *errmap.Error {
	var input *transcode.InputError
	if errors.As(err, &input) {
		failed := errmap.InvalidInput(tool.Name, input.Structural, violations(input.Violations)...)
		if slices.ContainsFunc(input.Violations, func(v schema.Violation) bool { return v.Keyword == "maxDepth" }) {
			failed.Limit = errmap.LimitJSONDepth
		}
		return failed
	}
	var unreadable *transcode.OutputError
	if errors.As(err, &unreadable) {
		return errmap.InvalidInput(tool.Name, true, errmap.Violation{
			Keyword: "encoding", Message: "the bytes are not an encoding of " + string(tool.Method.Descriptor.Input().FullName()),
		})
	}
	return internalError(err)
}

// reopen reads what the caller brought back from an earlier round. Most calls
// bring nothing, and most tools ask nothing.
func (b *Bridge) reopen(_ context.Context, c *toolCall) *errmap.Error {
	if !c.tool.Native && !c.req.Repeated && len(c.req.RequestState) == 0 {
		return nil
	}
	var err *errmap.Error
	if c.req, err = c.req.complete(); err != nil {
		return err
	}
	c.state, err = b.openState(c.req.Caller, c.digest(), c.req.RequestState, c.req.pointer("request_state"))
	return err
}

// invoke calls the backend, at once or as a task.
func (b *Bridge) invoke(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Native {
		return b.invokeNative(ctx, c)
	}
	if after, ok := b.taskAfter(c.tool); ok && c.req.Arguments.Encoding == EncodingJSON {
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
	if c.tool.Method.ServerStreaming {
		return b.invokeStream(ctx, c)
	}
	c.forgetArguments()
	err := b.callRPC(ctx, c)
	if c.lent {
		b.buffers.Put(c.wire) // a caller of backends keeps nothing of it
		c.wire, c.lent = nil, false
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
		c.resp.Header = b.opts.Metadata.outbound(c.answer.Header)
		c.resp.Trailer = b.opts.Metadata.outbound(c.answer.Trailer)
	}
}

// timeout is the shortest of the caller's, the tool's and the default.
func (b *Bridge) timeout(c *toolCall) time.Duration {
	timeout := b.allowed(c)
	if c.req.Timeout > 0 {
		timeout = min(timeout, c.req.Timeout)
	}
	return timeout - c.queued
}

// allowed is the shorter of the tool's and the default: what a call has where
// its caller does not say less.
func (b *Bridge) allowed(c *toolCall) time.Duration {
	if c.tool.Timeout > 0 {
		return min(b.opts.Timeout, c.tool.Timeout)
	}
	return b.opts.Timeout
}

// result checks the answer and brings it into the caller's encoding.
func (b *Bridge) result(ctx context.Context, c *toolCall) *errmap.Error {
	c.resp.Result.Encoding = c.req.Arguments.Encoding
	if c.resp.Result.Bytes != nil {
		return b.checked(c) // a stream was read to its end, item by item
	}
	if c.tool.HTTPBody && c.req.Arguments.Encoding == EncodingJSON {
		return b.rawBody(c)
	}
	var err error
	switch c.req.Arguments.Encoding {
	case EncodingProtobuf:
		c.resp.Result.Bytes = c.answer.Body
		err = c.tool.Out.CheckWire(c.answer.Body)
	default:
		c.resp.Result.Bytes, err = b.resultJSON(ctx, c)
		c.resp.Result.lent = true
		c.answer = nil // all of it is there as JSON
	}
	if err == nil {
		return b.checked(c)
	}
	c.resp.Result = Payload{}
	return outputError(err)
}

// checked lets a result through that is not too large and, where an output
// schema was declared, keeps to it.
func (b *Bridge) checked(c *toolCall) *errmap.Error {
	failed := b.bounded(c)
	if failed == nil {
		failed = declaredOutput(c)
	}
	if failed != nil {
		c.resp.Result = Payload{}
	}
	return failed
}

// outputError tells what is no message at all from a message that breaks its
// own schema; what is neither is a fault of ours.
func outputError(err error) *errmap.Error {
	var broken *transcode.InputError
	if errors.As(err, &broken) {
		return errmap.Wrap(errmap.InvalidToolOutput, err, errmap.WithViolations(violations(broken.Violations)...))
	}
	var unreadable *transcode.OutputError
	if errors.As(err, &unreadable) {
		return errmap.Wrap(errmap.SerializationError, err)
	}
	return internalError(err)
}

// bounded refuses a result that no caller should have to take.
func (b *Bridge) bounded(c *toolCall) *errmap.Error {
	size := len(c.resp.Result.Bytes)
	if b.opts.MaxResult <= 0 || size <= b.opts.MaxResult {
		return nil
	}
	return b.tooLargeResult(size)
}

// resultJSON is the answer as the tool's output schema describes it: ProtoJSON,
// in an object {"value": ...} where it is no object itself. Only a typed
// pass-through gets it bare, because its caller knows the message.
func (b *Bridge) resultJSON(ctx context.Context, c *toolCall) ([]byte, error) {
	if !c.tool.OutputNotObject || c.req.Procedure != "" {
		return b.answerJSON(ctx, c, nil, c.answer.Body)
	}
	dst, err := b.answerJSON(ctx, c, []byte(`{"value":`), c.answer.Body)
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// violations carries a schema's findings over into the canonical vocabulary.
func violations(found []schema.Violation) []errmap.Violation {
	if len(found) == 0 {
		return nil
	}
	out := make([]errmap.Violation, len(found))
	for i, v := range found {
		out[i] = errmap.Violation(v)
	}
	return out
}

// operationCall names a call in what is sealed for it.
const operationCall = "tools/call"

// emptyObject stands for arguments that were not sent.
var emptyObject = []byte("{}")
