// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/mcpjson"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// invokeNative has a native backend run the tool, under the shortest of the
// three deadlines.
func (b *Bridge) invokeNative(ctx context.Context, c *toolCall) *errmap.Error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout(c))
	defer cancel()
	if err := requireTaskSupport(c); err != nil {
		return err
	}
	call := &outriggerv1.ToolCall{
		ToolName:       c.tool.NativeName,
		ArgumentsForm:  &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: c.arguments()},
		InputResponses: c.req.InputResponses,
		RequestState:   c.state.backend,
		Context:        c.req.Context,
	}
	if len(c.req.Meta) > 0 {
		call.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: c.req.Meta}
	}
	start := time.Now()
	outcome, err := b.callNative(ctx, c, call)
	c.req.waited(start)
	b.keepMetadata(c)
	if err != nil {
		return err
	}
	return b.settleOutcome(ctx, c, outcome)
}

// callNative has a native backend run a tool, and repeats that where it may be
// and nothing has happened yet.
func (b *Bridge) callNative(ctx context.Context, c *toolCall, call *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, *errmap.Error) {
	header, risk, events := b.sentHeader(c.req.Header), b.risk(c), b.events(ctx, c)
	ctx, err := b.onBehalf(ctx, c.req)
	if err != nil {
		return nil, err
	}
	if events != nil {
		began, pass := false, events
		events = func(e *outriggerv1.ToolEvent) {
			began = true
			pass(e)
		}
		risk.Answered = func() bool { return began }
	}
	ctx = c.req.calling(ctx, &risk)
	return resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*outriggerv1.ToolOutcome, *errmap.Error) {
		var outcome *outriggerv1.ToolOutcome
		var err *errmap.Error
		outcome, c.answer, err = b.opts.Native.CallTool(ctx, call, header, events)
		return outcome, err
	})
}

// settleOutcome checks what a native backend answered, and seals what the
// caller has to bring back.
func (b *Bridge) settleOutcome(ctx context.Context, c *toolCall, outcome *outriggerv1.ToolOutcome) *errmap.Error {
	if size := proto.Size(outcome); b.opts.MaxResult > 0 && size > b.opts.MaxResult {
		return b.tooLargeResult(size)
	}
	switch o := outcome.GetOutcome().(type) {
	case *outriggerv1.ToolOutcome_Result:
		if e := o.Result.GetError(); e != nil {
			e.ErrorMessage = errmap.Redact(e.GetErrorMessage())
		}
		if err := declaredData(ctx, c.tool, o.Result); err != nil {
			return err
		}
		if err := b.reduceNative(ctx, c, o.Result); err != nil {
			return err
		}
	case *outriggerv1.ToolOutcome_InputRequired:
		if err := b.settleInput(c, o.InputRequired); err != nil {
			return err
		}
	case *outriggerv1.ToolOutcome_Task:
		if !c.req.Context.GetCapabilities().GetTasks() {
			return errmap.Because(errmap.InvalidToolOutput, "the tool returned a task, but the client does not support tasks")
		}
		if err := b.sealTask(c, o.Task); err != nil {
			return err
		}
		// It may have ended already.
		redactTask(o.Task)
		b.settleTaskOf(ctx, c, o.Task)
	default:
		return errmap.Because(errmap.SerializationError, fmt.Sprintf("the tool returned an unknown outcome (%T)", o))
	}
	c.resp.Outcome = outcome
	return nil
}

// reduceNative reduces the result of a native tool: its data to the fields that its caller chose, then data and content to its budget.
func (b *Bridge) reduceNative(ctx context.Context, c *toolCall, result *outriggerv1.ToolResult) *errmap.Error {
	budget := b.budget(c)
	if c.mask == nil && budget == 0 && c.noted == "" || result.GetStatus() == StatusFailure {
		return nil
	}
	given, err := mcpjson.FreeForm(result.GetDataJson(), result.GetData())
	if err != nil {
		return errmap.Unwritable(err)
	}
	if jsontext.IsNull(given) {
		given = nil
	}
	isData := func(string) bool { return false }
	if len(given) > 0 {
		var sorted []byte
		isData = func(text string) bool {
			if sorted == nil {
				sorted = sortedJSON(given)
			}
			return json.Valid([]byte(text)) && bytes.Equal(sortedJSON([]byte(text)), sorted)
		}
	}
	content := b.fitContent(c, result, budget, isData)
	var about *fit.Reduction
	if len(given) > 0 {
		about = b.fitData(ctx, c, result, given, budget, isData)
	}
	if about == nil && len(content) == 0 {
		return nil
	}
	result.Status = StatusPartial
	if err := fit.SetMeta(result, about, content); err != nil {
		return errmap.Unwritable(err)
	}
	return nil
}

// fitData reduces the data of a native tool's result. It returns nothing where they are not cut.
func (b *Bridge) fitData(ctx context.Context, c *toolCall, result *outriggerv1.ToolResult, given []byte, budget int, isData func(string) bool) *fit.Reduction {
	whole := jsontext.Compact(nil, given)
	data, note := whole, c.noted
	var about *fit.Reduction
	var link []*outriggerv1.ContentBlock
	if c.mask != nil {
		if chosen := c.mask.Append(nil, whole); keepsTo(ctx, c, chosen) {
			data = chosen
		} else {
			note = strings.TrimSpace(note + " " + fit.AllFields)
		}
	}
	if budget > 0 && len(data) > budget {
		var cut []byte
		if cut, about = b.cutToBudget(ctx, c, data); about == nil {
			note = strings.TrimSpace(note + " " + fit.TooLarge(len(data), budget))
		} else {
			data, note, link = cut, strings.TrimSpace(note+" "+about.Text()), about.Link(c.tool.Name)
		}
	}
	if note != "" || !bytes.Equal(data, whole) {
		fit.SetData(result, data, isData, note, link)
	}
	return about
}

// fitContent fits the content of a native tool's result that is not its data, so that all blocks together have at most so many bytes:
// texts are cut at ends of lines, and what else is too large is left out. The whole of each is held, and linked behind it.
func (b *Bridge) fitContent(c *toolCall, result *outriggerv1.ToolResult, budget int, isData func(string) bool) []fit.Reduction {
	if budget == 0 {
		return nil
	}
	all := result.GetContent()
	parts, sizes, size := make([]part, len(all)), make([]int, len(all)), 0
	for i, block := range all {
		parts[i] = blockPart(block)
		sizes[i] = parts[i].size
		size += sizes[i]
	}
	if size <= budget {
		return nil
	}
	for i, block := range all {
		if text := block.GetText(); text != nil && isData(text.GetText()) {
			sizes[i] = 0
		}
	}
	shares := fit.Shares(sizes, budget)
	var content []*outriggerv1.ContentBlock
	var cuts []fit.Reduction
	for i, block := range all {
		if sizes[i] <= shares[i] {
			content = append(content, block)
			continue
		}
		p := &parts[i]
		whole := p.whole()
		about := fit.Reduction{Size: len(whole), Budget: budget, Media: p.mediaType, Kind: p.kind, IsCallers: budget != b.toolBudget(c.tool), Path: fmt.Sprintf("/content/%d", len(content))}
		b.reduced.Add(1)
		b.holdWhole(c, &about, whole)
		if text := block.GetText(); text != nil {
			about.CutText(text, shares[i])
			content = append(content, block)
		}
		content = append(append(content, fit.Text(about.Text())), about.Link(c.tool.Name)...)
		cuts = append(cuts, about)
	}
	result.Content = content
	return cuts
}

// settleInput lets questions through that the caller's client can answer.
func (b *Bridge) settleInput(c *toolCall, in *outriggerv1.InputRequired) *errmap.Error {
	if err := askable(c.tool.Name, c.req.Context.GetCapabilities(), in); err != nil {
		return err
	}
	return b.sealInput(c.req, c.digest(), c.state.confirmed, in)
}

// askable refuses questions that the caller's client did not declare to answer.
func askable(name string, capabilities *outriggerv1.ClientCapabilities, in *outriggerv1.InputRequired) *errmap.Error {
	missing := mcpjson.MissingAny(capabilities, in.GetInputRequests())
	if missing == nil {
		return nil
	}
	return errmap.MissingCapability(name, missing)
}
