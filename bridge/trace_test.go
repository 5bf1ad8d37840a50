// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

func TestTraceContextOfAMessageGoesBeforeTheConnections(t *testing.T) {
	t.Parallel()
	connection := http.Header{"Traceparent": {"tp-header"}, "Tracestate": {"ts-header"}, "Baggage": {"bg-header"}}
	for _, tc := range []struct {
		name   string
		header http.Header
		meta   string
		want   http.Header
	}{
		{"no meta", connection, `{}`, connection},
		{"no header", nil, `{"traceparent":"tp"}`, http.Header{"Traceparent": {"tp"}}},
		{"neither", nil, `{}`, nil},
		{"all three", connection, `{"traceparent":"tp","tracestate":"ts","baggage":"k=v"}`,
			http.Header{"Traceparent": {"tp"}, "Tracestate": {"ts"}, "Baggage": {"k=v"}}},
		{"a parent alone leaves the connection's state behind", connection, `{"traceparent":"tp"}`,
			http.Header{"Traceparent": {"tp"}, "Baggage": {"bg-header"}}},
		{"baggage alone", connection, `{"baggage":"k=v"}`,
			http.Header{"Traceparent": {"tp-header"}, "Tracestate": {"ts-header"}, "Baggage": {"k=v"}}},
		{"a second header", connection, `{"traceparent":"tp\r\nauthorization: Bearer x"}`, connection},
		{"a line end", connection, `{"tracestate":"a\n"}`, connection},
		{"a zero byte", connection, `{"baggage":"a\u0000"}`, connection},
		{"not ASCII", connection, `{"baggage":"k=ü"}`, connection},
		{"empty", connection, `{"traceparent":""}`, connection},
		{"no string", connection, `{"traceparent":7,"tracestate":null,"baggage":["x"]}`, connection},
		{"as long as may be", nil, `{"baggage":"` + strings.Repeat("b", 8192) + `"}`, http.Header{"Baggage": {strings.Repeat("b", 8192)}}},
		{"too long", nil, `{"baggage":"` + strings.Repeat("b", 8193) + `"}`, nil},
		{"other names do not cross", nil, `{"authorization":"Bearer x","x-request-id":"r"}`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			rules, err := metadata.NewRules([]string{"*"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			backend := &recorder{}
			b := fake(t, backend.call, bridge.Options{Metadata: rules})
			in := inbound(t, b.Flights().NewOrigin(), dialect.Canonical,
				`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","_meta":`+tc.meta+`}}`)
			in.Header = tc.header.Clone()
			if got := decode(t, b.HandleMessage(t.Context(), in)); got.code() != "" {
				t.Fatalf("got %+v", got)
			}
			if diff := cmp.Diff(tc.want, backend.seen); diff != "" {
				t.Errorf("the backend saw (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.header, in.Header); diff != "" {
				t.Errorf("the edge's own headers were changed:\n%s", diff)
			}
		})
	}
}
