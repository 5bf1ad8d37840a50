// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"slices"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
)

// BenchmarkQueries asks all queries of a catalog of more than a thousand tools, and reports the median of one.
func BenchmarkQueries(b *testing.B) {
	x := compact.NewIndex(thousand(b).Current())
	var all []query
	for name := range apis() {
		all = append(all, queriesOf(b, name)...)
	}
	took := make([]time.Duration, 0, len(all))
	b.ReportAllocs()
	for b.Loop() {
		took = took[:0]
		for _, q := range all {
			start := time.Now()
			x.Search(q.Query, 5, nil)
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns/query")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns/query")
	b.ReportMetric(float64(len(all)), "queries")
}
