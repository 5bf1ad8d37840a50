// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// altering is between the bridge and the real backend and replaces what
// comes back.
func altering(body []byte) func(mcptest.Upstream) mcptest.Upstream {
	return func(next mcptest.Upstream) mcptest.Upstream {
		return func(ctx context.Context, m *mcptest.Method, in []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
			answer, err := next(ctx, m, in, h)
			if err != nil {
				return nil, err
			}
			answer.Body = body
			return answer, nil
		}
	}
}

func TestOutputIsChecked(t *testing.T) {
	t.Parallel()
	north, err := proto.Marshal(&demov1.Vehicle{Id: 101, Position: &demov1.Position{Latitude: 91}})
	if err != nil {
		t.Fatal(err)
	}
	request, err := proto.Marshal(&demov1.GetVehicleRequest{VehicleId: 101})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		body []byte
		want errmap.Code
		path string
	}{
		{"a broken rule", north, errmap.InvalidToolOutput, "/position/latitude"},
		{"cut in mid-field", []byte{0x12, 0x05, 'a'}, errmap.SerializationError, ""},
		{"no tag", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, errmap.SerializationError, ""},
		{"bytes that are no UTF-8 in a string", []byte{0x12, 0x01, 0xff}, errmap.SerializationError, ""},
		{"empty", nil, "", ""},
		{"unknown fields", []byte{0xf8, 0x3f, 0x01}, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rig := mcptest.Start(t, mcptest.Options{Adjust: mcptest.Between(altering(tc.body))})
			for form, req := range map[string]*mcptest.Call{
				"JSON": toolCall(rig, "fleet.get_vehicle", `{"vehicleId":"101"}`),
				"wire": {Origin: rig.NewOrigin(), Tool: "fleet.get_vehicle", IsWire: true, Wire: request},
			} {
				resp := rig.Handle(t.Context(), req)
				if codeOf(resp) != tc.want {
					t.Errorf("%s: got %v, want %q", form, resp.Err, tc.want)
					continue
				}
				if tc.path != "" && (len(resp.Err.Violations) != 1 || resp.Err.Violations[0].Path != tc.path) {
					t.Errorf("%s: violations %+v, want one at %s", form, resp.Err.Violations, tc.path)
				}
				if resp.Err != nil && resp.Result != nil {
					t.Errorf("%s: a result beside the error", form)
				}
				if resp.IsWire != req.IsWire && resp.Err == nil {
					t.Errorf("%s: the result is in another encoding", form)
				}
			}
		})
	}
}

func TestAResultOverItsLimitIsRefused(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, resultBytes(200))
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":"short"}`)); resp.Err != nil {
		t.Errorf("a short one: %v", resp.Err)
	}
	resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":"`+strings.Repeat("n", 200)+`"}`))
	if codeOf(resp) != errmap.ResourceExhausted || resp.Result != nil {
		t.Errorf("a long one: %v %d bytes, want RESOURCE_EXHAUSTED", resp.Err, len(resp.Result))
	}
}

func TestWireArgumentsKeepTheRules(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	for name, tc := range map[string]struct {
		wire []byte
		want errmap.Code
	}{
		"a broken rule":     {[]byte{0x08, 0x00}, errmap.InvalidToolInput}, // vehicle_id: 0
		"cut in mid-varint": {[]byte{0x08, 0x80}, errmap.InvalidToolInput},
		"nothing":           {nil, errmap.InvalidToolInput},
		"good":              {[]byte{0x08, 0x65}, ""},
	} {
		req := &mcptest.Call{Origin: b.NewOrigin(), Tool: "fleet.get_vehicle", IsWire: true, Wire: tc.wire}
		if resp := b.Handle(t.Context(), req); codeOf(resp) != tc.want {
			t.Errorf("%s: got %v, want %q", name, resp.Err, tc.want)
		}
	}
}

// A value that JSON has no standard form for costs nothing but that form: the result has the rest, and its explanation names
// the value. A typed caller gets an error, as from the service's own JSON.
func TestValuesWithoutAFormAreNoted(t *testing.T) {
	t.Parallel()
	late := &timestamppb.Timestamp{Seconds: 253402300800}
	vehicle, err := proto.Marshal(&demov1.Vehicle{Id: 101, CallSign: "Kingfisher", LastSeen: late})
	if err != nil {
		t.Fatal(err)
	}
	rig := mcptest.Start(t, mcptest.Options{Adjust: mcptest.Between(altering(vehicle))})
	resp := rig.Handle(t.Context(), toolCall(rig, "fleet.get_vehicle", `{"vehicleId":"101"}`))
	if got := string(resp.Result); resp.Err != nil || !strings.Contains(got, `"callSign":"Kingfisher"`) || !strings.Contains(got, `"lastSeen":"seconds:253402300800 nanos:0"`) {
		t.Errorf("got %s, %v", got, resp.Err)
	}
	if want := "/lastSeen is a Timestamp outside of the years 0001 to 9999"; !strings.HasPrefix(resp.Explanation, want) {
		t.Errorf("the explanation is %q, want %q", resp.Explanation, want)
	}
	typed := toolCall(rig, "fleet.get_vehicle", `{"vehicleId":"101"}`)
	typed.Tool, typed.Procedure = "", "/outrigger.demo.v1.Fleet/GetVehicle"
	if resp := rig.Handle(t.Context(), typed); codeOf(resp) != errmap.SerializationError || !strings.Contains(fmt.Sprint(errors.Unwrap(resp.Err)), "/lastSeen") {
		t.Errorf("typed: %v", resp.Err)
	}
}

func TestValuesWithoutAFormAreNotedInStreams(t *testing.T) {
	t.Parallel()
	update, err := proto.Marshal(&demov1.VehicleUpdate{ObservedAt: &timestamppb.Timestamp{Nanos: -1}})
	if err != nil {
		t.Fatal(err)
	}
	b := watching(t, &streaming{items: slices.Repeat([][]byte{update}, 9)}, nil).bridge
	resp := b.Handle(t.Context(), toolCall(b, "fleet.watch_vehicles", `{}`))
	if got := string(resp.Result); resp.Err != nil || strings.Count(got, `"observedAt":"seconds:0 nanos:-1"`) != 9 {
		t.Errorf("got %s, %v", got, resp.Err)
	}
	if said := resp.Explanation; !strings.Contains(said, "/items/3/observedAt is") || strings.Contains(said, "/items/4") || !strings.HasSuffix(said, "More values like these follow.") {
		t.Errorf("the explanation is %q", said)
	}
}

// declaring returns a bridge over the demo's tools and desk.repeat, which is
// lab.echo with its own schemas.
func declaring(t testing.TB, call mcptest.Upstream, configure func(*configv1.Config)) *mcptest.Rig {
	t.Helper()
	live := mcptest.OwnMemory(t)
	mcptest.Register(t, live, mcptest.Named{
		Name: "desk.repeat", Service: "outrigger.demo.v1.Lab", Method: "Echo",
		Input:  `{"type":"object","properties":{"nonce":{"type":"string","maxLength":5},"signed":{"maximum":7}},"required":["nonce"]}`,
		Output: `{"type":"object","properties":{"nonce":{"const":"hello"}}}`,
	})
	return mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: call, Configure: configure})
}

func TestDeclaredSchemasHold(t *testing.T) {
	t.Parallel()
	broken := errmap.New(errmap.ToolExecutionFailed, errmap.Message("the backend's own words"))
	for name, tt := range map[string]struct {
		arguments, answer string // answer: the nonce that the backend sends; "!" fails
		code              errmap.Code
		errorType         string
		path              string
	}{
		"all is well":             {`{"nonce":"hello"}`, "hello", "", "", ""},
		"a value out of range":    {`{"nonce":"hello","signed":8}`, "hello", errmap.InvalidToolInput, errmap.TypeValidation, "/signed"},
		"a member is missing":     {`{}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/nonce"},
		"both":                    {`{"signed":8}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/signed"},
		"only the RPC refuses":    {`{"nonce":"a","unknown":1}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/unknown"},
		"a name twice":            {`{"nonce":"a","nonce":"a"}`, "hello", errmap.InvalidToolInput, errmap.TypeSchema, "/nonce"},
		"the result is wrong":     {`{"nonce":"hello"}`, "other", errmap.InvalidToolOutput, "", "/nonce"},
		"the backend fails first": {`{"nonce":"hello"}`, "!", errmap.ToolExecutionFailed, "", ""},
	} {
		calls := 0
		b := declaring(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
			calls++
			if tt.answer == "!" {
				failed := *broken
				return nil, &failed
			}
			body, err := proto.Marshal(&demov1.EchoResponse{Nonce: tt.answer})
			if err != nil {
				t.Error(err)
			}
			return &mcptest.Answer{Body: body}, nil
		}, nil)
		for _, tool := range []string{"desk.repeat", "desk_repeat"} {
			calls = 0
			resp := b.Handle(t.Context(), toolCall(b, tool, tt.arguments))
			if tt.code == "" {
				if resp.Err != nil || !strings.Contains(string(resp.Result), `"nonce":"hello"`) {
					t.Errorf("%s: %v, %s", name, resp.Err, resp.Result)
				}
				continue
			}
			if resp.Err == nil || resp.Err.Code != tt.code || resp.Result != nil {
				t.Fatalf("%s: error %v, result %s", name, resp.Err, resp.Result)
			}
			if tt.errorType != "" && resp.Err.ErrorType != tt.errorType {
				t.Errorf("%s: error type %s, want %s", name, resp.Err.ErrorType, tt.errorType)
			}
			if wasCalled := calls > 0; wasCalled == (tt.code == errmap.InvalidToolInput) {
				t.Errorf("%s: the backend was called %d times", name, calls)
			}
			if tt.path != "" && (len(resp.Err.Violations) == 0 || !hasPath(resp.Err.Violations, tt.path)) {
				t.Errorf("%s: violations %v do not name %s", name, resp.Err.Violations, tt.path)
			}
			if tt.answer == "!" && resp.Err.Message != broken.Message {
				t.Errorf("%s: the backend's error became %v", name, resp.Err)
			}
		}
		// The RPC's own tool knows nothing of the declared schemas.
		if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"signed":8}`)); tt.answer != "!" && resp.Err != nil {
			t.Errorf("%s: lab.echo: %v", name, resp.Err)
		}
	}
}

func hasPath(violations []errmap.Violation, path string) bool {
	for _, v := range violations {
		if v.Path == path {
			return true
		}
	}
	return false
}

// BenchmarkListOf1000AfterAChange renders the listing of 1,000 tools from
// nothing, which happens once a change; the contract gives it 5 ms.
func BenchmarkListOf1000AfterAChange(b *testing.B) {
	live := mcptest.OwnMemory(b)
	for i := len(live.Current().Tools()); i < 1000; i++ {
		mcptest.Register(b, live, mcptest.Named{
			Name: fmt.Sprintf("desk.repeat_%d", i), Service: "outrigger.demo.v1.Lab", Method: "Echo",
			Input: `{"type":"object","properties":{"nonce":{"type":"string","maxLength":5}},"required":["nonce"]}`,
		})
	}
	const list = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`
	for _, state := range []string{"cold", "warm"} {
		b.Run(state, func(b *testing.B) {
			sidecar := mcptest.Pipe(b, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(mcptest.Echo)})
			origin := sidecar.NewOrigin()
			b.ReportAllocs()
			for b.Loop() {
				if state == "cold" {
					sidecar = mcptest.Pipe(b, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(mcptest.Echo)})
					origin = sidecar.NewOrigin()
				}
				reply := sidecar.Send(context.Background(), inbound(origin, mcptest.Canonical, list))
				if reply.Status != http.StatusOK || len(reply.Bytes()) < 100_000 {
					b.Fatal(reply.Status)
				}
			}
		})
	}
}

// bare is a catalog with one tool whose messages are no JSON objects:
// word.double takes and returns a google.protobuf.StringValue.
func bare() *descriptorpb.FileDescriptorSet {
	own := &descriptorpb.FileDescriptorProto{
		Name: proto.String("word/v1/word.proto"), Package: proto.String("word.v1"), Syntax: proto.String("proto3"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Word"), Method: []*descriptorpb.MethodDescriptorProto{{
			Name: proto.String("Double"), InputType: proto.String(".google.protobuf.StringValue"), OutputType: proto.String(".google.protobuf.StringValue"),
		}}}},
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto), own,
	}}
}

func double(_ context.Context, _ *mcptest.Method, in []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
	var word wrapperspb.StringValue
	if err := proto.Unmarshal(in, &word); err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	word.Value += word.GetValue()
	out, err := proto.Marshal(&word)
	if err != nil {
		return nil, errmap.Wrap(errmap.InternalError, err)
	}
	return &mcptest.Answer{Body: out}, nil
}

// A result that is no object is wrapped once, in every dialect, as the schema
// that the same dialect lists says. A typed caller gets it bare.
func TestAResultThatIsNoObject(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Files(bare(), "word.v1.Word"), Backend: mcptest.Upstream(double)})
	for _, d := range []mcptest.Dialect{mcptest.Canonical, mcptest.Modern, mcptest.Legacy} {
		got := answer(t, b, d,
			`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"word_double","arguments":{"value":"ab"},`+modernMeta+`}}`)
		if got.Result == nil || string(got.Result.StructuredContent) != `{"value":"abab"}` || got.Result.Content[0].Text != `{"value":"abab"}` {
			t.Errorf("%v: got %+v", d, got)
		}
		list := b.Send(t.Context(), inbound(1, d, `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`))
		var listing struct {
			Result struct {
				Tools []struct {
					OutputSchema struct {
						Type       string                     `json:"type"`
						Properties map[string]json.RawMessage `json:"properties"`
						Required   []string                   `json:"required"`
					} `json:"outputSchema"`
				} `json:"tools"`
			} `json:"result"`
		}
		if err := json.Unmarshal(list.Bytes(), &listing); err != nil || len(listing.Result.Tools) != 1 {
			t.Fatalf("%v: %v: %s", d, err, list.Bytes())
		}
		schema := listing.Result.Tools[0].OutputSchema
		if _, ok := schema.Properties["value"]; schema.Type != "object" || !ok || cmp.Diff([]string{"value"}, schema.Required) != "" {
			t.Errorf("%v: the listed schema is of another result: %+v", d, schema)
		}
	}
	form := answer(t, b, mcptest.Canonical,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"word.double","arguments":{"value":"ab"}}}`)
	if form.Result == nil || form.Result.Status != "success" {
		t.Errorf("message form: %+v", form)
	}
	typed := b.Handle(t.Context(), &mcptest.Call{Procedure: "/word.v1.Word/Double", Arguments: `"ab"`})
	if typed.Err != nil || string(typed.Result) != `"abab"` {
		t.Errorf("typed: %s, %v", typed.Result, typed.Err)
	}
}

// A request without fields has no bytes, and is a request all the same.
func TestAnEmptyMessagePassesThroughInEveryProtocol(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{Backend: mcptest.Upstream(mcptest.Echo)})
	url := b.Serve(t)
	for name, options := range map[string][]connect.ClientOption{
		"Connect":       nil,
		"Connect JSON":  {connect.WithProtoJSON()},
		"Connect gzip":  {connect.WithSendGzip()},
		"gRPC":          {connect.WithGRPC()},
		"gRPC JSON":     {connect.WithGRPC(), connect.WithProtoJSON()},
		"gRPC gzip":     {connect.WithGRPC(), connect.WithSendGzip()},
		"gRPC-Web":      {connect.WithGRPCWeb()},
		"gRPC-Web JSON": {connect.WithGRPCWeb(), connect.WithProtoJSON()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, err := demov1connect.NewLabClient(mcptest.Client(t, 2), url, options...).
				Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{}))
			if err != nil || resp.Msg.GetNonce() != "" {
				t.Errorf("got %v, %v", resp, err)
			}
		})
	}
}

// A backend's text names fields as its .proto file does. Who calls by arguments gets their names beside it; the service's own
// client gets the text as it is.
func TestFieldsInABackendsText(t *testing.T) {
	t.Parallel()
	const said = "retry_delay must be a minute"
	b := fake(t, func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		return nil, errmap.FromBackend(connect.NewError(connect.CodeInvalidArgument, errors.New(said)))
	}, nil)
	for typed, want := range map[bool]string{false: "lab.fail: retry_delay (argument retryDelay) must be a minute", true: "lab.fail: " + said} {
		req := toolCall(b, "lab.fail", `{"code":"FAIL_CODE_ABORTED"}`)
		if typed {
			req.Tool, req.Procedure = "", demov1connect.LabFailProcedure
		}
		if got := b.Handle(t.Context(), req).Err; got == nil || got.Message != said || got.ModelText(errmap.About{}) != want {
			t.Errorf("typed %t: %v, %q", typed, got, got.ModelText(errmap.About{}))
		}
	}
}
