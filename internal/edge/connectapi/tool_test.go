// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func toolCall(name, arguments string) *outriggerv1.ToolCall {
	return &outriggerv1.ToolCall{ToolName: name, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}}
}

func people(t *testing.T, name string, fields map[string]any) *outriggerv1.ToolCall {
	t.Helper()
	s, err := structpb.NewStruct(fields)
	if err != nil {
		t.Fatal(err)
	}
	return &outriggerv1.ToolCall{ToolName: name, ArgumentsForm: &outriggerv1.ToolCall_Arguments{Arguments: s}}
}

func TestCallTool(t *testing.T) {
	t.Parallel()
	deep := map[string]any{}
	for range 70 {
		deep = map[string]any{"x": deep}
	}
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 64 << 10}})
	version := func(c *outriggerv1.ToolCall, v string) *outriggerv1.ToolCall { c.Version = v; return c }
	for _, p := range wires() {
		client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
		for _, tc := range []struct {
			name string
			call *outriggerv1.ToolCall
			want string // a part of the result
			code connect.Code
			says errmap.Code
			path string
		}{
			{name: "bytes", call: toolCall("lab.echo", ` {"nonce":"n","unsigned":18446744073709551615} `), want: `"unsigned":"18446744073709551615"`},
			{name: "a Struct", call: people(t, "lab.echo", map[string]any{"nonce": "n"}), want: `"nonce":"n"`},
			{name: "nothing", call: &outriggerv1.ToolCall{ToolName: "lab.echo"}, want: `"nonce":""`},
			{name: "null", call: toolCall("lab.echo", `null`), want: `"nonce":""`},
			{name: "the MCP name", call: toolCall("lab_echo", `{}`), want: `"nonce":""`},
			{name: "a version", call: version(toolCall("lab.echo", `{}`), "^1"), want: `"nonce":""`},
			{name: "another version", call: version(toolCall("lab.echo", `{}`), "^2"), code: connect.CodeNotFound, says: errmap.ToolNotFound, path: "version"},
			{name: "an array", call: toolCall("lab.echo", `[]`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "arguments_json"},
			{name: "not JSON", call: toolCall("lab.echo", `{`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "arguments_json"},
			{name: "a duplicate name", call: toolCall("lab.echo", `{"nonce":"a","nonce":"b"}`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams},
			{name: "no UTF-8", call: toolCall("lab.echo", "{\"nonce\":\"\xff\"}"), code: connect.CodeInvalidArgument, says: errmap.InvalidParams},
			{name: "a Struct that is too deep", call: people(t, "lab.echo", deep), code: connect.CodeInvalidArgument, says: errmap.InvalidParams},
			{name: "input that breaks the schema", call: toolCall("lab.echo", `{"signed":5.5}`), code: connect.CodeInvalidArgument, says: errmap.InvalidToolInput, path: "signed"},
			{name: "no name", call: toolCall("", `{}`), code: connect.CodeInvalidArgument, says: errmap.InvalidParams, path: "tool_name"},
			{name: "an unknown tool", call: toolCall("lab.ecko", `{}`), code: connect.CodeNotFound, says: errmap.ToolNotFound, path: "tool_name"},
			{name: "a destructive tool", call: toolCall("fleet.cancel_order", `{"orderId":"1"}`), code: connect.CodePermissionDenied, says: errmap.DestructiveBlocked},
			{name: "a tool that takes a stream", call: toolCall("fleet.report_positions", `{}`), code: connect.CodeInvalidArgument, says: errmap.InvalidToolInput, path: "items"},
			{name: "the tool fails", call: toolCall("lab.fail", `{"code":"FAIL_CODE_ABORTED","message":"no luck"}`), code: connect.CodeAborted, says: errmap.ToolExecutionFailed},
			{name: "too large", call: toolCall("lab.echo", `{"nonce":"`+strings.Repeat("x", 64<<10)+`"}`), code: connect.CodeResourceExhausted, says: errmap.PayloadTooLarge},
		} {
			t.Run(p.name+"/"+tc.name, func(t *testing.T) {
				t.Parallel()
				resp, err := client.CallTool(t.Context(), connect.NewRequest(tc.call))
				if tc.want != "" {
					if err != nil || !strings.Contains(string(resp.Msg.GetResult().GetDataJson()), tc.want) || resp.Msg.GetResult().GetStatus() != "success" {
						t.Fatalf("got %v, %v, want %s", resp, err, tc.want)
					}
					return
				}
				if connect.CodeOf(err) != tc.code || reason(t, err) != tc.says {
					t.Fatalf("got %v (%s), want %v (%s)", err, reason(t, err), tc.code, tc.says)
				}
				if tc.path == "" {
					return
				}
				bad := detail[*errdetails.BadRequest](t, err)
				if v := bad.GetFieldViolations(); len(v) == 0 || !strings.Contains(v[0].GetField(), tc.path) {
					t.Errorf("got %v, want a violation at %s", v, tc.path)
				}
			})
		}
	}
}

func TestTheCallersDeadlineIsItsTimeout(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
			_, err := client.CallTool(ctx, connect.NewRequest(toolCall("lab.sleep", `{"duration":"60s"}`)))
			if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
				t.Errorf("got %v", err)
			}
		})
	}
}

// tenantsAndReplies says which headers cross the sidecar.
func tenantsAndReplies(c *configv1.Config) {
	c.Backend.Metadata = &configv1.Metadata{Inbound: []string{"x-tenant"}, Outbound: []string{"x-reply-*"}}
}

func TestMetadataOfACall(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{Configure: tenantsAndReplies})), connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
			req := connect.NewRequest(toolCall("lab.inspect", `{"replyHeaders":{"x-reply-h":"1","x-other":"2"},"replyTrailers":{"x-reply-t":"3","x-else":"4"}}`))
			req.Header().Set("X-Tenant", "blue")
			req.Header().Set("Authorization", "Bearer hunter2")
			resp, err := client.CallTool(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			body := string(resp.Msg.GetResult().GetDataJson())
			if !strings.Contains(body, `"x-tenant":{"values":["blue"]}`) || strings.Contains(body, "hunter2") {
				t.Errorf("the backend saw %s", body)
			}
			got := []string{resp.Header().Get("X-Reply-H"), resp.Trailer().Get("X-Reply-T"), resp.Header().Get("X-Other"), resp.Trailer().Get("X-Else")}
			if diff := cmp.Diff([]string{"1", "3", "", ""}, got); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListToolsAndGetTool(t *testing.T) {
	t.Parallel()
	b := ofRig(mcptest.Start(t, mcptest.Options{}))
	url := mount(t, b, connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
			list, err := client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(list.Msg.GetTools()), len(b.bridge.Catalogs().Current().Tools()); got != want {
				t.Errorf("%d tools, want %d", got, want)
			}
			for _, name := range []string{"lab.echo", "lab_echo"} {
				tool, err := client.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: name}))
				if err != nil {
					t.Fatal(err)
				}
				m := tool.Msg
				if m.GetName() != "lab.echo" || m.GetMcpName() != "lab_echo" || len(m.GetCanonicalInputSchemaJson()) == 0 ||
					m.GetBinding().GetMethod() != "Echo" || !m.GetAnnotations().GetReadOnlyHint() || m.GetFingerprint() == "" {
					t.Errorf("got %v", m)
				}
			}
			_, err = client.ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{Cursor: new(string)}))
			if connect.CodeOf(err) != connect.CodeInvalidArgument {
				t.Errorf("a cursor: %v", err)
			}
			_, err = client.GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: "lab.ecko"}))
			if connect.CodeOf(err) != connect.CodeNotFound || reason(t, err) != errmap.ToolNotFound {
				t.Errorf("an unknown tool: %v", err)
			}
		})
	}
}

func TestRegistrationIsForOperators(t *testing.T) {
	t.Parallel()
	url := mount(t, bridgeInMemory(t, mcptest.Echo), connectapi.Options{})
	for _, p := range wires() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url, p.options...)
			_, err := client.RegisterTool(t.Context(), connect.NewRequest(&outriggerv1.RegisterToolRequest{}))
			if connect.CodeOf(err) != connect.CodeUnimplemented || reason(t, err) != errmap.MethodNotFound || !strings.Contains(err.Error(), "--admin") {
				t.Errorf("got %v (%s)", err, reason(t, err))
			}
			_, err = client.UnregisterTool(t.Context(), connect.NewRequest(&outriggerv1.UnregisterToolRequest{}))
			if connect.CodeOf(err) != connect.CodeUnimplemented || reason(t, err) != errmap.MethodNotFound || !strings.Contains(err.Error(), "--admin") {
				t.Errorf("taking back: got %v (%s)", err, reason(t, err))
			}
		})
	}
}

// A refusal names fields as google.rpc and protovalidate document it, for generated clients of the service and of the tool API.
func TestViolationsNameTheirFields(t *testing.T) {
	t.Parallel()
	url := mount(t, ofRig(mcptest.Start(t, mcptest.Options{})), connectapi.Options{})
	order := &demov1.PlaceOrderRequest{
		Customer: "Ada", Destination: &demov1.Destination{Place: &demov1.Destination_StopId{StopId: 2}},
		Parcels: []*demov1.Parcel{{WeightKg: 1, Contents: "a"}, {WeightKg: -1, Contents: "b"}},
		Labels:  map[string]string{"a-b": strings.Repeat("x", 300)},
	}
	arguments, err := protojson.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range wires() {
		client := mcptest.Client(t, 2)
		for name, call := range map[string]func() error{
			"typed": func() error {
				_, err := demov1connect.NewFleetClient(client, url, p.options...).PlaceOrder(t.Context(), connect.NewRequest(order))
				return err
			},
			"tool API": func() error {
				_, err := outriggerv1connect.NewToolServiceClient(client, url, p.options...).
					CallTool(t.Context(), connect.NewRequest(toolCall("fleet.place_order", string(arguments))))
				return err
			},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				err := call()
				if reason(t, err) != errmap.InvalidToolInput {
					t.Fatalf("got %v (%s)", err, reason(t, err))
				}
				var fields, reasons, rules []string
				for _, v := range detail[*errdetails.BadRequest](t, err).GetFieldViolations() {
					fields, reasons = append(fields, v.GetField()), append(reasons, v.GetReason())
					if !strings.Contains(err.Error(), v.GetField()+": ") {
						t.Errorf("the message does not name %s: %v", v.GetField(), err)
					}
				}
				if diff := cmp.Diff([]string{`labels["a-b"]`, "parcels[1].weightKg"}, fields); diff != "" {
					t.Errorf("fields (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff([]string{"STRING_MAX_LEN", "DOUBLE_GT_LTE"}, reasons); diff != "" {
					t.Errorf("reasons (-want +got):\n%s", diff)
				}
				for _, v := range detail[*validate.Violations](t, err).GetViolations() {
					rules = append(rules, protovalidate.FieldPathString(v.GetField())+" "+v.GetRuleId())
				}
				if diff := cmp.Diff([]string{"parcels[1].weight_kg double.gt_lte", `labels["a-b"] string.max_len`}, rules); diff != "" {
					t.Errorf("rules (-want +got):\n%s", diff)
				}
				if data := string(detail[*outriggerv1.ErrorDetail](t, err).GetErrorDetailsJson()); !strings.Contains(data, `"path":"/parcels/1/weightKg"`) {
					t.Errorf("the path of ErrorDetail is no JSON Pointer: %s", data)
				}
			})
		}
	}
	// A structure that is wrong has no rules beside it.
	status, body := raw(t, http.MethodPost, url+demov1connect.FleetPlaceOrderProcedure, "application/json", `{"parcels":[{},{"weight_kg":"much"}]}`)
	if status != http.StatusBadRequest || !strings.Contains(body, `"field":"parcels[1].weightKg","description":"wanted a number`) || strings.Contains(body, "buf.validate.Violations") {
		t.Errorf("%d %.500s", status, body)
	}
}
