// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"runtime"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// A catalog of 1,000 tools is built in under a second on a machine of two cores: a fifth of that in fact. The test grants
// ten seconds, because the machine may be busy and the race detector slows everything; what grew with the square of the
// tools would miss that too.
func TestThousandToolsAreBuiltInTime(t *testing.T) {
	t.Parallel()
	load := manyServices(100)
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		start := time.Now()
		c, err := Build([]*source.Loaded{load}, BuildOptions{Profile: profile})
		if err != nil || len(c.Tools()) != 1000 {
			t.Fatal(err)
		}
		if took := time.Since(start); took > testkit.Limit() {
			t.Errorf("%s: %v", profile, took)
		}
	}
}

// BenchmarkThousandTools builds a catalog of 1,000 tools from descriptors, each with its own messages, and reports what
// it holds in memory for each tool: the descriptors, both schemas of both directions and the transcoders.
func BenchmarkThousandTools(b *testing.B) {
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		b.Run(profile.String(), func(b *testing.B) {
			load := manyServices(100)
			var c *Catalog
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if c, err = Build([]*source.Loaded{load}, BuildOptions{Profile: profile}); err != nil || len(c.Tools()) != 1000 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(held(&c))/1000, "heap-B/tool")
		})
	}
}

// held lets go of a catalog and says what it held.
func held(c **Catalog) int64 {
	with := heap()
	*c = nil
	return with - heap()
}

// heap is the bytes of what is reachable.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one may leave what finalizers held
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
