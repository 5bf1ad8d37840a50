// SPDX-License-Identifier: Apache-2.0

package rateservice_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/rateservice"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
)

// BenchmarkCheck is what a call pays for the question, over loopback.
func BenchmarkCheck(b *testing.B) {
	peer := ratetest.Start(b)
	target, err := backend.ParseTarget(peer.URL())
	if err != nil {
		b.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{MaxHTTP2Conns: 1})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = client.Close() })
	s := rateservice.New(client, rateservice.Options{Timeout: patience, FailClosed: true})
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(b.Context(), "caller:ann", "shop.get", false); err != nil {
			b.Fatal(err)
		}
	}
}
