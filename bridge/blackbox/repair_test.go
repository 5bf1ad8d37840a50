// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// placed is a bridge that repairs arguments, and keeps what the backend got.
func placed(t *testing.T, configure func(*configv1.Config)) (*mcptest.Rig, func() string) {
	t.Helper()
	var got string
	b := fake(t, func(_ context.Context, _ *mcptest.Method, in []byte, _ http.Header) (*mcptest.Answer, *errmap.Error) {
		order := &demov1.PlaceOrderRequest{}
		if err := proto.Unmarshal(in, order); err != nil {
			t.Error(err)
		}
		raw, err := protojson.Marshal(order)
		if err != nil {
			t.Error(err)
		}
		var plain any
		if err := json.Unmarshal(raw, &plain); err != nil {
			t.Error(err)
		}
		raw, _ = json.Marshal(plain)
		got = string(raw)
		return &mcptest.Answer{Body: nil}, nil
	}, configure)
	return b, func() string { return got }
}

// order is what the backend gets, however its parts were written.
const order = `{"customer":"Ann","destination":{"position":{"latitude":1,"longitude":2}},"labels":{"a":"{}"},"parcels":[{"contents":"box","weightKg":1}]}`

// Each object and array that is in a string is decoded where the descriptor
// wants one, and the result says which.
func TestRepairedArguments(t *testing.T) {
	t.Parallel()
	const destination, labels, parcels = `{"position":{"latitude":1,"longitude":2}}`, `{"a":"{}"}`, `[{"contents":"box","weightKg":1}]`
	quoted := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	with := func(d, l, p string) string {
		return `{"customer":"Ann","destination":` + d + `,"labels":` + l + `,"parcels":` + p + `}`
	}
	for name, tt := range map[string]struct {
		arguments string
		places    []string // nil: refused
	}{
		"nothing to repair":   {with(destination, labels, parcels), []string{}},
		"a message":           {with(quoted(" "+destination+"\n"), labels, parcels), []string{"/destination"}},
		"a map":               {with(destination, quoted(labels), parcels), []string{"/labels"}},
		"a list":              {with(destination, labels, quoted(parcels)), []string{"/parcels"}},
		"an element":          {with(destination, labels, `[`+quoted(parcels[1:len(parcels)-1])+`]`), []string{"/parcels/0"}},
		"all of them":         {with(quoted(destination), quoted(labels), quoted(parcels)), []string{"/destination", "/labels", "/parcels"}},
		"everything":          {quoted(with(destination, labels, parcels)), []string{""}},
		"everything and more": {quoted(with(quoted(destination), labels, parcels)), []string{"", "/destination"}},
		"twice":               {with(quoted(quoted(destination)), labels, parcels), nil},
		"inside what was one": {with(destination, labels, quoted(`[`+quoted(parcels[1:len(parcels)-1])+`]`)), nil},
		"an array for object": {with(quoted(`[`+destination+`]`), labels, parcels), nil},
		"an object for array": {with(destination, labels, quoted(parcels[1:len(parcels)-1])), nil},
		"not JSON":            {with(quoted(destination+`}`), labels, parcels), nil},
		"a name twice":        {with(quoted(`{"position":{"latitude":1,"latitude":1,"longitude":2}}`), labels, parcels), nil},
		"a number":            {`{"customer":"Ann","destination":` + destination + `,"parcels":"7"}`, nil},
	} {
		for _, spoken := range []mcptest.Dialect{mcptest.Modern, mcptest.Legacy, mcptest.Canonical} {
			t.Run(name+" "+spoken.String(), func(t *testing.T) {
				t.Parallel()
				b, got := placed(t, repairs)
				params := `{"name":"fleet.place_order","arguments":` + tt.arguments + `,` + modernMeta + `}`
				reply := b.Send(t.Context(), inbound(b.NewOrigin(), spoken, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":`+params+`}`))
				var m struct {
					Result struct {
						StructuredContent json.RawMessage `json:"structuredContent"`
						IsError           bool            `json:"isError"`
						Meta              struct {
							Repaired []string `json:"dev.outrigger/repaired"`
						} `json:"_meta"`
					} `json:"result"`
				}
				if err := json.Unmarshal(reply.Bytes(), &m); err != nil {
					t.Fatal(err)
				}
				if tt.places == nil {
					if decode(t, reply).code() != errmap.InvalidToolInput || got() != "" || b.Repaired() != 0 {
						t.Errorf("got %.300s (the backend got %q)", reply.Bytes(), got())
					}
					return
				}
				if m.Result.IsError || len(m.Result.StructuredContent) == 0 || got() != order {
					t.Fatalf("got %.300s, the backend got %s", reply.Bytes(), got())
				}
				if len(m.Result.Meta.Repaired) > 0 || len(tt.places) > 0 {
					if diff := cmp.Diff(tt.places, m.Result.Meta.Repaired); diff != "" {
						t.Errorf("places (-want +got):\n%s", diff)
					}
				}
				if want := min(len(tt.places), 1); b.Repaired() != uint64(want) {
					t.Errorf("%d calls are counted as repaired, want %d", b.Repaired(), want)
				}
			})
		}
	}
}

// Without the option nothing is repaired.
func TestNothingIsRepairedUnasked(t *testing.T) {
	t.Parallel()
	b, got := placed(t, nil)
	for arguments, want := range map[string]errmap.Code{
		`"{}"`:                      errmap.InvalidParams,
		`{"destination":"{}"}`:      errmap.InvalidToolInput,
		`{"parcels":"[]"}`:          errmap.InvalidToolInput,
		`"` + `{\"customer\":5}"`:   errmap.InvalidParams,
		`{"labels":"{\"a\":\"\"}"}`: errmap.InvalidToolInput,
	} {
		m := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet.place_order","arguments":`+arguments+`}}`)
		if m.code() != want {
			t.Errorf("%s: got %s, want %s", arguments, m.code(), want)
		}
	}
	if got() != "" || b.Repaired() != 0 {
		t.Errorf("the backend got %s, %d repaired", got(), b.Repaired())
	}
}

// The message form has no _meta; its arguments are repaired all the same.
func TestRepairedMessageForm(t *testing.T) {
	t.Parallel()
	b, got := placed(t, repairs)
	raw, _ := json.Marshal(order)
	m := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"fleet.place_order","arguments":`+string(raw)+`}}`)
	if m.Result == nil || m.Result.Status != "success" || got() != order || b.Repaired() != 1 {
		t.Errorf("got %+v, the backend got %s", m, got())
	}
}

// A declared schema says what it wants by what it refuses.
func TestRepairedForDeclaredSchemas(t *testing.T) {
	t.Parallel()
	live := mcptest.OwnMemory(t)
	mcptest.Register(t, live, mcptest.Named{
		Name: "desk.place", Service: "outrigger.demo.v1.Fleet", Method: "PlaceOrder",
		Input: `{"type":"object","properties":{"customer":{"type":"string"},"parcels":{"type":"array","items":{"type":"object"}},"destination":{"type":"object"},"labels":true}}`,
	})
	var calls int
	b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Backend: mcptest.Upstream(func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
		calls++
		return &mcptest.Answer{}, nil
	}), Configure: repairs})
	arguments := strings.NewReplacer(`{"position":{"latitude":1,"longitude":2}}`, `"{\"position\":{\"latitude\":1,\"longitude\":2}}"`,
		`{"contents":"box","weightKg":1}`, `"{\"contents\":\"box\",\"weightKg\":1}"`).Replace(order)
	resp := b.Handle(t.Context(), toolCall(b, "desk.place", arguments))
	if resp.Err != nil || calls != 1 || b.Repaired() != 1 {
		t.Errorf("%v, %d calls, %d repaired", resp.Err, calls, b.Repaired())
	}
}
