// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

// Arguments that are an object in a string are refused, and decoded where that is
// wanted: of an RPC's tool and of a native one, whole and in parts. The outcome
// says what was decoded; what is no object stays wrong.
func TestArgumentsInAString(t *testing.T) {
	t.Parallel()
	desk := mcptest.Desk()
	rig := mcptest.Start(t, mcptest.Options{Native: desk, Configure: func(c *configv1.Config) { c.RepairArguments = true }})
	repairing := mount(t, ofRig(rig), connectapi.Options{})
	strict := mount(t, ofRig(rig.With(t, nil, server.Adjust{})), connectapi.Options{})
	client := mcptest.Client(t, 1)
	quoted := func(text string) string { raw, _ := json.Marshal(text); return string(raw) }
	const vehicle, letter = `{"vehicleId":"101","readMask":"id"}`, `{"to":{"city":"Port"}}`
	rows := []struct {
		name, tool, arguments string
		// places are what was decoded; nil: refused, with the code and at the path.
		places     []string
		code       errmap.Code
		path       string
		strictCode errmap.Code
		says       string
	}{
		{name: "an RPC, all of it", tool: "fleet.get_vehicle", arguments: quoted(vehicle), places: []string{""}, strictCode: errmap.InvalidParams, says: `"id":"101"`},
		{name: "an RPC, a part", tool: "fleet.place_order", arguments: `{"customer":"Ann","destination":` + quoted(`{"stopId":"6"}`) + `,"parcels":[{"contents":"box","weightKg":1}]}`,
			places: []string{"/destination"}, strictCode: errmap.InvalidToolInput, says: `"customer":"Ann"`},
		{name: "a native tool, all of it", tool: "desk.route", arguments: quoted(letter), places: []string{""}, strictCode: errmap.InvalidParams, says: letter},
		{name: "a native tool, a part", tool: "desk.route", arguments: `{"to":` + quoted(`{"city":"Port"}`) + `}`, places: []string{"/to"}, strictCode: errmap.InvalidToolInput, says: letter},
		{name: "a native tool that wants the string", tool: "desk.route", arguments: `{"note":` + quoted(letter) + `}`, places: []string{}, says: `{"note":` + quoted(letter) + `}`},
		{name: "an array in a string", tool: "desk.route", arguments: quoted("[]"), code: errmap.InvalidParams, path: "/arguments_json", strictCode: errmap.InvalidParams},
		{name: "half an object in a string", tool: "desk.route", arguments: quoted(letter[1:]), code: errmap.InvalidParams, path: "/arguments_json", strictCode: errmap.InvalidParams},
		{name: "an object of another form", tool: "desk.route", arguments: `{"to":` + quoted(`{"city":5}`) + `}`, code: errmap.InvalidToolInput, path: "/to/city", strictCode: errmap.InvalidToolInput},
	}
	for _, w := range wires() {
		for _, row := range rows {
			call := &outriggerv1.ToolCall{ToolName: row.tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(row.arguments)}}
			_, err := outriggerv1connect.NewToolServiceClient(client, strict, w.options...).CallTool(t.Context(), connect.NewRequest(call))
			if got := reason(t, err); got != row.strictCode || (err != nil) != (row.strictCode != "") {
				t.Errorf("%s, %s, unasked: %v (%s), want %q", w.name, row.name, err, got, row.strictCode)
			}
			res, err := outriggerv1connect.NewToolServiceClient(client, repairing, w.options...).CallTool(t.Context(), connect.NewRequest(call))
			if row.places == nil {
				detail := detail[*outriggerv1.ErrorDetail](t, err)
				if got := reason(t, err); got != row.code || !strings.Contains(string(detail.GetErrorDetailsJson()), `"path":"`+row.path+`"`) {
					t.Errorf("%s, %s: %v (%s) %s, want %s at %s", w.name, row.name, err, got, detail.GetErrorDetailsJson(), row.code, row.path)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: %v", w.name, row.name, err)
				continue
			}
			result := res.Msg.GetResult()
			var meta struct {
				Repaired []string `json:"dev.outrigger/repaired"`
			}
			if raw := result.GetMetaJson(); len(raw) > 0 {
				if err := json.Unmarshal(raw, &meta); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(meta.Repaired, row.places) || !strings.Contains(string(result.GetDataJson()), row.says) {
				t.Errorf("%s, %s: repaired %q, data %s, want %q and %s", w.name, row.name, meta.Repaired, result.GetDataJson(), row.places, row.says)
			}
		}
	}
	if got, want := rig.App().Bridge().Repaired(), uint64(4*len(wires())); got != want {
		t.Errorf("%d calls are counted as repaired, want %d", got, want)
	}
}

// TestRepairedPassThrough: a typed call in JSON whose arguments were decoded gets its
// whole answer. Nothing in the caller's own message can say what was decoded.
func TestRepairedPassThrough(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{Configure: func(c *configv1.Config) { c.RepairArguments = true }})
	url := mount(t, ofRig(rig), connectapi.Options{})
	body := `{"customer":"Ann","destination":"{\"stopId\":\"6\"}","parcels":[{"contents":"box","weightKg":1}]}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+demov1connect.FleetPlaceOrderProcedure, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(raw), `"customer":"Ann"`) {
		t.Errorf("%d %s (%v)", resp.StatusCode, raw, err)
	}
	if got := rig.App().Bridge().Repaired(); got != 1 {
		t.Errorf("%d calls are counted as repaired", got)
	}
}
