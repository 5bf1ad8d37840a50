// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"net/http"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// rpc is the canonical dialect on /rpc.
type rpc struct{ post post }

// ask sends a request and returns the result of its reply.
func (c *rpc) ask(ctx context.Context, method string, params []byte, header http.Header) ([]byte, error) {
	if header = maps.Clone(header); header == nil {
		header = http.Header{}
	}
	header.Set("Accept", "application/json")
	got, err := c.post.do(ctx, &request{method: method, params: params, header: header})
	if err != nil {
		return nil, err
	}
	return got.result, got.failure()
}

// Tools implements [Client].
func (c *rpc) Tools(ctx context.Context) ([]*Tool, error) {
	result, err := c.ask(ctx, "tools/list", []byte(`{}`), nil)
	if err != nil {
		return nil, err
	}
	return appendTools(nil, result, c.post.shown)
}

// appendTools reads the tools of a page.
func appendTools(tools []*Tool, page []byte, url string) ([]*Tool, error) {
	list, ok := jsontext.Lookup(page, "tools")
	if !ok || list[0] != '[' {
		return nil, foreign(url, "its list has no tools")
	}
	for raw := range jsontext.Elements(list) {
		if len(tools) == maxTools {
			return nil, foreign(url, "its list has too many tools")
		}
		tools = append(tools, readTool(raw))
	}
	return tools, nil
}

// Tool implements [Client].
func (c *rpc) Tool(ctx context.Context, name string) (*Tool, error) {
	result, err := c.ask(ctx, "tools/get", append(jsontext.AppendString([]byte(`{"name":`), name), '}'), nil)
	if err != nil {
		return nil, err
	}
	return readTool(result), nil
}

// Call implements [Client]. The dialect has no tasks: a call that asks for one waits for its result.
func (c *rpc) Call(ctx context.Context, call *Call) (*Outcome, error) {
	if call.AsTask {
		return nil, noTasks(c.post.shown)
	}
	params := jsontext.AppendString([]byte(`{"name":`), call.Tool)
	params = append(append(params, `,"arguments":`...), argumentsOf(call)...)
	if meta := callMeta(call); meta != nil {
		params = append(append(append(params, `,"_meta":{`...), meta...), '}')
	}
	result, err := c.ask(ctx, "tools/call", append(params, '}'), call.Header)
	if err != nil {
		return nil, err
	}
	return c.post.outcome(result)
}

// outcome reads the result of a call.
func (p *post) outcome(result []byte) (*Outcome, error) {
	out, err := readOutcome(result)
	if err == nil {
		return out, nil
	}
	if _, ok := err.(*Error); ok { //nolint:errorlint // as it is returned
		return nil, err
	}
	return nil, foreign(p.shown, err.Error())
}

// Task implements [Client].
func (c *rpc) Task(context.Context, string) (*Task, error) { return nil, noTasks(c.post.shown) }

// AnswerTask implements [Client].
func (c *rpc) AnswerTask(context.Context, *Task) error { return noTasks(c.post.shown) }

// CancelTask implements [Client].
func (c *rpc) CancelTask(context.Context, string) error { return noTasks(c.post.shown) }

// Close implements [Client].
func (c *rpc) Close(context.Context) error {
	c.post.client.CloseIdleConnections()
	return nil
}
