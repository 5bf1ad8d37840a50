// SPDX-License-Identifier: Apache-2.0

// Package blackbox_test has the tests of requests through the whole pipeline: what goes in at an edge, and what comes out.
package blackbox_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// modernMeta is what every modern request carries.
const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// fake is a sidecar with the demo's tools whose backend is a function.
func fake(t testing.TB, call mcptest.Upstream, configure func(*configv1.Config)) *mcptest.Rig {
	t.Helper()
	return mcptest.Pipe(t, mcptest.Parts{Backend: call, Configure: configure})
}

// pagesOf has the pages of lists hold so many entries.
func pagesOf(size int32) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxPageEntries = &size }
}

// asks has the sidecar ask its callers before destructive tools run.
func asks(c *configv1.Config) { c.Destructive = proto.String("confirm") }

// ownHeadersOnly has no header of a caller go on to the backend.
func ownHeadersOnly(c *configv1.Config) { c.Backend.Metadata.Inbound = nil }

// both changes a configuration in several ways.
func both(configure ...func(*configv1.Config)) func(*configv1.Config) {
	return func(c *configv1.Config) {
		for _, f := range configure {
			if f != nil {
				f(c)
			}
		}
	}
}

// within gives calls so much time; 0 is the default.
func within(d time.Duration) func(*configv1.Config) {
	return func(c *configv1.Config) {
		if d > 0 {
			c.Timeout = durationpb.New(d)
		}
	}
}

func catalogWait(d time.Duration) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.CatalogWait = durationpb.New(d) }
}

// resultBytes bounds results, resultItems the messages in one, inputItems those of a call; 0 is the default.
func resultBytes(n int) func(*configv1.Config) {
	return func(c *configv1.Config) {
		if n > 0 {
			c.Limits.MaxResultBytes = proto.Int64(int64(n))
		}
	}
}

func resultItems(n int) func(*configv1.Config) {
	return func(c *configv1.Config) {
		if n > 0 {
			c.Limits.MaxResultItems = proto.Int32(int32(n))
		}
	}
}

func inputItems(n int32) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxInputItems = &n }
}

// atOnce bounds the calls that run at once.
func atOnce(n int32) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxConcurrentCalls = &n }
}

func inFlight(n int32) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.MaxInFlight = &n }
}

func callerRate(r *configv1.Rate) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.CallerRate = r }
}

func toolRate(r *configv1.Rate) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Limits.ToolRate = r }
}

// taskAfter has calls continue as tasks after so long; 0 is never.
func taskAfter(d time.Duration) func(*configv1.Config) {
	return func(c *configv1.Config) { c.TaskAfter = durationpb.New(d) }
}

// trusted has every caller run destructive tools.
func trusted(c *configv1.Config) { c.Trust = proto.String("trusted") }

// compacted lists four tools in the place of all, which are named below.
func compacted(c *configv1.Config) { c.Catalog.Mode = proto.String("compact") }

const searchName, describeName, callName = "catalog.search", "catalog.describe", "catalog.call"

// mcpName is the name of a tool in MCP.
func mcpName(name string) string { return strings.ReplaceAll(name, ".", "_") }

// repairs decodes arguments that a model wrote as strings.
func repairs(c *configv1.Config) { c.RepairArguments = true }

// overlaid changes the options of the methods that match.
func overlaid(match string, o *configv1.ToolOptions) func(*configv1.Config) {
	return func(c *configv1.Config) { c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: match, Tool: o}) }
}

// idempotencyHeader has the key of a call that may be repeated.
const idempotencyHeader = "Idempotency-Key"

// toolCall is a call in no dialect, from an origin without others.
func toolCall(b *mcptest.Rig, tool, arguments string) *mcptest.Call {
	return &mcptest.Call{Origin: b.NewOrigin(), ID: "1", Tool: tool, Arguments: arguments}
}

// inbound is a message as an edge without headers passes it on.
func inbound(origin mcptest.Origin, d mcptest.Dialect, raw string) *mcptest.Message {
	return &mcptest.Message{Dialect: d, Origin: origin, Text: raw, Transport: "test", Route: "test"}
}

// members are those of a JSON object; none where it is no object.
func members(object []byte) (out map[string]json.RawMessage) {
	_ = json.Unmarshal(object, &out)
	return out
}

// lookup is a member of a JSON object.
func lookup(object []byte, name string) (json.RawMessage, bool) {
	value, ok := members(object)[name]
	return value, ok
}

// elements are those of a JSON array.
func elements(array []byte) (out []json.RawMessage) {
	_ = json.Unmarshal(array, &out)
	return out
}

// jsonText is the text of a JSON string.
func jsonText(raw []byte) (text string, ok bool) {
	return text, len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil
}

// answer sends one message from its own origin and decodes the reply.
func answer(t testing.TB, b *mcptest.Rig, d mcptest.Dialect, raw string) replyMessage {
	t.Helper()
	reply := b.Send(context.Background(), inbound(b.NewOrigin(), d, raw))
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

func decode(t testing.TB, reply mcptest.Reply) replyMessage {
	t.Helper()
	m := replyMessage{}
	if reply.Bytes() != nil {
		m = decodeText(t, reply.Bytes())
	}
	m.Status = reply.Status
	return m
}

func decodeText(t testing.TB, raw []byte) (m replyMessage) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("the reply is not JSON: %v\n%s", err, raw)
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
func codeOf(resp *mcptest.Outcome) errmap.Code {
	if resp.Err == nil {
		return ""
	}
	return resp.Err.Code
}
