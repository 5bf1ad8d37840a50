// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// BenchmarkRegisterFinish has 8,000 other calls in flight, in as many origins or
// in one, and registers and finishes one more from each goroutine.
func BenchmarkRegisterFinish(b *testing.B) {
	for _, bench := range []struct {
		name      string
		oneOrigin bool
		opts      []CallOption
	}{
		{"origin each", false, nil},
		{"one origin", true, nil},
		{"origin each, deadline", false, []CallOption{WithTimeout(time.Minute)}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			table := New(Options{})
			shared := table.NewOrigin()
			origin := func() Origin {
				if bench.oneOrigin {
					return shared
				}
				return table.NewOrigin()
			}
			for i := range 8000 {
				c, err := table.Register(b.Context(), origin(), jsonrpc.IntID(int64(i)))
				if err != nil {
					b.Fatal(err)
				}
				defer c.Finish()
			}
			var goroutines atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				id := jsonrpc.IntID(-goroutines.Add(1))
				for pb.Next() {
					c, err := table.Register(context.Background(), origin(), id, bench.opts...)
					if err != nil {
						b.Error(err)
						return
					}
					if !c.Finish() {
						b.Error("Finish lost")
					}
				}
			})
			b.StopTimer()
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	pool := NewPool(PoolOptions{})
	m := success(one, `{"a":1}`)
	b.ReportAllocs()
	for b.Loop() {
		if pool.Expect(one) != nil || pool.Deliver(m) != nil {
			b.Fatal("refused")
		}
		if _, ok := Match(one, pool); !ok {
			b.Fatal("no match")
		}
	}
}
