// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

func TestNotificationsReachTheConsumer(t *testing.T) {
	t.Parallel()
	type heard struct {
		Method, Params string
		Origin         correlate.Origin
	}
	const from = correlate.Origin(42)
	tests := []struct {
		name    string
		dialect dialect.Dialect
		send    string
		want    []heard
		status  int
	}{
		{"a canonical one", dialect.Canonical, `{"jsonrpc":"2.0","method":"orders/new","params":{"id":18446744073709551615}}`,
			[]heard{{"orders/new", `{"id":18446744073709551615}`, from}}, 202},
		{"without params", dialect.Canonical, `{"jsonrpc":"2.0","method":"x"}`, []heard{{"x", "", from}}, 202},
		{"one that looks like a call", dialect.Canonical, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`,
			[]heard{{"tools/call", `{"name":"lab.echo","arguments":{}}`, from}}, 202},
		{"one that is MCP's elsewhere", dialect.Canonical, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
			[]heard{{"notifications/progress", `{}`, from}}, 202},
		{"a cancellation is none", dialect.Canonical, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`, nil, 202},
		{"MCP modern", dialect.Modern, `{"jsonrpc":"2.0","method":"orders/new","params":{` + modernMeta + `}}`, nil, 202},
		{"MCP legacy", dialect.Legacy, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202},
		{"params that are no object", dialect.Canonical, `{"jsonrpc":"2.0","method":"x","params":[1]}`, nil, 400},
		{"no method", dialect.Canonical, `{"jsonrpc":"2.0","method":""}`, nil, 400},
		{"a request is none", dialect.Canonical, `{"jsonrpc":"2.0","id":"1","method":"orders/new","params":{}}`, nil, 404},
		{"a stray response is none", dialect.Canonical, `{"jsonrpc":"2.0","id":"1","result":{}}`, nil, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []heard
			b := dialect.New(fake(t, nil, bridge.Options{}).Bridge, dialect.Options{Notify: func(_ context.Context, method string, params []byte, origin correlate.Origin) {
				got = append(got, heard{method, string(params), origin})
			}})
			reply := b.HandleMessage(context.Background(), inbound(t, from, tt.dialect, tt.send))
			if reply.Status != tt.status || (reply.Bytes() == nil) != (tt.status == http.StatusAccepted) {
				t.Errorf("answered %d %s, want %d", reply.Status, reply.Bytes(), tt.status)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotificationsAreTakenInReadingOrder registers and never runs: what an edge
// does later on other goroutines changes no order.
func TestNotificationsAreTakenInReadingOrder(t *testing.T) {
	t.Parallel()
	var got []string
	b := dialect.New(fake(t, nil, bridge.Options{}).Bridge, dialect.Options{Notify: func(_ context.Context, method string, _ []byte, _ correlate.Origin) { got = append(got, method) }})
	for _, method := range []string{"a", "b", "c"} {
		b.BeginMessage(context.Background(), inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","method":"`+method+`"}`))
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestANotificationIsNeverAnswered(t *testing.T) {
	t.Parallel()
	for name, notify := range map[string]func(context.Context, string, []byte, correlate.Origin){
		"no listener":         nil,
		"the listener panics": func(context.Context, string, []byte, correlate.Origin) { panic("no") },
	} {
		b := dialect.New(fake(t, nil, bridge.Options{}).Bridge, dialect.Options{Notify: notify})
		reply := b.HandleMessage(context.Background(), inbound(t, 1, dialect.Canonical, `{"jsonrpc":"2.0","method":"x"}`))
		if reply.Bytes() != nil || reply.Status != http.StatusAccepted {
			t.Errorf("%s: answered %d %s", name, reply.Status, reply.Bytes())
		}
	}
}

func TestDescriptionIsWhatDescribeAnswers(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{Server: bridge.ServerInfo{Name: "n", Version: "1.2.3"}})
	reply := b.HandleMessage(context.Background(), inbound(t, 1, dialect.Canonical,
		`{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`))
	var got struct{ Result json.RawMessage }
	if err := json.Unmarshal(reply.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	said, failed := b.Description(t.Context())
	if failed != nil {
		t.Fatal(failed)
	}
	if diff := cmp.Diff(string(got.Result), string(said)); diff != "" {
		t.Errorf("(-describe +description):\n%s", diff)
	}
	var description struct {
		Tools int `json:"tools_count"`
	}
	if err := json.Unmarshal(said, &description); err != nil || description.Tools != len(b.Catalogs().Current().Tools()) {
		t.Errorf("%d tools, %v", description.Tools, err)
	}
	none := dialect.New(bridge.New(loading(), nil, b.Flights(), bridge.Options{CatalogWait: time.Millisecond}), dialect.Options{})
	if said, failed := none.Description(t.Context()); failed == nil || failed.Code != errmap.Unavailable {
		t.Errorf("without a catalog: %s, %v", said, failed)
	}
}
