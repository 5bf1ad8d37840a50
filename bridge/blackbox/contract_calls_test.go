// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// said is the result of a request in the canonical dialect, member by member.
func said(t *testing.T, b *mcptest.Rig, method, params string) map[string]json.RawMessage {
	t.Helper()
	reply := b.Send(t.Context(), inbound(b.NewOrigin(), mcptest.Canonical,
		`{"jsonrpc":"2.0","id":"1","method":"`+method+`","params":`+params+`}`))
	var m struct{ Result map[string]json.RawMessage }
	if err := json.Unmarshal(reply.Bytes(), &m); err != nil || m.Result == nil {
		t.Fatalf("%s %s: no result: %v, %s", method, params, err, reply.Bytes())
	}
	return m.Result
}

// painted is every kind of content.
func painted(func(*outriggerv1.ToolEvent)) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: "success",
		Content: []*outriggerv1.ContentBlock{
			{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: "a picture"}}},
			{Block: &outriggerv1.ContentBlock_Image{Image: &outriggerv1.ImageContent{Data: []byte("x"), MimeType: "image/png"}}},
			{Block: &outriggerv1.ContentBlock_Resource{Resource: &outriggerv1.EmbeddedResource{Contents: &outriggerv1.ResourceContents{
				Uri: "paint://1", MimeType: "text/plain", Data: &outriggerv1.ResourceContents_Text{Text: "red"},
			}}}},
		},
	}}}
}

// TestContractOfCalls has the sentences about what a call is answered with.
func TestContractOfCalls(t *testing.T) {
	t.Parallel()
	demo := mcptest.Start(t, mcptest.Options{})

	t.Run("name and arguments are answered by content and isError", func(t *testing.T) {
		t.Parallel()
		for params, isError := range map[string]string{
			`{"name":"lab.echo","arguments":{"nonce":"n"}}`:                  "false",
			`{"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND"}}`: "true",
		} {
			got := said(t, demo, "tools/call", params)
			var content []struct{ Type, Text string }
			if err := json.Unmarshal(got["content"], &content); err != nil {
				t.Fatal(err)
			}
			if string(got["isError"]) != isError || len(content) != 1 || content[0].Type != "text" || content[0].Text == "" {
				t.Errorf("%s: %v", params, got)
			}
		}
	})

	t.Run("content may be text, image and resource", func(t *testing.T) {
		t.Parallel()
		b := mcptest.Pipe(t, mcptest.Parts{
			From: mcptest.Declared(&outriggerv1.ServerDescription{Name: "paint", Version: "1"},
				mcptest.JSONTool("draw", "Draw something.", `{"type":"object"}`, "")),
			Native: mcptest.Speaking{Run: painted},
		})
		got := said(t, b, "tools/call", `{"name":"paint.draw","arguments":{}}`)
		const want = `[{"type":"text","text":"a picture"},{"type":"image","data":"eA==","mimeType":"image/png"},` +
			`{"type":"resource","resource":{"uri":"paint://1","mimeType":"text/plain","text":"red"}}]`
		if string(got["content"]) != want || string(got["isError"]) != "false" {
			t.Errorf("got %s", got["content"])
		}
	})

	t.Run("tool_name and arguments are answered by status, data, error and explanation", func(t *testing.T) {
		t.Parallel()
		for params, want := range map[string]struct{ status, absent string }{
			`{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`:                  {`"success"`, "error"},
			`{"tool_name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND"}}`: {`"failure"`, "data"},
		} {
			got := said(t, demo, "tools/call", params)
			if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"data", "error", "explanation", "status"}) {
				t.Errorf("%s: members %v", params, names)
			}
			if string(got["status"]) != want.status || string(got[want.absent]) != "null" {
				t.Errorf("%s: %v", params, got)
			}
		}
	})

	t.Run("a backend whose answer breaks its own schema gives INVALID_TOOL_OUTPUT", func(t *testing.T) {
		t.Parallel()
		b := narrowed(t)
		resp := b.Handle(t.Context(), toolCall(b, "strict.echo", `{"nonce":"n"}`))
		if codeOf(resp) != errmap.InvalidToolOutput || resp.Result != nil {
			t.Errorf("got %v %s", resp.Err, resp.Result)
		}
	})

	t.Run("a schema of the output never hides the backend's real error", func(t *testing.T) {
		t.Parallel()
		b := narrowed(t)
		resp := b.Handle(t.Context(), toolCall(b, "strict.fail", `{"code":"FAIL_CODE_FAILED_PRECONDITION","message":"the tide is out"}`))
		if codeOf(resp) != errmap.ToolExecutionFailed || !strings.Contains(resp.Err.ModelText(errmap.About{}), "the tide is out") {
			t.Errorf("got %v", resp.Err)
		}
	})

	t.Run("an unsatisfiable version is TOOL_NOT_FOUND with the versions that exist", func(t *testing.T) {
		t.Parallel()
		got := answer(t, demo, mcptest.Canonical,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.find_orders","version":"^9","arguments":{}}}`)
		if v := got.data().Violations; got.code() != errmap.ToolNotFound || len(v) != 1 || !strings.Contains(v[0].Message, "1.1.0") {
			t.Errorf("got %s %+v", got.code(), v)
		}
	})

	t.Run("a call may carry a version that is satisfied", func(t *testing.T) {
		t.Parallel()
		got := said(t, demo, "tools/call", `{"name":"fleet.find_orders","version":"^1.1","arguments":{}}`)
		if string(got["isError"]) != "false" {
			t.Errorf("got %v", got)
		}
	})
}

// narrowed is a sidecar with two registered tools whose output schemas ask for a
// member that no answer has.
func narrowed(t *testing.T) *mcptest.Rig {
	t.Helper()
	rig := mcptest.Start(t, mcptest.Options{})
	for name, method := range map[string]string{"strict.echo": "Echo", "strict.fail": "Fail"} {
		mcptest.Register(t, rig.Live, mcptest.Named{
			Name: name, Service: "outrigger.demo.v1.Lab", Method: method,
			Input: `{"type":"object"}`, Output: `{"type":"object","required":["never"]}`,
		})
	}
	return rig
}

// TestContractOfSerialisation has the sentences about the wire.
func TestContractOfSerialisation(t *testing.T) {
	t.Parallel()
	demo := mcptest.Start(t, mcptest.Options{})

	t.Run("every reply is compact UTF-8 JSON", func(t *testing.T) {
		t.Parallel()
		for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
			for _, params := range []string{
				`"method":"tools/list","params":{` + modernMeta + `}`,
				`"method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":"Māori \u2028 \u00e9"},` + modernMeta + `}`,
				`"method":"tools/call","params":{"name":"fleet.get_vehicle","arguments":{"vehicleId":"101"},` + modernMeta + `}`,
				`"method":"tools/call","params":{"name":"nothing.at_all",` + modernMeta + `}`,
				`"method":"nothing","params":{}`,
			} {
				reply := demo.Send(t.Context(), inbound(demo.NewOrigin(), d, `{"jsonrpc":"2.0","id":"1",`+params+`}`))
				var compact bytes.Buffer
				if err := json.Compact(&compact, reply.Bytes()); err != nil || !utf8.Valid(reply.Bytes()) || !bytes.Equal(compact.Bytes(), reply.Bytes()) {
					t.Errorf("%v, %s: %v, %d bytes, %d where compact", d, params, err, len(reply.Bytes()), compact.Len())
				}
			}
		}
	})

	vehicle := func(t *testing.T) (out struct {
		ID         json.RawMessage `json:"id"`
		LastSeen   string          `json:"lastSeen"`
		CapacityKg json.RawMessage `json:"capacityKg"`
	},
	) {
		t.Helper()
		got := said(t, demo, "tools/call", `{"name":"fleet.get_vehicle","arguments":{"vehicleId":"101"}}`)
		if err := json.Unmarshal(got["structuredContent"], &out); err != nil {
			t.Fatal(err)
		}
		return out
	}

	t.Run("times are ISO 8601", func(t *testing.T) {
		t.Parallel()
		if _, err := time.Parse(time.RFC3339Nano, vehicle(t).LastSeen); err != nil {
			t.Error(err)
		}
	})

	t.Run("64-bit integers are strings and other numbers are numbers", func(t *testing.T) {
		t.Parallel()
		if got := vehicle(t); string(got.ID) != `"101"` || got.CapacityKg[0] == '"' {
			t.Errorf("id %s, capacityKg %s", got.ID, got.CapacityKg)
		}
		got := said(t, demo, "tools/call", `{"name":"lab.echo","arguments":{"unsigned":18446744073709551615}}`)
		if !bytes.Contains(got["structuredContent"], []byte(`"unsigned":"18446744073709551615"`)) {
			t.Errorf("got %s", got["structuredContent"])
		}
	})
}

// TestContractOfTheDescription has the sentences about what a sidecar says of
// itself in the canonical dialect.
func TestContractOfTheDescription(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source(), Configure: func(c *configv1.Config) {
		c.Server = &configv1.Server{Name: "isle", Version: "4.5.6"}
	}})
	got := said(t, b, "server/describe", `{}`)

	t.Run("server/describe has name, version and the contract version 1.0.0", func(t *testing.T) {
		t.Parallel()
		if string(got["name"]) != `"isle"` || string(got["version"]) != `"4.5.6"` || string(got["contract_version"]) != `"1.0.0"` {
			t.Errorf("got %v", got)
		}
	})

	t.Run("server/describe has the capabilities of tools, resources and prompts", func(t *testing.T) {
		t.Parallel()
		var capabilities map[string]map[string]*bool
		if err := json.Unmarshal(got["capabilities"], &capabilities); err != nil {
			t.Fatal(err)
		}
		for feature, switches := range map[string][]string{"tools": {"listChanged"}, "resources": {"listChanged", "subscribe"}, "prompts": {"listChanged"}} {
			for _, s := range switches {
				if capabilities[feature][s] == nil {
					t.Errorf("%s.%s is not said: %s", feature, s, got["capabilities"])
				}
			}
		}
	})

	t.Run("server/describe has the counts of tools, resources and prompts", func(t *testing.T) {
		t.Parallel()
		var tools int
		if err := json.Unmarshal(got["tools_count"], &tools); err != nil || tools != len(b.Live.Current().Tools()) {
			t.Errorf("%d tools, %v", tools, err)
		}
		for _, name := range []string{"resources_count", "prompts_count"} {
			var n int
			if err := json.Unmarshal(got[name], &n); err != nil || n < 0 {
				t.Errorf("%s is %s, %v", name, got[name], err)
			}
		}
	})
}

// TestContractOfArguments has the row of bad input about the arguments of a call.
func TestContractOfArguments(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for claim, tt := range map[string]struct {
		member        string
		first, second errmap.Code // of the first form, and of the message form
	}{
		"null is an empty object, and an error in the message form":    {`,"arguments":null`, "", errmap.InvalidParams},
		"missing is an empty object, and an error in the message form": {``, "", errmap.InvalidParams},
		"an array is INVALID_PARAMS":                                   {`,"arguments":[]`, errmap.InvalidParams, errmap.InvalidParams},
		"a string with JSON in it is INVALID_PARAMS":                   {`,"arguments":"{}"`, errmap.InvalidParams, errmap.InvalidParams},
		"a number is INVALID_PARAMS":                                   {`,"arguments":1`, errmap.InvalidParams, errmap.InvalidParams},
		"an empty object is an empty object":                           {`,"arguments":{}`, "", ""},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			for name, want := range map[string]errmap.Code{"name": tt.first, "tool_name": tt.second} {
				got := answer(t, b, mcptest.Canonical,
					`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"`+name+`":"lab.echo"`+tt.member+`}}`)
				if got.code() != want {
					t.Errorf("%s: got %q, want %q", name, got.code(), want)
				}
			}
		})
	}
}

// TestContractOfTheGate has the sentence about where a destructive tool is
// blocked. That there is no way around it is for TestNothingGetsAroundTheGate.
func TestContractOfTheGate(t *testing.T) {
	t.Parallel()

	t.Run("a blocked call never reaches the tool service", func(t *testing.T) {
		t.Parallel()
		b := fake(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
			t.Error("the tool service was called")
			return &mcptest.Answer{}, nil
		}, nil)
		if resp := b.Handle(t.Context(), toolCall(b, "fleet.cancel_order", `{"orderId":"1"}`)); codeOf(resp) != errmap.DestructiveBlocked {
			t.Errorf("got %v", resp.Err)
		}
	})

	marks := overlaid("*/Echo", &configv1.ToolOptions{Destructive: proto.Bool(true)})
	unproven := func(c *configv1.Config) { c.Gate = proto.String("unproven") }
	for claim, tt := range map[string]struct {
		configure       func(*configv1.Config)
		tool, arguments string
		want            errmap.Code
	}{
		"a tool that its option marks is blocked":                            {nil, "fleet.cancel_order", `{"orderId":"1"}`, errmap.DestructiveBlocked},
		"a tool that the overlay marks is blocked":                           {marks, "lab.echo", `{}`, errmap.DestructiveBlocked},
		"an unmarked tool runs":                                              {nil, "lab.echo", `{}`, ""},
		"a tool that is not proven otherwise is blocked where that is asked": {unproven, "fleet.update_vehicle", `{}`, errmap.DestructiveBlocked},
		"a tool that is proven otherwise runs where proof is asked":          {unproven, "lab.echo", `{}`, ""},
		"a trusted state lets all of them run":                               {both(marks, trusted), "lab.echo", `{}`, ""},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source("UpdateVehicle"), Backend: mcptest.Upstream(mcptest.Echo), Configure: tt.configure})
			if got := codeOf(b.Handle(t.Context(), toolCall(b, tt.tool, tt.arguments))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
