// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
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
				RequiredCapabilities: &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}},
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
		{"not JSON", `{`, `{}`},
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

// TestDetailsHaveOneEncoding: equal errors are equal bytes, though metadata is a map.
func TestDetailsHaveOneEncoding(t *testing.T) {
	t.Parallel()
	encode := func() (out [][]byte) {
		failed := New(InvalidToolInput, Tool("lab.echo"), WithViolations(Violation{Path: "/a", Keyword: "type", Message: "must be a string"}))
		for _, detail := range ToConnect(failed, About{}).Details() {
			out = append(out, detail.Bytes())
		}
		return out
	}
	want := encode()
	for range 50 { // the order of a map of three would be the same by chance in one of six
		if diff := cmp.Diff(want, encode()); diff != "" {
			t.Fatalf("-first +another:\n%s", diff)
		}
	}
}
