// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
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
	// wire is what the backend is sent, pooled where it is of the bridge's buffers. For an RPC that takes a stream it is the
	// first message, if there is one.
	wire   []byte
	pooled bool
	// checking is the context of the check of the arguments.
	checking timely
	answer   *Answer
	resp     Response
	// place is the call's right to run. Its deadline counts the time that it waited for it.
	place policy.Place
	// turn is the answer's right to the CPU, from the answer to the end of the call.
	turn policy.Turn
	// isPart is set if the call is within a request that was counted for its caller before.
	isPart bool
	// worked is set if the tool answered, with a result or its own error, so that its latency counts.
	worked bool
	// alone is set if the call runs alone, because memory is short.
	alone   bool
	consent consent
	repair  repair
	fit     fit
	input   *streamInput // nil for an RPC that takes one message
}

// consent is what the user of a call is asked, and has said.
type consent struct {
	// blocked is what the gate said where the user may still be asked.
	blocked *errmap.Error
	// state is what the caller brought back from an earlier round.
	state state
}

// repair are the arguments after something in them was decoded, and the places where; both nil where nothing was.
type repair struct {
	arguments []byte
	places    []string
}

// streamInput is what is sent to an RPC that takes a stream.
type streamInput struct {
	// header and items are its JSON; the header is nil where there is none.
	header []byte
	items  [][]byte
	// hasFirst is set if the wire bytes of the call are a message.
	hasFirst bool
}

// keptItems copies the items, for a call that outlives its request.
func (in *streamInput) keptItems() [][]byte {
	if len(in.items) == 0 {
		return nil
	}
	out := make([][]byte, len(in.items))
	for i, item := range in.items {
		out[i] = bytes.Clone(item)
	}
	return out
}

// fit is how a result is made to fit what its caller wants.
type fit struct {
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
	if c.repair.arguments != nil {
		return c.repair.arguments
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

// response is what has become of the call.
func (c *toolCall) response() *Response {
	c.reportRepairs()
	c.resp.Tool = c.tool
	return &c.resp
}

// completed notes whether the tool answered, with a result or its own error. Only then its latency counts.
func (c *toolCall) completed(err *errmap.Error) { c.worked = err == nil || err.FromTool() }

// forgetArguments frees the arguments: the wire bytes say all that the backend is
// to know.
func (c *toolCall) forgetArguments() {
	c.repair.arguments = nil
	c.req.Forget()
}

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

// A step adds facts to a call, ends the round with its outcome, or ends the call with an error.
type step func(ctx context.Context, c *toolCall) *errmap.Error

// kind is the kind of a call, by what its tool is and how it was called. Each has a list of steps.
type kind uint8

// rpcKind is the kind of a call of an RPC.
func rpcKind(c *toolCall) kind {
	switch {
	case c.tool.TakesStream(), c.tool.Streams():
		return streamCall
	case c.tool.Paging != nil:
		return pagedCall
	}
	return unaryCall
}

// isJSON holds for calls of tools, whose results are for models, and not for typed callers.
func (c *toolCall) isJSON() bool {
	return c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == ""
}

// endTurn ends the turn of a call, if it has one.
func (c *toolCall) endTurn() {
	c.turn.End()
	c.turn = policy.Turn{}
}

// note adds to what there is to say about how the result fits.
func (c *toolCall) note(text string) { c.fit.noted = strings.TrimSpace(c.fit.noted + " " + text) }

// explain adds to what people and models are told about the result.
func (c *toolCall) explain(text string) {
	c.resp.Explanation = strings.TrimSpace(c.resp.Explanation + " " + text)
}

// noteOdd notes values that ProtoJSON has no form for. A typed caller gets an error instead: its client would misread them.
func (c *toolCall) noteOdd(noted transcode.Noted) error {
	if c.req.Procedure != "" {
		first := noted.Odd[0]
		return &transcode.OutputError{Step: "encode", Err: fmt.Errorf("%s is %s", first.Path, first.What)}
	}
	before := ""
	switch {
	case c.fit.itemNumber > 0:
		before = fmt.Sprintf("/items/%d", c.fit.itemNumber-1)
	case c.fit.under != "":
		before = "/" + c.fit.under
	case c.tool.OutputNotObject:
		before = "/value"
	}
	for _, odd := range noted.Odd {
		if c.fit.odd++; c.fit.odd <= maxOdd {
			c.note(cmp.Or(before+odd.Path, "The result") + " is " + odd.What + ".")
		}
	}
	if c.fit.odd > maxOdd && !c.fit.oddMore {
		c.fit.oddMore = true
		c.note("More values like these follow.")
	}
	return nil
}

// maxOdd bounds the values of a result without a standard form that its explanation names.
const maxOdd = 4

// maskAgain reads the mask of a call that was made some time ago. If the result does not have its fields any more, it is shown whole.
func (c *toolCall) maskAgain() {
	if c.req.Wanted.Fields == "" {
		return
	}
	mask, failed := c.req.Wanted.Mask(resultView(c.tool))
	if failed != nil {
		c.note(content.OtherFields)
		return
	}
	c.fit.mask = mask
}

// resultView is what the output schema of a tool says about its results.
func resultView(t *catalog.Tool) schema.View { return schema.ViewOf(t.Output.Advertised()) }

// reportRepairs says in the response what was decoded. A question and a task are no
// results: the calls that follow them are of what was decoded.
func (c *toolCall) reportRepairs() {
	if c.resp.Err == nil && c.resp.ToolOutcome().GetResult() != nil {
		c.resp.Repaired = c.repair.places
	}
}

// traceQueue adds the wait for a slot that began at start, and how long it was.
func (c *toolCall) traceQueue(start time.Time) {
	if c.place.Waited > 0 && c.req.Span.IsRecording() {
		c.req.Span.Set(telemetry.Int(telemetry.QueueWait, c.place.Waited.Microseconds()))
	}
	c.req.Span.Step(telemetry.StepQueue, start)
}

// requireTaskSupport refuses a call that could only become a task, where the
// caller's client has no tasks.
func requireTaskSupport(c *toolCall) *errmap.Error {
	if c.tool.TaskSupport != catalog.TaskRequired || c.req.Context.GetCapabilities().GetTasks() {
		return nil
	}
	return missingTasks(c.tool.Name)
}

// missingTasks is the error for a client without the tasks extension.
func missingTasks(tool string) *errmap.Error {
	return errmap.MissingCapability(tool, &outriggerv1.ClientCapabilities{Tasks: true})
}

// timely is a context that also ends at a time. It has no timer, because a check does not wait: it looks at the context as it
// goes on. So the small ones, which are nearly all, pay for reading the clock and no more.
type timely struct {
	context.Context //nolint:containedctx // it is one

	until time.Time
}

func (t *timely) Deadline() (time.Time, bool) {
	if at, ok := t.Context.Deadline(); ok && at.Before(t.until) {
		return at, true
	}
	return t.until, true
}

func (t *timely) Err() error {
	if err := t.Context.Err(); err != nil || time.Now().Before(t.until) {
		return err //nolint:wrapcheck // a context's error is what it is
	}
	return context.DeadlineExceeded
}

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
