// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/task/tasktest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// openTasks opens a store that runs until the end of the test.
func openTasks(t *testing.T, c *state.Client, o taskstore.Options) *taskstore.Store {
	t.Helper()
	o.OnError = func(err error) { t.Errorf("store: %v", err) }
	s := taskstore.New(c, o)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return s
}

// TestTasksKeepTheContract: tasks in JetStream keep the contract that those in memory
// keep.
func TestTasksKeepTheContract(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	var deployments atomic.Int64
	tasktest.Contract(t, tasktest.Kit{
		New: func(t *testing.T, maxTasks int, rule peer.Rule) task.Store {
			t.Helper()
			c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL(), Name: new(fmt.Sprintf("d%d", deployments.Add(1)))})})
			s := openTasks(t, c, taskstore.Options{MaxTasks: maxTasks, Share: rule})
			healthy(t, c)
			testkit.Until(t, "it has a lease", func() bool { return s.Stats().Owners == 1 })
			return s
		},
		Settle: func(t *testing.T, told func() bool) {
			t.Helper()
			testkit.Until(t, "watchers are told", told)
		},
	})
}

// TestWritesAreFast measures what a task writes, beside as many plain writes of that size: a machine that is busy is so for both.
func TestWritesAreFast(t *testing.T) {
	n := startNATS(t, nil)
	c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
	s := openTasks(t, c, taskstore.Options{})
	plain := c.Bucket(things())
	healthy(t, c)
	const tasks = 500
	var took, least []time.Duration
	for i := range tasks {
		r := task.Record{ID: fmt.Sprintf("t_%d", i), Principal: "alice", Expires: time.Now().Add(time.Hour), Again: make([]byte, 1024)}
		start := time.Now()
		if err := s.Create(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		created := time.Since(start)
		for range 2 {
			now, err := s.Get(t.Context(), r.ID)
			if err != nil {
				t.Fatal(err)
			}
			start = time.Now()
			if err := s.Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			created += time.Since(start)
		}
		took = append(took, created)
		start = time.Now()
		for n := range 3 {
			if _, err := plain.Create(t.Context(), fmt.Sprintf("k%d-%d", i, n), r.Again, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		least = append(least, time.Since(start))
	}
	slices.Sort(took)
	slices.Sort(least)
	p50, p99 := took[tasks/2], took[tasks*99/100]
	t.Logf("three writes of a task: p50 %v, p99 %v; of plain values: p50 %v", p50, p99, least[tasks/2])
	if p50 > 4*least[tasks/2] {
		t.Errorf("three writes of a task take %v in the median, and %v as plain values", p50, least[tasks/2])
	}
}

// TestALeaseMayGrow: the buckets stay as they were made, so a longer lease that is configured later has room in them.
func TestALeaseMayGrow(t *testing.T) {
	t.Parallel()
	n := startNATS(t, nil)
	for _, lease := range []time.Duration{2 * time.Second, 10 * time.Minute} {
		c := open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: n.URL()})})
		openTasks(t, c, taskstore.Options{Lease: lease})
		healthy(t, c)
		bucket, err := n.admin().Stream(t.Context(), "KV_outrigger_default_owners")
		if err != nil {
			t.Fatal(err)
		}
		if age := bucket.CachedInfo().Config.MaxAge; age < lease {
			t.Errorf("the bucket deletes a lease of %v after %v", lease, age)
		}
	}
}
