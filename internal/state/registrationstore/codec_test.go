// SPDX-License-Identifier: Apache-2.0

package registrationstore

import (
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestARegistrationIsReadBack: every member, and what is unset stays so, also from what the first release stored. Never update the
// golden files: a release reads what those before it stored.
func TestARegistrationIsReadBack(t *testing.T) {
	t.Parallel()
	yes, no, ttl := true, false, 90*time.Second
	for name, want := range map[string]catalog.Registration{
		"full": {
			Name: "orders.take", Title: "Take", Description: "Takes an order.", InputSchema: json.RawMessage(`{"type":"object"}`),
			OutputSchema: json.RawMessage(`{"type":"object","title":"out"}`), Binding: catalog.Binding{Service: "shop.v1.Orders", Method: "Take"},
			Metadata:    catalog.RegisteredMetadata{Module: "shop", Destructive: true, DeprecatedIn: "2.0.0", CacheTTL: &ttl},
			Annotations: catalog.Annotations{ReadOnly: &no, Destructive: &yes, Idempotent: &no, OpenWorld: &yes},
			Version:     "1.2.3", Timeout: time.Minute, TaskSupport: "optional",
			Examples: []catalog.Example{
				{Name: "one", Description: "first", Arguments: json.RawMessage(`{"a":1}`), Data: json.RawMessage(`{"b":2}`)},
				{Name: "two", Arguments: json.RawMessage(`{}`), Status: "NOT_FOUND"},
			},
		},
		"bare": {Name: "x", Binding: catalog.Binding{Service: "s", Method: "m"}, InputSchema: json.RawMessage(`{}`)},
	} {
		value, err := encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		again, err := encode(&want)
		if err != nil || string(again) != string(value) {
			t.Errorf("%s: two encodings differ", name)
		}
		golden := filepath.Join("testdata", name+"_v1.hex")
		if *update {
			if err := os.WriteFile(golden, []byte(hex.EncodeToString(value)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := hex.DecodeString(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range [][]byte{value, stored} {
			got, err := decode(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	if _, err := decode([]byte{0xff}); err == nil {
		t.Error("bytes that are no record were read")
	}
}
