// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// TestParam holds Param and ParamFields to Lookup and Fields, which look at the
// bytes.
func TestParam(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, params string }{
		{"absent", ""},
		{"empty", `{}`},
		{"call", `{"name":"lab.echo","arguments":{"name":"inner","_meta":[{"name":1}]},"_meta":{"name":2}}`},
		{"space", "{ \"a\" : 1 ,\t\"b\" : { } \n}"},
		{"escaped", `{"\u006eame":"x","other":1}`},
		{"eight", `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8}`},
		{"nine", `{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9}`},
		{"array", `[{"name":1}]`},
		{"text", `"name"`},
		{"null", `null`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, form := range []string{`{"jsonrpc":"2.0","id":"1","method":"m","params":P}`, `{"params":P,"x":{"name":3},"method":"m","id":"1","jsonrpc":"2.0"}`} {
				raw := strings.Replace(form, "P", tt.params, 1)
				if tt.params == "" {
					raw = `{"jsonrpc":"2.0","id":"1","method":"m"}`
				}
				sameParams(t, []byte(raw))
			}
		})
	}
}

// TestParamOfOtherParams gives a message other params than it was read with.
func TestParamOfOtherParams(t *testing.T) {
	t.Parallel()
	m := Parse([]byte(`{"jsonrpc":"2.0","id":"1","method":"m","params":{"name":"old"}}`), ProfileMCP, Limits{})
	m.Params = json.RawMessage(`{"other":1}`)
	if value, ok := m.Param("name"); ok {
		t.Errorf("name is %s", value)
	}
	if value, ok := m.Param("other"); !ok || string(value) != "1" {
		t.Errorf("other is %s, %t", value, ok)
	}
}

// sameParams compares what is noted of a message's params with what they are.
func sameParams(t *testing.T, raw []byte) {
	t.Helper()
	e := Read(raw, Limits{})
	for _, profile := range []Profile{ProfileMCP, ProfileCanonical} {
		m := e.As(profile)
		names := []string{"name", "arguments", "_meta", "unknown"}
		var want, got []string
		for name, value := range jsontext.Fields(m.Params) {
			names = append(names, string(name))
			want = append(want, string(name)+"="+string(value))
		}
		for name, value := range m.ParamFields() {
			got = append(got, string(name)+"="+string(value))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: members (-want +got):\n%s", raw, diff)
		}
		for _, name := range names {
			wanted, there := jsontext.Lookup(m.Params, name)
			if value, ok := m.Param(name); ok != there || string(value) != string(wanted) {
				t.Errorf("%q: message: %s is %q, %t; want %q, %t", raw, name, value, ok, wanted, there)
			}
			wanted, there = jsontext.Lookup(e.Params(), name)
			if value, ok := e.Param(name); ok != there || string(value) != string(wanted) {
				t.Errorf("%q: envelope: %s is %q, %t; want %q, %t", raw, name, value, ok, wanted, there)
			}
		}
	}
}
