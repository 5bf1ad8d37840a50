// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

func connectSize(err *connect.Error) int {
	size := len(err.Message())
	for _, d := range err.Details() {
		size += len(d.Bytes())
	}
	return size
}

// findDetail returns the first detail of the type of m, false where there is none.
func findDetail(t *testing.T, err *connect.Error, m proto.Message) bool {
	t.Helper()
	for _, d := range err.Details() {
		if d.Type() != string(m.ProtoReflect().Descriptor().FullName()) {
			continue
		}
		if err := proto.Unmarshal(d.Bytes(), m); err != nil {
			t.Fatal(err)
		}
		return true
	}
	return false
}

// Every code goes out with its Connect code and comes back as itself, with all that a caller needs.
func TestConnectRoundTrip(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			yes := true
			e := &Error{
				Code: code, Message: "what happened", ErrorType: "OwnError", Retryable: &yes, RetryAfter: 3 * time.Second, Tool: "a.b",
				Violations: []Violation{{"/a/0/b", "minimum", "must be at least 1"}}, URI: "file:///x", Requested: "2030-01-01",
				RequiredCapabilities: json.RawMessage(`{"elicitation":{"form":{}}}`),
			}
			row, err := Lookup(code)
			if err != nil {
				t.Fatal(err)
			}
			if row.ByBackend {
				e.BackendCode, e.Violations = "aborted", nil
				e.Details = []*anypb.Any{mustAny(t, &errdetails.ErrorInfo{Reason: "R", Domain: "shop"}), mustAny(t, &errdetails.RetryInfo{RetryDelay: durationpb.New(3 * time.Second)})}
			}
			out := ToConnect(e, About{RequestID: json.RawMessage("7")})
			if want := row.Connect; !row.ByBackend && out.Code() != want || row.ByBackend && out.Code() != connect.CodeAborted {
				t.Errorf("Connect code %s", out.Code())
			}
			var info errdetails.ErrorInfo
			if !findDetail(t, out, &info) || info.GetReason() != string(code) || info.GetDomain() != "outrigger.dev" || info.GetMetadata()["requestId"] != "7" {
				t.Errorf("ErrorInfo %v", &info)
			}
			var detail outriggerv1.ErrorDetail
			if !findDetail(t, out, &detail) || detail.GetErrorType() != "OwnError" || !json.Valid(detail.GetErrorDetailsJson()) {
				t.Errorf("ErrorDetail %v", &detail)
			}
			want := *e
			switch code {
			case InternalError:
				want.Message = ""
			case ToolNotFound:
				want.Message = "Unknown tool: a.b"
			}
			if code != MissingClientCapability {
				want.RequiredCapabilities = nil
			}
			back := FromConnect(out)
			if diff := cmp.Diff(&want, back, protocmp.Transform(), cmpopts.IgnoreUnexported(Error{})); diff != "" {
				t.Errorf("-sent +received:\n%s", diff)
			}
		})
	}
}

// A bare code round trips too, and a second sidecar sends the same as the first.
func TestConnectRoundTripBare(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		first := New(code).JSONRPC(About{})
		second := FromConnect(ToConnect(New(code), About{})).JSONRPC(About{})
		if code == ToolExecutionFailed {
			first = New(code, BackendCode("unknown")).JSONRPC(About{}) // it takes the code that it came with
		}
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%s: -first +second:\n%s", code, diff)
		}
	}
}

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
			if tt.name == "unknown" && tt.code != connect.CodeUnknown {
				wantCode, wantText = connect.CodeUnknown, "it broke (unknown status code "+strings.TrimPrefix(tt.code.String(), "code_")+")"
			}
			if out := ToConnect(e, About{}); out.Code() != wantCode || out.Message() != wantText {
				t.Errorf("%d goes on as %s %q", tt.code, out.Code(), out.Message())
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
	deep := structpb.NewNullValue()
	for range 200 {
		deep = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{deep, structpb.NewStringValue("token=hunter2")}})
	}
	if shown := everything(t, FromBackendStatus(connect.CodeInternal, "", []*anypb.Any{mustAny(t, deep)})); strings.Contains(shown, "hunter2") {
		t.Error("a secret below the depth of the walk passed")
	}
}

func TestConnectHeaders(t *testing.T) {
	t.Parallel()
	if got := ToConnect(New(Unavailable), About{}).Meta().Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	if got := ToConnect(New(Unauthenticated), About{}).Meta().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate %q", got)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"none", `{}`, `{}`},
		{"elicitation without members is form", `{"elicitation":{}}`, `{"elicitation":{"form":{}}}`},
		{"elicitation by url", `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`},
		{"sampling", `{"sampling":{"tools":{},"context":{}}}`, `{"sampling":{"tools":{},"context":{}}}`},
		{"roots", `{"roots":{}}`, `{"roots":{}}`},
		{"extensions", `{"extensions":{"b/c":{"x": 1},"a/b":{}}}`, `{"extensions":{"a/b":{},"b/c":{"x":1}}}`},
		{"tasks", `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{"experimental", `{"experimental":{"a":{}}}`, `{"experimental":{"a":{}}}`},
		{"no object", `[1]`, `{}`},
		{"no JSON", `{`, `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(capabilitiesJSON(capabilitiesMessage(json.RawMessage(tt.in)))); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
	people, err := structpb.NewStruct(map[string]any{"a/b": map[string]any{"n": 1}})
	if err != nil {
		t.Fatal(err)
	}
	c := &outriggerv1.ClientCapabilities{Tasks: true, ExtensionsForm: &outriggerv1.ClientCapabilities_Extensions{Extensions: people}}
	if got, want := string(capabilitiesJSON(c)), `{"extensions":{"a/b":{"n":1},"io.modelcontextprotocol/tasks":{}}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whatever status and details a peer sends, every conversion gives something well-formed with a code of the table.
func FuzzFromConnect(f *testing.F) {
	info, err := proto.Marshal(&errdetails.ErrorInfo{Reason: "TIMEOUT", Domain: Domain, Metadata: map[string]string{"retryable": "true", "tool": "x"}})
	if err != nil {
		f.Fatal(err)
	}
	bad, err := proto.Marshal(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "/a", Description: "b"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint32(4), "m", "type.googleapis.com/google.rpc.ErrorInfo", info, "type.googleapis.com/google.rpc.BadRequest", bad)
	f.Add(uint32(0), "", "", []byte{}, "x/outrigger.v1.ErrorDetail", []byte("\x0a\x01E\x22\x02{}"))
	f.Add(uint32(99), "password=x", "x/google.protobuf.Value", []byte("\x1a\x01a"), "x/google.protobuf.Any", []byte("\x0a\x01a"))
	f.Add(uint32(9), "\xff", "x/outrigger.v1.MissingCapabilities", []byte("\x0a\x02\x20\x01"), "google.rpc.RetryInfo", []byte("\x0a\x02\x08\x01"))
	f.Fuzz(func(t *testing.T, code uint32, message, url1 string, value1 []byte, url2 string, value2 []byte) {
		details := []*anypb.Any{{TypeUrl: url1, Value: value1}, {TypeUrl: url2, Value: value2}}
		e := FromBackendStatus(connect.Code(code), message, details)
		if _, err := Lookup(e.Code); err != nil {
			t.Fatal(err)
		}
		for _, era := range []Era{Modern, Legacy} {
			r := e.MCP(era, About{ToolCall: true})
			checkReply(t, "MCP", r)
			if r.Form == Silent {
				t.Error("a backend can silence the sidecar")
			}
		}
		checkReply(t, "canonical", e.JSONRPC(About{}))
		out := ToConnect(e, About{})
		if !isBackendCode(out.Code()) {
			t.Errorf("Connect code %d", out.Code())
		}
		if back := FromConnect(out); back.Code != e.Code {
			t.Errorf("%s came back as %s", e.Code, back.Code)
		}
	})
}
