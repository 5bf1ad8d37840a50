// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// station is a sidecar in front of the demo service, with a main and an admin
// listener.
type station struct {
	main, admin string
	live        *catalog.Live
	log         *observer.ObservedLogs
}

func openStation(t *testing.T, o mcptest.Options) *station {
	t.Helper()
	core, logged := observer.New(zapcore.InfoLevel)
	o.Log = zap.New(core)
	rig := mcptest.Start(t, o)
	return &station{main: rig.Serve(t), admin: rig.Operators(t), live: rig.Live, log: logged}
}

// operatorWays are the ways to reach the tool API.
func operatorWays() map[string]func(t *testing.T, url string) outriggerv1connect.ToolServiceClient {
	way := func(version int, options ...connect.ClientOption) func(*testing.T, string) outriggerv1connect.ToolServiceClient {
		return func(t *testing.T, url string) outriggerv1connect.ToolServiceClient {
			t.Helper()
			return outriggerv1connect.NewToolServiceClient(mcptest.Client(t, version), url, options...)
		}
	}
	return map[string]func(*testing.T, string) outriggerv1connect.ToolServiceClient{
		"Connect over HTTP/1.1":  way(1),
		"Connect, JSON":          way(1, connect.WithProtoJSON()),
		"gRPC":                   way(2, connect.WithGRPC()),
		"gRPC-Web over HTTP/1.1": way(1, connect.WithGRPCWeb()),
	}
}

// whyRefused is the canonical code of an RPC's error and the paths of what is
// wrong, sorted.
func whyRefused(t *testing.T, err error) (code errmap.Code, paths []string) {
	t.Helper()
	var failed *connect.Error
	if !errors.As(err, &failed) {
		t.Fatalf("no error of the RPC: %v", err)
	}
	for _, detail := range failed.Details() {
		value, err := detail.Value()
		if err != nil {
			t.Fatal(err)
		}
		switch v := value.(type) {
		case *errdetails.ErrorInfo:
			code = errmap.Code(v.GetReason())
		case *errdetails.BadRequest:
			for _, f := range v.GetFieldViolations() {
				paths = append(paths, f.GetField())
			}
		}
	}
	slices.Sort(paths)
	return code, paths
}

// echoTool is a registration of lab.echo under its own name.
func echoTool(change ...func(*outriggerv1.RegisterToolRequest)) *outriggerv1.RegisterToolRequest {
	r := &outriggerv1.RegisterToolRequest{
		Name: "desk.repeat", Description: "Says a word again. Short words only.",
		InputSchemaForm: &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(repeatSchema)},
		Binding:         &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

const repeatSchema = `{"type":"object","properties":{"nonce":{"maxLength":5,"type":"string"}},"required":["nonce"],"additionalProperties":false}`

// register registers over one protocol.
func (s *station) register(t *testing.T, r *outriggerv1.RegisterToolRequest) (*outriggerv1.RegisterToolResponse, error) {
	t.Helper()
	resp, err := operatorWays()["gRPC"](t, s.admin).RegisterTool(t.Context(), connect.NewRequest(r))
	if err != nil {
		return nil, err
	}
	return resp.Msg, nil
}

func TestEveryProtocolRegisters(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	number := 0
	for name, client := range operatorWays() {
		number++
		r := echoTool(func(r *outriggerv1.RegisterToolRequest) { r.Name = fmt.Sprintf("desk.repeat_%d", number) })
		for _, want := range []bool{true, false} {
			resp, err := client(t, s.admin).RegisterTool(t.Context(), connect.NewRequest(r))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if tool := resp.Msg.GetTool(); resp.Msg.GetCreated() != want || tool.GetName() != r.GetName() || string(tool.GetInputSchemaJson()) != repeatSchema ||
				string(tool.GetCanonicalInputSchemaJson()) != repeatSchema || tool.GetBinding().GetMethod() != "Echo" {
				t.Errorf("%s: created %v, tool %v", name, resp.Msg.GetCreated(), tool)
			}
		}
		got, err := client(t, s.admin).GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: r.GetName()}))
		if err != nil || got.Msg.GetName() != r.GetName() {
			t.Errorf("%s: get: %v", name, err)
		}
		list, err := client(t, s.admin).ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
		if err != nil || !slices.ContainsFunc(list.Msg.GetTools(), func(t *outriggerv1.Tool) bool { return t.GetName() == r.GetName() }) {
			t.Errorf("%s: list: %v", name, err)
		}
		if _, err := client(t, s.main).RegisterTool(t.Context(), connect.NewRequest(r)); connect.CodeOf(err) != connect.CodeUnimplemented ||
			!strings.Contains(err.Error(), "on the admin listener only") {
			t.Errorf("%s: the main listener says %v", name, err)
		}
		if _, err := client(t, s.admin).CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.echo"})); connect.CodeOf(err) != connect.CodeUnimplemented ||
			!strings.Contains(err.Error(), "on the main listener") {
			t.Errorf("%s: the admin listener calls: %v", name, err)
		}
	}
	if got := len(s.log.FilterMessage("tool registered").All()); got != 2*number {
		t.Errorf("%d lines of audit, want %d", got, 2*number)
	}
}

func TestEveryMemberOfARegistrationArrives(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	people, err := structpb.NewStruct(map[string]any{"type": "object", "required": []any{"nonce"}, "properties": map[string]any{"nonce": map[string]any{"maxLength": 5}}})
	if err != nil {
		t.Fatal(err)
	}
	output, err := structpb.NewStruct(map[string]any{"type": "object", "title": "Out"})
	if err != nil {
		t.Fatal(err)
	}
	r := &outriggerv1.RegisterToolRequest{
		Name: "desk.repeat", Description: "Says it again.", Title: "Repeat",
		InputSchemaForm:  &outriggerv1.RegisterToolRequest_InputSchema{InputSchema: people},
		OutputSchemaForm: &outriggerv1.RegisterToolRequest_OutputSchema{OutputSchema: output},
		Binding:          &outriggerv1.ToolBinding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
		Metadata:         &outriggerv1.ToolMetadata{Module: "desk", Destructive: true, DeprecatedIn: "3.0", CacheTtl: durationpb.New(0)},
		Annotations:      &outriggerv1.ToolAnnotations{Title: "not this one", OpenWorldHint: new(false)},
		Version:          "1.2.3",
		Execution:        &outriggerv1.ToolExecution{Timeout: durationpb.New(1e9)},
		Examples:         []*outriggerv1.ToolExample{{Name: "one", ArgumentsJson: `{"nonce":"a"}`}},
	}
	resp, err := s.register(t, r)
	if err != nil {
		t.Fatal(err)
	}
	tool := resp.GetTool()
	if tool.GetTitle() != "Repeat" || tool.GetVersion() != "1.2.3" || tool.GetExecution().GetTimeout().GetSeconds() != 1 ||
		string(tool.GetOutputSchemaJson()) != `{"title":"Out","type":"object"}` || tool.GetMcpName() != "desk_repeat" {
		t.Errorf("tool %v", tool)
	}
	if !proto.Equal(tool.GetMetadata(), r.GetMetadata()) {
		t.Errorf("metadata %v", tool.GetMetadata())
	}
	if a := tool.GetAnnotations(); a.GetOpenWorldHint() || !a.GetDestructiveHint() || a.GetReadOnlyHint() {
		t.Errorf("annotations %v", a)
	}
	// Bytes with the same meaning are the same registration.
	again := proto.CloneOf(r)
	again.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchemaJson{
		InputSchemaJson: []byte("{ \"type\": \"object\",\n\"properties\": {\"nonce\": {\"maxLength\": 5}}, \"required\": [\"nonce\"]}")}
	if resp, err := s.register(t, again); err != nil || resp.GetCreated() {
		t.Errorf("again: %v, %v", resp.GetCreated(), err)
	}
}

func TestRefusedRegistrationsAreCanonicalErrors(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{Adjust: server.Adjust{Catalog: func(o *catalog.LiveOptions) { o.Build.Limits.MaxRegistrations = 1 }}})
	if _, err := s.register(t, echoTool()); err != nil {
		t.Fatal(err)
	}
	set := func(change func(*outriggerv1.RegisterToolRequest)) *outriggerv1.RegisterToolRequest {
		return echoTool(change)
	}
	for name, tt := range map[string]struct {
		r       *outriggerv1.RegisterToolRequest
		want    connect.Code
		code    errmap.Code
		message string
		paths   []string
	}{
		"another schema": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object"}`)}
		}), connect.CodeAlreadyExists, errmap.RegistrationConflict, "Tool already registered with a different schema: ", []string{"input_schema"}},
		"another description": {set(func(r *outriggerv1.RegisterToolRequest) { r.Description = "x" }),
			connect.CodeAlreadyExists, errmap.RegistrationConflict, "Tool already registered: /description: ", []string{"description"}},
		"a lower version": {set(func(r *outriggerv1.RegisterToolRequest) { r.Version = "0.9.0" }),
			connect.CodeAlreadyExists, errmap.RegistrationConflict, "; raise the version above 1.0.0 to replace it", []string{"version"}},
		"a derived tool's name": {set(func(r *outriggerv1.RegisterToolRequest) { r.Name = "lab.echo" }),
			connect.CodeAlreadyExists, errmap.RegistrationConflict, "belongs to the tool lab.echo", []string{"name"}},
		"no schema": {set(func(r *outriggerv1.RegisterToolRequest) { r.InputSchemaForm = nil }),
			connect.CodeInvalidArgument, errmap.RegistrationInvalid, "Invalid tool registration: /input_schema: ", []string{"input_schema"}},
		"an empty schema": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchemaJson{}
		}), connect.CodeInvalidArgument, errmap.RegistrationInvalid, "does not compile", []string{"input_schema"}},
		"a schema that does not compile": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":1}`)}
		}), connect.CodeInvalidArgument, errmap.RegistrationInvalid, "does not compile", []string{"input_schema"}},
		"a number that is none": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchema{InputSchema: &structpb.Struct{
				Fields: map[string]*structpb.Value{"minimum": structpb.NewNumberValue(math.NaN())},
			}}
		}), connect.CodeInvalidArgument, errmap.RegistrationInvalid, "", []string{"input_schema"}},
		"an output that is no object": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.OutputSchemaForm = &outriggerv1.RegisterToolRequest_OutputSchemaJson{OutputSchemaJson: []byte(`{"type":"string"}`)}
		}), connect.CodeInvalidArgument, errmap.RegistrationInvalid, "not an object schema", []string{"output_schema.type"}},
		"nothing": {&outriggerv1.RegisterToolRequest{}, connect.CodeInvalidArgument, errmap.RegistrationInvalid, "a tool needs a name",
			[]string{"binding", "description", "input_schema", "name"}},
		"rules of the contract": {set(func(r *outriggerv1.RegisterToolRequest) {
			r.Version, r.Binding.Method, r.Execution = "1", "Nope", &outriggerv1.ToolExecution{TaskSupport: "maybe"}
		}), connect.CodeInvalidArgument, errmap.RegistrationInvalid, "the methods of the service are", []string{"binding", "execution.task_support", "version"}},
		"a streaming RPC": {set(func(r *outriggerv1.RegisterToolRequest) { r.Name, r.Binding.Method = "desk.relay", "Relay" }),
			connect.CodeInvalidArgument, errmap.RegistrationInvalid, "streaming", []string{"binding"}},
		"one too many": {set(func(r *outriggerv1.RegisterToolRequest) { r.Name = "desk.second" }),
			connect.CodeResourceExhausted, errmap.ResourceExhausted, "1 tools are registered", []string{""}},
	} {
		_, err := s.register(t, tt.r)
		code, paths := whyRefused(t, err)
		if connect.CodeOf(err) != tt.want || code != tt.code || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%s: %s: %v", name, code, err)
		}
		if diff := cmp.Diff(tt.paths, paths); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	lines := s.log.FilterMessage("registration refused").All()
	if len(lines) != 13 {
		t.Fatalf("%d lines of audit", len(lines))
	}
	for _, line := range lines {
		if fields := line.ContextMap(); fields["outrigger.caller"] == nil || fields["outrigger.error.code"] == nil || fields["binding"] == nil {
			t.Errorf("line %v", fields)
		}
	}
}

// TestOversizeRegistrationsAreRefused sends more than a schema may have, and more than
// the listener reads.
func TestOversizeRegistrationsAreRefused(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	for size, want := range map[int]connect.Code{
		3 << 20: 0, 4<<20 + 1: connect.CodeInvalidArgument, defaults.MaxMessageBytes: connect.CodeResourceExhausted,
	} {
		raw := `{"type":"object","title":"` + strings.Repeat("x", size-28) + `"}`
		_, err := s.register(t, echoTool(func(r *outriggerv1.RegisterToolRequest) {
			r.InputSchemaForm = &outriggerv1.RegisterToolRequest_InputSchemaJson{InputSchemaJson: []byte(raw)}
		}))
		if want == 0 && err != nil || want != 0 && connect.CodeOf(err) != want {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
}

// TestManyOperatorsRegisterAtOnce has one of each name be the first, and the highest version win.
func TestManyOperatorsRegisterAtOnce(t *testing.T) {
	t.Parallel()
	s := openStation(t, mcptest.Options{})
	client := operatorWays()["gRPC"](t, s.admin)
	var all sync.WaitGroup
	var mu sync.Mutex
	created := map[string]int{}
	replaced := 0
	for i := range 4 {
		all.Go(func() {
			for j := range 10 {
				name := fmt.Sprintf("desk.n%d", j)
				resp, err := client.RegisterTool(t.Context(), connect.NewRequest(echoTool(func(r *outriggerv1.RegisterToolRequest) {
					r.Name = name
					if i == 0 {
						r.Version = "2.0.0"
					}
				})))
				mu.Lock()
				switch {
				case connect.CodeOf(err) == connect.CodeAlreadyExists && i > 0:
				case err != nil:
					t.Error(err)
				case resp.Msg.GetCreated():
					created[name]++
				case resp.Msg.GetReplacedVersion() != "":
					replaced++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for name, n := range created {
		if n != 1 {
			t.Errorf("%s was created %d times", name, n)
		}
	}
	if len(created) != 10 || replaced > 10 {
		t.Errorf("%d names, %d replaced", len(created), replaced)
	}
	for name := range created {
		if tool, ok := s.live.Current().Lookup(name); !ok || tool.Version != "2.0.0" {
			t.Errorf("%s does not have the highest version", name)
		}
	}
}

func TestRegistrationWithoutACatalogIsUnavailable(t *testing.T) {
	t.Parallel()
	live := catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{})
	b := inFront(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}))
	api := connectapi.New(b.bridge, b.rpc, connectapi.Options{})
	mux := http.NewServeMux()
	mux.Handle(api.AdminHandler(live, connectapi.AdminOptions{Wait: 1}))
	client := outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), mcptest.Serve(t, mux), connect.WithGRPC())
	_, err := client.RegisterTool(t.Context(), connect.NewRequest(echoTool()))
	if code, _ := whyRefused(t, err); code != errmap.Unavailable || connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%s: %v", code, err)
	}
	resp, err := http.Get(mcptest.Serve(t, mux) + "/outrigger.v1.ToolService/Nope") //nolint:noctx // A page that is not there.
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 != 4 && resp.StatusCode != http.StatusNotImplemented {
		t.Errorf("status %d", resp.StatusCode)
	}
}
