// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	"github.com/outrigger-mcp/outrigger/internal/truncate"
)

// Values of the status of a result (outrigger.v1.ToolResult).
const (
	// StatusSuccess is that of a tool that did what it was asked to.
	StatusSuccess = "success"
	// StatusPartial is that of a result that holds a part of what there was.
	StatusPartial = "partial_success"
	// StatusFailure is that of a tool that failed.
	StatusFailure = "failure"
)

// result checks the answer, brings it into the caller's encoding, and leaves out what the caller does not want or has no room for.
func (b *Bridge) result(ctx context.Context, c *toolCall) *errmap.Error {
	if err := b.wholeResult(ctx, c); err != nil {
		return err
	}
	return b.reduce(ctx, c)
}

// wholeResult checks the answer and brings it into the caller's encoding.
func (b *Bridge) wholeResult(ctx context.Context, c *toolCall) *errmap.Error {
	defer c.req.Span.Step(tracing.StepResult, c.req.Span.Now())
	if c.resp.Outcome != nil {
		return nil // the document that a stream brought
	}
	c.resp.Result.Encoding = c.req.Arguments.Encoding
	if c.resp.Result.Bytes != nil {
		return b.checked(ctx, c) // a stream was read to its end, item by item
	}
	c.turn = b.answerTurn(ctx, c, c.answer.Body)
	if c.tool.HTTPBody && c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == "" {
		return b.rawBody(c)
	}
	var err error
	switch c.req.Arguments.Encoding {
	case EncodingProtobuf:
		c.resp.Result.Bytes = c.answer.Body
		err = c.tool.Out.CheckWire(ctx, c.answer.Body)
	default:
		c.tellPages()
		c.resp.Result.Bytes, err = b.resultJSON(ctx, c)
		c.resp.Result.pooled = true
		c.answer = nil // all of it is there as JSON
	}
	if err == nil {
		return b.checked(ctx, c)
	}
	c.resp.Result = Payload{}
	return outputError(err)
}

// checked lets a result through that is not too large and, where an output
// schema was declared, keeps to it.
func (b *Bridge) checked(ctx context.Context, c *toolCall) *errmap.Error {
	failed := b.bounded(c)
	if failed == nil {
		failed = declaredOutput(ctx, c)
	}
	if failed != nil {
		c.resp.Result = Payload{}
	}
	return failed
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
// in an object of its own where it is none itself. Only a typed
// pass-through gets it bare, because its caller knows the message.
func (b *Bridge) resultJSON(ctx context.Context, c *toolCall) ([]byte, error) {
	if !c.tool.OutputNotObject || c.req.Procedure != "" {
		return b.answerJSON(ctx, c, nil, c.answer.Body)
	}
	dst, err := b.answerJSON(ctx, c, catalog.OpenValue(nil), c.answer.Body)
	if err != nil {
		return nil, err
	}
	return catalog.CloseValue(dst), nil
}

// reduce reduces the result of a plain RPC: first to the fields that its caller chose, then to its budget.
func (b *Bridge) reduce(ctx context.Context, c *toolCall) *errmap.Error {
	r := &c.resp.Result
	if c.resp.Outcome != nil || r.Encoding != EncodingJSON || !c.isJSON() {
		return nil
	}
	c.explain(c.noted)
	if c.mask != nil {
		chosen := c.mask.Append(b.buffers.Get(len(r.Bytes)), r.Bytes)
		if keepsTo(ctx, c, chosen) {
			chosen, r.Bytes = r.Bytes, chosen
			chosen, r.pooled = poolable(chosen, r.pooled), true
		} else {
			c.explain(fit.AllFields)
		}
		b.buffers.Put(chosen)
	}
	if budget := b.budget(c); budget == 0 || len(r.Bytes) <= budget {
		return nil
	}
	cut, about := b.cutToBudget(ctx, c, r.Bytes)
	if about == nil {
		c.explain(fit.TooLarge(len(r.Bytes), b.budget(c)))
		return nil
	}
	result := &outriggerv1.ToolResult{Status: StatusPartial, Explanation: c.resp.Explanation}
	if err := fit.SetMeta(result, about, nil); err != nil {
		return errmap.Unwritable(err)
	}
	fit.SetData(result, cut, nil, about.Text(), about.Link(c.tool.Name))
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
	c.resp.Release(&b.buffers)
	c.resp.Result, c.resp.Explanation = Payload{}, result.GetExplanation()
	return nil
}

// poolable is a buffer that may go back to the pool; nil for one that is not of it.
func poolable(buffer []byte, pooled bool) []byte {
	if pooled {
		return buffer
	}
	return nil
}

// cutToBudget cuts data to the budget of a call, and holds the whole. It returns no reduction where the output schema of the tool does not let enough go.
func (b *Bridge) cutToBudget(ctx context.Context, c *toolCall, whole []byte) ([]byte, *fit.Reduction) {
	budget := b.budget(c)
	cut, report, ok := truncate.Append(nil, whole, budget, resultView(c.tool))
	if ok && c.tool.Streams() {
		cut = catalog.MarkTruncated(cut)
	}
	if !ok || !keepsTo(ctx, c, cut) {
		return nil, nil
	}
	b.reduced.Add(1)
	about := &fit.Reduction{Size: len(whole), Budget: budget, Report: report, IsFetched: c.isFetch, Through: c.req.Through != ""}
	if !c.isFetch {
		about.Example = fit.Example(resultView(c.tool), whole, report.Cuts)
	}
	if c.under != "" {
		for i := range report.Cuts {
			report.Cuts[i].Path = "/" + c.under + report.Cuts[i].Path
		}
		if about.Example != "" {
			about.Example = c.under + "." + about.Example
		}
	}
	if p := c.tool.Paging; p != nil {
		about.PageSize, about.NextPage = p.Size, p.Next
	}
	b.holdWhole(c, about, bytes.Clone(whole))
	return cut, about
}

// holdWhole holds the whole of what was cut for its caller, if there is room and somebody can read it.
func (b *Bridge) holdWhole(c *toolCall, about *fit.Reduction, whole []byte) {
	if cat := b.typesOf(c); b.opts.Held == nil || cat == nil || !b.Features(cat).Resources {
		return
	}
	uri, until, failed := b.heldAs(c, about.MediaType(), whole, b.putFor(c))
	if failed == nil { // else the part that is left is worth more than an error
		about.URI, about.Until = uri, until
	}
}

// keepsTo reports whether data keep to the output schema that a tool declares. A derived schema lets go what is left out.
func keepsTo(ctx context.Context, c *toolCall, data []byte) bool {
	return checkResult(ctx, c.tool, data, false) == nil
}

// resultView is what the output schema of a tool says about its results.
func resultView(t *catalog.Tool) schema.View { return schema.ViewOf(t.Output.Advertised()) }

// explain adds to what people and models are told about the result.
func (c *toolCall) explain(text string) {
	c.resp.Explanation = strings.TrimSpace(c.resp.Explanation + " " + text)
}

// note adds to what there is to say about how the result fits.
func (c *toolCall) note(text string) { c.noted = strings.TrimSpace(c.noted + " " + text) }

// maskAgain reads the mask of a call that was made some time ago. If the result does not have its fields any more, it is shown whole.
func (c *toolCall) maskAgain() {
	if c.req.Wanted.Fields == "" {
		return
	}
	mask, failed := c.req.Wanted.Mask(resultView(c.tool))
	if failed != nil {
		c.note(fit.OtherFields)
		return
	}
	c.mask = mask
}

// budget is the maximum size of the result of a call in bytes; zero for none.
func (b *Bridge) budget(c *toolCall) int { return c.req.Wanted.Within(b.toolBudget(c.tool)) }

// toolBudget is the budget of results of a tool for models; zero for none.
func (b *Bridge) toolBudget(t *catalog.Tool) int {
	if t.ResultBudget != nil {
		return *t.ResultBudget
	}
	return b.opts.ResultBudget
}

// ToolOutcome returns the outcome of a successful OpCall as a message of the contract:
// Outcome, or else a result made of Result.
func (r *Response) ToolOutcome() *outriggerv1.ToolOutcome {
	if r.Outcome != nil {
		return r.Outcome
	}
	status := StatusSuccess
	if r.Truncated {
		status = StatusPartial
	}
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: status, Explanation: r.Explanation, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: r.Result.Bytes},
	}}}
}

// JSON returns the result of a successful OpCall in JSON: its data, or where it has none, such as a document, all of the
// outcome.
func (r *Response) JSON() []byte {
	if r.Outcome == nil {
		return r.Result.Bytes
	}
	return outcomeJSON(r)
}

// declaredOutput asks a tool's declared output schema about the result, in the
// form in which callers of the tool get it. The backend has answered by then,
// so no error of its own is hidden.
func declaredOutput(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Declared == nil || c.tool.Declared.Output == nil {
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
	found, err := t.CheckResult(ctx, result, isBare)
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
	if !t.HasOutput() || result.GetStatus() == StatusFailure {
		return nil
	}
	data, err := mcpjson.FreeForm(result.GetDataJson(), result.GetData())
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
func (b *Bridge) answerJSON(ctx context.Context, c *toolCall, dst, wire []byte) ([]byte, error) {
	out, noted, err := b.translate(ctx, c, dst, wire)
	for range learnRounds {
		if err != nil || len(noted.Unknown) == 0 {
			break
		}
		if cat := b.typesOf(c); cat == nil || !b.learnFor(ctx, c, cat, noted.Unknown) {
			break
		}
		if len(dst) == 0 {
			b.buffers.Put(out)
		}
		out, noted, err = b.translate(ctx, c, dst, wire)
	}
	if err == nil && len(noted.Odd) > 0 {
		err = c.noteOdd(noted)
	}
	return out, err
}

// maxOdd bounds the values of a result without a standard form that its explanation names.
const maxOdd = 4

// noteOdd notes values that ProtoJSON has no form for. A typed caller gets an error instead: its client would misread them.
func (c *toolCall) noteOdd(noted transcode.Noted) error {
	if c.req.Procedure != "" {
		first := noted.Odd[0]
		return &transcode.OutputError{Step: "encode", Err: fmt.Errorf("%s is %s", first.Path, first.What)}
	}
	before := ""
	switch {
	case c.itemNumber > 0:
		before = fmt.Sprintf("/items/%d", c.itemNumber-1)
	case c.under != "":
		before = "/" + c.under
	case c.tool.OutputNotObject:
		before = "/value"
	}
	for _, odd := range noted.Odd {
		if c.odd++; c.odd <= maxOdd {
			c.note(cmp.Or(before+odd.Path, "The result") + " is " + odd.What + ".")
		}
	}
	if c.odd > maxOdd && !c.oddMore {
		c.oddMore = true
		c.note("More values like these follow.")
	}
	return nil
}

// learnFor asks for types on behalf of a call, and reports whether one of them
// is known now. All that a call learns shares one span of time.
func (b *Bridge) learnFor(ctx context.Context, c *toolCall, cat *catalog.Catalog, urls []string) bool {
	learner, ok := b.catalogs.(typeLearner)
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

// typesOf is the catalog whose types a call's answers are read with.
func (b *Bridge) typesOf(c *toolCall) *catalog.Catalog {
	if c.catalog == nil {
		c.catalog = b.catalogs.Current()
	}
	return c.catalog
}

// explained gives an error of the backend the types that its details are read
// with, and returns it.
func (b *Bridge) explained(ctx context.Context, c *toolCall, failed *errmap.Error) *errmap.Error {
	if failed == nil || len(failed.Details) == 0 {
		return failed
	}
	cat := b.typesOf(c)
	if cat == nil {
		return failed
	}
	for range learnRounds {
		var unknown []string
		for _, d := range failed.Details {
			unknown = append(unknown, cat.Types().Unknown(d)...)
		}
		if len(unknown) == 0 || !b.learnFor(ctx, c, cat, unknown) {
			break
		}
	}
	failed.ReadDetails(cat.Types())
	return failed
}
