// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// BenchmarkDo is what a call that succeeds pays, beside the same without a Guard.
func BenchmarkDo(b *testing.B) {
	clock := peer.NewClock()
	defer clock.Stop()
	for name, g := range map[string]*backend.Guard{"none": nil, "guard": backend.NewGuard(configtest.Filled(b, (*configv1.Resilience)(nil)), backend.GuardOptions{Clock: clock})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			for b.Loop() {
				_, _ = backend.DoGuarded(ctx, g, backend.GuardedCall{Key: "a.b", Repeatable: true}, func(context.Context) (int, *errmap.Error) { return 1, nil })
			}
		})
		b.Run(name+"/contended", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					_, _ = backend.DoGuarded(ctx, g, backend.GuardedCall{Key: "a.b", Repeatable: true}, func(context.Context) (int, *errmap.Error) { return 1, nil })
				}
			})
		})
	}
}
