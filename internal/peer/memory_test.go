// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"math"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

func TestWhereTheLimitIsFrom(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, tc := range []struct {
		name       string
		configured int64
		env        int64
		files      fstest.MapFS
		want       int64
		source     string
	}{
		{name: "nothing says so", env: math.MaxInt64},
		{name: "configured", configured: 100, env: 7, files: fstest.MapFS{"sys/fs/cgroup/memory.max": file("50\n")}, want: 100, source: "--memory-limit"},
		{name: "GOMEMLIMIT", env: 77, files: fstest.MapFS{"sys/fs/cgroup/memory.max": file("50\n")}, want: 77, source: "GOMEMLIMIT"},
		{name: "a container", env: math.MaxInt64, files: fstest.MapFS{"sys/fs/cgroup/memory.max": file("104857600\n")}, want: 90 * mib, source: "the control group"},
		{name: "a container of version 1", env: math.MaxInt64, files: fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("104857600\n")}, want: 90 * mib, source: "the control group"},
		{name: "no limit", env: math.MaxInt64, files: fstest.MapFS{"sys/fs/cgroup/memory.max": file("max\n")}},
		{name: "no limit of version 1", env: math.MaxInt64, files: fstest.MapFS{"sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}},
		{name: "the least of the groups around it", env: math.MaxInt64, want: 90 * mib, source: "the control group", files: fstest.MapFS{
			"proc/self/cgroup":                          file("0::/a/b/c\n"),
			"sys/fs/cgroup/a/b/c/memory.max":            file("max\n"),
			"sys/fs/cgroup/a/b/memory.max":              file("104857600\n"),
			"sys/fs/cgroup/a/memory.max":                file("209715200\n"),
			"sys/fs/cgroup/somebody/else/memory.max":    file("1\n"),
			"sys/fs/cgroup/memory/a/b/c/memory.max":     file("1\n"),
			"sys/fs/cgroup/cpu/memory.limit_in_bytes":   file("1\n"),
			"sys/fs/cgroup/a/b/c/d/memory.max":          file("1\n"),
			"sys/fs/cgroup/memory/memory.soft_in_bytes": file("1\n"),
		}},
		{name: "several hierarchies", env: math.MaxInt64, want: 90 * mib, source: "the control group", files: fstest.MapFS{
			"proc/self/cgroup": file("4:cpu,cpuacct:/x\n3:hugetlb,memory:/y\n"),
			"sys/fs/cgroup/memory/y/memory.limit_in_bytes": file("104857600\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("1\n"),
		}},
		{name: "nonsense", env: math.MaxInt64, files: fstest.MapFS{
			"proc/self/cgroup":         file("0\n::\n0::/../../etc\n\x00:memory:\n"),
			"sys/fs/cgroup/memory.max": file("-5\n"),
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.files == nil {
				tc.files = fstest.MapFS{}
			}
			got, source := peer.MemoryLimit(tc.configured, tc.env, tc.files)
			if got != tc.want || source != tc.source {
				t.Errorf("%d of %q, want %d of %q", got, source, tc.want, tc.source)
			}
		})
	}
}

// TestMemoryGetsShortAndComesBack holds on to more than there is, and lets go.
// Nothing else of this package allocates, and the numbers are the process' own, so
// it does not run beside others.
//
//nolint:paralleltest // see above
func TestMemoryGetsShortAndComesBack(t *testing.T) {
	const room = 64 << 20
	runtime.GC()
	probe := peer.NewMemoryGuard(math.MaxInt64)
	probe.Sample(time.Now())
	g := peer.NewMemoryGuard(probe.Stats().Used + room)
	now := time.Now()
	g.Sample(now)
	if g.Short() {
		t.Fatalf("short at once: %+v", g.Stats())
	}
	held := make([][]byte, 0, 100)
	for range cap(held) {
		held = append(held, make([]byte, 1<<20))
	}
	runtime.GC()
	now = now.Add(time.Second)
	g.Sample(now)
	if !g.Short() {
		t.Errorf("%d MiB more than before and not short: %+v", len(held), g.Stats())
	}
	g.Refused()
	runtime.KeepAlive(held)
	held = nil
	now = now.Add(10 * time.Millisecond)
	g.Sample(now)
	if !g.Short() {
		t.Error("it is enough before anything was collected")
	}
	// Nothing else collects, so the guard does.
	g.Sample(now.Add(2 * time.Second))
	if g.Short() || g.Stats().Refused != 1 {
		t.Errorf("it stays short: %+v, %d", g.Stats(), len(held))
	}
}

func TestNoGuardIsNeverShort(t *testing.T) {
	t.Parallel()
	g := peer.NewMemoryGuard(0)
	g.Refused()
	g.Run(t.Context())
	if g != nil || g.Short() || g.Stats() != (peer.MemoryStats{}) {
		t.Errorf("%+v", g.Stats())
	}
}

func BenchmarkSample(b *testing.B) {
	g := peer.NewMemoryGuard(math.MaxInt64)
	for b.Loop() {
		g.Sample(time.Time{})
	}
}
