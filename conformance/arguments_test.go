// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
)

// neutral are the edges of which the arguments are JSON that the caller wrote.
func neutral(edge caller.Edge) bool {
	return !strings.HasPrefix(edge.Name, "typed-") && !strings.HasPrefix(edge.Name, "sdk-")
}

// TestWrongArgumentsNameTheirPlace sends arguments that do not fit over every
// edge: the error points at what is wrong, and the backend is not called.
func TestWrongArgumentsNameTheirPlace(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	digits := strings.Repeat("7", 100_000)
	rows := []struct{ name, tool, args, path string }{
		{"5.5 for an integer", toolEcho, `{"signed":5.5}`, "/signed"},
		{"int64 overflow", toolEcho, `{"signed":9223372036854775808}`, "/signed"},
		{"uint64 overflow as a string", toolEcho, `{"unsigned":"18446744073709551616"}`, "/unsigned"},
		{"negative for unsigned", toolEcho, `{"unsigned":-1}`, "/unsigned"},
		{"1e999", toolEcho, `{"signed":1e999}`, "/signed"},
		{"1e1000001", toolEcho, `{"signed":1e1000001}`, "/signed"},
		{"100,000 digits", toolEcho, `{"signed":` + digits + `}`, "/signed"},
		{"100,000 digits as a string", toolEcho, `{"signed":"` + digits + `"}`, "/signed"},
		{"unknown field", toolEcho, `{"nonsense":1}`, "/nonsense"},
		{"wrong type", toolEcho, `{"nonce":{}}`, "/nonce"},
		{"no base64", toolEcho, `{"payload":"*"}`, "/payload"},
		{"both names of one field", toolFail, `{"code":"FAIL_CODE_INTERNAL","retryDelay":"1s","retry_delay":"1s"}`, "/retry"},
		{"required field missing", toolSleep, `{}`, "/duration"},
		{"rule broken", toolSleep, `{"duration":"601s"}`, "/duration"},
		{"deep inside", toolFail, `{"code":"FAIL_CODE_INTERNAL","details":["FAIL_DETAIL_HELP",{}]}`, "/details/1"},
		{"unknown enum value", toolFail, `{"code":"FAIL_CODE_NONE"}`, "/code"},
	}
	for _, edge := range caller.Edges() {
		if !neutral(edge) {
			continue
		}
		t.Run(edge.Name, func(t *testing.T) {
			t.Parallel()
			agent := edge.Dial(t, target(server, "--demo"))
			defer agent.Close()
			calls := make([]caller.Call, len(rows))
			for i, row := range rows {
				calls[i] = caller.Call{ID: fmt.Sprintf("%q", row.name), Tool: row.tool, Args: row.args}
			}
			for i, got := range agent.CallAll(t.Context(), calls) {
				if got.Fault == nil || got.Fault.Code != "INVALID_TOOL_INPUT" {
					t.Errorf("%s: %v; %v %.100s", rows[i].name, got.Err, got.Fault, got.Data)
				} else if path := firstPath(t, got.Fault); !strings.HasPrefix(path, rows[i].path) {
					t.Errorf("%s: the error points at %q, want %q", rows[i].name, path, rows[i].path)
				}
			}
		})
	}
}

// firstPath is the path of the first violation of a fault, as a JSON Pointer.
func firstPath(t *testing.T, f *caller.Fault) string {
	t.Helper()
	for _, d := range f.Details {
		bad := &errdetails.BadRequest{}
		if d.MessageIs(bad) && d.UnmarshalTo(bad) == nil && len(bad.GetFieldViolations()) > 0 {
			return "/" + strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(bad.GetFieldViolations()[0].GetField())
		}
	}
	var data struct{ Violations []struct{ Path string } }
	if f.Data != nil && json.Unmarshal(f.Data, &data) == nil && len(data.Violations) > 0 {
		return data.Violations[0].Path
	}
	return ""
}

// TestNames calls a tool by both its names and by names that are none.
func TestNames(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo")
	call := func(path, params string) (answer, caller.Reply) {
		t.Helper()
		got := send(t, request(t, http.MethodPost, server.URL(path),
			strings.NewReader(`{"jsonrpc":"2.0","id":"n","method":"tools/call","params":`+params+`}`)))
		return got, reply(t, got.body)
	}
	for _, path := range []string{"/rpc", "/mcp"} {
		for _, name := range []string{"lab.echo", "lab_echo"} {
			if got, r := call(path, `{"name":"`+name+`"}`); got.status != http.StatusOK || r.Error != nil {
				t.Errorf("%s %s: %d %s", path, name, got.status, got.body)
			}
		}
	}
	for name, row := range map[string]struct {
		params string
		status int
		number int64
		code   string
	}{
		"unknown":              {`{"name":"lab.ecko","arguments":{}}`, 404, -32001, "TOOL_NOT_FOUND"},
		"no name":              {`{"arguments":{}}`, 400, -32602, "INVALID_PARAMS"},
		"name is a number":     {`{"name":7}`, 400, -32602, "INVALID_PARAMS"},
		"arguments array":      {`{"name":"lab.echo","arguments":[]}`, 400, -32602, "INVALID_PARAMS"},
		"arguments text":       {`{"name":"lab.echo","arguments":"{}"}`, 400, -32602, "INVALID_PARAMS"},
		"unknown member":       {`{"name":"lab.echo","args":{}}`, 400, -32602, "INVALID_PARAMS"},
		"a version not served": {`{"name":"lab.echo","version":"^99"}`, 404, -32001, "TOOL_NOT_FOUND"},
	} {
		got, r := call("/rpc", row.params)
		if got.status != row.status || r.Error == nil || r.Error.Code != row.number || errorCode(r) != row.code {
			t.Errorf("%s: %d %s, want %d %s", name, got.status, got.body, row.status, row.code)
		}
		if name == "unknown" && !strings.Contains(string(got.body), "lab.echo") {
			t.Errorf("an unknown name gets no nearest ones: %s", got.body)
		}
	}
	for _, params := range []string{`{"name":"lab.echo"}`, `{"name":"lab.echo","arguments":null}`, `{"name":"lab.echo","arguments":{}}`} {
		if got, r := call("/rpc", params); got.status != http.StatusOK || r.Error != nil {
			t.Errorf("%s: %d %s", params, got.status, got.body)
		}
	}
	for params, want := range map[string]int{
		`{"tool_name":"lab.echo","arguments":{}}`:       http.StatusOK,
		`{"tool_name":"lab_echo","arguments":{}}`:       http.StatusBadRequest,
		`{"tool_name":"lab.ecko","arguments":{}}`:       http.StatusNotFound,
		`{"tool_name":"lab.echo"}`:                      http.StatusBadRequest,
		`{"tool_name":"lab.echo","arguments":null}`:     http.StatusBadRequest,
		`{"tool_name":"lab.echo","arguments":{},"x":1}`: http.StatusBadRequest,
	} {
		got, r := call("/rpc", params)
		var form struct{ Status string }
		_ = json.Unmarshal(r.Result, &form) // a wrong shape shows in the comparison
		if got.status != want || (form.Status == "success") != (want == http.StatusOK) || form.Status == "" {
			t.Errorf("%s: %d %s, want %d", params, got.status, got.body, want)
		}
	}
}

// TestDestructiveToolsAreGated calls the demo's destructive tool on every edge,
// as an untrusted caller and as a trusted one.
func TestDestructiveToolsAreGated(t *testing.T) {
	t.Parallel()
	for trust, want := range map[string]string{"untrusted": "DESTRUCTIVE_BLOCKED", "trusted": "TOOL_EXECUTION_FAILED"} {
		args := []string{"--demo", "--trust", trust}
		t.Run(trust, func(t *testing.T) {
			t.Parallel()
			server := serve(t, args...)
			for _, edge := range caller.Edges() {
				if edge.Process || strings.HasPrefix(edge.Name, "typed-") && edge.Name != "typed-grpc-go" {
					continue // processes have a policy of their own; other typed clients are the Lab's
				}
				agent := edge.Dial(t, target(server))
				got := caller.One(t.Context(), agent, caller.Call{
					ID: `"d"`, Tool: "fleet.cancel_order", Procedure: "/outrigger.demo.v1.Fleet/CancelOrder",
					Args: `{"orderId":"18446744073709551615","reason":"test"}`,
				})
				if got.Fault == nil || got.Fault.Code != want {
					t.Errorf("%s: %v; %v, want %s", edge.Name, got.Err, got.Fault, want)
				}
				agent.Close()
			}
		})
	}
}
