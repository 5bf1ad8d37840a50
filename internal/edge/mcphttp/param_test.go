// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// A proxy that routes by a header and a server that reads the body must see the same call;
// servers that do not compare them can be made to see two.
func TestHeadersRepeatMarkedArguments(t *testing.T) {
	t.Parallel()
	_, url := desk(t, mcphttp.Options{})
	const fine, differs, wrong = "fine", "differs", "wrong arguments"
	h := func(headers ...string) []string { return headers }
	for _, tc := range []struct {
		name, arguments string
		headers         []string
		want            string
	}{
		{"nothing", `{}`, nil, fine},
		{"arguments that are null", `null`, nil, fine},
		{"a text", `{"region":"eu"}`, h("Mcp-Param-Region: eu"), fine},
		{"a text without its header", `{"region":"eu"}`, nil, differs},
		{"another text", `{"region":"eu"}`, h("Mcp-Param-Region: us"), differs},
		{"a text in another case", `{"region":"eu"}`, h("Mcp-Param-Region: EU"), differs},
		{"a header's name in another case", `{"region":"eu"}`, h("MCP-PARAM-REGION: eu"), fine},
		{"space around a header", `{"region":"eu"}`, h("Mcp-Param-Region:  eu\t"), fine},
		{"space around a text", `{"region":" eu "}`, h("Mcp-Param-Region:  eu "), differs},
		{"space around a text, encoded", `{"region":" eu "}`, h("Mcp-Param-Region: " + encoded(" eu ")), fine},
		{"a text with escapes", `{"region":"\u0065u"}`, h("Mcp-Param-Region: eu"), fine},
		{"an empty text", `{"region":""}`, h("Mcp-Param-Region: "), fine},
		{"an empty text without its header", `{"region":""}`, nil, differs},
		{"an empty text, encoded", `{"region":""}`, h("Mcp-Param-Region: " + encoded("")), fine},
		{"a text beyond ASCII", `{"region":"röd"}`, h("Mcp-Param-Region: " + encoded("röd")), fine},
		{"a text beyond ASCII as it is", `{"region":"röd"}`, h("Mcp-Param-Region: röd"), differs},
		{"base64 without padding", `{"region":"Hello"}`, h("Mcp-Param-Region: =?base64?SGVsbG8?="), differs},
		{"base64 with other characters", `{"region":"Hello"}`, h("Mcp-Param-Region: =?base64?SGVs!!!bG8=?="), differs},
		{"a literal without the first marker", `{"region":"SGVsbG8=?="}`, h("Mcp-Param-Region: SGVsbG8=?="), fine},
		{"a literal without the last marker", `{"region":"=?base64?SGVsbG8="}`, h("Mcp-Param-Region: =?base64?SGVsbG8="), fine},
		{"a text that looks encoded", `{"region":"=?base64?eA==?="}`, h("Mcp-Param-Region: =?base64?eA==?="), differs},
		{"a text that looks encoded, encoded", `{"region":"=?base64?eA==?="}`, h("Mcp-Param-Region: " + encoded("=?base64?eA==?=")), fine},
		{"twice the same", `{"region":"eu"}`, h("Mcp-Param-Region: eu", "Mcp-Param-Region: eu"), fine},
		{"twice, and not the same", `{"region":"eu"}`, h("Mcp-Param-Region: eu", "Mcp-Param-Region: us"), differs},
		{"null", `{"region":null}`, nil, wrong},
		{"a header for null", `{"region":null}`, h("Mcp-Param-Region: eu"), wrong},
		{"a header for nothing", `{}`, h("Mcp-Param-Region: eu", "Mcp-Param-City: x"), fine},
		{"a header that no schema knows", `{}`, h("Mcp-Param-Other: x"), fine},
		{"a header with bytes beyond ASCII that no schema knows", `{}`, h("Mcp-Param-Other: ö"), fine},
		{"true", `{"express":true}`, h("Mcp-Param-Express: true"), fine},
		{"false", `{"express":false}`, h("Mcp-Param-Express: false"), fine},
		{"true in capitals", `{"express":true}`, h("Mcp-Param-Express: True"), differs},
		{"true as a number", `{"express":true}`, h("Mcp-Param-Express: 1"), differs},
		{"false without its header", `{"express":false}`, nil, differs},
		{"an integer", `{"stop":42}`, h("Mcp-Param-Stop: 42"), fine},
		{"an integer with a fraction of zeros", `{"stop":42}`, h("Mcp-Param-Stop: 42.0"), fine},
		{"the same the other way round", `{"stop":42.0}`, h("Mcp-Param-Stop: 42"), fine},
		{"an integer with an exponent", `{"stop":42}`, h("Mcp-Param-Stop: 4.2e1"), fine},
		{"the same the other way round", `{"stop":4.2E+1}`, h("Mcp-Param-Stop: 42"), fine},
		{"zero", `{"stop":0}`, h("Mcp-Param-Stop: 0"), fine},
		{"zero without its header", `{"stop":0}`, nil, differs},
		{"less than zero", `{"stop":-7}`, h("Mcp-Param-Stop: -7"), fine},
		{"the other sign", `{"stop":-7}`, h("Mcp-Param-Stop: 7"), differs},
		{"beyond 2^53", `{"stop":9007199254740993}`, h("Mcp-Param-Stop: 9007199254740993"), fine},
		{"beyond 2^53, one less", `{"stop":9007199254740993}`, h("Mcp-Param-Stop: 9007199254740992"), differs},
		{"a number of another notation", `{"stop":5}`, h("Mcp-Param-Stop: 0b101"), differs},
		{"a number with a sign", `{"stop":5}`, h("Mcp-Param-Stop: +5"), differs},
		{"a number with a leading zero", `{"stop":5}`, h("Mcp-Param-Stop: 05"), differs},
		{"no number", `{"stop":5}`, h("Mcp-Param-Stop: five"), differs},
		{"a quotient", `{"stop":5}`, h("Mcp-Param-Stop: 10/2"), differs},
		{"a nested text", `{"to":{"city":"Bath"}}`, h("Mcp-Param-City: Bath"), fine},
		{"a nested text without its header", `{"to":{"city":"Bath"}}`, nil, differs},
		{"a nested text beyond ASCII", `{"to":{"city":"Køge"}}`, h("Mcp-Param-City: " + encoded("Køge")), fine},
		{"nothing to nest in", `{"to":{}}`, nil, fine},
		{"the same name elsewhere", `{"city":"Bath"}`, nil, fine},
		{"null to nest in", `{"to":null}`, nil, wrong},
		{"a text to nest in", `{"to":"Bath"}`, h("Mcp-Param-City: Bath"), wrong},
		{"all at once", `{"to":{"city":"Bath"},"region":"eu","express":true,"stop":1,"note":"n"}`,
			h("Mcp-Param-City: Bath", "Mcp-Param-Region: eu", "Mcp-Param-Express: true", "Mcp-Param-Stop: 1"), fine},
		{"all but one", `{"to":{"city":"Bath"},"region":"eu","express":true,"stop":1}`,
			h("Mcp-Param-City: Bath", "Mcp-Param-Region: eu", "Mcp-Param-Express: true"), differs},
		{"an unmarked argument needs none", `{"note":"n"}`, nil, fine},
		{"a number for a text", `{"region":7}`, h("Mcp-Param-Region: 7"), wrong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			body := request("tools/call", `"name":"route","arguments":`+tc.arguments+`,`+meta)
			got := post(t, url, body, append(modern("tools/call", "Mcp-Name: route"), tc.headers...)...)
			is := ""
			switch {
			case got.status == 400 && got.errorCode() == -32020:
				is = differs
			case got.status == 200 && strings.Contains(string(got.Result), `"isError":false`):
				is = fine
			case got.status == 200 && strings.Contains(string(got.Result), `"code":"INVALID_TOOL_INPUT"`):
				is = wrong
			}
			if is != tc.want {
				t.Errorf("got %d %s, want it to be %s", got.status, got.body, tc.want)
			}
		})
	}
}

// The rule is that of one revision over HTTP; other clients send no such
// headers.
func TestMarkedArgumentsNeedNoHeadersInOtherDialects(t *testing.T) {
	t.Parallel()
	rig, url := desk(t, mcphttp.Options{})
	call := `"name":"route","arguments":{"region":"eu","stop":1}`
	if got := post(t, url, request("tools/call", call)); got.status != 200 || !strings.Contains(string(got.Result), `"isError":false`) {
		t.Errorf("legacy: %d %s", got.status, got.body)
	}
	canonical := mcptest.Serve(t, rpchttp.New(rig.Bridge, rpchttp.Options{}))
	if got := post(t, canonical, strings.Replace(request("tools/call", call), `"id":0`, `"id":"0"`, 1)); got.status != 200 || !strings.Contains(string(got.Result), `"isError":false`) {
		t.Errorf("canonical: %d %s", got.status, got.body)
	}
}

// ProtoJSON has two names for a field. Under either of them an argument is the
// same, also when it is compared with a header.
func TestAnotherNameOfAFieldDoesNotGetAroundItsHeader(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	for name, schema := range map[string]string{
		"desk.open":   `{"type":"object","properties":{"vehicleId":{"type":"string","x-mcp-header":"Vehicle"}}}`,
		"desk.closed": `{"type":"object","properties":{"vehicle_id":{"type":"string","x-mcp-header":"Vehicle"}},"additionalProperties":false}`,
	} {
		if _, err := rig.Live.Put(t.Context(), catalog.Registration{
			Name: name, Description: "Look at a vehicle.", InputSchema: json.RawMessage(schema),
			Binding: catalog.Binding{Service: "outrigger.demo.v1.Fleet", Method: "GetVehicle"},
		}); err != nil {
			t.Fatal(err)
		}
	}
	url := mcptest.Serve(t, mcphttp.New(rig.Bridge, mcphttp.Options{}))
	for _, name := range []string{"desk.open", "desk.closed"} {
		for _, arguments := range []string{
			`{"vehicleId":"101"}`, `{"vehicle_id":"101"}`, `{"vehicleId":null,"vehicle_id":"101"}`, `{"vehicle_id":null,"vehicleId":"101"}`,
		} {
			body := request("tools/call", `"name":"`+name+`","arguments":`+arguments+`,`+meta)
			for _, headers := range [][]string{nil, {"Mcp-Param-Vehicle: 102"}} {
				if got := post(t, url, body, append(modern("tools/call", "Mcp-Name: "+name), headers...)...); strings.Contains(got.body, `"isError":false`) || strings.Contains(got.body, "backendCode") {
					t.Errorf("%s took %s with %v: %s", name, arguments, headers, got.body)
				}
			}
		}
		allowed := map[string]string{"desk.open": `{"vehicle_id":"101"}`, "desk.closed": `{"vehicle_id":"101"}`}[name]
		got := post(t, url, request("tools/call", `"name":"`+name+`","arguments":`+allowed+`,`+meta), modern("tools/call", "Mcp-Name: "+name, "Mcp-Param-Vehicle: 101")...)
		if !strings.Contains(got.body, `"isError":false`) {
			t.Errorf("%s with its header: %d %s", name, got.status, got.body)
		}
	}
}
