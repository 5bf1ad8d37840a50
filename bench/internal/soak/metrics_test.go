// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"errors"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const page = `# HELP go_goroutines Number of goroutines that currently exist.
# TYPE go_goroutines gauge
go_goroutines 16
go_goroutines_more 3
go_memstats_heap_inuse_bytes 1.5515648e+07
odd
`

func TestGauges(t *testing.T) {
	t.Parallel()
	got, err := gauges([]byte(page), goroutinesMetric, heapMetric)
	if err != nil || got[0] != 16 || got[1] != 15_515_648 {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "go_goroutines 16\n", "go_goroutines x\n" + page, "go_goroutines NaN\n" + page, "go_goroutines -1\n" + page, "go_goroutines \n" + page} {
		if _, err := gauges([]byte(bad), goroutinesMetric, heapMetric); !errors.Is(err, ErrMetrics) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func FuzzGauges(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("go_goroutines 1e400\ngo_memstats_heap_inuse_bytes 0x1p-2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := gauges(text, goroutinesMetric, heapMetric)
		if err == nil && (len(got) != 2 || !(got[0] >= 0) || !(got[1] >= 0)) {
			t.Errorf("%q: %v", text, got)
		}
	})
}
