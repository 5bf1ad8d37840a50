// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// pages turns the pages of a list to its end. Each page keeps to its size and to
// the rules of the contract.
func pages[T any](t *testing.T, size int, page func(cursor *string) ([]T, *string, proto.Message, error)) []T {
	t.Helper()
	var all []T
	var cursor *string
	for range 1000 {
		got, next, message, err := page(cursor)
		if err != nil {
			t.Fatal(err)
		}
		if err := protovalidate.Validate(message); err != nil {
			t.Errorf("the page breaks the contract: %v", err)
		}
		if len(got) > size {
			t.Errorf("%d entries on a page, want %d at most", len(got), size)
		}
		all = append(all, got...)
		if next == nil {
			return all
		}
		cursor = next
	}
	t.Fatal("the list has no end")
	return nil
}

func listTools(t *testing.T, client apiClient, size int32) []*outriggerv1.Tool {
	t.Helper()
	most := int(size)
	if size == 0 {
		most = pageSize
	}
	return pages(t, most, func(cursor *string) ([]*outriggerv1.Tool, *string, proto.Message, error) {
		resp, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{Cursor: cursor, PageSize: size}))
		if err != nil {
			return nil, nil, nil, err
		}
		return resp.Msg.GetTools(), resp.Msg.NextCursor, resp.Msg, nil
	})
}

func listResources(t *testing.T, client apiClient, size int32) []*outriggerv1.Resource {
	t.Helper()
	return pages(t, int(size), func(cursor *string) ([]*outriggerv1.Resource, *string, proto.Message, error) {
		resp, err := client.ListResources(t.Context(), connect.NewRequest(&outriggerv1.ListResourcesRequest{Cursor: cursor, PageSize: size}))
		if err != nil {
			return nil, nil, nil, err
		}
		return resp.Msg.GetResources(), resp.Msg.NextCursor, resp.Msg, nil
	})
}

func listTemplates(t *testing.T, client apiClient, size int32) []*outriggerv1.ResourceTemplate {
	t.Helper()
	return pages(t, int(size), func(cursor *string) ([]*outriggerv1.ResourceTemplate, *string, proto.Message, error) {
		resp, err := client.ListResourceTemplates(t.Context(), connect.NewRequest(&outriggerv1.ListResourceTemplatesRequest{Cursor: cursor, PageSize: size}))
		if err != nil {
			return nil, nil, nil, err
		}
		return resp.Msg.GetResourceTemplates(), resp.Msg.NextCursor, resp.Msg, nil
	})
}

func listPrompts(t *testing.T, client apiClient, size int32) []*outriggerv1.Prompt {
	t.Helper()
	return pages(t, int(size), func(cursor *string) ([]*outriggerv1.Prompt, *string, proto.Message, error) {
		resp, err := client.ListPrompts(t.Context(), connect.NewRequest(&outriggerv1.ListPromptsRequest{Cursor: cursor, PageSize: size}))
		if err != nil {
			return nil, nil, nil, err
		}
		return resp.Msg.GetPrompts(), resp.Msg.NextCursor, resp.Msg, nil
	})
}

func listsArePaged(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	var names []string
	for _, tool := range tw.outer.Live.Current().Tools() {
		names = append(names, tool.Name)
	}
	if len(names) < 30 || !slices.Contains(names, "desk.sort") || !slices.Contains(names, "lab.echo") {
		t.Fatalf("tools %v", names)
	}
	for _, size := range []int32{0, 1, 5, pageSize, 10000} {
		var got []string
		for _, tool := range listTools(t, client, size) {
			got = append(got, tool.GetName())
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("tools, %d a page (-want +got):\n%s", size, diff)
		}
	}
	for _, size := range []int32{1, 4, 1000} {
		var got []string
		for _, r := range listResources(t, client, size) {
			got = append(got, r.GetUri())
		}
		if len(got) != 12 || got[11] != "desk://safe" || !strings.HasPrefix(got[0], "lagoon://vehicles/") {
			t.Errorf("resources, %d a page: %v", size, got)
		}
		got = nil
		for _, r := range listTemplates(t, client, size) {
			got = append(got, r.GetUriTemplate())
		}
		if diff := cmp.Diff([]string{
			"lagoon://orders/{order_id}", "lagoon://vehicles/{vehicle_id}", "desk://notes/{number}", "desk://drawers/{drawer}/{thing}",
		}, got); diff != "" {
			t.Errorf("templates, %d a page (-want +got):\n%s", size, diff)
		}
		got = nil
		for _, p := range listPrompts(t, client, size) {
			got = append(got, p.GetName())
		}
		if diff := cmp.Diff([]string{"greet", "apologise"}, got); diff != "" {
			t.Errorf("prompts, %d a page (-want +got):\n%s", size, diff)
		}
	}
}

// A cursor is for its caller and its list.
func aCursorIsForOneList(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	tools, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{PageSize: 3}))
	if err != nil {
		t.Fatal(err)
	}
	resources, err := client.ListResources(t.Context(), connect.NewRequest(&outriggerv1.ListResourcesRequest{PageSize: 1}))
	if err != nil {
		t.Fatal(err)
	}
	if tools.Msg.GetCache().GetScope() != outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE {
		t.Errorf("a part of a list may be shared: %v", tools.Msg.GetCache())
	}
	ask := map[string]func(c apiClient, cursor string) error{
		"tools": func(c apiClient, cursor string) error {
			_, err := c.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{Cursor: &cursor}))
			return err
		},
		"resources": func(c apiClient, cursor string) error {
			_, err := c.ListResources(t.Context(), connect.NewRequest(&outriggerv1.ListResourcesRequest{Cursor: &cursor}))
			return err
		},
		"templates": func(c apiClient, cursor string) error {
			_, err := c.ListResourceTemplates(t.Context(), connect.NewRequest(&outriggerv1.ListResourceTemplatesRequest{Cursor: &cursor}))
			return err
		},
		"prompts": func(c apiClient, cursor string) error {
			_, err := c.ListPrompts(t.Context(), connect.NewRequest(&outriggerv1.ListPromptsRequest{Cursor: &cursor}))
			return err
		},
	}
	cursors := map[string]string{
		"tools": tools.Msg.GetNextCursor(), "resources": resources.Msg.GetNextCursor(), "nothing": "", "somebody": "v1.AAAA",
	}
	for list, try := range ask {
		for of, cursor := range cursors {
			err := try(client, cursor)
			if of == list {
				if err != nil {
					t.Errorf("the cursor of %s: %v", of, err)
				}
				err = try(stranger(t, tw.url), cursor)
			}
			if code, paths := refusal(t, err); connect.CodeOf(err) != connect.CodeInvalidArgument || code != errmap.InvalidParams || !slices.Equal(paths, []string{"cursor"}) {
				t.Errorf("%s with the cursor of %s: %v at %q", list, of, err, paths)
			}
		}
	}
}

// TestAToolIsDescribed holds tools against what their backends say of them.
func aToolIsDescribed(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	get := func(name string) *outriggerv1.Tool {
		resp, err := client.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: name}))
		if err != nil {
			t.Fatal(err)
		}
		if err := protovalidate.Validate(resp.Msg); err != nil {
			t.Errorf("%s breaks the contract: %v", name, err)
		}
		return resp.Msg
	}
	said, declared := get("show_everything"), tw.desk.Tools[0].Declared
	if diff := cmp.Diff(declared, said, protocmp.Transform(), protocmp.IgnoreFields(&outriggerv1.Tool{},
		"name", "mcp_name", "version", "digest", "fingerprint", "metadata", "execution", "canonical_input_schema_json", "canonical_output_schema_json"),
		protocmp.IgnoreFields(&outriggerv1.ToolAnnotations{}, "title")); diff != "" {
		t.Errorf("a native tool (-declared +said):\n%s", diff)
	}
	if said.GetName() != "desk.show_everything" || said.GetMcpName() != "show_everything" || said.GetBinding() != nil || said.GetOutputSchemaForm() != nil ||
		len(said.GetDigest()) != 64 || said.GetCanonicalOutputSchemaJson() != nil || string(said.GetCanonicalInputSchemaJson()) != mcptest.NoArguments || said.GetExecution().GetTaskSupport() != "forbidden" {
		t.Errorf("a native tool is said to be %v", said)
	}
	if task := get("begin").GetExecution().GetTaskSupport(); task != "required" {
		t.Errorf("task support %q", task)
	}
	derived := get("fleet.plan_route")
	if len(derived.GetExamples()) == 0 || derived.GetOutputSchemaJson() == nil || derived.GetMcpName() != "fleet_plan_route" {
		t.Errorf("a derived tool is said to be %v", derived)
	}
	// The outer of two sidecars has no RPC to bind it to.
	if isDerived := tw.inner == tw.outer; (derived.GetBinding().GetMethod() == "PlanRoute") != isDerived {
		t.Errorf("binding %v", derived.GetBinding())
	}
	if sleep := get("lab.sleep").GetExecution(); sleep.GetTaskSupport() != "optional" {
		t.Errorf("execution %v", sleep)
	}
	if watching := get("fleet.watch_vehicles").GetExecution(); watching.GetServerStreaming() != (tw.inner == tw.outer) {
		t.Errorf("execution %v", watching)
	}
	_, err := client.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: "show_nothing"}))
	if connect.CodeOf(err) != connect.CodeNotFound || reason(t, err) != errmap.ToolNotFound {
		t.Errorf("an unknown tool: %v", err)
	}
}

func resourcesAreRead(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	for _, tc := range []struct {
		uri  string
		want string
		code connect.Code
		says errmap.Code
		path string
	}{
		{uri: "desk://notes/1", want: "Buy ink."},
		{uri: "desk://notes/2", want: "Not listed."},
		{uri: "desk://seal", want: "GIF89a\x01\x00\x01\x00\x00\x00\x00;"},
		{uri: "lagoon://vehicles/101", want: "Kingfisher"},
		{uri: "lagoon://vehicles/1", code: connect.CodeNotFound, says: errmap.ResourceNotFound},
		{uri: "desk://notes/3", code: connect.CodeNotFound, says: errmap.ResourceNotFound},
		{uri: "elsewhere://x", code: connect.CodeNotFound, says: errmap.ResourceNotFound},
		{uri: "notes/1", code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "uri"},
		{uri: "", code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "uri"},
	} {
		resp, err := client.ReadResource(t.Context(), connect.NewRequest(&outriggerv1.ReadResourceRequest{Uri: tc.uri}))
		if tc.want != "" {
			if err != nil {
				t.Errorf("%s: %v", tc.uri, err)
				continue
			}
			first := resp.Msg.GetResult().GetContents()[0]
			if got := first.GetText() + string(first.GetBlob()); !strings.Contains(got, tc.want) || first.GetUri() != tc.uri {
				t.Errorf("%s: %v", tc.uri, resp.Msg)
			}
			continue
		}
		code, paths := refusal(t, err)
		if connect.CodeOf(err) != tc.code || code != tc.says || tc.path != "" && !slices.Contains(paths, tc.path) {
			t.Errorf("%s: got %v (%s) at %q, want %v (%s)", tc.uri, err, code, paths, tc.code, tc.says)
		}
	}
}

func promptsAndCompletion(t *testing.T, _ *tower, client apiClient) {
	t.Helper()
	get := func(name string, arguments map[string]string) (*outriggerv1.PromptOutcome, error) {
		resp, err := client.GetPrompt(t.Context(), connect.NewRequest(&outriggerv1.GetPromptRequest{Name: name, Arguments: arguments}))
		if err != nil {
			return nil, err
		}
		return resp.Msg, nil
	}
	outcome, err := get("greet", map[string]string{"name": "Moana"})
	if err != nil || outcome.GetResult().GetDescription() != "A greeting for Moana" || len(outcome.GetResult().GetMessages()) != 2 {
		t.Errorf("got %v, %v", outcome, err)
	}
	_, unknown := get("insult", nil)
	_, lacking := get("greet", nil)
	complete := func(name, argument string) (*outriggerv1.CompleteResponse, error) {
		resp, err := client.Complete(t.Context(), connect.NewRequest(&outriggerv1.CompleteRequest{
			Reference: &outriggerv1.CompleteRequest_Prompt{Prompt: name},
			Argument:  &outriggerv1.CompletionArgument{Name: argument, Value: "w"},
		}))
		if err != nil {
			return nil, err
		}
		return resp.Msg, nil
	}
	values, err := complete("greet", "tone")
	if err != nil || !slices.Equal(values.GetValues(), []string{"warm", "witty"}) || values.GetTotal() != 7 || !values.GetHasMore() {
		t.Errorf("got %v, %v", values, err)
	}
	_, nowhere := complete("insult", "tone")
	_, nothing := complete("", "tone")
	for name, tc := range map[string]struct {
		err  error
		code connect.Code
	}{
		"an unknown prompt":    {unknown, connect.CodeNotFound},
		"a missing argument":   {lacking, connect.CodeInvalidArgument},
		"an unknown reference": {nowhere, connect.CodeNotFound},
		"no reference":         {nothing, connect.CodeInvalidArgument},
	} {
		if connect.CodeOf(tc.err) != tc.code || reason(t, tc.err) != errmap.InvalidParams {
			t.Errorf("%s: got %v (%s), want %v", name, tc.err, reason(t, tc.err), tc.code)
		}
	}
	if _, paths := refusal(t, unknown); !slices.Equal(paths, []string{"name"}) {
		t.Errorf("an unknown prompt is at %q", paths)
	}
}

// TestDescribeCounts holds the description against what the lists show.
func describeCounts(t *testing.T, tw *tower, client apiClient) {
	t.Helper()
	got, err := client.Describe(t.Context(), connect.NewRequest(&outriggerv1.DescribeRequest{}))
	if err != nil {
		t.Fatal(err)
	}
	want := &outriggerv1.ServerDescription{
		Name: "desk", Version: "0.0.0-test", ContractVersion: "1.0.0", // as the native backend says
		Instructions: "Fleet: The dispatch desk of Lagoon Express, a courier on the islands of an atoll: its vehicles, its orders and its map.\n" +
			"Lab: A workbench for callers: things that are large, slow or broken exactly as asked for.",
		Capabilities: &outriggerv1.ServerCapabilities{
			Tools:       &outriggerv1.ToolsCapability{ListChanged: true},
			Resources:   &outriggerv1.ResourcesCapability{Subscribe: true, ListChanged: true},
			Prompts:     &outriggerv1.PromptsCapability{ListChanged: true},
			Completions: true, Logging: true, Tasks: true,
		},
		ToolsCount:       int32(len(listTools(t, client, pageSize))),
		ResourcesCount:   int32(len(listResources(t, client, pageSize))),
		PromptsCount:     int32(len(listPrompts(t, client, pageSize))),
		ProtocolVersions: dialect.Versions(),
		Cache:            &outriggerv1.CachePolicy{Ttl: &durationpb.Duration{Seconds: 300}, Scope: outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC},
	}
	if diff := cmp.Diff(want, got.Msg, protocmp.Transform()); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
	if err := protovalidate.Validate(got.Msg); err != nil {
		t.Errorf("it breaks the contract: %v", err)
	}
	counts := fmt.Sprintf(`"tools_count":%d,"resources_count":%d,"prompts_count":%d}`, want.GetToolsCount(), want.GetResourcesCount(), want.GetPromptsCount())
	said, failed := tw.outer.Bridge.Description(t.Context())
	if failed != nil || !strings.HasSuffix(string(said), counts) {
		t.Errorf("the canonical dialect says %s, %v; want %s", said, failed, counts)
	}
}
