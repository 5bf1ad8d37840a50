// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// costOfSharing is what a task may cost beyond one that no one shares.
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

// TestMemoryOfATask compares what a replica knows of the tasks that another one has with tasks that no one shares.
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
		c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: nats.URL()}), Sealer: sealer})
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
