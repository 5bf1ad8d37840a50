// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// modernRevision is the revision in which every request says everything about itself.
const modernRevision = "2026-07-28"

// tasksExtension is how a client of the modern revision says that it knows tasks.
const tasksExtension = `"extensions":{"io.modelcontextprotocol/tasks":{}}`

// Headers of MCP over HTTP.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	headerParam   = "Mcp-Param-"
)

// mcp is MCP over HTTP. Its first request is modern; where the server knows older revisions alone, it opens a session.
type mcp struct {
	post post
	// wanted is the revision that the user wants; empty for the newest.
	wanted, version string
	asks            Asker

	mu sync.Mutex
	// revision is the one of a session, and session its id, which may be empty. An empty revision is the modern one.
	revision, session string
	isSettled         bool
}

// exchange is what one method wants.
type exchange struct {
	method string
	// name is what Mcp-Name repeats.
	name string
	// params are members of an object, without braces; meta those of _meta.
	params, meta []byte
	header       http.Header
	asTask       bool
	progress     func(Progress)
}

// ask sends a request in the revision that the server has, and returns its result.
func (c *mcp) ask(ctx context.Context, x *exchange) (json.RawMessage, error) {
	isLegacy, err := c.settle(ctx)
	if err != nil {
		return nil, err
	}
	if isLegacy {
		return c.askLegacy(ctx, x)
	}
	got, err := c.post.do(ctx, c.modern(x))
	if err != nil {
		return nil, err
	}
	return got.result, got.failure()
}

// settle finds out which revision the server has, once: server/discover is the question that only modern ones answer, and that
// does nothing.
func (c *mcp) settle(ctx context.Context) (isLegacy bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.isSettled:
	case c.wanted != "" && c.wanted != modernRevision:
		err = c.open(ctx, c.wanted)
	default:
		var got *reply
		got, err = c.post.do(ctx, c.modern(&exchange{method: "server/discover"}))
		var told *Error
		switch {
		case err == nil && got.err == nil:
		case err == nil && !isOlder(got):
			err = got.failure()
		case err != nil && (!errors.As(err, &told) || told.Code != errmap.TransportError):
		case c.wanted == modernRevision:
			err = Canonical(errmap.New(errmap.UnsupportedProtocolVersion, errmap.Messagef("%s does not speak MCP %s", c.post.shown, modernRevision)))
		default:
			err = c.open(ctx, Revisions()[1])
		}
	}
	c.isSettled = err == nil
	return c.revision != "", err
}

// isOlder reports whether a server answered a modern request as one that does not know it: it names other revisions, knows no such
// method, or misses a session.
func isOlder(r *reply) bool {
	code, _ := number(r.err, "code")
	switch code {
	case -32022, -32601:
		return true
	case -32600, -32000, -32001, -32602:
		data, _ := jsontext.Lookup(r.err, "data")
		name, isOurs := text(data, "code")
		return !isOurs || errmap.Code(name) == errmap.UnsupportedProtocolVersion || errmap.Code(name) == errmap.SessionNotFound
	}
	return false
}

// modern is a request of the modern revision.
func (c *mcp) modern(x *exchange) *request {
	var able []string
	if x.asTask {
		able = append(able, tasksExtension)
	}
	if c.asks != nil {
		able = append(able, elicits)
	}
	capabilities := "{" + strings.Join(able, ",") + "}"
	meta := append([]byte(nil), `"io.modelcontextprotocol/protocolVersion":"`+modernRevision+`","io.modelcontextprotocol/clientCapabilities":`+capabilities+
		`,"io.modelcontextprotocol/clientInfo":`...)
	meta = c.appendInfo(meta)
	header := c.header(x)
	header.Set(headerVersion, modernRevision)
	header.Set("Mcp-Method", x.method)
	if x.name != "" {
		header.Set("Mcp-Name", headerValue(x.name))
	}
	return c.request(x, header, meta)
}

func (c *mcp) appendInfo(dst []byte) []byte {
	dst = jsontext.AppendString(append(dst, `{"name":"sidecar","version":`...), c.version)
	return append(dst, '}')
}

func (*mcp) header(x *exchange) http.Header {
	header := maps.Clone(x.header)
	if header == nil {
		header = http.Header{}
	}
	header.Set("Accept", "application/json, text/event-stream")
	return header
}

// request is a request of any revision. meta are the members of _meta that the revision has.
func (*mcp) request(x *exchange, header http.Header, meta []byte) *request {
	for _, more := range [][]byte{x.meta, progressMeta(x.progress)} {
		if len(more) > 0 && len(meta) > 0 {
			meta = append(meta, ',')
		}
		meta = append(meta, more...)
	}
	params := append([]byte{'{'}, x.params...)
	if len(meta) > 0 {
		params = append(append(append(member(params, "_meta"), ":{"...), meta...), '}')
	}
	r := &request{method: x.method, params: append(params, '}'), header: header}
	if x.progress != nil {
		r.notice = func(message json.RawMessage) error { notice(message, x.progress); return nil }
	}
	return r
}

func progressMeta(progress func(Progress)) []byte {
	if progress == nil {
		return nil
	}
	return []byte(`"progressToken":"1"`)
}

// notice passes on progress.
func notice(message json.RawMessage, progress func(Progress)) {
	if method, _ := text(message, "method"); method != "notifications/progress" {
		return
	}
	params, _ := jsontext.Lookup(message, "params")
	p := Progress{Done: string(present(params, "progress")), Total: string(present(params, "total"))}
	p.Message, _ = text(params, "message")
	progress(p)
}

// open opens a session.
func (c *mcp) open(ctx context.Context, revision string) error {
	able := ""
	switch {
	case c.asks == nil || revision < "2025-06-18": // earlier revisions have no questions
	case revision < "2025-11-25":
		able = elicitsForms
	default:
		able = elicits
	}
	params := append([]byte(`{"protocolVersion":"`+revision+`","capabilities":{`+able+`},"clientInfo":`), c.appendInfo(nil)...)
	got, err := c.post.do(ctx, &request{method: "initialize", params: append(params, '}'), header: c.header(&exchange{})})
	if err != nil {
		return err
	}
	if err := got.failure(); err != nil {
		return err
	}
	chosen, _ := text(got.result, "protocolVersion")
	if chosen == "" || c.wanted != "" && chosen != c.wanted {
		return Canonical(errmap.New(errmap.UnsupportedProtocolVersion, errmap.Messagef("%s offers MCP %q, not %s", c.post.shown, chosen, revision)))
	}
	c.revision, c.session = chosen, got.header.Get(headerSession)
	return c.notify(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// notify sends a notification of a session.
func (c *mcp) notify(ctx context.Context, message string) error {
	resp, err := c.post.send(ctx, http.MethodPost, []byte(message), c.legacyHeader(&exchange{}))
	if err != nil {
		return unreachable(ctx, c.post.shown, err)
	}
	return resp.Body.Close()
}

func (c *mcp) legacyHeader(x *exchange) http.Header {
	header := c.header(x)
	header.Set(headerVersion, c.revision)
	if c.session != "" {
		header.Set(headerSession, c.session)
	}
	return header
}

// farewell bounds what is sent when the user does not wait any more.
const farewell = 2 * time.Second

// askLegacy sends a request of a session. The end of its connection is not its end: a user who leaves cancels it. The server asks
// its questions on the stream of the request, and waits for their answers.
func (c *mcp) askLegacy(ctx context.Context, x *exchange) (json.RawMessage, error) {
	r := c.request(x, c.legacyHeader(x), nil)
	r.resume = func(ctx context.Context, last string) (*http.Response, error) {
		header := c.legacyHeader(&exchange{})
		header.Set("Accept", "text/event-stream")
		header.Set("Last-Event-ID", last)
		return c.post.send(ctx, http.MethodGet, nil, header)
	}
	var unanswered error
	told := r.notice
	r.notice = func(message json.RawMessage) error {
		if method, _ := text(message, "method"); method == methodElicit {
			unanswered = c.answer(ctx, message)
			return unanswered
		}
		if told != nil {
			return told(message)
		}
		return nil
	}
	got, err := c.post.do(ctx, r)
	if err == nil {
		return got.result, got.failure()
	}
	if ctx.Err() != nil || unanswered != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		_ = c.notify(late, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+requestID+`}}`) // it ends by its own time otherwise
	}
	return nil, err
}

// answer answers a question of the server.
func (c *mcp) answer(ctx context.Context, message json.RawMessage) error {
	id, ok := jsontext.Lookup(message, "id")
	if !ok {
		return foreign(c.post.shown, "its question has no id")
	}
	params, _ := jsontext.Lookup(message, "params")
	said, err := c.asks.put(ctx, methodElicit, params)
	if err != nil {
		return err
	}
	return c.notify(ctx, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+string(said)+`}`)
}

// Tools implements [Client].
func (c *mcp) Tools(ctx context.Context) ([]*Tool, error) {
	var tools []*Tool
	var params []byte
	for range maxPages {
		page, err := c.ask(ctx, &exchange{method: "tools/list", params: params})
		if err != nil {
			return nil, err
		}
		if tools, err = appendTools(tools, page, c.post.shown); err != nil {
			return nil, err
		}
		next, ok := text(page, "nextCursor")
		if !ok {
			return tools, nil
		}
		params = jsontext.AppendString([]byte(`"cursor":`), next)
	}
	return nil, foreign(c.post.shown, "its list does not end")
}

// Tool implements [Client]. MCP has no method for one tool: a list has it, or the compact catalog describes it.
func (c *mcp) Tool(ctx context.Context, name string) (*Tool, error) {
	tools, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.Name == name || t.MCPName == name {
			return t, nil
		}
	}
	if !isCompact(tools) {
		return nil, Canonical(errmap.UnknownTool(name, nearest(tools, name)...))
	}
	out, err := c.Call(ctx, &Call{Tool: catalog.DescribeName, Arguments: append(jsontext.AppendString([]byte(`{"`+catalog.NameArgument+`":`), name), '}')})
	if err != nil {
		return nil, err
	}
	return readTool(out.Data), nil
}

// nearest are the tools that a name was probably meant to be.
func nearest(tools []*Tool, name string) (names []string) {
	for _, t := range Rank(tools, strings.NewReplacer(".", " ", "_", " ").Replace(name), 3) {
		names = append(names, t.Name)
	}
	return names
}

// Call implements [Client]. Each round with a question repeats it, with the answers and the state of the round before.
func (c *mcp) Call(ctx context.Context, call *Call) (*Outcome, error) {
	x := &exchange{method: "tools/call", name: call.Tool, meta: callMeta(call), header: call.Header, asTask: call.AsTask, progress: call.Progress}
	x.params = append(jsontext.AppendString([]byte(`"name":`), call.Tool), `,"arguments":`...)
	x.params = append(x.params, argumentsOf(call)...)
	if call.AsTask {
		isLegacy, err := c.settle(ctx)
		if err != nil {
			return nil, err
		}
		if isLegacy {
			return nil, noTasks(c.post.shown + " with MCP " + c.revision)
		}
	}
	first := x.params
	for range maxRounds {
		result, err := c.round(ctx, x, call)
		if err != nil {
			return nil, err
		}
		switch kind, _ := text(result, "resultType"); kind {
		case "task":
			t, err := readTask(result)
			if err != nil {
				return nil, foreign(c.post.shown, err.Error())
			}
			return &Outcome{Task: t}, nil
		case statusInputRequired:
			requests, _ := jsontext.Lookup(result, "inputRequests")
			answers, err := c.asks.answers(ctx, requests)
			if err != nil {
				return nil, err
			}
			x.params = append(append(slices.Clip(first), `,"inputResponses":`...), answers...)
			if state := present(result, "requestState"); state != nil {
				x.params = append(append(x.params, `,"requestState":`...), state...)
			}
		default:
			return c.post.outcome(result)
		}
	}
	return nil, tooManyRounds()
}

// round makes a call, once more with the headers that its tool wants if it was refused for them before it ran.
func (c *mcp) round(ctx context.Context, x *exchange, call *Call) (json.RawMessage, error) {
	result, err := c.ask(ctx, x)
	var told *Error
	if errors.As(err, &told) && told.Code == errmap.HeaderMismatch {
		return c.again(ctx, x, call, err)
	}
	return result, err
}

// again repeats a call with the headers that its tool wants arguments repeated in. They are in its schema, which most calls do not
// need.
func (c *mcp) again(ctx context.Context, x *exchange, call *Call, refused error) (json.RawMessage, error) {
	tool, err := c.Tool(ctx, call.Tool)
	if err != nil {
		return nil, err
	}
	header := maps.Clone(x.header)
	if header == nil {
		header = http.Header{}
	}
	before := len(header)
	addParams(header, tool.Input, call.Arguments, sampleDepth)
	if len(header) == before {
		return nil, refused
	}
	x.header = header
	return c.ask(ctx, x)
}

// addParams adds the arguments that a schema wants in headers.
func addParams(header http.Header, schema, arguments json.RawMessage, depth int) {
	properties, ok := jsontext.Lookup(schema, "properties")
	if !ok || depth == 0 {
		return
	}
	for name, property := range jsontext.Members(properties) {
		value := present(arguments, name)
		if value == nil {
			continue
		}
		if wanted, ok := text(property, "x-mcp-header"); ok {
			plain, isText := jsontext.Text(value)
			if !isText {
				plain = string(value)
			}
			header.Set(headerParam+wanted, headerValue(plain))
		}
		addParams(header, property, value, depth-1)
	}
}

// headerValue is a text as a header may have it.
func headerValue(s string) string {
	isPlain := s == strings.TrimSpace(s) && !strings.HasPrefix(s, "=?base64?") &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	if isPlain {
		return s
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(s)) + "?="
}

// Task implements [Client].
func (c *mcp) Task(ctx context.Context, id string) (*Task, error) {
	result, err := c.task(ctx, "tasks/get", id)
	if err != nil {
		return nil, err
	}
	t, err := readTask(result)
	if err != nil {
		return nil, foreign(c.post.shown, err.Error())
	}
	return t, nil
}

// AnswerTask implements [Client].
func (c *mcp) AnswerTask(ctx context.Context, t *Task) error {
	answers, err := c.asks.about(ctx, t)
	if err != nil {
		return err
	}
	_, err = c.task(ctx, "tasks/update", t.ID, append([]byte(`,"inputResponses":`), answers...)...)
	return err
}

// CancelTask implements [Client].
func (c *mcp) CancelTask(ctx context.Context, id string) error {
	_, err := c.task(ctx, "tasks/cancel", id)
	return err
}

func (c *mcp) task(ctx context.Context, method, id string, more ...byte) (json.RawMessage, error) {
	isLegacy, err := c.settle(ctx)
	if err != nil {
		return nil, err
	}
	if isLegacy {
		return nil, noTasks(c.post.shown + " with MCP " + c.revision)
	}
	params := append(jsontext.AppendString([]byte(`"taskId":`), id), more...)
	return c.ask(ctx, &exchange{method: method, name: id, params: params, asTask: true})
}

// Close implements [Client]. It ends the session, if there is one.
func (c *mcp) Close(ctx context.Context) error {
	defer c.post.client.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	resp, err := c.post.send(ctx, http.MethodDelete, nil, c.legacyHeader(&exchange{}))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}
