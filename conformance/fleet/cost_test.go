// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// costOfSharing is what a session or a task may cost beyond one that nobody shares.
const costOfSharing = 2 << 10

// heapBytes is what is in use. The server is in this process, too: so only what a replica takes that stores nothing is measured.
func heapBytes() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemoryOfATask compares what a replica knows of the tasks that another one has with tasks that nobody shares.
func TestMemoryOfATask(t *testing.T) {
	const n = 1000
	nats, sealer := startNATS(t, nil), newSealer(t)
	record := func(i int) task.Record {
		now := time.Now()
		return task.Record{ID: fmt.Sprintf("t_%036d", i), Principal: fmt.Sprint("caller ", i), Tool: "shop.look", Expires: now.Add(time.Hour), Task: &outriggerv1.Task{
			TaskId: fmt.Sprintf("t_%036d", i), Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING,
			CreatedAt: timestamppb.New(now), LastUpdatedAt: timestamppb.New(now), StatusMessage: "the order is being packed",
		}}
	}
	alone := task.NewMemory(task.MemoryOptions{MaxTasks: 2 * n})
	start := heapBytes()
	for i := range n {
		if err := alone.Create(t.Context(), record(i)); err != nil {
			t.Fatal(err)
		}
	}
	local := (heapBytes() - start) / n
	stores := make([]*taskstore.Store, 2)
	for i := range stores {
		c := open(t, state.Options{URL: nats.URL(), Sealer: sealer})
		stores[i] = openTasks(t, c, taskstore.Options{MaxTasks: 2 * n})
		healthy(t, c)
		if i > 0 {
			break
		}
		for j := range n {
			if err := stores[0].Create(t.Context(), record(j)); err != nil {
				t.Fatal(err)
			}
		}
		start = heapBytes()
	}
	testkit.Until(t, "all are known", func() bool { return stores[1].Stats().Tasks == n })
	shared := (heapBytes() - start) / n
	t.Logf("a task: %d bytes alone, %d where another replica has it", local, shared)
	if shared > local+costOfSharing {
		t.Errorf("%d bytes, want at most %d", shared, local+costOfSharing)
	}
	runtime.KeepAlive(alone)
}

// TestMemoryOfASession compares sessions that replicas share with those that nobody does.
func TestMemoryOfASession(t *testing.T) {
	const n = 1000
	nats, sealer := startNATS(t, nil), newSealer(t)
	o := session.Options{Max: 2 * n}
	alone := session.New(o)
	t.Cleanup(alone.Close)
	a, b := startKeeper(t, nats, sealer, o), startKeeper(t, nats, sealer, o)
	client := &outriggerv1.RequestContext{ProtocolVersion: "2025-11-25", ClientInfo: &outriggerv1.Implementation{Name: "client", Version: "1.0.0"}}
	start := heapBytes()
	for i := range n {
		if _, err := alone.Open(fmt.Sprint("caller ", i), client, 1); err != nil {
			t.Fatal(err)
		}
	}
	local := (heapBytes() - start) / n
	ids := make([]string, n)
	for i := range n {
		s, err := a.OpenShared(t.Context(), fmt.Sprint("caller ", i), client, 1)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = s.ID()
	}
	testkit.Until(t, "all are known", func() bool { return b.Stats().Sessions == n })
	before := heapBytes()
	for i, id := range ids {
		if _, err := b.Use(t.Context(), fmt.Sprint("caller ", i), id, b.origin); err != nil {
			t.Fatal(err)
		}
	}
	shared := (heapBytes() - before) / n
	t.Logf("a session: %d bytes alone, %d where replicas share it", local, shared)
	if shared > local+costOfSharing {
		t.Errorf("%d bytes, want at most %d", shared, local+costOfSharing)
	}
	runtime.KeepAlive(alone)
}

// BenchmarkEventOfASession is an event on a stream of a session: stored by a server on
// loopback with a file, and in memory.
func BenchmarkEventOfASession(b *testing.B) {
	message := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`)
	for _, shared := range []bool{false, true} {
		b.Run(fmt.Sprintf("shared=%v", shared), func(b *testing.B) {
			s := benchSession(b, shared)
			st := s.NewStreamFor(aCall, true)
			took := make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for b.Loop() {
				begun := time.Now()
				if err := st.Send(message); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// benchSession opens a session.
func benchSession(b *testing.B, shared bool) *session.Session {
	b.Helper()
	if shared {
		return startKeeper(b, startNATS(b, nil), newSealer(b), session.Options{}).open(b)
	}
	m := session.New(session.Options{})
	b.Cleanup(m.Close)
	s, err := m.Open("alice", &outriggerv1.RequestContext{ProtocolVersion: "2025-11-25"}, 1)
	if err != nil {
		b.Fatal(err)
	}
	return s
}
