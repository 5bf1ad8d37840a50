// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// TestJSONFormsAreTheOnesOfTheDesign reads messages from JSON as people write it, and gets the same JSON back.
func TestJSONFormsAreTheOnesOfTheDesign(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		like proto.Message
		json string
	}{
		{"a call in the message form", &outriggerv1.ToolCall{}, `{"tool_name":"shop.get_order","arguments":{"id":"42"}}`},
		{"a result in the message form", &outriggerv1.ToolResult{}, `{"status":"success","data":{"total":"18446744073709551615"},"explanation":"Found."}`},
		{"data of another kind", &outriggerv1.ToolResult{}, `{"status":"success","data":[1,"a",null,false]}`},
		{"a failure", &outriggerv1.ToolResult{}, `{"status":"failure","error":{"error_type":"TimeoutError","error_message":"Too slow.","error_details":"30 s"}}`},
		{"a request", &outriggerv1.Envelope{}, `{"request":{"id":{"text":"a"},"method":"tools/call","params":{"arguments":{},"name":"a.b"}}}`},
		{"an answer to the largest id", &outriggerv1.Envelope{}, `{"success_response":{"id":{"integer":"9223372036854775807"},"result":{}}}`},
		{"an answer to a larger id", &outriggerv1.Envelope{}, `{"error_response":{"id":{"big_integer":"9223372036854775808"},"error":{"code":-32601,"message":"Method not found","data":{"code":"METHOD_NOT_FOUND"}}}}`},
		{"an error without an id", &outriggerv1.Envelope{}, `{"error_response":{"error":{"code":-32700,"message":"Parse error"}}}`},
		{"a registration", &outriggerv1.RegisterToolRequest{}, `{"name":"shop.get_order","description":"Gets an order.","input_schema":{"type":"object"},"binding":{"service":"shop.v1.Orders","method":"GetOrder"},"metadata":{"module":"shop","destructive":true,"deprecated_in":"2.0.0","cache_ttl":"300s"}}`},
		{"a description", &outriggerv1.ServerDescription{}, `{"name":"shop","version":"1.2.3","contract_version":"1.0.0","capabilities":{"tools":{"list_changed":true}},"tools_count":3,"protocol_versions":["2026-07-28"]}`},
		{"hints that are false", &outriggerv1.ToolAnnotations{}, `{"read_only_hint":false,"destructive_hint":true,"idempotent_hint":false,"open_world_hint":false}`},
		{"an empty cursor", &outriggerv1.ListToolsResponse{}, `{"tools":[{"name":"a.b","input_schema":{"type":"object"}}],"next_cursor":"","cache":{"ttl":"60s","scope":"CACHE_SCOPE_PUBLIC"}}`},
		{"method options", &configv1.ToolOptions{}, `{"name":"shop.get","read_only":true,"timeout":"5s","version":"1.2.0","examples":[{"name":"e","arguments_json":"{\"id\":\"1\"}"}],"task_support":"optional"}`},
		{"configuration", &configv1.Config{}, `{"backend":{"url":"http://127.0.0.1:9000","connect_timeout":"0.500s","metadata":{"inbound":["x-tenant","x-b3-*"]}},` +
			`"catalog":{"descriptors":["shop.binpb"],"include":["shop.v1.*"]},"tools":[{"method":"shop.v1.Orders/Delete","tool":{"destructive":true,"timeout":"5s"}}],` +
			`"listeners":{"listen":"127.0.0.1:8080","allowed_origins":["https://app.example.com"],"insecure_no_auth":true},"timeout":"30s",` +
			`"limits":{"max_message_bytes":"4194304","max_json_depth":64,"drain_grace":"20s","caller_rate":{"per_second":10,"burst":20}},` +
			`"trust":"untrusted","validate":"standard","canonical_ids":"any","dialect":"auto","repair_arguments":true,"schema_profile":"strict",` +
			`"record":{"dir":"runs","payloads":true},"deterministic":true,"log":{"level":"info","format":"json"}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := tt.like.ProtoReflect().New().Interface()
			if err := protojson.Unmarshal([]byte(tt.json), m); err != nil {
				t.Fatal(err)
			}
			if v := violations(t, m); v != nil {
				t.Errorf("violations: %q", v)
			}
			out, err := protojson.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			// ProtoJSON varies its white space on purpose.
			var got bytes.Buffer
			if err := json.Compact(&got, out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.json, got.String()); diff != "" {
				t.Errorf("JSON (-want +got):\n%s", diff)
			}
		})
	}
}

// TestConfigTakesPlainNumbers: 64-bit limits may be written as numbers, as people do in YAML.
func TestConfigTakesPlainNumbers(t *testing.T) {
	t.Parallel()
	got := &configv1.Config{}
	if err := protojson.Unmarshal([]byte(`{"limits":{"max_message_bytes":1048576}}`), got); err != nil {
		t.Fatal(err)
	}
	want := &configv1.Config{Limits: &configv1.Limits{MaxMessageBytes: proto.Int64(1 << 20)}}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestExactFormsKeepEveryByte: what is in a _json field crosses the wire untouched, which Struct cannot promise.
func TestExactFormsKeepEveryByte(t *testing.T) {
	t.Parallel()
	const text = `{ "z":18446744073709551615, "a":1.10, "a2":1e400 }`
	wire, err := proto.Marshal(&outriggerv1.ToolCall{ToolName: "a.b", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	got := &outriggerv1.ToolCall{}
	if err := proto.Unmarshal(wire, got); err != nil {
		t.Fatal(err)
	}
	if string(got.GetArgumentsJson()) != text {
		t.Errorf("arguments = %s, want %s", got.GetArgumentsJson(), text)
	}

	lossy := &outriggerv1.ToolCall{}
	if err := protojson.Unmarshal([]byte(`{"tool_name":"a.b","arguments":{"n":18446744073709551615}}`), lossy); err != nil {
		t.Fatal(err)
	}
	if n := lossy.GetArguments().GetFields()["n"].GetNumberValue(); n != 18446744073709551616 {
		t.Errorf("Struct held %f: if it became exact, the bytes form is no longer needed", n)
	}
}
