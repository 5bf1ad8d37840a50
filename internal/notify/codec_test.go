// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/state"
)

// TestEventsStayReadable reads what the first release stored. Never change the bytes.
func TestEventsStayReadable(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]Event{
		"0a0a6f72646572732f6e657712087b226964223a377d": {Method: "orders/new", Params: json.RawMessage(`{"id":7}`), Sequence: 3},
		"0a0a6f72646572732f6e6577":                     {Method: "orders/new", Sequence: 3},
	} {
		data, err := encode(&want)
		if err != nil {
			t.Fatal(err)
		}
		old, err := hex.DecodeString(stored)
		if err != nil {
			t.Fatal(err)
		}
		for _, data := range [][]byte{data, old} {
			got, err := decode(state.Message{Data: data, Sequence: 3})
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		}
	}
}
