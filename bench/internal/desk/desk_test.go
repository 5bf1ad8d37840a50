// SPDX-License-Identifier: Apache-2.0

package desk_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
	"github.com/outrigger-mcp/outrigger/bench/internal/path"
)

var _ path.Work = (*desk.Page)(nil)

// The sizes are those that the goals are about: 167 bytes, 4.2 KB and 256 KB; and 1 KB, for the latency.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name        string
		page        *desk.Page
		least, most int
	}{
		{"small", desk.Small(), 164, 170},
		{"kilobyte", desk.Kilobyte(), 960, 1040},
		{"medium", desk.Medium(), 4100, 4300},
		{"large", desk.Large(), 256_000, 262_144},
	} {
		if got := path.ArgumentsSize(test.page); got < test.least || got > test.most {
			t.Errorf("%s: %d bytes, want %d to %d", test.name, got, test.least, test.most)
		}
	}
}

// The JSON, the message and the form say the same, so that every server is asked the same.
func TestOneRequestInThreeForms(t *testing.T) {
	t.Parallel()
	nonce := []byte("n-1")
	for _, page := range []*desk.Page{desk.Small(), desk.Medium()} {
		before, after := page.Arguments()
		text := bytes.Join([][]byte{before, after}, nonce)
		var fromJSON benchv1.EchoRequest
		if err := protojson.Unmarshal(text, &fromJSON); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&fromJSON, page.Request(nonce)) {
			t.Errorf("JSON says %v, the message %v", &fromJSON, page.Request(nonce))
		}
		var form desk.Form
		if err := json.Unmarshal(text, &form); err != nil {
			t.Fatal(err)
		}
		fromForm, err := form.Request()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(fromForm, page.Request(nonce)) {
			t.Errorf("the form says %v, the message %v", fromForm, page.Request(nonce))
		}
		answer, err := desk.Server{}.Echo(t.Context(), fromForm)
		if err != nil {
			t.Fatal(err)
		}
		back, err := json.Marshal(desk.FormOf(answer))
		if err != nil {
			t.Fatal(err)
		}
		if !page.CheckJSON(nonce, back) || !page.Check(nonce, answer, true) {
			t.Errorf("an honest answer is refused: %s", back)
		}
	}
}

func TestWrongAnswersAreFoundOut(t *testing.T) {
	t.Parallel()
	nonce := []byte("n-1")
	for _, test := range []struct {
		name   string
		change func(*benchv1.EchoResponse)
		quick  bool // found without a comparison of all
	}{
		{"nonce", func(m *benchv1.EchoResponse) { m.Nonce = "n-2" }, true},
		{"number", func(m *benchv1.EchoResponse) { m.Number++ }, true},
		{"an order less", func(m *benchv1.EchoResponse) { m.Orders = m.Orders[1:] }, true},
		{"a label", func(m *benchv1.EchoResponse) { m.Orders[1].Labels["zone"] = "south" }, false},
		{"a parcel's value", func(m *benchv1.EchoResponse) { m.Orders[1].Parcels[0].ValueCents++ }, false},
		{"a time", func(m *benchv1.EchoResponse) { m.Orders[1].PlacedAt = nil }, false},
		{"a status", func(m *benchv1.EchoResponse) { m.Orders[1].Status = 0 }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			page := desk.Medium()
			honest, ok := page.Request(nonce).(*benchv1.EchoRequest)
			if !ok {
				t.Fatal("another request")
			}
			m := &benchv1.EchoResponse{Nonce: honest.GetNonce(), Number: honest.GetNumber()}
			for _, o := range honest.GetOrders() {
				m.Orders = append(m.Orders, proto.CloneOf(o))
			}
			if !page.Check(nonce, m, true) {
				t.Fatal("an honest answer is refused")
			}
			test.change(m)
			if page.Check(nonce, m, true) {
				t.Error("the message passes")
			}
			if page.Check(nonce, m, false) == test.quick {
				t.Errorf("a quick look passes: %v", test.quick)
			}
			text, err := protojson.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if page.CheckJSON(nonce, text) {
				t.Error("the JSON passes")
			}
		})
	}
	if desk.Small().CheckJSON(nonce, []byte(`{"nonce":"n-1"`)) {
		t.Error("half a text passes")
	}
}

func TestAnUnknownStatusIsRefused(t *testing.T) {
	t.Parallel()
	form := desk.Form{Orders: []desk.Order{{Status: "STATUS_LOST"}}}
	if _, err := form.Request(); err == nil {
		t.Error("it passes")
	}
}
