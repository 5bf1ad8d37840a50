// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/identity"
)

// guide is the skill of the folder that the matrix has.
const guide = "skill://guide/SKILL.md"

// skillFolder has one skill.
func skillFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "guide"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "guide", "SKILL.md"), []byte("---\nname: guide\ndescription: How to.\n---\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// published is the event that rows of the matrix publish.
const published = "orders/new"

// operation is one row of the matrix: what a caller does, what it needs for that, and how
// each edge says it. An edge that has no way to say it is left out.
type operation struct {
	name string
	// needs are the scopes, sorted. tool, uri, prompt, event and publish are what a grant must
	// include.
	needs                             []string
	tool, uri, prompt, event, publish string
	// audited is the operation in the audit trail, and target what its lines name beside a
	// tool. onDenial is set if only a refusal leaves a line.
	audited, target string
	onDenial        bool
	// ok is the canonical code for a caller who may; "" is success. okTrusted is that for
	// trusted callers, where it is another one.
	ok, okTrusted string
	// mcp is a method of MCP and its params, mcpName what the header Mcp-Name repeats. The
	// legacy eras have it unless modernOnly is set, and legacyOnly is for them alone.
	mcp, params, mcpName   string
	modernOnly, legacyOnly bool
	// get is set for the stream of a legacy session, which is a GET.
	get bool
	// canonical is a method of the canonical dialect and its params, message those of the
	// message form of a call.
	canonical, canonicalParams, message string
	// api calls the tool API, typed the backend's own service.
	api   func(context.Context, outriggerv1connect.ToolServiceClient) error
	typed func(context.Context, connect.HTTPClient, string, ...connect.ClientOption) error
}

// expected is the code for a caller who may do it.
func (o *operation) expected(w who) string {
	if o.okTrusted != "" && w.grant != nil && w.grant.Trust == identity.Trusted {
		return o.okTrusted
	}
	return o.ok
}

// call is a row of a tool's call.
func call(name, tool, mcpName, scope, arguments string) operation {
	return operation{
		name: name, tool: tool, needs: []string{scope}, audited: "call_tool",
		mcp: "tools/call", params: `"name":"` + mcpName + `","arguments":` + arguments, mcpName: mcpName,
		canonical: "tools/call", canonicalParams: `"name":"` + tool + `","arguments":` + arguments,
		message: `"tool_name":"` + tool + `","arguments":` + arguments,
		api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
			_, err := c.CallTool(ctx, connect.NewRequest(&outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}}))
			return err
		},
	}
}

// operations are the rows.
func operations() []operation {
	reading := call("call of a reading tool", "lab.echo", "lab_echo", "tools:read", `{"nonce":"n"}`)
	reading.typed = func(ctx context.Context, c connect.HTTPClient, url string, o ...connect.ClientOption) error {
		_, err := demov1connect.NewLabClient(c, url, o...).Echo(ctx, connect.NewRequest(&demov1.EchoRequest{Nonce: "n"}))
		return err
	}
	destructive := call("call of a destructive tool", "fleet.cancel_order", "fleet_cancel_order", "tools:write", `{"orderId":"4"}`)
	destructive.ok, destructive.okTrusted = string(errmap.DestructiveBlocked), string(errmap.ToolExecutionFailed)
	destructive.typed = func(ctx context.Context, c connect.HTTPClient, url string, o ...connect.ClientOption) error {
		_, err := demov1connect.NewFleetClient(c, url, o...).CancelOrder(ctx, connect.NewRequest(&demov1.CancelOrderRequest{OrderId: 4}))
		return err
	}
	free := call("call of a tool that needs no scope", "fleet.get_map", "fleet_get_map", "", `{}`)
	free.needs = nil
	return append([]operation{reading, destructive, free, call("call of a native tool", "desk.tidy", "tidy", "tools:write", `{}`)}, others()...)
}

// others are the rows that call no tool.
func others() []operation {
	return []operation{
		{
			name: "look at a tool", audited: "get_tool", target: "lab.echo", onDenial: true, tool: "lab.echo", needs: []string{"tools:read"}, canonical: "tools/get", canonicalParams: `"name":"lab.echo"`,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.GetTool(ctx, connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: "lab.echo"}))
				return err
			},
		},
		reads("read a resource of the backend", "", "desk://notes/1", "resources"),
		reads("read a resource of an RPC", "fleet.get_vehicle", "lagoon://vehicles/101", "resources", "tools:read"),
		{
			name: "list resources", audited: "list_resources", onDenial: true, needs: []string{"resources"}, mcp: "resources/list",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.ListResources(ctx, connect.NewRequest(&outriggerv1.ListResourcesRequest{}))
				return err
			},
		},
		{
			name: "list templates", audited: "list_resource_templates", onDenial: true, needs: []string{"resources"}, mcp: "resources/templates/list",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.ListResourceTemplates(ctx, connect.NewRequest(&outriggerv1.ListResourceTemplatesRequest{}))
				return err
			},
		},
		reads("read a file of a skill", "", guide, "resources"),
		{
			name: "list skills", audited: "list_skills", onDenial: true, needs: []string{"resources"}, mcp: "skills/list",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.ListSkills(ctx, connect.NewRequest(&outriggerv1.ListSkillsRequest{}))
				return err
			},
		},
		{
			name: "get a skill", audited: "get_skill", target: guide, onDenial: true, needs: []string{"resources"}, uri: guide, mcp: "skills/get", params: `"uri":"` + guide + `"`,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.GetSkill(ctx, connect.NewRequest(&outriggerv1.GetSkillRequest{Uri: guide}))
				return err
			},
		},
		{
			name: "read a directory", audited: "read_directory", target: "skill://guide", onDenial: true, needs: []string{"resources"}, uri: guide,
			mcp: "resources/directory/read", params: `"uri":"skill://guide"`,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.ReadDirectory(ctx, connect.NewRequest(&outriggerv1.ReadDirectoryRequest{Uri: "skill://guide"}))
				return err
			},
		},
		{
			name: "list prompts", audited: "list_prompts", onDenial: true, needs: []string{"prompts"}, mcp: "prompts/list",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.ListPrompts(ctx, connect.NewRequest(&outriggerv1.ListPromptsRequest{}))
				return err
			},
		},
		{
			name: "get a prompt", audited: "get_prompt", target: "greet", needs: []string{"prompts"}, prompt: "greet", mcp: "prompts/get", params: `"name":"greet","arguments":{"name":"Ann"}`, mcpName: "greet",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.GetPrompt(ctx, connect.NewRequest(&outriggerv1.GetPromptRequest{Name: "greet", Arguments: map[string]string{"name": "Ann"}}))
				return err
			},
		},
		{
			name: "complete", audited: "complete", target: "greet", needs: []string{"completion"}, prompt: "greet", mcp: "completion/complete",
			params: `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"}`,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.Complete(ctx, connect.NewRequest(&outriggerv1.CompleteRequest{
					Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: "greet"}, Argument: &outriggerv1.CompletionArgument{Name: "tone", Value: "w"},
				}))
				return err
			},
		},
		aboutTask("get a task", "tasks/get", "", func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
			_, err := c.GetTask(ctx, connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: "none"}))
			return err
		}),
		aboutTask("update a task", "tasks/update", `,"inputResponses":{}`, func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
			_, err := c.UpdateTask(ctx, connect.NewRequest(&outriggerv1.UpdateTaskRequest{TaskId: "none"}))
			return err
		}),
		aboutTask("cancel a task", "tasks/cancel", "", func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
			_, err := c.CancelTask(ctx, connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: "none"}))
			return err
		}),
		{
			name: "listen to changes", audited: "listen", onDenial: true, needs: []string{"listen"}, mcp: "subscriptions/listen", params: `"notifications":{"toolsListChanged":true}`, modernOnly: true,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				return begins(ctx, c, &outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}}})
			},
		},
		{
			name: "listen to events", audited: "listen", onDenial: true, needs: []string{"listen"}, event: "*",
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				return begins(ctx, c, &outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Events{Events: &outriggerv1.EventFilter{}}})
			},
		},
		{
			name: "publish an event", audited: "publish", target: published, onDenial: true, publish: published,
			api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
				_, err := c.Publish(ctx, connect.NewRequest(&outriggerv1.Notification{Method: published}))
				return err
			},
		},
		{name: "subscribe to a resource", audited: "listen", target: "desk://notes/1", onDenial: true, needs: []string{"listen"}, uri: "desk://notes/1", mcp: "resources/subscribe", params: `"uri":"desk://notes/1"`, legacyOnly: true},
		{
			name: "reflection", audited: "reflect", onDenial: true, tool: glob.Anything, needs: []string{"tools:read", "tools:write"},
			typed: func(ctx context.Context, c connect.HTTPClient, url string, o ...connect.ClientOption) error {
				stream := grpcreflect.NewClient(c, url, o...).NewStream(ctx)
				defer func() { _, _ = stream.Close() }()
				_, err := stream.ListServices()
				return err
			},
		},
		{name: "stream of a session", audited: "listen", onDenial: true, needs: []string{"listen"}, mcp: "GET", get: true, legacyOnly: true},
	}
}

func reads(name, tool, uri string, needs ...string) operation {
	o := operation{
		name: name, tool: tool, audited: "read_resource", target: uri, needs: needs, mcp: "resources/read", params: `"uri":"` + uri + `"`, mcpName: uri,
		api: func(ctx context.Context, c outriggerv1connect.ToolServiceClient) error {
			_, err := c.ReadResource(ctx, connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: uri}))
			return err
		},
	}
	if tool == "" { // resources of RPCs follow the grants of their tools
		o.uri = uri
	}
	return o
}

// aboutTask is a row about a task that does not exist.
func aboutTask(name, method, more string, api func(context.Context, outriggerv1connect.ToolServiceClient) error) operation {
	return operation{
		name: name, audited: strings.Replace(method, "tasks/", "", 1) + "_task", target: "none", needs: []string{"tasks"}, ok: string(errmap.InvalidParams), mcp: method, params: `"taskId":"none"` + more, mcpName: "none", modernOnly: true, api: api,
	}
}

// begins opens a stream and leaves it once its answer has begun.
func begins(ctx context.Context, c outriggerv1connect.ToolServiceClient, req *outriggerv1.SubscribeRequest) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stream, err := c.Subscribe(ctx, connect.NewRequest(req))
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	if req.GetEvents() != nil {
		stream.ResponseHeader() // with it the stream hears of events
		if _, err := c.Publish(ctx, connect.NewRequest(&outriggerv1.Notification{Method: published})); err != nil {
			return err
		}
	}
	if stream.Receive() {
		return nil
	}
	return stream.Err()
}

// reached counts what reaches the RPCs of the backend.
type reached struct {
	bridge.Upstream

	calls atomic.Int64
}

func (r *reached) count(next bridge.Upstream) bridge.Upstream {
	r.Upstream = next
	return r
}

// Call implements [bridge.Upstream].
func (r *reached) Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*bridge.Answer, *errmap.Error) {
	r.calls.Add(1)
	return r.Upstream.Call(ctx, m, in, header)
}

// Stream implements [bridge.Upstream].
func (r *reached) Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func([]byte) error) (*bridge.Answer, *errmap.Error) {
	r.calls.Add(1)
	return r.Upstream.Stream(ctx, m, in, header, each)
}
