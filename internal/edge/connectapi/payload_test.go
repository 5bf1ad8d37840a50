// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// FuzzCheckCall decodes whatever it gets as a call. What passes holds no JSON
// that a reader behind it would stumble over, and what the validator is not asked
// about keeps the rules.
func FuzzCheckCall(f *testing.F) {
	arguments := func(text string) *outriggerv1.ToolCall_ArgumentsJson {
		return &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(text)}
	}
	for _, seed := range []*outriggerv1.ToolCall{
		{},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}")},
		{ToolName: "", ArgumentsForm: arguments("{}")},
		{ToolName: "a b", ArgumentsForm: arguments("{}")},
		{ToolName: "caf\u00e9", ArgumentsForm: arguments("{}")},
		{ToolName: strings.Repeat("n", 256), ArgumentsForm: arguments("{}")},
		{ToolName: strings.Repeat("n", 257), ArgumentsForm: arguments("{}")},
		{ToolName: "lab.echo", ArgumentsForm: arguments("")},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}"), Version: "!"},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}"), MetaForm: &outriggerv1.ToolCall_MetaJson{MetaJson: []byte("1")}},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}"), RequestState: make([]byte, 65537)},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}"), InputResponses: map[string]*outriggerv1.InputResponse{"": {}}},
		{ToolName: "lab.echo", ArgumentsForm: arguments("{}"), Context: &outriggerv1.RequestContext{ProtocolVersion: strings.Repeat("s", 65)}},
		{Context: &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{
			ExtensionsForm:   &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: []byte(`{"a":{}}`)},
			ExperimentalForm: &outriggerv1.ClientCapabilities_Experimental{Experimental: &structpb.Struct{Fields: map[string]*structpb.Value{"a": {}}}},
		}}},
		{InputResponses: map[string]*outriggerv1.InputResponse{"a": {Response: &outriggerv1.InputResponse_OtherJson{OtherJson: []byte(`[1`)}}}},
		{InputResponses: map[string]*outriggerv1.InputResponse{"~/": {Response: &outriggerv1.InputResponse_Sampling{Sampling: &outriggerv1.SamplingResult{
			Content: []*outriggerv1.SamplingContent{{MetaForm: &outriggerv1.SamplingContent_MetaJson{MetaJson: []byte(`{"a":1,"a":2}`)}}},
		}}}}},
	} {
		raw, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	limits := jsonrpc.Limits{MaxDepth: 8}.WithDefaults()
	s := &Service{opts: Options{Limits: limits}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		call := &outriggerv1.ToolCall{}
		if proto.Unmarshal(raw, call) != nil {
			return
		}
		if err := protovalidate.Validate(call); err != nil && isOrdinaryCall(call) {
			t.Errorf("%v: %v", call, err)
		}
		if failed := s.checkCall(call); failed != nil {
			for _, v := range failed.Violations {
				if !strings.HasPrefix(v.Path, "/context/") && !strings.HasPrefix(v.Path, "/input_responses/") || v.Message == "" {
					t.Errorf("a violation that says nothing: %+v", v)
				}
			}
			return
		}
		sound(t, call.GetContext().ProtoReflect(), limits)
		for _, response := range call.GetInputResponses() {
			sound(t, response.ProtoReflect(), limits)
		}
	})
}

// sound walks a message in another way than the check, and wants sound JSON in
// every field that is named as such.
func sound(t *testing.T, m protoreflect.Message, limits jsonrpc.Limits) {
	t.Helper()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch {
		case !m.Has(field):
		case field.IsMap():
		case field.IsList() && field.Message() != nil:
			for j := range m.Get(field).List().Len() {
				sound(t, m.Get(field).List().Get(j).Message(), limits)
			}
		case field.Message() != nil && !field.IsList():
			sound(t, m.Get(field).Message(), limits)
		case strings.HasSuffix(string(field.Name()), "_json") && field.Kind() == protoreflect.BytesKind:
			if fault := jsonrpc.Check(m.Get(field).Bytes(), limits); fault != nil {
				t.Errorf("%s holds %q: %s", field.FullName(), m.Get(field).Bytes(), fault.Reason)
			}
		}
	}
}
