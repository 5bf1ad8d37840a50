// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestPercentFor(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tc := range []struct {
		base uint64
		want int
	}{{0, 250}, {4 * mib, 250}, {8 * mib, 200}, {16 * mib, 100}, {20 * mib, 80}, {24 * mib, 66}, {32 * mib, 50}, {33 * mib, 50}, {1 << 40, 50}} {
		if got := percentFor(inUse{base: tc.base, scanned: tc.base}); got != tc.want {
			t.Errorf("%d MiB: got %d, want %d", tc.base/mib, got, tc.want)
		}
	}
	for base := range uint64(100 * mib / 4096) {
		base *= 4096
		percent := percentFor(inUse{base: base, scanned: base})
		if garbage := base * uint64(percent) / 100; percent < 50 || percent > 250 || percent > 50 && garbage > 16*mib {
			t.Fatalf("%d bytes: %d percent, %d bytes of garbage", base, percent, garbage)
		}
	}
}

// The bytes of large messages, which a collection passes over, do not ask for as much
// garbage again as half of them.
func TestPercentForBytes(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tc := range []struct {
		base, scanned uint64
		want          int
	}{
		{4 * mib, 0, 250}, {20 * mib, 2 * mib, 80}, {40 * mib, 40 * mib, 50}, {40 * mib, 8 * mib, 50}, {100 * mib, 90 * mib, 48},
		{100 * mib, 10 * mib, 48}, {200 * mib, 20 * mib, 24}, {200 * mib, 120 * mib, 30}, {400 * mib, 40 * mib, 20}, {1 << 40, 0, 20}, {1 << 40, 1 << 41, 50},
	} {
		if got := percentFor(inUse{base: tc.base, scanned: tc.scanned}); got != tc.want {
			t.Errorf("%d MiB, %d MiB with pointers: got %d, want %d", tc.base/mib, tc.scanned/mib, got, tc.want)
		}
	}
}

// gogc is the percentage that counts.
func gogc() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// collected collects until the percentage is as wanted.
func collected(t *testing.T, what string, ok func(percent int) bool) {
	t.Helper()
	testkit.Try(t, what, func() error {
		runtime.GC()
		if percent := gogc(); !ok(percent) {
			return fmt.Errorf("%d percent", percent)
		}
		return nil
	})
}

// TestPace holds on to more than there is room for garbage, and lets go. The
// percentage is the process' own, so it does not run beside others.
//
//nolint:paralleltest // see above
func TestPace(t *testing.T) {
	stop := PaceCollector()
	defer stop()
	collected(t, "a small heap", func(p int) bool { return p == mostPercent })
	held := make([][]byte, 0, 64)
	for range cap(held) {
		held = append(held, make([]byte, 1<<20))
	}
	collected(t, "a large heap", func(p int) bool { return p == leastPercent })
	runtime.KeepAlive(held)
	held = nil
	collected(t, "a heap that was large", func(p int) bool { return p == mostPercent && len(held) == 0 })

	held = append(held, make([]byte, 64<<20))
	stop()
	stop()
	for range 3 {
		runtime.GC()
	}
	if p := gogc(); p != usualPercent {
		t.Errorf("it goes on after its end: %d percent", p)
	}
	runtime.KeepAlive(held)
}

// TestPercentForRequestsInFlight: thousands of stacks make room for garbage, up to a bound, and a large catalog does not.
func TestPercentForRequestsInFlight(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, tc := range []struct {
		base, stacks uint64
		want         int
	}{
		{20 * mib, mib, 80}, {20 * mib, 3 * mib, 120}, {60 * mib, 12 * mib, 160}, {120 * mib, 40 * mib, 200}, {90 * mib, 60 * mib, 200},
		{480 * mib, 24 * mib, 47}, {480 * mib, 60 * mib, 100}, {480 * mib, mib, 49},
	} {
		if got := percentFor(inUse{base: tc.base, scanned: tc.base - tc.stacks, stacks: tc.stacks}); got != tc.want {
			t.Errorf("%d MiB, %d MiB of stacks: got %d, want %d", tc.base/mib, tc.stacks/mib, got, tc.want)
		}
	}
}
