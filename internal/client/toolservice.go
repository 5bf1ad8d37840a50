// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// toolService is outrigger.v1.ToolService.
type toolService struct {
	post post
	rpcs outriggerv1connect.ToolServiceClient
	asks Asker
}

func newToolService(p post, base string, protocol backend.Protocol, asks Asker) *toolService {
	options := []connect.ClientOption{connect.WithReadMaxBytes(maxBytes)}
	switch protocol {
	case backend.ProtocolGRPC:
		options = append(options, connect.WithGRPC())
	case backend.ProtocolGRPCWeb:
		options = append(options, connect.WithGRPCWeb())
	}
	return &toolService{post: p, rpcs: outriggerv1connect.NewToolServiceClient(p.client, base, options...), asks: asks}
}

// ask makes a request with the headers of the client.
func ask[T any](c *toolService, message *T, header http.Header) *connect.Request[T] {
	req := connect.NewRequest(message)
	maps.Copy(req.Header(), header)
	c.post.authorize(req.Header())
	return req
}

// failure is the canonical form of an error of an RPC.
func (c *toolService) failure(ctx context.Context, err error) error {
	var told *connect.Error
	if !errors.As(err, &told) {
		return unreachable(ctx, c.post.shown, err)
	}
	for _, d := range told.Details() {
		if d.Type() == "google.rpc.ErrorInfo" {
			return Canonical(errmap.FromConnect(told))
		}
	}
	switch {
	case ctx.Err() != nil:
		return unreachable(ctx, c.post.shown, ctx.Err())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return broken(ctx, c.post.shown, told.Unwrap())
	case !connect.IsWireError(err) && (told.Code() == connect.CodeUnavailable || told.Code() == connect.CodeDeadlineExceeded):
		return unreachable(ctx, c.post.shown, told.Unwrap())
	case told.Code() == connect.CodeDeadlineExceeded:
		return unreachable(ctx, c.post.shown, context.DeadlineExceeded)
	case told.Code() == connect.CodeResourceExhausted:
		return Canonical(errmap.New(errmap.ResourceExhausted, errmap.Message(told.Message())))
	}
	return foreign(c.post.shown, told.Code().String()+": "+told.Message())
}

// Tools implements [Client].
func (c *toolService) Tools(ctx context.Context) ([]*Tool, error) {
	var tools []*Tool
	var cursor *string
	for range maxPages {
		page, err := c.rpcs.ListTools(ctx, ask(c, &outriggerv1.ListToolsRequest{Cursor: cursor}, nil))
		if err != nil {
			return nil, c.failure(ctx, err)
		}
		for _, m := range page.Msg.GetTools() {
			if err := checkTool(m); err != nil {
				return nil, foreign(c.post.shown, err.Error())
			}
			tools = append(tools, toolFromMessage(m))
		}
		if cursor = page.Msg.NextCursor; cursor == nil {
			return tools, nil
		}
		if len(tools) > maxTools {
			break
		}
	}
	return nil, foreign(c.post.shown, "its list does not end")
}

// checkTool checks the JSON of a tool, which comes as text.
func checkTool(m *outriggerv1.Tool) error {
	texts := [][]byte{m.GetInputSchemaJson(), m.GetOutputSchemaJson(), m.GetCanonicalInputSchemaJson(), m.GetCanonicalOutputSchemaJson()}
	for _, e := range m.GetExamples() {
		texts = append(texts, []byte(e.GetArgumentsJson()))
	}
	for _, text := range texts {
		if len(text) > 0 && jsontext.Check(text, maxDepth) != nil {
			return errors.New("the description of " + m.GetName() + " is no JSON")
		}
	}
	return nil
}

// Tool implements [Client].
func (c *toolService) Tool(ctx context.Context, name string) (*Tool, error) {
	got, err := c.rpcs.GetTool(ctx, ask(c, &outriggerv1.GetToolRequest{ToolName: name}, nil))
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	if err := checkTool(got.Msg); err != nil {
		return nil, foreign(c.post.shown, err.Error())
	}
	return toolFromMessage(got.Msg), nil
}

// Call implements [Client]. Each round with a question repeats it, with the answers and the state of the round before.
func (c *toolService) Call(ctx context.Context, call *Call) (*Outcome, error) {
	message := &outriggerv1.ToolCall{
		ToolName: call.Tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: argumentsOf(call)},
		Context: &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: call.AsTask}},
	}
	if c.asks != nil {
		message.Context.Capabilities.Elicitation = &outriggerv1.ElicitationCapability{Form: true, Url: true}
	}
	if meta := callMeta(call); meta != nil {
		message.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: append(append([]byte{'{'}, meta...), '}')}
	}
	if call.Progress != nil {
		message.Context.ProgressToken = &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}
	}
	for range maxRounds {
		got, err := c.round(ctx, call, message)
		if err != nil {
			return nil, err
		}
		in := got.GetInputRequired()
		if in == nil {
			return c.outcome(got)
		}
		if message.InputResponses, err = c.answers(ctx, in.GetInputRequests()); err != nil {
			return nil, err
		}
		message.RequestState = in.GetRequestState()
	}
	return nil, tooManyRounds()
}

// answers has the questions of a round answered.
func (c *toolService) answers(ctx context.Context, requests map[string]*outriggerv1.InputRequest) (map[string]*outriggerv1.InputResponse, error) {
	asked, err := content.AppendInputRequests(nil, requests)
	if err != nil {
		return nil, foreign(c.post.shown, err.Error())
	}
	answers, err := c.asks.answers(ctx, asked)
	if err != nil {
		return nil, err
	}
	return content.ReadInputResponses(answers)
}

// round makes a call, and streams it where its events are wanted.
func (c *toolService) round(ctx context.Context, call *Call, message *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, error) {
	if call.Progress == nil && call.Item == nil {
		got, err := c.rpcs.CallTool(ctx, ask(c, message, call.Header))
		if err != nil {
			return nil, c.failure(ctx, err)
		}
		return got.Msg, nil
	}
	events, err := c.rpcs.CallToolStream(ctx, ask(c, message, call.Header))
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	defer func() { _ = events.Close() }()
	for events.Receive() {
		switch e := events.Msg().GetEvent().(type) {
		case *outriggerv1.ToolEvent_Progress:
			if call.Progress != nil {
				call.Progress(progressFrom(e.Progress))
			}
		case *outriggerv1.ToolEvent_Partial:
			if raw := e.Partial.GetDataJson(); call.Item != nil && len(raw) > 0 && jsontext.Check(raw, maxDepth) == nil {
				call.Item(raw)
			}
		case *outriggerv1.ToolEvent_Outcome:
			return e.Outcome, nil
		}
	}
	if err := events.Err(); err != nil {
		return nil, c.failure(ctx, err)
	}
	return nil, foreign(c.post.shown, "the stream of events ended without an outcome")
}

func progressFrom(p *outriggerv1.Progress) Progress {
	out := Progress{Done: decimal(p.GetProgress()), Message: p.GetMessage()}
	if p.Total != nil {
		out.Total = decimal(p.GetTotal())
	}
	return out
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// outcome reads the outcome of a call.
func (c *toolService) outcome(m *outriggerv1.ToolOutcome) (*Outcome, error) {
	switch o := m.GetOutcome().(type) {
	case *outriggerv1.ToolOutcome_Result:
		result, err := resultJSON(o.Result)
		if err != nil {
			return nil, foreign(c.post.shown, err.Error())
		}
		return c.post.outcome(result)
	case *outriggerv1.ToolOutcome_Task:
		t, err := taskFrom(o.Task)
		if err != nil {
			return nil, foreign(c.post.shown, err.Error())
		}
		return &Outcome{Task: t}, nil
	}
	return nil, foreign(c.post.shown, "the outcome is empty")
}

// resultJSON is a result in MCP's form.
func resultJSON(r *outriggerv1.ToolResult) (json.RawMessage, error) {
	if raw := r.GetDataJson(); len(raw) > 0 && jsontext.Check(raw, maxDepth) != nil {
		return nil, errors.New("its result is no JSON")
	}
	dst, err := content.AppendToolResult([]byte{'{'}, r, content.Rev20260728)
	if err != nil {
		return nil, err
	}
	var own []byte
	if r.GetStatus() != content.StatusSuccess {
		if own, err = content.AppendResultMeta(nil, r); err != nil {
			return nil, err
		}
	}
	dst, err = content.AppendMeta(append(dst, `,"_meta":`...), r, own)
	if err != nil {
		return nil, err
	}
	return append(dst, '}'), nil
}

// taskFrom is a task in the form of this package.
func taskFrom(m *outriggerv1.Task) (*Task, error) {
	var result []byte
	if m.GetResult() != nil {
		var err error
		if result, err = resultJSON(m.GetResult()); err != nil {
			return nil, err
		}
	}
	if raw := m.GetError().GetDataJson(); len(raw) > 0 && jsontext.Check(raw, maxDepth) != nil {
		return nil, errors.New("its error is no JSON")
	}
	dst, err := content.AppendTask([]byte{'{'}, m, result)
	if err != nil {
		return nil, err
	}
	return readTask(append(dst, '}'))
}

// Task implements [Client].
func (c *toolService) Task(ctx context.Context, id string) (*Task, error) {
	got, err := c.rpcs.GetTask(ctx, ask(c, &outriggerv1.GetTaskRequest{TaskId: id}, nil))
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	t, err := taskFrom(got.Msg)
	if err != nil {
		return nil, foreign(c.post.shown, strings.TrimSpace(err.Error()))
	}
	return t, nil
}

// AnswerTask implements [Client].
func (c *toolService) AnswerTask(ctx context.Context, t *Task) error {
	raw, err := c.asks.about(ctx, t)
	if err != nil {
		return err
	}
	answers, err := content.ReadInputResponses(raw)
	if err != nil {
		return err
	}
	if _, err := c.rpcs.UpdateTask(ctx, ask(c, &outriggerv1.UpdateTaskRequest{TaskId: t.ID, InputResponses: answers}, nil)); err != nil {
		return c.failure(ctx, err)
	}
	return nil
}

// CancelTask implements [Client].
func (c *toolService) CancelTask(ctx context.Context, id string) error {
	if _, err := c.rpcs.CancelTask(ctx, ask(c, &outriggerv1.CancelTaskRequest{TaskId: id}, nil)); err != nil {
		return c.failure(ctx, err)
	}
	return nil
}

// Close implements [Client].
func (c *toolService) Close(context.Context) error {
	c.post.client.CloseIdleConnections()
	return nil
}
