// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"testing"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
)

// TestAnHTTP2ConnectionThatHasHadItsRequestsEnds: the client gets GOAWAY,
// and everything that it has sent is answered.
func TestAnHTTP2ConnectionThatHasHadItsRequestsEnds(t *testing.T) {
	t.Parallel()
	server := sidecar.ServeReady(t, binary, "--demo", "--max-connection-requests", "2")
	at := listener{name: "main", addr: server.Addr()}
	c := dialH2(t, at)
	for i := range 3 {
		if s, err := c.await(c.open(t, true, head(at, "GET", "/nothing")...), false); err != nil || s.status != "404" {
			t.Fatalf("request %d: status %q, %v", i+1, s.status, err)
		}
		if i == 0 && c.goAway {
			t.Fatal("GOAWAY after the first request of two")
		}
	}
	for !c.goAway {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			t.Fatalf("no GOAWAY: %v", err)
		}
		if err := c.take(frame); err != nil {
			t.Fatal(err)
		}
		if ping, ok := frame.(*http2.PingFrame); ok && !ping.IsAck() {
			if err := c.framer.WritePing(true, ping.Data); err != nil {
				t.Fatal(err)
			}
		}
	}
}
