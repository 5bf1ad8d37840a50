// SPDX-License-Identifier: Apache-2.0

package resilience_test

import (
	"context"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// BenchmarkDo is what a call that succeeds pays, beside the same without a Guard.
func BenchmarkDo(b *testing.B) {
	clock := stall.New()
	defer clock.Stop()
	for name, g := range map[string]*resilience.Guard{"none": nil, "guard": resilience.New(resilience.Options{Clock: clock})} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx := context.Background()
			for b.Loop() {
				_, _ = resilience.Do(ctx, g, resilience.Call{Key: "a.b", Repeatable: true}, func(context.Context) (int, *errmap.Error) { return 1, nil })
			}
		})
		b.Run(name+"/contended", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				ctx := context.Background()
				for pb.Next() {
					_, _ = resilience.Do(ctx, g, resilience.Call{Key: "a.b", Repeatable: true}, func(context.Context) (int, *errmap.Error) { return 1, nil })
				}
			})
		})
	}
}
