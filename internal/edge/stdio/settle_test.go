// SPDX-License-Identifier: Apache-2.0

package stdio_test

import (
	"context"
	"fmt"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
)

// TestASubscriptionHoldsOnceItIsAcknowledged has a backend change something the
// moment that a client knows it has subscribed: the backend was asked to report
// it by then.
func TestASubscriptionHoldsOnceItIsAcknowledged(t *testing.T) {
	t.Parallel()
	const (
		resources = 20
		updated   = "notifications/resources/updated"
	)
	for _, tt := range []struct {
		name      string
		begin     func(*peer)
		subscribe func(p *peer, n int, uri string)
	}{
		{"legacy", func(p *peer) { p.begin("2025-11-25") }, func(p *peer, n int, uri string) {
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"resources/subscribe","params":{"uri":%q}}`, n, uri))
			p.result(fmt.Sprint(n), "{}")
		}},
		{"modern", func(*peer) {}, func(p *peer, n int, uri string) {
			p.send(modern(fmt.Sprint(n), "subscriptions/listen", fmt.Sprintf(`"notifications":{"resourceSubscriptions":[%q]}`, uri), ""))
			p.method("notifications/subscriptions/acknowledged")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, rig := desk(t.Context(), t, stdio.Options{})
			tt.begin(p)
			impatient, cancel := context.WithCancel(t.Context())
			cancel()
			for n := range resources {
				uri := fmt.Sprintf("desk://notes/%d", 100+n)
				tt.subscribe(p, n, uri)
				err := rig.Native.Announce(impatient, &outriggerv1.Notification{
					Method: updated, ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: fmt.Appendf(nil, `{"uri":%q}`, uri)},
				})
				if err != nil {
					t.Fatalf("%s: %v", uri, err)
				}
				p.method(updated)
			}
			p.end()
		})
	}
}
