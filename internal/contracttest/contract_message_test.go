// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// TestContractOfTheMessageForm has the sentences about {"tool_name", "arguments"} and its answer, asked of the schemas
// that are published. That the sidecar does what they say is for the tests of the bridge.
func TestContractOfTheMessageForm(t *testing.T) {
	t.Parallel()
	form, err := contracttest.New(nil, contracttest.Options{}).LoadMessage()
	if err != nil {
		t.Fatal(err)
	}
	admits := func(t tb, v *schema.Validator, doc string) bool {
		t.Helper()
		found, err := v.Validate([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		return len(found) == 0
	}
	// want says what a schema makes of documents.
	want := func(t tb, v *schema.Validator, docs map[string]bool) {
		t.Helper()
		for doc, good := range docs {
			if admits(t, v, doc) != good {
				t.Fatalf("%s: admitted %v, want %v", doc, !good, good)
			}
		}
	}
	const failed = `{"error_type":"TimeoutError","error_message":"late"}`

	t.Run("the schemas are embedded files of draft-07", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{schemas.ToolCall, schemas.ToolResult} {
			embedded, err := schemas.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			file, err := os.ReadFile(filepath.Join("..", "..", "testdata", "schemas", name+".schema.json"))
			if err != nil || string(file) != string(embedded) {
				t.Errorf("%s: the file is not what is embedded, %v", name, err)
			}
			var head struct {
				Schema string `json:"$schema"`
			}
			if err := json.Unmarshal(embedded, &head); err != nil || head.Schema != "http://json-schema.org/draft-07/schema#" {
				t.Errorf("%s names the draft %q, %v", name, head.Schema, err)
			}
		}
	})

	t.Run("tool_name matches its pattern and nothing else does", func(t *testing.T) {
		t.Parallel()
		pattern := regexp.MustCompile(`^[a-z0-9_]+(\.[a-z0-9_]+)+$`)
		rapid.Check(t, func(t *rapid.T) {
			name := rapid.OneOf(rapid.StringMatching(`[a-zA-Z0-9_. \n-]{0,12}`), rapid.String()).Draw(t, "name")
			raw := string(marshal(t, map[string]any{"tool_name": name, "arguments": map[string]any{}}))
			if admits(t, form.Call, raw) != pattern.MatchString(name) {
				t.Fatalf("%q", name)
			}
		})
	})

	t.Run("a call has tool_name and arguments and no other member", func(t *testing.T) {
		t.Parallel()
		want(t, form.Call, map[string]bool{
			`{"tool_name":"a.b","arguments":{}}`:                 true,
			`{"tool_name":"a.b","arguments":{"any":[1]}}`:        true,
			`{"tool_name":"a.b"}`:                                false,
			`{"arguments":{}}`:                                   false,
			`{"tool_name":"a.b","arguments":{},"version":"1"}`:   false,
			`{"tool_name":"a.b","arguments":{},"_meta":{}}`:      false,
			`{"tool_name":"a.b","arguments":{},"anything":null}`: false,
		})
		rapid.Check(t, func(t *rapid.T) {
			doc := map[string]any{"tool_name": "a.b", "arguments": map[string]any{}}
			member := rapid.String().Draw(t, "member")
			if _, ok := doc[member]; ok {
				return
			}
			doc[member] = rapid.SampledFrom([]any{nil, 1, "x", map[string]any{}}).Draw(t, "value")
			if admits(t, form.Call, string(marshal(t, doc))) {
				t.Fatalf("the member %q is admitted", member)
			}
		})
	})

	t.Run("status is success, failure, no_change_needed or partial_success", func(t *testing.T) {
		t.Parallel()
		want(t, form.Result, map[string]bool{
			`{"status":"success"}`: true, `{"status":"no_change_needed"}`: true, `{"status":"partial_success"}`: true,
			`{"status":"failure","error":` + failed + `}`: true,
			`{}`: false, `{"status":null}`: false, `{"status":"ok"}`: false, `{"status":"Success"}`: false, `{"status":""}`: false,
		})
	})

	t.Run("a status that contains failure needs error", func(t *testing.T) {
		t.Parallel()
		want(t, form.Result, map[string]bool{
			`{"status":"failure","error":` + failed + `}`:                 true,
			`{"status":"failure"}`:                                        false,
			`{"status":"failure","error":null}`:                           false,
			`{"status":"failure","explanation":"no error here","data":1}`: false,
		})
	})

	t.Run("a status that contains failure has no data", func(t *testing.T) {
		t.Parallel()
		want(t, form.Result, map[string]bool{
			`{"status":"failure","error":` + failed + `}`:                           true,
			`{"status":"failure","error":` + failed + `,"data":null}`:               true,
			`{"status":"failure","error":` + failed + `,"data":{}}`:                 false,
			`{"status":"failure","error":` + failed + `,"data":0}`:                  false,
			`{"status":"failure","error":` + failed + `,"data":false}`:              false,
			`{"status":"partial_success","error":` + failed + `,"data":{"some":1}}`: true,
		})
	})

	t.Run("error has error_type, error_message and error_details as object, string or null", func(t *testing.T) {
		t.Parallel()
		result := func(e string) string { return `{"status":"failure","error":` + e + `}` }
		want(t, form.Result, map[string]bool{
			result(`{"error_type":"a","error_message":"b","error_details":{"c":1}}`): true,
			result(`{"error_type":"a","error_message":"b","error_details":"c"}`):     true,
			result(`{"error_type":"a","error_message":"b","error_details":null}`):    true,
			result(`{"error_type":"a","error_message":"b"}`):                         true,
			result(`{"error_type":"a","error_message":"b","error_details":[1]}`):     false,
			result(`{"error_type":"a","error_message":"b","error_details":1}`):       false,
			result(`{"error_type":"a","error_message":"b","error_details":true}`):    false,
			result(`{"error_type":"a"}`):                                             false,
			result(`{"error_message":"b"}`):                                          false,
			result(`{"error_type":1,"error_message":"b"}`):                           false,
			result(`"b"`): false,
		})
	})

	t.Run("null counts as absent", func(t *testing.T) {
		t.Parallel()
		want(t, form.Result, map[string]bool{
			// As published examples have it.
			`{"status":"success","data":{"a":1},"error":null,"explanation":null}`:                      true,
			`{"status":"failure","data":null,"error":` + failed + `,"explanation":null}`:               true,
			`{"status":"no_change_needed","data":null,"error":null,"explanation":"it is so"}`:          true,
			`{"status":"failure","data":null,"error":null}`:                                            false,
			`{"status":null,"data":null,"error":null,"explanation":null}`:                              false,
			`{"status":"failure","error":{"error_type":null,"error_message":"b"}}`:                     false,
			`{"status":"failure","error":{"error_type":"a","error_message":"b","error_details":null}}`: true,
		})
		want(t, form.Call, map[string]bool{
			`{"tool_name":"a.b","arguments":null}`: false, `{"tool_name":null,"arguments":{}}`: false,
		})
	})
}
