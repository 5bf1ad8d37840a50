// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// rpc is one unary RPC: a request, a good answer, a bad one and where it is bad.
type rpc struct {
	name        string
	in          proto.Message
	good, bad   proto.Message
	path        string
	noViolation bool // the answer has no rules
}

func rpcs() []rpc {
	resource := func(uri string) *outriggerv1.Resource { return &outriggerv1.Resource{Uri: uri, Name: "r"} }
	skill := func(digest string) *outriggerv1.Skill {
		return &outriggerv1.Skill{
			Uri:             "skill://a/SKILL.md",
			FrontmatterForm: &outriggerv1.Skill_FrontmatterJson{FrontmatterJson: []byte(`{"name":"a","description":"b"}`)},
			Resources:       []*outriggerv1.SkillFile{{Uri: "skill://a/SKILL.md", Digest: digest, Size: proto.Int64(0)}},
		}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	return []rpc{
		{
			name: "ListResources", in: &outriggerv1.ListResourcesRequest{Cursor: proto.String(""), PageSize: 3},
			good: &outriggerv1.ListResourcesResponse{Resources: []*outriggerv1.Resource{resource("shop://1")}, NextCursor: proto.String("c")},
			bad:  &outriggerv1.ListResourcesResponse{Resources: []*outriggerv1.Resource{resource("shop://1"), resource("no uri")}},
			path: "/resources/1/uri",
		},
		{
			name: "ListResourceTemplates", in: &outriggerv1.ListResourceTemplatesRequest{Cursor: proto.String("x")},
			good: &outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: []*outriggerv1.ResourceTemplate{{UriTemplate: "shop://{id}", Name: "t"}}},
			bad:  &outriggerv1.ListResourceTemplatesResponse{ResourceTemplates: []*outriggerv1.ResourceTemplate{{Name: "t"}}},
			path: "/resource_templates/0/uri_template",
		},
		{
			name: "ReadResource", in: &outriggerv1.ReadResourceRequest{Uri: "shop://1"},
			good: &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{RequestState: []byte("s")}}},
			bad:  &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{Result: &outriggerv1.ResourceResult{}}},
			path: "/result/contents",
		},
		{
			name: "ListSkills", in: &outriggerv1.ListSkillsRequest{PageSize: 2},
			good: &outriggerv1.ListSkillsResponse{Skills: []*outriggerv1.Skill{skill(digest)}, NextCursor: proto.String("c")},
			bad:  &outriggerv1.ListSkillsResponse{Skills: []*outriggerv1.Skill{skill("md5:0")}},
			path: "/skills/0/resources/0/digest",
		},
		{
			name: "GetSkill", in: &outriggerv1.GetSkillRequest{Uri: "skill://a/SKILL.md"},
			good: &outriggerv1.GetSkillResponse{Skill: skill(digest)},
			bad:  &outriggerv1.GetSkillResponse{}, path: "/skill",
		},
		{
			name: "ReadDirectory", in: &outriggerv1.ReadDirectoryRequest{Uri: "skill://a", Cursor: proto.String("")},
			good: &outriggerv1.ReadDirectoryResponse{Resources: []*outriggerv1.Resource{resource("skill://a/SKILL.md")}},
			bad:  &outriggerv1.ReadDirectoryResponse{Resources: []*outriggerv1.Resource{{Uri: "skill://a/SKILL.md"}}},
			path: "/resources/0/name",
		},
		{
			name: "ListPrompts", in: &outriggerv1.ListPromptsRequest{},
			good: &outriggerv1.ListPromptsResponse{Prompts: []*outriggerv1.Prompt{{Name: "p"}}},
			bad:  &outriggerv1.ListPromptsResponse{Prompts: []*outriggerv1.Prompt{{}}},
			path: "/prompts/0/name",
		},
		{
			name: "GetPrompt", in: &outriggerv1.GetPromptRequest{Name: "p", Arguments: map[string]string{"a": "b"}},
			good: &outriggerv1.PromptOutcome{Outcome: &outriggerv1.PromptOutcome_Result{Result: &outriggerv1.PromptResult{Description: "d"}}},
			bad:  &outriggerv1.PromptOutcome{},
			path: "/outcome",
		},
		{
			name: "Complete", in: &outriggerv1.CompleteRequest{Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: "p"}, Argument: &outriggerv1.CompletionArgument{Name: "a"}},
			good: &outriggerv1.CompleteResponse{Values: []string{"one", "two"}, Total: proto.Int32(7)},
			bad:  &outriggerv1.CompleteResponse{Values: slices.Repeat([]string{"v"}, 101)},
			path: "/values",
		},
		{
			name: "GetTask", in: &outriggerv1.GetTaskRequest{TaskId: "t"},
			good: task("t"), bad: &outriggerv1.Task{TaskId: "t", Status: 9, CreatedAt: task("t").GetCreatedAt(), LastUpdatedAt: task("t").GetCreatedAt()},
			path: "/status",
		},
		{
			name: "UpdateTask", in: &outriggerv1.UpdateTaskRequest{TaskId: "t"}, good: &outriggerv1.UpdateTaskResponse{},
			noViolation: true,
		},
		{
			name: "CancelTask", in: &outriggerv1.CancelTaskRequest{TaskId: "t"}, good: &outriggerv1.CancelTaskResponse{},
			noViolation: true,
		},
		{
			name: "CallTool", in: &outriggerv1.ToolCall{ToolName: "a.b", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"n":12345678901234567890}`)}},
			good: success("done"),
			bad:  &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{Status: "failure"}}},
			path: "/result",
		},
		{
			name: "Describe", in: &outriggerv1.DescribeRequest{},
			good: &outriggerv1.ServerDescription{Name: "s", Version: "1", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{}},
			bad:  &outriggerv1.ServerDescription{Name: "s", Version: "1", ContractVersion: "one", Capabilities: &outriggerv1.ServerCapabilities{}},
			path: "/contract_version",
		},
		{
			name: "ListTools", in: &outriggerv1.ListToolsRequest{PageSize: 1},
			good: &outriggerv1.ListToolsResponse{Tools: []*outriggerv1.Tool{tool("a")}, NextCursor: proto.String("")},
			bad:  &outriggerv1.ListToolsResponse{Tools: []*outriggerv1.Tool{{Name: "a"}}},
			path: "/tools/0/input_schema_form",
		},
	}
}

// Every RPC, on every protocol: the request and its metadata arrive as they are,
// and so does the answer; a bad answer is refused with the place where it is bad.
func TestEveryUnaryRPC(t *testing.T) {
	t.Parallel()
	for _, rpc := range rpcs() {
		t.Run(rpc.name, func(t *testing.T) {
			t.Parallel()
			type seen struct {
				message proto.Message
				token   string
			}
			arrived := make(chan seen, 1)
			addr := serve(t, &service{unary: func(_ context.Context, in proto.Message, header http.Header) (proto.Message, error) {
				arrived <- seen{proto.Clone(in), header.Get("Authorization")}
				if header.Get("X-Bad") != "" {
					return rpc.bad, nil
				}
				return rpc.good, nil
			}})
			for _, scheme := range allSchemes() {
				c := dial(t, scheme+"://"+addr, nativeLimits{})
				calls := map[string]func(*NativeClient, context.Context, proto.Message, http.Header) (proto.Message, *Answer, error){"Ask": (*NativeClient).ask}
				if rpc.name == "CallTool" {
					calls["CallTool"] = func(c *NativeClient, ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, error) {
						return c.callTool(ctx, in.(*outriggerv1.ToolCall), header, nil)
					}
				}
				for way, call := range calls {
					out, md, err := call(c, t.Context(), rpc.in, http.Header{"Authorization": {"Bearer t"}, "X-One": {"1", "2"}})
					if err != nil {
						t.Fatalf("%s, %s: %v", scheme, way, err)
					}
					if got := <-arrived; !proto.Equal(got.message, rpc.in) || got.token != "Bearer t" {
						t.Errorf("%s, %s: the backend got %v", scheme, way, got)
					}
					if diff := cmp.Diff(rpc.good, out, protocmp.Transform()); diff != "" {
						t.Errorf("%s, %s: answer (-want +got):\n%s", scheme, way, diff)
					}
					if diff := cmp.Diff(&Answer{Header: http.Header{"X-One": {"1", "2"}}, Trailer: http.Header{"X-Tail": {"end"}}}, md); diff != "" {
						t.Errorf("%s, %s: metadata (-want +got):\n%s", scheme, way, diff)
					}
					if rpc.noViolation {
						continue
					}
					out, md, err = call(c, t.Context(), rpc.in, http.Header{"X-Bad": {"1"}})
					<-arrived
					e := refusal(t, err)
					if !strings.HasSuffix(e.Procedure, "/"+rpc.name) || !slices.ContainsFunc(e.Violations, func(v Violation) bool { return v.Path == rpc.path }) {
						t.Errorf("%s, %s: got %v, want a breach at %s", scheme, way, err, rpc.path)
					}
					if md.Header.Get("X-Bad") != "1" || out != nil && out.ProtoReflect().IsValid() {
						t.Errorf("%s, %s: got %v, %v beside the error", scheme, way, out, md)
					}
				}
			}
		})
	}
}

// What the backend says itself comes back as it is.
func TestBackendErrorsComeBack(t *testing.T) {
	t.Parallel()
	addr := serve(t, &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) {
		return nil, connect.NewError(connect.CodeNotFound, errors.New("no such thing"))
	}})
	for _, scheme := range allSchemes() {
		c := dial(t, scheme+"://"+addr, nativeLimits{})
		for _, rpc := range rpcs() {
			_, md, err := c.ask(t.Context(), rpc.in, nil)
			if e := failure(t, err); e.Kind != KindStatus || e.Code != connect.CodeNotFound || e.Message != "no such thing" || errors.As(err, new(*InvalidAnswerError)) {
				t.Errorf("%s, %s: got %v", scheme, rpc.name, err)
			}
			if md != nil {
				t.Errorf("%s, %s: metadata %v", scheme, rpc.name, md)
			}
		}
		if _, err := c.Describe(t.Context()); failure(t, err).Code != connect.CodeNotFound {
			t.Errorf("got %v", err)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	want := &outriggerv1.ServerDescription{Name: "s", Version: "1", ContractVersion: "1.0.0", Capabilities: &outriggerv1.ServerCapabilities{Tasks: true}}
	addr := serve(t, &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) { return want, nil }})
	got, err := dial(t, "http://"+addr, nativeLimits{}).Describe(t.Context())
	if err != nil || !proto.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
}

// What cannot be sent is refused, not sent.
func TestAskRefusals(t *testing.T) {
	t.Parallel()
	c := dial(t, "grpc://127.0.0.1:1", nativeLimits{})
	for name, in := range map[string]proto.Message{
		"no RPC takes it":  &outriggerv1.Notification{Method: "m"},
		"a stream's":       &outriggerv1.SubscribeRequest{},
		"nothing":          nil,
		"string not UTF-8": &outriggerv1.GetPromptRequest{Name: "\xff"},
	} {
		out, _, err := c.ask(t.Context(), in, nil)
		if e := failure(t, err); e.Kind != KindRejected || e.Sent || out != nil {
			t.Errorf("%s: got %v, %v", name, out, err)
		}
	}
	if _, _, err := c.callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "\xff"}, nil, func(*outriggerv1.ToolEvent) {}); failure(t, err).Kind != KindRejected {
		t.Errorf("got %v", err)
	}
	if err := c.Watch(t.Context(), &outriggerv1.ChangeFilter{TaskIds: []string{"\xff"}}, nil); failure(t, err).Kind != KindRejected {
		t.Errorf("got %v", err)
	}
}

// Bytes that are no message of the type are refused like one that breaks a rule.
func TestUndecodableAnswer(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	const procedure = outriggerv1connect.ToolServiceReadResourceProcedure
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, func(context.Context, *connect.Request[outriggerv1.ReadResourceRequest]) (*connect.Response[wrapperspb.BytesValue], error) {
		return connect.NewResponse(wrapperspb.Bytes([]byte{0xff})), nil // half a tag where the result would be
	}))
	c := dial(t, "grpc://"+serveHandler(t, mux), nativeLimits{})
	_, _, err := c.ask(t.Context(), &outriggerv1.ReadResourceRequest{Uri: "a:b"}, nil)
	e := refusal(t, err)
	want := &InvalidAnswerError{Procedure: procedure, Violations: []Violation{{Keyword: keywordEncoding, Message: "wanted an encoded outrigger.v1.ResourceOutcome"}}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// An error names some breaches and counts the others, and tells nothing of what
// was in the answer.
func TestErrorNamesSomeBreaches(t *testing.T) {
	t.Parallel()
	page := &outriggerv1.ListToolsResponse{}
	for i := range 40 {
		page.Tools = append(page.Tools, tool(fmt.Sprintf("secret %d", i)))
	}
	addr := serve(t, &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) { return page, nil }})
	_, err := dial(t, "http://"+addr, nativeLimits{}).Tools(t.Context())
	e := refusal(t, err)
	if len(e.Violations) != maxViolations || e.More != 40-maxViolations {
		t.Errorf("%d breaches and %d more", len(e.Violations), e.More)
	}
	text := err.Error()
	for _, want := range []string{
		"native: the response of /outrigger.v1.ToolService/ListTools violates the contract: /tools/0/name: ", "[string.pattern]; /tools/1/name: ", "; and 24 more",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the error repeats the answer: %s", text)
	}
}

// The key of a map is part of the place.
func TestPointerOfMaps(t *testing.T) {
	t.Parallel()
	addr := serve(t, &service{unary: func(context.Context, proto.Message, http.Header) (proto.Message, error) {
		return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_InputRequired{InputRequired: &outriggerv1.InputRequired{
			InputRequests: map[string]*outriggerv1.InputRequest{"a/b~c": {}},
		}}}, nil
	}})
	_, _, err := dial(t, "http://"+addr, nativeLimits{}).callTool(t.Context(), &outriggerv1.ToolCall{ToolName: "t"}, nil, nil)
	if e := refusal(t, err); e.Violations[0].Path != "/input_required/input_requests/a~1b~0c/request" {
		t.Errorf("got %+v", e.Violations)
	}
}
