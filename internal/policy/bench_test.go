// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
)

// BenchmarkRateserviceCheck is what a call pays for the question, over loopback.
func BenchmarkRateserviceCheck(b *testing.B) {
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
	r := asked(patience)
	r.Failure = new("closed")
	s := policy.NewRateService(client, r, zap.NewNop())
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(b.Context(), "caller:ann", "shop.get", false); err != nil {
			b.Fatal(err)
		}
	}
}
