// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modernMeta is what every modern request carries.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// fake returns a bridge over the demo's tools whose backend is a function.
func fake(t *testing.T, call mcptest.Upstream, o bridge.Options) *dialect.Handler {
	t.Helper()
	return dialect.New(bridge.New(mcptest.Memory(t), call, correlate.New(correlate.Options{}), o), dialect.Options{})
}

// pagesOf has the pages of lists hold so many entries.
func pagesOf(size int32) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxPageEntries = &size }
}

// asks has the sidecar ask its callers before destructive tools run.
func asks(c *configv1.Config) { c.Destructive = proto.String("confirm") }

// ownHeadersOnly has no header of a caller go on to the backend.
func ownHeadersOnly(c *configv1.Config) { c.Backend.Metadata.Inbound = nil }

// toolCall is a neutral call with JSON arguments, from an origin of its own.
func toolCall(b *dialect.Handler, tool, arguments string) *bridge.Request {
	return &bridge.Request{
		Op: bridge.OpCall, Origin: b.Flights().NewOrigin(), ID: jsonrpc.StringID("1"),
		Tool: tool, Arguments: bridge.Payload{Bytes: []byte(arguments)},
	}
}

// inbound reads one message as an edge without headers would.
func inbound(t testing.TB, origin correlate.Origin, d dialect.Dialect, raw string) *dialect.Inbound {
	t.Helper()
	profile := jsonrpc.ProfileMCP
	if d == dialect.Canonical {
		profile = jsonrpc.ProfileCanonical
	}
	msg := jsonrpc.Parse([]byte(raw), profile, jsonrpc.Limits{})
	return &dialect.Inbound{Dialect: d, Origin: origin, Message: &msg, Transport: "test", Route: "test"}
}

// answer sends one message from an origin of its own and decodes the reply.
func answer(t testing.TB, b *dialect.Handler, d dialect.Dialect, raw string) replyMessage {
	t.Helper()
	reply := b.HandleMessage(context.Background(), inbound(t, b.Flights().NewOrigin(), d, raw))
	return decode(t, reply)
}

// replyMessage is a reply in the shape that all dialects share.
type replyMessage struct {
	Status int             `json:"-"`
	ID     json.RawMessage `json:"id"`
	Result *toolResult     `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	} `json:"error"`
}

type toolResult struct {
	IsError           bool            `json:"isError"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	Status            string          `json:"status"`
	Failure           struct {
		Details data `json:"error_details"`
	} `json:"error"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Meta struct {
		Error data `json:"dev.outrigger/error"`
	} `json:"_meta"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

type data struct {
	Code         errmap.Code        `json:"code"`
	Retryable    bool               `json:"retryable"`
	RetryAfterMS int64              `json:"retryAfterMs"`
	RequestID    json.RawMessage    `json:"requestId"`
	Violations   []errmap.Violation `json:"violations"`
}

func decode(t testing.TB, reply dialect.Reply) replyMessage {
	t.Helper()
	m := replyMessage{Status: reply.Status}
	if reply.Bytes() == nil {
		return m
	}
	if err := json.Unmarshal(reply.Bytes(), &m); err != nil {
		t.Fatalf("the reply is not JSON: %v\n%s", err, reply.Bytes())
	}
	return m
}

// data is the canonical data of a failure, whichever way it is shown.
func (m replyMessage) data() data {
	switch {
	case m.Error != nil:
		return m.Error.Data
	case m.Result == nil:
		return data{}
	case m.Result.Status == "failure":
		return m.Result.Failure.Details
	}
	return m.Result.Meta.Error
}

// code is the canonical code of the failure, empty on success.
func (m replyMessage) code() errmap.Code { return m.data().Code }

// codeOf is the code of a neutral response, empty on success.
func codeOf(resp *bridge.Response) errmap.Code {
	if resp.Err == nil {
		return ""
	}
	return resp.Err.Code
}
