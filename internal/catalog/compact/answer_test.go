// SPDX-License-Identifier: Apache-2.0

package compact_test

import (
	"encoding/json"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
)

func TestCall(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		arguments, name, inner string
		ok                     bool
	}{
		{`{"name":"a.b"}`, "a.b", "", true},
		{`{"name":"a.b","fields":null,"stream_time":null}`, "a.b", "", true},
		{`{"name":"a.b","fields":""}`, "", "", false},
		{`{"name":"a.b","fields":["a"]}`, "", "", false},
		{`{"name":"a.b","stream_time":5}`, "", "", false},
		{`{"name":"a.b","arguments":{"x":[1]}}`, "a.b", `{"x":[1]}`, true},
		{`{"arguments":{},"name":"a.b"}`, "a.b", `{}`, true},
		{`{"n\u0061me":"a\u002eb"}`, "a.b", "", true},
		{`{"name":"a.b","arguments":"{}"}`, "a.b", `"{}"`, true},
		{`{}`, "", "", false},
		{`{"name":""}`, "", "", false},
		{`{"name":null}`, "", "", false},
		{`{"name":"a.b","version":"1"}`, "", "", false},
		{`{"arguments":{}}`, "", `{}`, false},
	} {
		got, ok := compact.Call([]byte(tc.arguments))
		if ok != tc.ok || ok && (got.Name != tc.name || string(got.Arguments) != tc.inner) {
			t.Errorf("%s: %+v %v", tc.arguments, got, ok)
		}
	}
	if _, ok := compact.Call(nil); ok {
		t.Error("no arguments are a call")
	}
	if got, ok := compact.Call([]byte(`{"name":"a","fields":"id","stream_time":"5s"}`)); !ok || got.Fields != "id" || got.StreamTime != "5s" {
		t.Errorf("what is wanted of a result: %+v %v", got, ok)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		arguments, query string
		limit            int
	}{
		{`{"query":"x"}`, "x", catalog.DefaultSearchResults},
		{`{"query":"x","limit":7}`, "x", 7},
		{`{"limit":1e1,"query":"x"}`, "x", 10},
	} {
		if query, limit := compact.Query([]byte(tc.arguments)); query != tc.query || limit != tc.limit {
			t.Errorf("%s: %q %d", tc.arguments, query, limit)
		}
	}
}

func TestFoundIsJSON(t *testing.T) {
	t.Parallel()
	tools := []*catalog.Tool{{Name: "a.\"b", Description: "Says \"hello\".\nMore."}, {Name: "c.d", Title: "D"}}
	for n := range len(tools) + 1 {
		raw := compact.AppendFound(nil, tools[:n], func(t *catalog.Tool) string { return t.Name })
		var got struct {
			Tools []struct{ Name, Summary string }
		}
		if err := json.Unmarshal(raw, &got); err != nil || got.Tools == nil || len(got.Tools) != n {
			t.Errorf("%d tools: %v: %s", n, err, raw)
		}
	}
}
