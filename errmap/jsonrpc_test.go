// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func mustAny(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestData(t *testing.T) {
	t.Parallel()
	info := mustAny(t, &errdetails.ErrorInfo{Reason: "NO_STOCK", Domain: "shop", Metadata: map[string]string{"b": "2", "a": "1"}})
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/shop.v1.Why", Value: []byte{1, 2}}
	tests := []struct {
		name  string
		e     *Error
		about About
		want  string
	}{
		{"least", New(ParseError), About{},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":null}`},
		{"string id", New(ParseError), About{RequestID: json.RawMessage(`"a\u0062"`)},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":"a\u0062"}`},
		{"largest int64 as id", New(ParseError), About{RequestID: json.RawMessage(`9223372036854775807`)},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":9223372036854775807}`},
		{"negative id", New(ParseError), About{RequestID: json.RawMessage(`-1`)},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":-1}`},
		{"an id that is no id", New(ParseError), About{RequestID: json.RawMessage(`{"x":1}`)},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":null}`},
		{"an id that is no JSON", New(ParseError), About{RequestID: json.RawMessage(`"x`)},
			`{"code":"PARSE_ERROR","errorType":"ValidationError","retryable":false,"requestId":null}`},
		{"idempotent", New(Timeout, Tool("a.b")), About{Idempotent: true},
			`{"code":"TIMEOUT","errorType":"TimeoutError","retryable":true,"requestId":null,"tool":"a.b"}`},
		{"wait", New(RateLimited, RetryAfter(1500*time.Millisecond)), About{},
			`{"code":"RATE_LIMITED","errorType":"ApiLimitExceeded","retryable":true,"retryAfterMs":1500,"requestId":null}`},
		{"a wait of less than a millisecond", New(RateLimited, RetryAfter(1)), About{},
			`{"code":"RATE_LIMITED","errorType":"ApiLimitExceeded","retryable":true,"retryAfterMs":1,"requestId":null}`},
		{"a negative wait", New(RateLimited, RetryAfter(-time.Hour)), About{},
			`{"code":"RATE_LIMITED","errorType":"ApiLimitExceeded","retryable":true,"requestId":null}`},
		{"a wait of years", New(RateLimited, RetryAfter(1<<62)), About{},
			`{"code":"RATE_LIMITED","errorType":"ApiLimitExceeded","retryable":true,"retryAfterMs":86400000,"requestId":null}`},
		{"all members", New(ToolExecutionFailed, BackendCode("not_found"), RetryAfter(time.Second), Tool("shop.get"),
			WithViolations(Violation{"/a/0/b", "minimum", `must be "1"`}), Details(info, unknown)),
			About{RequestID: json.RawMessage(`1`)},
			`{"code":"TOOL_EXECUTION_FAILED","errorType":"ResourceNotFound","retryable":true,"retryAfterMs":1000,"requestId":1,` +
				`"tool":"shop.get","violations":[{"path":"/a/0/b","keyword":"minimum","message":"must be \"1\""}],` +
				`"backendCode":"not_found","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"NO_STOCK",` +
				`"domain":"shop","metadata":{"a":"1","b":"2"}},{"@type":"type.googleapis.com/shop.v1.Why","value":"AQI="}]}`},
		{"hostile strings", New(InvalidToolInput, Tool("a\"\\\n\x00\u2028\xff"), WithViolations(Violation{Path: "/\t\"", Message: "<\xc3>"})),
			About{}, `{"code":"INVALID_TOOL_INPUT","errorType":"SchemaError","retryable":false,"requestId":null,` +
				`"tool":"a\"\\ ` + "\u2028\uFFFD" + `","violations":[{"path":"/ \"","keyword":"","message":"<` + "\uFFFD" + `>"}]}`},
		{"a backend code that is none", New(ToolExecutionFailed, BackendCode("code_42")), About{},
			`{"code":"TOOL_EXECUTION_FAILED","errorType":"ToolExecutionError","retryable":false,"requestId":null,"backendCode":"unknown"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := string(tt.e.Data(tt.about))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !json.Valid([]byte(got)) {
				t.Error("not JSON")
			}
			if again := string(tt.e.AppendData([]byte("x"), tt.about)); again != "x"+got {
				t.Errorf("AppendData: %s", again)
			}
		})
	}
}

func TestDataBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("数", 1<<16)
	violations := make([]Violation, 10*maxViolations)
	for i := range violations {
		violations[i] = Violation{long, long, long}
	}
	e := New(InvalidToolInput, Tool(long), WithViolations(violations...))
	data := e.Data(About{})
	var out struct {
		Tool       string
		Violations []Violation
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Violations) != maxViolations || len(out.Violations[0].Path) > maxViolationBytes || len(out.Tool) > maxNameBytes {
		t.Errorf("%d violations, paths of %d bytes, a tool of %d", len(out.Violations), len(out.Violations[0].Path), len(out.Tool))
	}
	if !strings.HasSuffix(out.Tool, "…") {
		t.Error("a cut name does not show that it is cut")
	}
	if limit := maxTextViolations*2*maxViolationBytes + 2048; len(e.MCP(Modern, About{ToolCall: true}).Text) > limit {
		t.Error("the text has no bound")
	}
	if size := connectSize(ToConnect(e, About{})); size > 32<<10 {
		t.Errorf("the details of the Connect error have %d bytes", size)
	}
}

// The canonical dialect sends code, message and status of the row; a fixed row keeps its message.
func TestJSONRPC(t *testing.T) {
	t.Parallel()
	for _, code := range Codes() {
		row, err := Lookup(code)
		if err != nil {
			t.Fatal(err)
		}
		plain := New(code).JSONRPC(About{})
		if plain.Code != row.JSONRPC || plain.Message != row.Message || plain.HTTPStatus != row.HTTP || plain.Form != ProtocolError {
			t.Errorf("%s: %+v", code, plain)
		}
		special := New(code, Message("Something special"), Tool("a.b")).JSONRPC(About{})
		if want := row.Message; row.Fixed && special.Message != want {
			t.Errorf("%s: message %q, the contract says %q", code, special.Message, want)
		} else if !row.Fixed && special.Message != "Something special" {
			t.Errorf("%s: message %q", code, special.Message)
		}
		if !json.Valid(plain.Data) || !strings.HasPrefix(string(plain.Data), `{"code":"`+string(code)+`"`) {
			t.Errorf("%s: data %s", code, plain.Data)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		r    Reply
		want http.Header
	}{
		{"rate limit, wait unknown", New(RateLimited).MCP(Modern, About{}), http.Header{"Retry-After": {"1"}}},
		{"rate limit, rounded up", New(RateLimited, RetryAfter(1001*time.Millisecond)).MCP(Legacy, About{}), http.Header{"Retry-After": {"2"}}},
		{"rate limit of a call is a success on HTTP", New(RateLimited).MCP(Modern, About{ToolCall: true}), http.Header{}},
		{"unavailable", New(Unavailable).MCP(Modern, About{}), http.Header{"Retry-After": {"1"}}},
		{"canonical", New(Unavailable).JSONRPC(About{ToolCall: true}), http.Header{"Retry-After": {"1"}}},
		{"timeout", New(Timeout).JSONRPC(About{}), http.Header{}},
		{"401", New(Unauthenticated).MCP(Modern, About{}), http.Header{"Www-Authenticate": {"Bearer"}}},
		{"401 with a challenge", New(Unauthenticated, Challenge(`Bearer scope="x"`)).JSONRPC(About{}), http.Header{"Www-Authenticate": {`Bearer scope="x"`}}},
		{"403 for a scope", New(PermissionDenied, Challenge("Bearer a\r\nX: y")).MCP(Modern, About{ToolCall: true}), http.Header{"Www-Authenticate": {"Bearer aX: y"}}},
		{"a challenge on another code", New(Timeout, Challenge("Bearer")).JSONRPC(About{}), http.Header{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			tt.r.SetHeaders(h)
			if diff := cmp.Diff(tt.want, h); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAppendDetail(t *testing.T) {
	t.Parallel()
	e := New(Timeout, Tool("a.b"), Message("took 30 s"))
	got := string(e.AppendDetail(nil, About{RequestID: json.RawMessage("1")}))
	want := `{"error_type":"TimeoutError","error_message":"took 30 s","error_details":` +
		`{"code":"TIMEOUT","errorType":"TimeoutError","retryable":false,"requestId":1,"tool":"a.b"}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	detail := e.Detail(About{RequestID: json.RawMessage("1")})
	if detail.GetErrorType() != "TimeoutError" || detail.GetErrorMessage() != "took 30 s" ||
		!strings.HasSuffix(want, string(detail.GetErrorDetailsJson())+"}") {
		t.Errorf("%v", detail)
	}
}
