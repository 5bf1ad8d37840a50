// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/testdata/schemas"
)

// envelopeTypes are the schemas of the four types of messages.
func envelopeTypes() map[jsonrpc.Kind]string {
	return map[jsonrpc.Kind]string{
		jsonrpc.KindRequest: schemas.Request, jsonrpc.KindNotification: schemas.Notification,
		jsonrpc.KindSuccess: schemas.SuccessResponse, jsonrpc.KindError: schemas.ErrorResponse,
	}
}

// TestContractOfTheEnvelope has the sentences about typing and its schemas.
func TestContractOfTheEnvelope(t *testing.T) {
	t.Parallel()
	r := contracttest.New(nil, contracttest.Options{})

	t.Run("any payload is exactly one of four types or a structured error", func(t *testing.T) {
		t.Parallel()
		check := func(t tb, raw []byte) {
			m, err := r.ValidateMessageEnvelope(raw)
			var fault *jsonrpc.Fault
			switch {
			case err == nil && envelopeTypes()[m.Kind] == "":
				t.Fatalf("%.300q is no error, and none of the four types", raw)
			case err != nil && (!errors.As(err, &fault) || fault.Code == 0 || fault.Reason == ""):
				t.Fatalf("%.300q: %T has no structure: %v", raw, err, err)
			}
		}
		for _, raw := range append(envelopes(), goldens(t)...) {
			check(t, []byte(raw))
		}
		rapid.Check(t, func(t *rapid.T) {
			check(t, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
			check(t, []byte(drawEnvelope(t)))
		})
	})

	t.Run("each type has a schema of draft 2020-12 in an embedded file", func(t *testing.T) {
		t.Parallel()
		for _, name := range envelopeTypes() {
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
			if err := json.Unmarshal(embedded, &head); err != nil || head.Schema != "https://json-schema.org/draft/2020-12/schema" {
				t.Errorf("%s names the draft %q, %v", name, head.Schema, err)
			}
		}
	})

	t.Run("the schema registry loads them", func(t *testing.T) {
		t.Parallel()
		loaded, err := r.LoadEnvelope()
		if err != nil {
			t.Fatal(err)
		}
		for kind, raw := range map[jsonrpc.Kind]string{
			jsonrpc.KindRequest:      `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`,
			jsonrpc.KindNotification: `{"jsonrpc":"2.0","method":"ping"}`,
			jsonrpc.KindSuccess:      `{"jsonrpc":"2.0","id":"1","result":{}}`,
			jsonrpc.KindError:        `{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":""}}`,
		} {
			for of := range envelopeTypes() {
				found, err := loaded.Of(of).Validate([]byte(raw))
				// A notification is a request without an id, so it breaks the schema of one; a request meets that of
				// a notification, which is why the typing rule comes first.
				isAlike := of == kind || of == jsonrpc.KindNotification && kind == jsonrpc.KindRequest
				if err != nil || (len(found) == 0) != isAlike {
					t.Errorf("%v by the schema of %v: %v, %v", kind, of, found, err)
				}
			}
		}
	})
}
