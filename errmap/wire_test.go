// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Every code crosses a real connection in each of the three protocols, with an id, violations and a wait.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	const procedure = "/outrigger.test.Service/Fail"
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure,
		func(_ context.Context, r *connect.Request[wrapperspb.StringValue]) (*connect.Response[emptypb.Empty], error) {
			e := New(Code(r.Msg.GetValue()), Tool("a.b"), Message("what\nhappened: Größe"), RetryAfter(2*time.Second),
				WithViolations(Violation{"/a", "minimum", "is too small"}), BackendCode("aborted"))
			return nil, ToConnect(e, About{RequestID: json.RawMessage(`"id"`)})
		}))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	for name, options := range map[string][]connect.ClientOption{
		"connect": nil, "grpc": {connect.WithGRPC()}, "grpc-web": {connect.WithGRPCWeb()},
	} {
		client := connect.NewClient[wrapperspb.StringValue, emptypb.Empty](server.Client(), server.URL+procedure, options...)
		for _, code := range Codes() {
			_, err := client.CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(string(code))))
			var ce *connect.Error
			if !errors.As(err, &ce) {
				t.Fatalf("%s %s: %v", name, code, err)
			}
			e := FromConnect(ce)
			if e.Code != code || e.Tool != "a.b" || e.RetryAfter != 2*time.Second {
				t.Errorf("%s %s: came as %+v", name, code, e)
			}
			if code != InternalError && code != ToolNotFound && e.Message != "what\nhappened: Größe" {
				t.Errorf("%s %s: message %q", name, code, e.Message)
			}
			if code != ToolExecutionFailed && (len(e.Violations) != 1 || e.Violations[0] != Violation{"/a", "minimum", "is too small"}) {
				t.Errorf("%s %s: violations %v", name, code, e.Violations)
			}
		}
	}
}

// A field that its own descriptor marks debug_redact is dropped, whatever it holds.
func TestMarkedFieldsAreDropped(t *testing.T) {
	t.Parallel()
	field := func(name string, number int32, redact bool) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Options: &descriptorpb.FieldOptions{DebugRedact: proto.Bool(redact)},
		}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("x.proto"), Package: proto.String("x"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{
			field("marked", 1, true), field("plain", 2, false),
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := dynamicpb.NewMessage(file.Messages().ByName("M"))
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("marked"), protoreflect.ValueOfString("a"))
	m.Set(fields.ByName("plain"), protoreflect.ValueOfString("b"))
	if !(redactor{}).message(m, 1) || m.Has(fields.ByName("marked")) || m.Get(fields.ByName("plain")).String() != "b" {
		t.Errorf("%v", m)
	}
}
