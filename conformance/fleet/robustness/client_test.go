// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// opTimeout is how long a client waits for an answer. Then it does not know what became of the request.
const opTimeout = 6 * time.Second

// client is one caller. It is used by one goroutine at a time, unless a method says otherwise.
type client struct {
	t    *testing.T
	f    *fleet
	h    *history
	id   int
	rand *rand.Rand
	http *http.Client
	// tools is the API for callers, admin that for operators.
	tools, admin outriggerv1connect.ToolServiceClient

	calls int // made so far
}

// newClient makes a caller that keeps its connections or makes one for each request, so that each goes to another
// replica.
func newClient(r *run, keeps bool) *client {
	transport := &http.Transport{DisableKeepAlives: !keeps}
	r.t.Cleanup(transport.CloseIdleConnections)
	c := &client{t: r.t, f: r.f, h: r.h, id: r.clients, rand: r.random(), http: &http.Client{Transport: transport}}
	r.clients++
	c.tools = outriggerv1connect.NewToolServiceClient(c.http, r.f.main.url())
	c.admin = outriggerv1connect.NewToolServiceClient(c.http, r.f.admin.url())
	return c
}

// unique returns a name for a call that no one else has.
func (c *client) unique(lasts time.Duration) string {
	c.calls++
	return fmt.Sprintf("c%d-%d/%v", c.id, c.calls, lasts)
}

// between draws a duration.
func (c *client) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rand.Int64N(int64(most-least)))
}

// pause waits, unless the run ends.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// reply is an answer of MCP 2026-07-28.
type reply struct {
	raw    string
	Result struct {
		ResultType, TaskID, Status, RequestState string
		StructuredContent                        struct{ Name string }
		Result                                   struct{ StructuredContent struct{ Name string } }
		Error                                    fault
	}
	Error *fault
}

// fault is an error object of JSON-RPC.
type fault struct {
	Code    int
	Message string
	Data    struct {
		Code      string
		Retryable bool
	}
}

// code is the canonical code of what went wrong, also where it is a result; "" if nothing did.
func (r *reply) code() string {
	if r.Error != nil {
		return r.Error.Data.Code
	}
	_, after, ok := strings.Cut(r.raw, `"code":"`)
	if !ok || !strings.Contains(r.raw, `"isError":true`) {
		return ""
	}
	code, _, _ := strings.Cut(after, `"`)
	return code
}

const (
	mcpVersion   = "2026-07-28"
	capabilities = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
)

// request makes a request of MCP 2026-07-28. name is what Mcp-Name says; "" is nothing.
func (c *client) request(ctx context.Context, method, name, params string) (*http.Response, error) {
	if params != "" {
		params += ","
	}
	body := `{"jsonrpc":"2.0","id":"1","method":"` + method + `","params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + mcpVersion +
		`","io.modelcontextprotocol/clientCapabilities":` + capabilities + `}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.f.main.url()+"/mcp", strings.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return nil, err
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": mcpVersion, "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			req.Header.Set(key, value)
		}
	}
	return c.http.Do(req)
}

// modern makes a request and reads its answer. It is safe for concurrent use. An error means that no one knows what
// became of the request.
func (c *client) modern(ctx context.Context, method, name, params string) (*reply, error) {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	resp, err := c.request(ctx, method, name, params)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := &reply{raw: string(text)}
	if err := json.Unmarshal(text, out); err != nil {
		c.t.Errorf("%s %s: HTTP %d: %v: %q", method, name, resp.StatusCode, err, text)
		return nil, err
	}
	return out, nil
}

// tasks is the context of a request whose client knows tasks.
func tasks() *outriggerv1.RequestContext {
	return &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
}

// isUncertain reports whether an error of the API says that the service, or the way to it, failed.
func isUncertain(err error) bool {
	if !connect.IsWireError(err) {
		return true // the client made it up
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled, connect.CodeUnknown:
		return true
	}
	return false
}

// oddities are what no model has a place for. It is safe for concurrent use.
type oddities struct {
	t  *testing.T
	mu sync.Mutex
	n  int
}

// maxOddities bounds what is printed.
const maxOddities = 50

func (o *oddities) add(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n++; o.n <= maxOddities {
		o.t.Errorf(format, args...)
	}
}
