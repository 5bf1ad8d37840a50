// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// TestMessageForm walks the sentences of the contract about the message form.
func TestMessageForm(t *testing.T) {
	t.Parallel()
	form, err := contracttest.New(nil, contracttest.Options{}).LoadMessage()
	if err != nil {
		t.Fatal(err)
	}
	const failed = `"error":{"error_type":"TimeoutError","error_message":"too late","error_details":null}`
	tests := []struct {
		name   string
		schema *schema.Validator
		doc    string
		want   []string // path and keyword
	}{
		{"call", form.Call, `{"tool_name":"lab.echo","arguments":{}}`, nil},
		{"call, long name", form.Call, `{"tool_name":"a_1.b.c_2","arguments":{"a":null}}`, nil},
		{"call, name without a dot", form.Call, `{"tool_name":"lab_echo","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, capital letters", form.Call, `{"tool_name":"Lab.echo","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, empty part", form.Call, `{"tool_name":"lab..echo","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, dot at the end", form.Call, `{"tool_name":"lab.echo.","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, line break at the end", form.Call, `{"tool_name":"lab.echo\n","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, name of one part in a longer text", form.Call, `{"tool_name":"x lab.echo","arguments":{}}`, []string{"/tool_name pattern"}},
		{"call, no name", form.Call, `{"arguments":{}}`, []string{"/tool_name required"}},
		{"call, null name", form.Call, `{"tool_name":null,"arguments":{}}`, []string{"/tool_name type"}},
		{"call, no arguments", form.Call, `{"tool_name":"lab.echo"}`, []string{"/arguments required"}},
		{"call, null arguments", form.Call, `{"tool_name":"lab.echo","arguments":null}`, []string{"/arguments type"}},
		{"call, arguments in a string", form.Call, `{"tool_name":"lab.echo","arguments":"{}"}`, []string{"/arguments type"}},
		{"call, arguments in an array", form.Call, `{"tool_name":"lab.echo","arguments":[]}`, []string{"/arguments type"}},
		{"call, other member", form.Call, `{"tool_name":"lab.echo","arguments":{},"version":"1.0.0"}`, []string{"/version additionalProperties"}},
		{"call, other member that is null", form.Call, `{"tool_name":"lab.echo","arguments":{},"_meta":null}`, []string{"/_meta additionalProperties"}},
		{"call, no object", form.Call, `[]`, []string{" type"}},

		{"result", form.Result, `{"status":"success","data":{"a":1},"error":null,"explanation":null}`, nil},
		{"result, short", form.Result, `{"status":"success"}`, nil},
		{"result, no change", form.Result, `{"status":"no_change_needed","explanation":"it is so already"}`, nil},
		{"result, in part", form.Result, `{"status":"partial_success","data":[1],` + failed + `}`, nil},
		{"result, failure", form.Result, `{"status":"failure",` + failed + `}`, nil},
		{"result, failure with null data", form.Result, `{"status":"failure","data":null,` + failed + `,"explanation":"wait"}`, nil},
		{"result, details in a string", form.Result, `{"status":"failure","error":{"error_type":"a","error_message":"b","error_details":"c"}}`, nil},
		{"result, details in an object", form.Result, `{"status":"failure","error":{"error_type":"a","error_message":"b","error_details":{}}}`, nil},
		{"result, details left out", form.Result, `{"status":"failure","error":{"error_type":"a","error_message":"b"}}`, nil},
		{"result, no status", form.Result, `{"data":1}`, []string{"/status required"}},
		{"result, null status", form.Result, `{"status":null}`, []string{"/status type"}},
		{"result, other status", form.Result, `{"status":"ok"}`, []string{"/status enum"}},
		{"result, other status that contains failure", form.Result, `{"status":"partial_failure"}`, []string{"/error required", "/status enum"}},
		{"result, failure without error", form.Result, `{"status":"failure"}`, []string{"/error required"}},
		{"result, failure with null error", form.Result, `{"status":"failure","error":null}`, []string{"/error type"}},
		{"result, failure with data", form.Result, `{"status":"failure","data":{},` + failed + `}`, []string{"/data type"}},
		{"result, failure with false for data", form.Result, `{"status":"failure","data":false,` + failed + `}`, []string{"/data type"}},
		{"result, error without type", form.Result, `{"status":"failure","error":{"error_message":"b"}}`, []string{"/error/error_type required"}},
		{"result, error with null message", form.Result, `{"status":"failure","error":{"error_type":"a","error_message":null}}`, []string{"/error/error_message type"}},
		{"result, details in an array", form.Result, `{"status":"failure","error":{"error_type":"a","error_message":"b","error_details":[]}}`, []string{"/error/error_details type"}},
		{"result, error in a string", form.Result, `{"status":"partial_success","error":"b"}`, []string{"/error type"}},
		{"result, explanation is no text", form.Result, `{"status":"success","explanation":{}}`, []string{"/explanation type"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			found, err := test.schema.Validate([]byte(test.doc))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range found {
				got = append(got, v.Path+" "+v.Keyword)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestSchemaFiles are what they say they are, each under its own address.
func TestSchemaFiles(t *testing.T) {
	t.Parallel()
	drafts := map[string]string{
		"envelope": `"$schema": "https://json-schema.org/draft/2020-12/schema"`,
		"message":  `"$schema": "http://json-schema.org/draft-07/schema#"`,
	}
	for _, name := range schemas.Names() {
		raw, err := schemas.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		folder, _, isInFolder := strings.Cut(name, "/")
		if isInFolder && !strings.Contains(string(raw), drafts[folder]) {
			t.Errorf("%s does not name its draft, %s", name, drafts[folder])
		}
		if !strings.Contains(string(raw), `"$id": "https://outrigger.dev/schemas/`+name+`.schema.json"`) {
			t.Errorf("%s has no own address", name)
		}
		if _, err := schema.Compile(raw); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := schemas.Read("envelope/batch"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name that is none: %v", err)
	}
}

// TestEnvelopeSchema says what an id is under each profile, and nothing else differently.
func TestEnvelopeSchema(t *testing.T) {
	t.Parallel()
	const big = `{"jsonrpc":"2.0","error":{"code":9223372036854775808,"message":""}}`
	for _, p := range canonicalProfiles {
		for _, name := range schemas.Names()[:4] {
			raw, err := contracttest.EnvelopeSchema(name, p)
			if err != nil {
				t.Fatal(err)
			}
			v, err := schema.Compile(raw)
			if err != nil {
				t.Fatal(err)
			}
			if found, err := v.Validate([]byte(big)); err != nil || len(found) == 0 {
				t.Errorf("profile %d: %s admits a code of more than 64 bits: %v", p, name, err)
			}
		}
	}
	if _, err := contracttest.EnvelopeSchema(schemas.Request, jsonrpc.ProfileMCP); err == nil {
		t.Error("there is a schema for MCP")
	}
	if _, err := contracttest.EnvelopeSchema("nothing", jsonrpc.ProfileCanonical); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name that is none: %v", err)
	}
	if _, err := contracttest.New(nil, contracttest.Options{Envelope: jsonrpc.ProfileMCP}).LoadEnvelope(); err == nil {
		t.Error("schemas were compiled for MCP")
	}
}

// TestLoadedOnce: the schemas of messages are compiled when first asked for, and kept.
func TestLoadedOnce(t *testing.T) {
	t.Parallel()
	r := contracttest.New(nil, contracttest.Options{})
	first, err := r.LoadEnvelope()
	if again, _ := r.LoadEnvelope(); err != nil || again != first {
		t.Errorf("envelope compiled twice: %v", err)
	}
	form, err := r.LoadMessage()
	if again, _ := r.LoadMessage(); err != nil || again != form {
		t.Errorf("message form compiled twice: %v", err)
	}
	if first.Of(jsonrpc.KindInvalid) != nil {
		t.Error("there is a schema for what is no message")
	}
}

// TestValidateMessageEnvelope gives the message or the fault, never both, and
// keeps the id for the answer.
func TestValidateMessageEnvelope(t *testing.T) {
	t.Parallel()
	m, err := contracttest.ValidateMessageEnvelope([]byte(`{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`))
	if err != nil || m.Kind != jsonrpc.KindRequest || m.Method != "ping" {
		t.Errorf("%+v, %v", m, err)
	}
	m, err = contracttest.ValidateMessageEnvelope([]byte(`{"jsonrpc":"2.0","id":"1","method":"ping"}`))
	var fault *jsonrpc.Fault
	if !errors.As(err, &fault) || fault != m.Fault || m.ID != jsonrpc.StringID("1") {
		t.Errorf("%+v, %v", m, err)
	}
	small := contracttest.New(nil, contracttest.Options{Limits: jsonrpc.Limits{MaxBytes: 10}})
	if _, err = small.ValidateMessageEnvelope([]byte(`{"jsonrpc":"2.0","method":"ping"}`)); !errors.As(err, &fault) || fault.Code != jsonrpc.FaultTooLarge {
		t.Errorf("the limits of the registry do not hold: %v", err)
	}
}
