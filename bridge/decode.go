// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	"google.golang.org/protobuf/types/known/anypb"
)

// resultLimit bounds the size of results. Zero is none.
type resultLimit struct {
	most  int
	stats *telemetry.Stats
}

// check returns RESOURCE_EXHAUSTED for a result of more bytes than one may have, else nil.
func (l *resultLimit) check(size int) *errmap.Error {
	if l.most > 0 && size > l.most {
		return l.exceeded(size)
	}
	return nil
}

// exceeded is RESOURCE_EXHAUSTED for a result that no caller should have to take.
func (l *resultLimit) exceeded(size int) *errmap.Error {
	l.stats.Over(errmap.LimitResultBytes)
	return errmap.Because(errmap.ResourceExhausted, fmt.Sprintf("the result has %d bytes; the limit is %d (--max-result-bytes)", size, l.most))
}

// decoder turns answers of the backend into results.
type decoder struct {
	keeper *content.Keeper
	limit  *resultLimit

	catalogs Catalogs
	slots    *policy.Slots
	buffers  *bytepool.Pool
	// canRead reports whether callers can read resources of a catalog.
	canRead      func(*catalog.Catalog) bool
	resultBudget int
	reduced      atomic.Uint64
}

// result checks the answer, brings it into the caller's encoding, and leaves out what the caller does not want or has no room for.
func (d *decoder) result(ctx context.Context, c *toolCall) *errmap.Error {
	if err := d.wholeResult(ctx, c); err != nil {
		return err
	}
	return d.reduce(ctx, c)
}

// wholeResult checks the answer and brings it into the caller's encoding.
func (d *decoder) wholeResult(ctx context.Context, c *toolCall) *errmap.Error {
	defer c.req.Span.Step(telemetry.StepResult, c.req.Span.Now())
	if c.resp.Outcome != nil {
		return nil // the document that a stream brought
	}
	c.resp.Result.Encoding = c.req.Arguments.Encoding
	if c.resp.Result.Bytes != nil {
		return d.checked(ctx, c) // a stream was read to its end, item by item
	}
	c.turn = d.answerTurn(ctx, c, c.answer.Body)
	if c.tool.HTTPBody && c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == "" {
		mediaType, data, ok := content.HTTPBody(c.answer.Body)
		if !ok {
			return errmap.Because(errmap.SerializationError, "the response is not a google.api.HttpBody")
		}
		return d.document(c, mediaType, data, nil, "")
	}
	var err error
	switch c.req.Arguments.Encoding {
	case EncodingProtobuf:
		c.resp.Result.Bytes = c.answer.Body
		err = c.out().CheckWire(ctx, c.answer.Body)
	default:
		c.resp.Result.Bytes, err = d.resultJSON(ctx, c)
		c.resp.Result.pooled = true
		c.answer = nil // all of it is there as JSON
	}
	if err == nil {
		return d.checked(ctx, c)
	}
	c.resp.Result = Payload{}
	return outputError(err)
}

// document makes a document the result of a call, see [content.Keeper.Result].
func (d *decoder) document(c *toolCall, mediaType string, data []byte, parts *content.DocumentWriter, missing string) *errmap.Error {
	result, err := d.keeper.Result(c.req.Caller, content.Document{Tool: c.tool.Name, MediaType: mediaType, Data: data, View: c.view.Kept()}, parts, missing)
	if err == nil {
		c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
	}
	return err
}

// checked lets a result through that is not too large and, where an output
// schema was declared, keeps to it.
func (d *decoder) checked(ctx context.Context, c *toolCall) *errmap.Error {
	failed := d.limit.check(len(c.resp.Result.Bytes))
	if failed == nil {
		failed = declaredOutput(ctx, c)
	}
	if failed != nil {
		c.resp.Result = Payload{}
	}
	return failed
}

// resultJSON is the answer as the tool's output schema describes it: ProtoJSON,
// in its own object where it is none itself. Only a typed
// pass-through gets it bare, because its caller knows the message.
func (d *decoder) resultJSON(ctx context.Context, c *toolCall) ([]byte, error) {
	if !c.tool.OutputNotObject || c.req.Procedure != "" {
		return d.answerJSON(ctx, c, nil, c.answer.Body)
	}
	dst, err := d.answerJSON(ctx, c, catalog.OpenValue(nil), c.answer.Body)
	if err != nil {
		return nil, err
	}
	return catalog.CloseValue(dst), nil
}

// reduce reduces the result of a plain RPC: first to the fields that its caller chose, then to its budget.
func (d *decoder) reduce(ctx context.Context, c *toolCall) *errmap.Error {
	r := &c.resp.Result
	if c.resp.Outcome != nil || r.Encoding != EncodingJSON || !c.isJSON() {
		return nil
	}
	c.explain(c.fit.noted)
	if c.fit.mask != nil {
		chosen := c.fit.mask.Append(d.buffers.Get(len(r.Bytes)), r.Bytes)
		if keepsTo(ctx, c, chosen) {
			chosen, r.Bytes = r.Bytes, chosen
			chosen, r.pooled = poolable(chosen, r.pooled), true
		} else {
			c.explain(content.AllFields)
		}
		d.buffers.Put(chosen)
	}
	if budget := d.budget(c); budget == 0 || len(r.Bytes) <= budget {
		return nil
	}
	result, explanation, err := d.fitter(ctx, c).Result(r.Bytes, c.resp.Explanation)
	if result != nil {
		c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
		c.resp.Release(d.buffers)
		c.resp.Result = Payload{}
	}
	if err == nil {
		c.resp.Explanation = explanation
	}
	return err
}

// poolable is a buffer that may go back to the pool; nil for one that is not of it.
func poolable(buffer []byte, pooled bool) []byte {
	if pooled {
		return buffer
	}
	return nil
}

// reduceNative reduces the result of a native tool.
func (d *decoder) reduceNative(ctx context.Context, c *toolCall, result *outriggerv1.ToolResult) *errmap.Error {
	if c.fit.mask == nil && c.fit.noted == "" && d.budget(c) == 0 {
		return nil
	}
	return d.fitter(ctx, c).Native(result)
}

// fitter fits the result of a call to what its caller wants.
func (d *decoder) fitter(ctx context.Context, c *toolCall) *content.Fitter {
	f := &content.Fitter{
		Tool: c.tool.Name, Of: resultView(c.tool), Mask: c.fit.mask, Noted: c.fit.noted, Budget: d.budget(c), Under: c.fit.under,
		About: content.Reduction{IsFetched: c.fit.isFetch, Through: c.req.Through != "", IsCallers: d.budget(c) != d.toolBudget(c.tool)},
		Keeps: func(data []byte) bool { return keepsTo(ctx, c, data) },
		Hold: func(about *content.Reduction, whole []byte) {
			d.reduced.Add(1)
			d.holdWhole(c, about, whole)
		},
	}
	if p := c.tool.Paging; p != nil {
		f.About.PageSize, f.About.NextPage = p.Size, p.Next
	}
	if c.tool.Streams() {
		f.Mark = catalog.MarkTruncated
	}
	return f
}

// holdWhole holds the whole of what was cut for its caller, if there is room and somebody can read it.
func (d *decoder) holdWhole(c *toolCall, about *content.Reduction, whole []byte) {
	if cat := d.typesOf(c); d.keeper.Store == nil || cat == nil || !d.canRead(cat) {
		return
	}
	uri, until, failed := d.keeper.Hold(c.req.Caller, content.Document{Tool: c.tool.Name, MediaType: about.MediaType(), Data: whole, View: c.view.Kept()}, nil)
	if failed == nil { // else the part that is left is worth more than an error
		about.URI, about.Until = uri, until
	}
}

// keepsTo reports whether data keep to the output schema that a tool declares. A derived schema lets go what is left out.
func keepsTo(ctx context.Context, c *toolCall, data []byte) bool {
	return c.isSeen || checkResult(ctx, c.tool, data, false) == nil
}

// budget is the maximum size of the result of a call in bytes; zero for none.
func (d *decoder) budget(c *toolCall) int { return c.req.Wanted.Within(d.toolBudget(c.tool)) }

// toolBudget is the budget of results of a tool for models; zero for none.
func (d *decoder) toolBudget(t *catalog.Tool) int {
	if t.ResultBudget != nil {
		return *t.ResultBudget
	}
	return d.resultBudget
}

// declaredOutput asks a tool's declared output schema about the result, in the
// form in which callers of the tool get it. The backend has answered by then,
// so no error of the backend is hidden.
func declaredOutput(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Declared == nil || c.tool.Declared.Output == nil || c.isSeen {
		return nil
	}
	if c.tool.Operation != nil && (c.req.Procedure != "" || c.resp.Result.Encoding == EncodingProtobuf) {
		return nil // the schema is that of what the operation ends with
	}
	result, isBare := c.resp.Result.Bytes, c.req.Procedure != ""
	if c.resp.Result.Encoding == EncodingProtobuf {
		var err error
		if result, err = c.tool.Out.ToJSON(nil, result); err != nil {
			return outputError(err)
		}
	}
	return checkResult(ctx, c.tool, result, isBare)
}

// checkResult asks a tool's output schema about a result.
func checkResult(ctx context.Context, t *catalog.Tool, result []byte, isBare bool) *errmap.Error {
	return resultError(t.CheckResult(ctx, result, isBare))
}

// resultError is the error of a result in which a check has found something, or which could not be checked.
func resultError(found []schema.Violation, err error) *errmap.Error {
	switch {
	case err != nil:
		return checkError(err)
	case len(found) > 0:
		return errmap.New(errmap.InvalidToolOutput, errmap.WithViolations(violations(found)...))
	}
	return nil
}

// declaredData asks a native tool's output schema about its result. A tool that
// promises data has to bring it, unless it failed, which nothing hides.
func declaredData(ctx context.Context, t *catalog.Tool, result *outriggerv1.ToolResult) *errmap.Error {
	if !t.HasOutput() || result.GetStatus() == content.StatusFailure {
		return nil
	}
	data, err := content.FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return errmap.Unwritable(err)
	}
	if len(data) == 0 || string(data) == "null" {
		return errmap.New(errmap.InvalidToolOutput, errmap.Tool(t.Name), errmap.WithViolations(errmap.Violation{
			Keyword: "required", Message: "the tool declares an output schema, but returned no data",
		}))
	}
	return checkResult(ctx, t, data, true)
}

// declaredData is [declaredData] for a call whose result was not checked before.
func (c *toolCall) declaredData(ctx context.Context, result *outriggerv1.ToolResult) *errmap.Error {
	if c.isSeen {
		return nil
	}
	return declaredData(ctx, c.tool, result)
}

// typeLearner asks the backend for types that only its answers name. A
// [*catalog.Live] is one.
type typeLearner interface {
	Learn(ctx context.Context, c *catalog.Catalog, urls []string) bool
}

const (
	// learnTime bounds how long one answer may wait for the types in it, and
	// learnShare the part of the time that its caller has left.
	learnTime  = 2 * time.Second
	learnShare = 2
	// learnRounds bounds how often an answer is read again: a type that was
	// learned may hold others.
	learnRounds = 4
)

// answerJSON appends the JSON of a message of the backend to dst. What an Any in
// it holds of an unknown type is asked for, or shown as bytes.
func (d *decoder) answerJSON(ctx context.Context, c *toolCall, dst, wire []byte) ([]byte, error) {
	out, noted, err := d.translate(ctx, c, dst, wire)
	for range learnRounds {
		if err != nil || len(noted.Unknown) == 0 {
			break
		}
		if cat := d.typesOf(c); cat == nil || !d.learnFor(ctx, c, cat, noted.Unknown) {
			break
		}
		if len(dst) == 0 {
			d.buffers.Put(out)
		}
		out, noted, err = d.translate(ctx, c, dst, wire)
	}
	if err == nil && len(noted.Odd) > 0 {
		err = c.noteOdd(noted)
	}
	return out, err
}

// learnFor asks for types on behalf of a call, and reports whether one of them
// is known now. All that a call learns shares one span of time.
func (d *decoder) learnFor(ctx context.Context, c *toolCall, cat *catalog.Catalog, urls []string) bool {
	learner, ok := d.catalogs.(typeLearner)
	if !ok {
		return false
	}
	if c.learnUntil.IsZero() {
		within := learnTime
		if !c.deadline.IsZero() {
			within = min(within, time.Until(c.deadline)/learnShare)
		}
		c.learnUntil = time.Now().Add(within)
	}
	c.endTurn()
	ctx, cancel := context.WithDeadline(ctx, c.learnUntil)
	defer cancel()
	return ctx.Err() == nil && learner.Learn(ctx, cat, urls)
}

// learnAll asks for the types of messages that are not known.
func (d *decoder) learnAll(ctx context.Context, c *toolCall, cat *catalog.Catalog, messages ...*anypb.Any) {
	for range learnRounds {
		var unknown []string
		for _, m := range messages {
			unknown = append(unknown, cat.Types().Unknown(m)...)
		}
		if len(unknown) == 0 || !d.learnFor(ctx, c, cat, unknown) {
			return
		}
	}
}

// typesOf is the catalog whose types a call's answers are read with: that of the tool's backend.
func (d *decoder) typesOf(c *toolCall) *catalog.Catalog {
	if c.catalog == nil {
		c.catalog = d.catalogs.Current()
	}
	return c.catalog.Of(c.tool)
}

// explained gives an error of the backend the types that its details are read
// with, and returns it.
func (d *decoder) explained(ctx context.Context, c *toolCall, failed *errmap.Error) *errmap.Error {
	if failed == nil || len(failed.Details) == 0 {
		return failed
	}
	cat := d.typesOf(c)
	if cat == nil {
		return failed
	}
	d.learnAll(ctx, c, cat, failed.Details...)
	failed.ReadDetails(cat.Types())
	return failed
}

// answerTurn waits until a message of the backend may be translated. The turn of a unary call goes on to its end: what else is
// to be done for the answer is no less work.
func (d *decoder) answerTurn(ctx context.Context, c *toolCall, wire []byte) policy.Turn {
	return d.slots.TurnForAnswer(ctx, c.req.Caller, c.tool.Name, len(wire))
}

// translate appends the JSON of a message of the backend to dst: in the turn of the call, else in a new one.
func (d *decoder) translate(ctx context.Context, c *toolCall, dst, wire []byte) (out []byte, noted transcode.Noted, err error) {
	if c.turn == (policy.Turn{}) {
		defer d.answerTurn(ctx, c, wire).End()
	}
	return c.out().ToJSONNoting(ctx, d.buffers, dst, wire) //nolint:wrapcheck // its type says what is wrong
}

// holdsResults reports whether tools of a catalog may have results that are held.
func (d *decoder) holdsResults(cat *catalog.Catalog) bool {
	if d.keeper.Store == nil {
		return false
	}
	for _, tool := range cat.Tools() {
		if tool.IsDocument() || d.toolBudget(tool) > 0 {
			return true
		}
	}
	return false
}
