// SPDX-License-Identifier: Apache-2.0

// Package client calls a sidecar that runs, from a command or a script: its tools, calls and tasks, on any edge.
//
// The URL chooses the edge. [Open] returns one of three implementations of [Client]: ToolService over Connect, gRPC or
// gRPC-Web; MCP of every revision; canonical JSON-RPC. All speak in [Tool], [Outcome], [Task] and [Error], so that commands know
// no edge. JSON stays as it came: no number becomes a float.
//
// The package decides nothing about a call: the sidecar that it calls has the policy, the limits and the audit trail. It stores
// nothing and follows no redirect. A Client is safe for concurrent use.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Client is a sidecar that runs, seen through one of its edges. Errors are an [*Error], unless the request was never sent.
type Client interface {
	// Tools lists the tools that the caller may call. In a compact catalog they may be the three that stand for all.
	Tools(ctx context.Context) ([]*Tool, error)
	// Tool describes one tool.
	Tool(ctx context.Context, name string) (*Tool, error)
	// Call calls a tool and waits for its outcome.
	Call(ctx context.Context, call *Call) (*Outcome, error)
	// Task says how a task is doing.
	Task(ctx context.Context, id string) (*Task, error)
	// AnswerTask has the questions of a task that waits for its user answered, and sends the answers. Called again with the same task,
	// it sends them again.
	AnswerTask(ctx context.Context, t *Task) error
	// CancelTask asks for the end of a task.
	CancelTask(ctx context.Context, id string) error
	// Close ends what the client has opened, such as a session.
	Close(ctx context.Context) error
}

// Call is one call of a tool.
type Call struct {
	Tool string
	// Arguments are a JSON object; nil is the empty one.
	Arguments json.RawMessage
	// Fields is the mask of the fields of the result that are wanted; empty for all.
	Fields string
	// Preview asks for what the call would do, in its place.
	Preview bool
	// AsTask has the call continue as a task where its tool may.
	AsTask bool
	// Header has the trace context.
	Header http.Header
	// Progress takes reports of progress; nil for none. They come while Call runs, one after the other.
	Progress func(Progress)
	// Item takes each item of a stream as it comes, on edges that send items ahead of the outcome; nil for none.
	Item func(json.RawMessage)
}

// Progress is one report of progress. Done and Total are numbers as the sidecar wrote them; Total is empty where it is unknown.
type Progress struct{ Done, Total, Message string }

// Outcome is what came of a call.
type Outcome struct {
	// Data is the result as JSON; nil where the tool returned content alone.
	Data json.RawMessage
	// Content is MCP's content, an array. Texts are its text blocks.
	Content json.RawMessage
	Texts   []string
	// Task is set, and nothing else, where the call continues as a task.
	Task *Task
}

// Statuses of a [Task], besides that of one that runs.
const (
	statusInputRequired = "input_required"
	statusCompleted     = "completed"
	statusFailed        = "failed"
	statusCancelled     = "cancelled"
)

// Task is a call that runs on in the background.
type Task struct {
	ID, Status, Message string
	// Poll is how long to wait before the next look, if the sidecar says so.
	Poll time.Duration
	// JSON is all of it, as MCP shows a task.
	JSON json.RawMessage
	// Outcome is that of a completed task, Err how one ended that has none.
	Outcome *Outcome
	Err     *Error
	// answers are those of the user to its questions; nil before they were asked.
	answers json.RawMessage
}

// IsOver reports whether the status will not change any more.
func (t *Task) IsOver() bool {
	return t.Status == statusCompleted || t.Status == statusFailed || t.Status == statusCancelled
}

// Error is a canonical error, or what the tool itself answered as its failure.
type Error struct {
	Code errmap.Code
	// Text says what is wrong and what to do, for people and models.
	Text string
	// Data is the canonical data object, as the sidecar sent it; nil where there was none.
	Data json.RawMessage
	// isAway: no sidecar has answered, so that another attempt may reach one.
	isAway bool
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

// Members of the _meta of calls and results.
const (
	fieldsKey  = "dev.outrigger/fields"
	previewKey = "dev.outrigger/preview"
	toolKey    = "dev.outrigger/tool"
	resultKey  = "dev.outrigger/result"
)

// Canonical is an error of the table, in the form of this package.
func Canonical(e *errmap.Error) *Error {
	about := errmap.About{ToolCall: true}
	return &Error{Code: e.Code, Text: e.ModelText(about), Data: e.Data(about)}
}

// unreachable is why a request got no answer from the sidecar at a URL.
func unreachable(ctx context.Context, url string, err error) *Error {
	var dialed *net.OpError
	switch isDialed := errors.As(err, &dialed) && dialed.Op == "dial"; {
	case ctx.Err() == nil && isDialed: // its own timeout reads like one of ctx
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Canonical(errmap.New(errmap.Timeout, errmap.Message("no answer from "+url+" in time; the call may still run"),
			errmap.Advice("Wait longer with --timeout, or run it as a task with --task.")))
	case ctx.Err() != nil:
		return Canonical(errmap.New(errmap.Cancelled))
	}
	e := Canonical(errmap.New(errmap.Unavailable, errmap.Messagef("no sidecar answers at %s: %v", url, err),
		errmap.Advice("Check --server, and whether the sidecar runs.")))
	e.isAway = true
	return e
}

// foreign is what answered, but not as a sidecar does.
func foreign(url, what string) *Error {
	return Canonical(errmap.New(errmap.TransportError, errmap.Messagef("%s does not answer as a sidecar does: %s", url, what),
		errmap.Advice("Check the path of --server: none for ToolService, /mcp or /rpc.")))
}

// noTasks is the answer of edges that have no tasks.
func noTasks(url string) *Error {
	return Canonical(errmap.New(errmap.MethodNotFound, errmap.Messagef("%s has no tasks", url),
		errmap.Advice("Use ToolService (http://HOST:PORT) or MCP 2026-07-28 (http://HOST:PORT/mcp).")))
}

// readError makes an error of a code of JSON-RPC, with its message and data. Data of a sidecar has the canonical code.
func readError(rpcCode int64, message string, data json.RawMessage) *Error {
	e := &Error{Code: codeOf(rpcCode), Text: message, Data: data}
	if name, ok := text(data, "code"); ok {
		e.Code = errmap.Code(name)
	}
	if _, err := errmap.Lookup(e.Code); err != nil {
		return e
	}
	told := errmap.New(e.Code)
	told.Tool, _ = text(data, "tool")
	told.BackendCode, _ = text(data, "backendCode")
	if raw, ok := jsontext.Lookup(data, "retryable"); ok {
		yes := string(raw) == "true"
		told.Retryable = &yes
	}
	if ms, ok := number(data, "retryAfterMs"); ok {
		told.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	violations, _ := jsontext.Lookup(data, "violations")
	for v := range jsontext.Elements(violations) {
		var one errmap.Violation
		one.Path, _ = text(v, "path")
		one.Keyword, _ = text(v, "keyword")
		one.Message, _ = text(v, "message")
		told.Violations = append(told.Violations, one)
	}
	if row, _ := errmap.Lookup(e.Code); len(told.Violations) == 0 && message != row.Message || !strings.HasPrefix(message, row.Message) {
		told.Message = message // else it repeats the violations
	}
	e.Text = told.ModelText(errmap.About{ToolCall: true})
	return e
}

// errorOf reads an error object of JSON-RPC.
func errorOf(object json.RawMessage) *Error {
	code, _ := number(object, "code")
	message, _ := text(object, "message")
	data, _ := jsontext.Lookup(object, "data")
	return readError(code, message, data)
}

// codeOf is the first canonical code that JSON-RPC or MCP shows as a number, for errors whose data do not tell.
func codeOf(number int64) errmap.Code {
	for _, code := range errmap.Codes() {
		if row, err := errmap.Lookup(code); err == nil && (int64(row.Modern.Code) == number || int64(row.JSONRPC) == number) {
			return code
		}
	}
	return errmap.TransportError
}

// readOutcome reads the result of tools/call, in any revision of MCP. The error is the tool's own failure, or a canonical error
// that came as a result.
func readOutcome(result json.RawMessage) (*Outcome, error) {
	if !jsontext.IsObject(result) {
		return nil, fmt.Errorf("the result is %s, want an object", jsontext.TypeName(result))
	}
	out := &Outcome{}
	meta, _ := jsontext.Lookup(result, "_meta")
	out.Content, _ = jsontext.Lookup(result, "content")
	for block := range jsontext.Elements(out.Content) {
		if kind, _ := text(block, "type"); kind == "text" {
			words, _ := text(block, "text")
			out.Texts = append(out.Texts, words)
		}
	}
	if failed, _ := jsontext.Lookup(result, "isError"); string(failed) == "true" {
		return nil, toolError(out, meta)
	}
	if data, ok := jsontext.Lookup(result, "structuredContent"); ok && !jsontext.IsNull(data) {
		out.Data = data
	} else if len(out.Texts) > 0 && isDocument(out.Texts[0]) { // revisions without structured content
		out.Data = json.RawMessage(out.Texts[0])
	}
	return out, nil
}

// isDocument reports whether a text is a JSON object or array.
func isDocument(s string) bool {
	return s != "" && (s[0] == '{' || s[0] == '[') && jsontext.Check([]byte(s), maxDepth) == nil
}

// toolError is a result with isError.
func toolError(out *Outcome, meta json.RawMessage) *Error {
	e := &Error{Code: errmap.ToolExecutionFailed}
	for i, words := range out.Texts {
		if i > 0 {
			e.Text += "\n"
		}
		e.Text += words
	}
	if e.Text == "" {
		e.Text = "The tool failed and does not say why."
	}
	data, ok := jsontext.Lookup(meta, errmap.MetaKey)
	if !ok {
		data, _ = jsontext.Lookup(meta, resultKey)
	}
	e.Data = data
	if code, ok := text(data, "code"); ok {
		e.Code = errmap.Code(code)
	}
	return e
}

// readTask reads a task as MCP shows it.
func readTask(raw json.RawMessage) (*Task, error) {
	t := &Task{JSON: without(raw, "resultType", "_meta")}
	t.ID, _ = text(raw, "taskId")
	t.Status, _ = text(raw, "status")
	t.Message, _ = text(raw, "statusMessage")
	if t.ID == "" || t.Status == "" {
		return nil, errors.New("the task has no id or no status")
	}
	if ms, ok := number(raw, "pollIntervalMs"); ok {
		t.Poll = time.Duration(ms) * time.Millisecond
	}
	switch t.Status {
	case statusCompleted:
		result, _ := jsontext.Lookup(raw, "result")
		out, err := readOutcome(result)
		if err != nil && !errors.As(err, &t.Err) {
			return nil, err
		}
		t.Outcome = out
	case statusFailed:
		failed, _ := jsontext.Lookup(raw, "error")
		t.Err = errorOf(failed)
	case statusCancelled:
		t.Err = Canonical(errmap.New(errmap.Cancelled))
	}
	return t, nil
}

// without is an object without some of its members.
func without(object json.RawMessage, names ...string) json.RawMessage {
	out := []byte{'{'}
	for name, value := range jsontext.Members(object) {
		skip := false
		for _, n := range names {
			skip = skip || n == name
		}
		if skip {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendString(out, name), ':')
		out = append(out, value...)
	}
	return append(out, '}')
}

// text is a member that is a string.
func text(object json.RawMessage, name string) (string, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if !ok {
		return "", false
	}
	return jsontext.Text(raw)
}

// number is a member that is an integer.
func number(object json.RawMessage, name string) (int64, bool) {
	raw, ok := jsontext.Lookup(object, name)
	if !ok {
		return 0, false
	}
	return jsontext.Int64(raw)
}

// callMeta is the _meta of a call, without braces; empty for none.
func callMeta(call *Call) []byte {
	var out []byte
	if call.Preview {
		out = append(out, `"`+previewKey+`":true`...)
	}
	if call.Fields == "" {
		return out
	}
	if len(out) > 0 {
		out = append(out, ',')
	}
	return jsontext.AppendString(append(out, `"`+fieldsKey+`":`...), call.Fields)
}

// argumentsOf are the arguments of a call, as an object.
func argumentsOf(call *Call) json.RawMessage {
	if len(call.Arguments) == 0 {
		return json.RawMessage(`{}`)
	}
	return call.Arguments
}
