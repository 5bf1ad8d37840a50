// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

// FuzzDocument reads what is stored as each kind: a value of another release, or one that another program wrote, is an error
// or a document. Redaction removes no member, and what a row shows is one text for each column.
func FuzzDocument(f *testing.F) {
	for _, value := range []proto.Message{
		&statev1.TaskRecord{Id: "t_1", Principal: "alice", Tool: "shop.look", Again: []byte{0x0a, 1, 'x'}, Origin: []byte("o")},
		&statev1.RegistrationRecord{Name: "shop.peek", Version: "1.0.0", InputSchema: []byte(`{"type":"object"}`), OutputSchema: []byte(`{`)},
		&statev1.EventRecord{Method: "notifications/progress", Params: []byte(`{"progress":1}`)},
	} {
		raw, err := proto.Marshal(value)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte("host-1"))
	f.Add([]byte{0xff, 0xfe})
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, kind := range report.StateKinds() {
			if row, err := kind.Row(value, time.Unix(2000, 0)); err == nil && len(row) != len(kind.Columns) {
				t.Errorf("%s: a row of %d for %d columns", kind.Name, len(row), len(kind.Columns))
			}
			shown, _, err := kind.Document(value, true)
			hidden, redacted, errHidden := kind.Document(value, false)
			if (err == nil) != (errHidden == nil) {
				t.Fatalf("%s: %v with secrets, %v without", kind.Name, err, errHidden)
			}
			if err != nil {
				continue
			}
			all, left := object(t, kind.Name, shown), object(t, kind.Name, hidden)
			if len(all) != len(left) {
				t.Errorf("%s: %d members, %d after redaction of %v", kind.Name, len(all), len(left), redacted)
			}
		}
	})
}

func object(t *testing.T, kind string, text json.RawMessage) map[string]json.RawMessage {
	t.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v: %s", kind, err, text)
	}
	return out
}
