// SPDX-License-Identifier: Apache-2.0

// Package tasktest has the contract of [task.Store], as a test that every implementation
// passes.
package tasktest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// Kit makes stores.
type Kit struct {
	// New returns an empty store, ready for use, with a maximum number of tasks and a share
	// of them.
	New func(t *testing.T, maxTasks int, rule peer.Rule) task.Store
	// Settle waits until watchers have been told what has happened.
	Settle func(t *testing.T, told func() bool)
}

// Contract runs the test. Where time is real it takes some seconds.
func Contract(t *testing.T, kit Kit) {
	t.Helper()
	for _, one := range []struct {
		name string
		test func(*testing.T, Kit)
	}{
		{"a record comes back whole", whole},
		{"compare and set", compareAndSet},
		{"one of many writers wins", oneWins},
		{"what expires is not found", expires},
		{"limits", limits},
		{"watchers hear of updates in their order", watch},
		{"an ended context", ended},
	} {
		t.Run(one.name, func(t *testing.T) { one.test(t, kit) })
	}
}

const (
	working   = outriggerv1.TaskStatus_TASK_STATUS_WORKING
	completed = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
)

// record is one that expires in so long.
func record(id string, lifetime time.Duration) task.Record {
	now := time.Now()
	return task.Record{
		ID: id, Principal: "alice", Expires: now.Add(lifetime),
		Task: &outriggerv1.Task{TaskId: id, Status: working, CreatedAt: timestamppb.New(now), LastUpdatedAt: timestamppb.New(now)},
	}
}

// next is a record that has changed.
func next(r task.Record, message string) task.Record {
	r.Task = &outriggerv1.Task{
		TaskId: r.ID, Status: working, StatusMessage: message, CreatedAt: r.Task.GetCreatedAt(), LastUpdatedAt: timestamppb.New(time.Now().Add(time.Nanosecond)),
	}
	return r
}

func create(t *testing.T, s task.Store, r task.Record, want error) {
	t.Helper()
	if err := s.Create(context.Background(), r); !errors.Is(err, want) {
		t.Fatalf("Create(%s): %v, want %v", r.ID, err, want)
	}
}

func get(t *testing.T, s task.Store, id string) task.Record {
	t.Helper()
	r, err := s.Get(context.Background(), id)
	if err != nil {
		t.Fatalf("Get(%s): %v", id, err)
	}
	return r
}

func missing(t *testing.T, s task.Store, id string) {
	t.Helper()
	if r, err := s.Get(context.Background(), id); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("Get(%s): %+v, %v, want ErrNotFound", id, r, err)
	}
}

func whole(t *testing.T, kit Kit) {
	t.Helper()
	s := kit.New(t, 10, peer.Rule{})
	want := record("t_whole-1_", time.Hour)
	want.Tool, want.Origin, want.Keep, want.Owner, want.Again = "shop.buy", []byte{0, 1}, time.Hour, "replica", []byte("again")
	want.Timeout, want.Takeovers, want.Handovers, want.Idempotent, want.View = time.Minute, 3, 2, true, "key"
	want.Task.Status = completed
	want.Task.Ttl = durationpb.New(time.Hour)
	want.Task.Completion = &outriggerv1.Task_Result{Result: &outriggerv1.ToolResult{Status: "success", Explanation: "well"}}
	create(t, s, want, nil)
	got := get(t, s, want.ID)
	want.Version, want.Expires, got.Expires = got.Version, want.Expires.UTC().Round(0), got.Expires.UTC().Round(0)
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func compareAndSet(t *testing.T, kit Kit) {
	t.Helper()
	s, ctx := kit.New(t, 10, peer.Rule{}), context.Background()
	missing(t, s, "a")
	create(t, s, record("a", time.Hour), nil)
	create(t, s, record("a", time.Hour), task.ErrExists)
	first := get(t, s, "a")
	second := next(first, "second")
	if err := s.Update(ctx, second); err != nil {
		t.Fatal(err)
	}
	for _, old := range []task.Record{first, second} {
		if err := s.Update(ctx, old); !errors.Is(err, task.ErrConflict) {
			t.Errorf("an old version: %v, want ErrConflict", err)
		}
	}
	if got := get(t, s, "a"); got.Task.GetStatusMessage() != "second" || got.Version == first.Version {
		t.Errorf("%+v", got)
	}
	for range 2 {
		if err := s.Delete(ctx, "a"); err != nil {
			t.Error(err)
		}
		missing(t, s, "a")
		if err := s.Update(ctx, second); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("update after delete: %v, want ErrNotFound", err)
		}
	}
	create(t, s, record("a", time.Hour), nil)
}

func oneWins(t *testing.T, kit Kit) {
	t.Helper()
	s := kit.New(t, 10, peer.Rule{})
	create(t, s, record("a", time.Hour), nil)
	const writers = 8
	read := get(t, s, "a")
	var all sync.WaitGroup
	errs := make([]error, writers)
	for n := range writers {
		all.Go(func() { errs[n] = s.Update(context.Background(), next(read, strconv.Itoa(n))) })
	}
	all.Wait()
	won := slices.Index(errs, nil)
	for n, err := range errs {
		if n != won && !errors.Is(err, task.ErrConflict) {
			t.Errorf("writer %d: %v, want ErrConflict", n, err)
		}
	}
	if got := get(t, s, "a"); won < 0 || got.Task.GetStatusMessage() != strconv.Itoa(won) {
		t.Errorf("writer %d won, and the record is %q", won, got.Task.GetStatusMessage())
	}
}

func expires(t *testing.T, kit Kit) {
	t.Helper()
	s, ctx := kit.New(t, 10, peer.Rule{}), context.Background()
	begun := time.Now()
	const early, late = 3 * time.Second, 9 * time.Second // a store that is no process's own takes its time on a busy machine
	create(t, s, record("once", early), nil)
	create(t, s, record("kept", early), nil)
	create(t, s, record("cut", time.Hour), nil)
	for id, lifetime := range map[string]time.Duration{"kept": late, "cut": early} {
		r := next(get(t, s, id), "changed")
		r.Expires = begun.Add(lifetime)
		if err := s.Update(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Until(begun.Add(early)))
	missing(t, s, "once")
	missing(t, s, "cut")
	get(t, s, "kept")
	time.Sleep(time.Until(begun.Add(late)))
	missing(t, s, "kept")
	r := record("kept", time.Hour)
	r.Version = 1
	if err := s.Update(ctx, r); !errors.Is(err, task.ErrNotFound) && !errors.Is(err, task.ErrConflict) {
		t.Errorf("update of what has expired: %v", err)
	}
}

func limits(t *testing.T, kit Kit) {
	t.Helper()
	s, ctx := kit.New(t, 4, peer.Percent(50)), context.Background()
	of := func(principal string) task.Record {
		r := record(principal, time.Hour)
		r.Principal = principal
		return r
	}
	create(t, s, of("bob"), nil)
	create(t, s, record("a1", time.Hour), nil)
	create(t, s, record("a2", time.Hour), nil)
	create(t, s, record("a3", time.Hour), task.ErrShare)
	create(t, s, of("carol"), nil)
	create(t, s, of("dave"), task.ErrFull)
	if err := s.Delete(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	create(t, s, of("dave"), nil)
}

func watch(t *testing.T, kit Kit) {
	t.Helper()
	s := kit.New(t, 10, peer.Rule{})
	var mu sync.Mutex
	heard := map[string][]string{}
	s.Watch(func(r task.Record) {
		mu.Lock()
		defer mu.Unlock()
		heard[r.ID] = append(heard[r.ID], r.Task.GetStatusMessage())
	})
	for _, id := range []string{"a", "b"} {
		create(t, s, record(id, time.Hour), nil)
		for n := range 5 {
			if err := s.Update(context.Background(), next(get(t, s, id), strconv.Itoa(n))); err != nil {
				t.Fatal(err)
			}
		}
	}
	kit.Settle(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.Contains(heard["a"], "4") && slices.Contains(heard["b"], "4")
	})
	mu.Lock()
	defer mu.Unlock()
	for id, messages := range heard {
		// Updates may be merged, and never come out of turn or twice.
		if !slices.IsSorted(messages) || len(slices.Compact(slices.Clone(messages))) != len(messages) || messages[len(messages)-1] != "4" {
			t.Errorf("%s: heard %q", id, messages)
		}
	}
}

func ended(t *testing.T, kit Kit) {
	t.Helper()
	s := kit.New(t, 10, peer.Rule{})
	gone := errors.New("gone")
	over, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	_, err := s.Get(over, "a")
	for _, err := range []error{s.Create(over, record("b", time.Hour)), err, s.Update(over, record("a", time.Hour)), s.Delete(over, "a")} {
		if !errors.Is(err, gone) {
			t.Errorf("%v, want the cause of the context", err)
		}
	}
}
