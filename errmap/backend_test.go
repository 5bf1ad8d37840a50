// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Every code of Connect, and numbers that it does not define, as a backend's status.
func TestBackendCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code connect.Code
		name string
		http int
		kind string
	}{
		{1, "canceled", 499, TypeToolExecution},
		{2, "unknown", 500, TypeToolExecution},
		{3, "invalid_argument", 400, TypeValidation},
		{4, "deadline_exceeded", 504, TypeTimeout},
		{5, "not_found", 404, TypeResourceNotFound},
		{6, "already_exists", 409, TypeToolExecution},
		{7, "permission_denied", 403, TypePermission},
		{8, "resource_exhausted", 429, TypeAPILimitExceeded},
		{9, "failed_precondition", 400, TypeValidation},
		{10, "aborted", 409, TypeToolExecution},
		{11, "out_of_range", 400, TypeValidation},
		{12, "unimplemented", 501, TypeToolExecution},
		{13, "internal", 500, TypeToolExecution},
		{14, "unavailable", 503, TypeToolExecution},
		{15, "data_loss", 500, TypeToolExecution},
		{16, "unauthenticated", 401, TypeAuthentication},
		{0, "unknown", 500, TypeToolExecution},
		{17, "unknown", 500, TypeToolExecution},
		{4294967295, "unknown", 500, TypeToolExecution},
	}
	for _, tt := range tests {
		for _, e := range []*Error{
			FromBackendStatus(tt.code, "it broke", nil),
			FromConnect(connect.NewError(tt.code, errors.New("it broke"))),
			FromBackend(connect.NewError(tt.code, errors.New("it broke"))),
		} {
			if e.Code != ToolExecutionFailed || e.BackendCode != tt.name || e.HTTPStatus() != tt.http || e.Type() != tt.kind || !e.FromTool() {
				t.Errorf("%d: %s %s %d %s", tt.code, e.Code, e.BackendCode, e.HTTPStatus(), e.Type())
			}
			wantCode, wantText := tt.code, "it broke"
			wantStatus := uint32(0)
			switch {
			case tt.code == 17: // a number that gRPC can carry on
				wantCode, wantStatus = connect.CodeUnknown, 17
			case tt.name == "unknown" && tt.code != connect.CodeUnknown:
				wantCode, wantText = connect.CodeUnknown, "it broke (unknown status code "+strings.TrimPrefix(tt.code.String(), "code_")+")"
			}
			if out := ToConnect(e, About{}); out.Code() != wantCode || out.Message() != wantText {
				t.Errorf("%d goes on as %s %q", tt.code, out.Code(), out.Message())
			}
			if e.BackendStatus != wantStatus || strings.Contains(string(e.Data(About{})), `"backendStatus":17`) != (wantStatus == 17) {
				t.Errorf("%d keeps the number %d: %s", tt.code, e.BackendStatus, e.Data(About{}))
			}
			if back := FromConnect(ToConnect(e, About{})); back.BackendStatus != wantStatus {
				t.Errorf("%d comes out of another sidecar with the number %d", tt.code, back.BackendStatus)
			}
		}
	}
	if got := FromBackendStatus(99, "", nil).Message; got != "Tool service answered with unknown status code 99" {
		t.Errorf("no message: %q", got)
	}
}

func TestFromBackend(t *testing.T) {
	t.Parallel()
	file := mustAny(t, &errdetails.ResourceInfo{ResourceType: "File", ResourceName: "/x"})
	table := mustAny(t, &errdetails.ResourceInfo{ResourceType: "table"})
	retry := mustAny(t, &errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Second)})
	native := mustAny(t, &outriggerv1.ErrorDetail{ErrorType: "StockError", ErrorMessage: "m"})
	noType := mustAny(t, &outriggerv1.ErrorDetail{ErrorType: "not a type", ErrorMessage: "m"})
	missing := mustAny(t, &outriggerv1.MissingCapabilities{RequiredCapabilities: &outriggerv1.ClientCapabilities{
		Tasks: true, Sampling: &outriggerv1.SamplingCapability{Tools: true}, Roots: &outriggerv1.RootsCapability{ListChanged: true},
	}})
	own := func(code Code) *anypb.Any {
		return mustAny(t, &errdetails.ErrorInfo{Reason: string(code), Domain: Domain, Metadata: map[string]string{"retryable": "true"}})
	}
	tests := []struct {
		name    string
		code    connect.Code
		details []*anypb.Any
		want    Code
		kind    string
		backend string
		retry   bool
	}{
		{"plain", connect.CodeNotFound, nil, ToolExecutionFailed, TypeResourceNotFound, "not_found", false},
		{"a file", connect.CodeNotFound, []*anypb.Any{table, file}, ToolExecutionFailed, TypeFileNotFound, "not_found", false},
		{"a table", connect.CodeNotFound, []*anypb.Any{table}, ToolExecutionFailed, TypeResourceNotFound, "not_found", false},
		{"a file that is not missing", connect.CodeInternal, []*anypb.Any{file}, ToolExecutionFailed, TypeToolExecution, "internal", false},
		{"asks for a retry", connect.CodeInternal, []*anypb.Any{retry}, ToolExecutionFailed, TypeToolExecution, "internal", true},
		{"declares a type", connect.CodeNotFound, []*anypb.Any{native, file}, ToolExecutionFailed, "StockError", "not_found", false},
		{"declares no type", connect.CodeNotFound, []*anypb.Any{noType}, ToolExecutionFailed, TypeResourceNotFound, "not_found", false},
		{"a sidecar behind", connect.CodeUnavailable, []*anypb.Any{own(Unavailable)}, Unavailable, TypeTransport, "", true},
		{"says it may be retried", connect.CodeDeadlineExceeded, []*anypb.Any{own(Timeout)}, Timeout, TypeTimeout, "", true},
		{"a code that we do not know", connect.CodeInternal, []*anypb.Any{own("NEW_CODE")}, ToolExecutionFailed, TypeToolExecution, "internal", false},
		{"our connection's fault", connect.CodeInvalidArgument, []*anypb.Any{own(InvalidEnvelope)}, ToolExecutionFailed, TypeValidation, "invalid_argument", false},
		{"our credentials", connect.CodeUnauthenticated, []*anypb.Any{own(Unauthenticated)}, ToolExecutionFailed, TypeAuthentication, "unauthenticated", false},
		{"cancelled over there", connect.CodeCanceled, []*anypb.Any{own(Cancelled)}, ToolExecutionFailed, TypeToolExecution, "canceled", false},
		{"missing capabilities", connect.CodeFailedPrecondition, []*anypb.Any{missing}, MissingClientCapability, TypeValidation, "", false},
		{"missing capabilities with another code", connect.CodeInternal, []*anypb.Any{missing}, ToolExecutionFailed, TypeToolExecution, "internal", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := FromBackendStatus(tt.code, "m", tt.details)
			if e.Code != tt.want || e.Type() != tt.kind || e.BackendCode != tt.backend || e.CanRetry(false) != tt.retry {
				t.Errorf("%s %s %q %v", e.Code, e.Type(), e.BackendCode, e.CanRetry(false))
			}
			if e.MCP(Modern, About{ToolCall: true}).Form == Silent {
				t.Error("the caller gets no answer")
			}
		})
	}
	e := FromBackendStatus(connect.CodeFailedPrecondition, "m", []*anypb.Any{missing})
	want := `{"requiredCapabilities":{"sampling":{"tools":{}},"roots":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	if got := string(e.MCP(Modern, About{ToolCall: true}).Data); got != want {
		t.Errorf("data %s, want %s", got, want)
	}
	if FromBackend(nil) != nil || FromConnect(nil) != nil {
		t.Error("nil is an error")
	}
}

// What a backend lets slip does not pass: messages and the strings of known details are redacted, DebugInfo is dropped.
func TestBackendSecrets(t *testing.T) {
	t.Parallel()
	metadata, err := structpb.NewStruct(map[string]any{"password": "hunter2", "n": 1})
	if err != nil {
		t.Fatal(err)
	}
	plain := mustAny(t, &errdetails.ErrorInfo{Reason: "R", Domain: "shop", Metadata: map[string]string{"order": "7"}})
	details := []*anypb.Any{
		nil,
		mustAny(t, &errdetails.DebugInfo{StackEntries: []string{"hunter2"}, Detail: "hunter2"}),
		mustAny(t, &errdetails.ErrorInfo{Reason: "R", Domain: "shop", Metadata: map[string]string{"api_key": "hunter2", "x": "Bearer hunter2"}}),
		mustAny(t, &errdetails.LocalizedMessage{Message: "postgres://u:hunter2@db"}),
		mustAny(t, &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "f", Description: "password=hunter2"}}}),
		mustAny(t, &errdetails.Help{Links: []*errdetails.Help_Link{{Url: "https://u:hunter2@h/x"}}}),
		mustAny(t, &errdetails.PreconditionFailure{Violations: []*errdetails.PreconditionFailure_Violation{{Subject: "token=hunter2"}}}),
		mustAny(t, metadata),
		mustAny(t, &outriggerv1.ErrorDetail{ErrorType: "E", ErrorMessage: "secret=hunter2",
			ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetailsJson{ErrorDetailsJson: []byte(`{"a":[{"token":"hunter2"}],"n":18446744073709551615}`)}}),
		{TypeUrl: "type.googleapis.com/google.rpc.ErrorInfo", Value: []byte("\x0a\xffhunter2")},
		plain,
	}
	e := FromBackendStatus(connect.CodeInternal, "login failed: password=hunter2\n\ngoroutine 1 [running]:\nmain.main()", details)
	shown := everything(t, e) + e.Error()
	if strings.Contains(shown, "hunter2") || strings.Contains(shown, "goroutine") || strings.Contains(shown, "DebugInfo") {
		t.Errorf("a secret passed: %s", shown)
	}
	if !strings.Contains(shown, "18446744073709551615") {
		t.Error("a 64-bit number lost its digits")
	}
	last := e.Details[len(e.Details)-1]
	if last != plain {
		t.Errorf("a detail without secrets was rewritten: %v", last)
	}
}

func TestDetailBounds(t *testing.T) {
	t.Parallel()
	small := make([]*anypb.Any, 10*maxDetails)
	for i := range small {
		small[i] = mustAny(t, &errdetails.LocalizedMessage{Locale: "en"})
	}
	if e := FromBackendStatus(connect.CodeInternal, "", small); len(e.Details) != maxDetails {
		t.Errorf("%d details are kept", len(e.Details))
	}
	if n := strings.Count(string(New(ToolExecutionFailed, Details(small...)).Data(About{})), "@type"); n != maxDetails {
		t.Errorf("%d details are shown", n)
	}
	large := []*anypb.Any{{TypeUrl: "x/y.Z", Value: make([]byte, maxDetailBytes-5)}, {TypeUrl: "x/y.Z", Value: []byte{1}}}
	e := FromBackendStatus(connect.CodeInternal, "", large)
	if len(e.Details) != 1 {
		t.Errorf("%d details are kept of %d bytes", len(e.Details), maxDetailBytes)
	}
	if data := e.Data(About{}); len(data) > maxDetailsJSON+1024 || !json.Valid(data) {
		t.Errorf("data of %d bytes", len(data))
	}
	deep := structpb.NewStringValue("leaf-far-below")
	for range 200 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep, structpb.NewStringValue("token=hunter2")}})
	}
	if shown := everything(t, FromBackendStatus(connect.CodeInternal, "", []*anypb.Any{mustAny(t, deep)})); strings.Contains(shown, "hunter2") || strings.Contains(shown, "leaf") {
		t.Error("a string below the depth of the walk passed")
	}
}

// The walk reaches lists of messages, maps of messages and nested messages, and stops at its depth in each.
func TestRedactMessageShapes(t *testing.T) {
	t.Parallel()
	const secret = "token=hunter2"
	types := &descriptorpb.DescriptorProto{Name: proto.String("leaf-far-below")}
	for range 2 * maxDetailDepth {
		types = &descriptorpb.DescriptorProto{Name: proto.String(secret), NestedType: []*descriptorpb.DescriptorProto{types}, ReservedName: []string{"kept", secret}}
	}
	nested, err := structpb.NewStruct(map[string]any{"a": map[string]any{"b": []any{secret, "kept"}, "secret": "hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	fields := &descriptorpb.FieldDescriptorProto{Options: &descriptorpb.FieldOptions{FeatureSupport: &descriptorpb.FieldOptions_FeatureSupport{
		DeprecationWarning: proto.String(secret)}, Targets: []descriptorpb.FieldOptions_OptionTargetType{1}}}
	for _, m := range []proto.Message{types, nested, fields} {
		e := FromBackendStatus(connect.CodeInternal, "m", []*anypb.Any{mustAny(t, m)})
		if len(e.Details) != 1 {
			t.Fatalf("%T: %d details", m, len(e.Details))
		}
		shown := everything(t, e)
		if strings.Contains(shown, "hunter2") || strings.Contains(shown, "leaf") {
			t.Errorf("%T: %s", m, shown)
		}
		if m != proto.Message(fields) && !strings.Contains(shown, "kept") {
			t.Errorf("%T: what is no secret is gone", m)
		}
	}
}
