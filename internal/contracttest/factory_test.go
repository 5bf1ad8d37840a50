// SPDX-License-Identifier: Apache-2.0

package contracttest_test

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/contracttest"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// TestFactoriesPassTheEnvelope is the promise of the factories: whatever they
// are given, what they return passes the validation of envelopes, as bytes, in
// both implementations; and they refuse only what could not be a message.
func TestFactoriesPassTheEnvelope(t *testing.T) {
	t.Parallel()
	anyID := contracttest.New(nil, contracttest.Options{Envelope: jsonrpc.ProfileCanonicalAnyID})
	uuids := contracttest.New(nil, contracttest.Options{Envelope: jsonrpc.ProfileCanonicalUUID})
	random := contracttest.NewGenerator(contracttest.GeneratorOptions{})
	fixed := contracttest.NewGenerator(contracttest.GeneratorOptions{Deterministic: true})
	rapid.Check(t, func(t *rapid.T) {
		method := rapid.String().Draw(t, "method")
		params := drawObject(t, "params")
		entity := rapid.String().Draw(t, "entity type")

		request, err := contracttest.NewRequest(random.NewID(entity), method, params)
		checkMade(t, anyID, request, err, method != "", jsonrpc.KindRequest)
		numbered, err := contracttest.NewRequest(jsonrpc.IntID(rapid.Int64().Draw(t, "id")), method, params)
		checkMade(t, anyID, numbered, err, method != "", jsonrpc.KindRequest)
		repeatable, err := fixed.NewRequest(method, params)
		checkMade(t, uuids, repeatable, err, method != "", jsonrpc.KindRequest)
		notification, err := contracttest.NewNotification(method, params)
		checkMade(t, anyID, notification, err, method != "", jsonrpc.KindNotification)
		if method == "" {
			return
		}
		if !notification.ID.IsZero() {
			t.Fatalf("a notification has the id %s", notification.ID)
		}

		for _, asked := range []jsonrpc.Message{request, numbered, repeatable} {
			success, err := contracttest.NewSuccess(asked, drawValue(t, "result"))
			checkMade(t, anyID, success, err, true, jsonrpc.KindSuccess)
			code := rapid.Int64().Draw(t, "code")
			failure, err := contracttest.NewError(asked, code, rapid.String().Draw(t, "message"), drawValue(t, "data"))
			checkMade(t, anyID, failure, err, code != 0, jsonrpc.KindError)
			if success.ID != asked.ID || (code != 0 && failure.ID != asked.ID) {
				t.Fatalf("request %s was answered as %s and %s", asked.ID, success.ID, failure.ID)
			}
		}
	})
}

func checkMade(t *rapid.T, r *contracttest.SchemaRegistry, m jsonrpc.Message, err error, possible bool, kind jsonrpc.Kind) {
	t.Helper()
	var fault *jsonrpc.Fault
	if (err == nil) != possible || (err != nil && !errors.As(err, &fault)) {
		t.Fatalf("%v: possible %v, error %v", kind, possible, err)
	}
	if err != nil {
		return
	}
	raw := contracttest.AppendTo(nil, m)
	read, err := r.ValidateMessageEnvelope(raw)
	if err != nil || read.Kind != kind || read.ID != m.ID {
		t.Fatalf("%s was read as %+v: %v", raw, read, err)
	}
	compare(t, r, raw)
}

// drawValue is any JSON value, or nil for none.
func drawValue(t *rapid.T, label string) json.RawMessage {
	if rapid.IntRange(0, 4).Draw(t, label+" is absent") == 0 {
		return nil
	}
	var value any
	switch rapid.IntRange(0, 4).Draw(t, label+" kind") {
	case 0:
		return drawObject(t, label)
	case 1:
		value = rapid.SliceOf(rapid.Float64()).Draw(t, label)
	case 2:
		value = rapid.String().Draw(t, label)
	case 3:
		value = rapid.Int64().Draw(t, label)
	}
	return marshal(t, value)
}

// drawObject is any JSON object, or nil for none.
func drawObject(t *rapid.T, label string) json.RawMessage {
	object := rapid.MapOf(rapid.String(), rapid.String()).Draw(t, label)
	if len(object) == 0 && rapid.Bool().Draw(t, label+" is absent") {
		return nil
	}
	return marshal(t, object)
}
