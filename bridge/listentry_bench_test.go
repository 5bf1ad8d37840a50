// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// BenchmarkListAfterOneMore lists 1,000 tools right after the last of them was
// registered, when nothing of the new list is rendered yet.
func BenchmarkListAfterOneMore(b *testing.B) {
	for _, d := range []dialect.Dialect{dialect.Canonical, dialect.Modern, dialect.Legacy} {
		b.Run(d.String(), func(b *testing.B) {
			var live *catalog.Live
			var sidecar *dialect.Handler
			n := 0
			more := func() {
				n++
				if _, _, err := live.Register(context.Background(), catalog.Registration{
					Name: fmt.Sprintf("desk.repeat_%d", n), Description: "Says a word again.",
					Binding:     catalog.Binding{Service: "outrigger.demo.v1.Lab", Method: "Echo"},
					InputSchema: json.RawMessage(`{"type":"object","properties":{"nonce":{"type":"string","maxLength":5}},"required":["nonce"]}`),
				}); err != nil {
					b.Fatal(err)
				}
			}
			list := func() {
				reply := sidecar.HandleMessage(context.Background(), inbound(b, sidecar.Flights().NewOrigin(), d,
					`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{`+modernMeta+`}}`))
				if reply.Status != http.StatusOK || reply.Len() < 100_000 {
					b.Fatal(reply.Status)
				}
			}
			fill := func() {
				live = catalog.NewLive([]source.Source{mcptest.Source()}, catalog.LiveOptions{Build: catalog.BuildOptions{
					Limits: catalog.Limits{MaxRegistrations: 2000},
				}})
				if err := live.Refresh(context.Background()); err != nil {
					b.Fatal(err)
				}
				sidecar = dialect.New(bridge.New(live, mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{PageSize: 2000}), dialect.Options{})
				for n = 0; len(live.Current().Tools()) < 1000; {
					more()
				}
				list()
			}
			fill()
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if len(live.Current().Tools()) >= 1100 {
					fill()
				}
				more()
				b.StartTimer()
				list()
			}
		})
	}
}
