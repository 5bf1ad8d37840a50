// SPDX-License-Identifier: Apache-2.0

package mcpschema_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
)

// TestSamplesAreValid checks every official sample against its own definition.
// All of them conform.
func TestSamplesAreValid(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for _, sample := range mcpschema.Samples(t) {
		if err := schema.Check(sample.Type, sample.Body); err != nil {
			t.Errorf("%s: %v", sample.Name, err)
		}
	}
}

// kindOf tells a sample's kind by the name of its type.
func kindOf(t *testing.T, name string) jsonrpc.Kind {
	t.Helper()
	for suffix, kind := range map[string]jsonrpc.Kind{
		"Request": jsonrpc.KindRequest, "Notification": jsonrpc.KindNotification, "ResultResponse": jsonrpc.KindSuccess, "Error": jsonrpc.KindError,
	} {
		if strings.HasSuffix(name, suffix) {
			return kind
		}
	}
	t.Fatalf("%s is a message of no known kind", name)
	return jsonrpc.KindInvalid
}

// TestSampleMessagesAreRead has the envelope parser read every sample that is a
// message, and compares what it found with what another parser finds.
func TestSampleMessagesAreRead(t *testing.T) {
	t.Parallel()
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	read := map[jsonrpc.Kind]int{}
	for _, sample := range mcpschema.Samples(t) {
		var want struct {
			JSONRPC            string
			ID, Params, Result json.RawMessage
			Method             string
			Error              struct {
				Code    int64
				Message string
				Data    json.RawMessage
			}
		}
		// Parts of messages have no version, and some are no objects of their own.
		if err := json.Unmarshal(sample.Body, &want); err != nil || want.JSONRPC == "" {
			continue
		}
		name := sample.Type + "/" + sample.Name
		kind := kindOf(t, sample.Type)
		read[kind]++
		envelope := jsonrpc.Read(sample.Body, jsonrpc.Limits{})
		m := envelope.As(jsonrpc.ProfileMCP)
		if m.Fault != nil || m.Kind != kind || m.Method != want.Method {
			t.Errorf("%s: kind %d %q with fault %v; want kind %d %q", name, m.Kind, m.Method, m.Fault, kind, want.Method)
			continue
		}
		if m.ID.IsZero() != (want.ID == nil) || !m.ID.IsZero() && string(m.ID.Raw()) != string(want.ID) {
			t.Errorf("%s: id %s, want %s", name, m.ID.Raw(), want.ID)
		}
		if !bytes.Equal(m.Params, want.Params) || !bytes.Equal(m.Result, want.Result) {
			t.Errorf("%s: params %s and result %s; want %s and %s", name, m.Params, m.Result, want.Params, want.Result)
		}
		if kind == jsonrpc.KindError && (m.Error.Code != want.Error.Code || m.Error.Message != want.Error.Message || !bytes.Equal(m.Error.Data, want.Error.Data)) {
			t.Errorf("%s: error %+v, want %+v", name, m.Error, want.Error)
		}
		from := mcpschema.FromServer
		if kind == jsonrpc.KindRequest {
			from = mcpschema.FromClient
		}
		if err := schema.CheckMessage(from, sample.Body); err != nil {
			t.Errorf("%s on the wire: %v", name, err)
		}
	}
	// As many as the revision came with; more are welcome.
	if read[jsonrpc.KindRequest] < 10 || read[jsonrpc.KindNotification] < 8 || read[jsonrpc.KindSuccess] < 10 || read[jsonrpc.KindError] < 3 {
		t.Errorf("read %v", read)
	}
}
