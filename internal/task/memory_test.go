// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"pgregory.net/rapid"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// record is one that expires in so long.
func record(id string, lifetime time.Duration) task.Record {
	return task.Record{ID: id, Principal: "alice", Task: &outriggerv1.Task{TaskId: id, Status: working}, Expires: time.Now().Add(lifetime)}
}

// sized is a record of at least so many bytes.
func sized(id string, size int) task.Record {
	r := record(id, time.Hour)
	r.Task.StatusMessage = strings.Repeat("x", size)
	return r
}

func create(t testing.TB, s task.Store, r task.Record, want error) {
	t.Helper()
	if err := s.Create(context.Background(), r); !errors.Is(err, want) {
		t.Fatalf("Create(%s): %v, want %v", r.ID, err, want)
	}
}

func TestMemoryKeepsAndReplaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		s := task.NewMemory(task.MemoryOptions{})
		create(t, s, record("a", time.Hour), nil)
		create(t, s, record("a", time.Hour), task.ErrExists)
		first, err := s.Get(ctx, "a")
		if err != nil || first.ID != "a" || first.Principal != "alice" || first.Task.GetStatus() != working {
			t.Fatalf("%+v, %v", first, err)
		}
		next := first
		next.Tool = "x.y"
		if err := s.Update(ctx, next); err != nil {
			t.Fatal(err)
		}
		for _, old := range []task.Record{first, next} {
			if err := s.Update(ctx, old); !errors.Is(err, task.ErrConflict) {
				t.Errorf("an old version: %v, want ErrConflict", err)
			}
		}
		if got, err := s.Get(ctx, "a"); err != nil || got.Tool != "x.y" || got.Version == first.Version {
			t.Errorf("%+v, %v", got, err)
		}
		for range 2 {
			if err := s.Delete(ctx, "a"); err != nil {
				t.Error(err)
			}
			if _, err := s.Get(ctx, "a"); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("%v, want ErrNotFound", err)
			}
			if err := s.Update(ctx, next); !errors.Is(err, task.ErrNotFound) {
				t.Errorf("%v, want ErrNotFound", err)
			}
		}
		if got := s.Stats(); got != (task.MemoryStats{}) {
			t.Errorf("%+v is left", got)
		}
		gone := errors.New("gone")
		over, cancel := context.WithCancelCause(ctx)
		cancel(gone)
		_, getErr := s.Get(over, "a")
		for _, err := range []error{s.Create(over, record("b", time.Hour)), getErr, s.Update(over, next), s.Delete(over, "a")} {
			if !errors.Is(err, gone) {
				t.Errorf("a context that has ended: %v", err)
			}
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := task.NewMemory(task.MemoryOptions{})
		for n := range defaults.MaxTasks {
			create(t, s, record(strconv.Itoa(n), time.Hour), nil)
		}
		create(t, s, record("one more", time.Hour), task.ErrFull)
		sleep(time.Hour)
		create(t, s, record("one more", time.Hour), nil)

		s = task.NewMemory(task.MemoryOptions{MaxTasks: 2, MaxBytes: 100_000})
		create(t, s, sized("a", 60_000), nil)
		create(t, s, sized("b", 60_000), task.ErrFull)
		create(t, s, sized("b", 30_000), nil)
		create(t, s, sized("c", 1), task.ErrFull)
		update := func(id string, size int, want error) {
			t.Helper()
			r, err := s.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			before := s.Stats()
			r.Task = sized(id, size).Task
			if err := s.Update(t.Context(), r); !errors.Is(err, want) {
				t.Errorf("%s of %d bytes: %v, want %v", id, size, err, want)
			}
			if after := s.Stats(); want != nil && after != before {
				t.Errorf("a refused update changed %+v to %+v", before, after)
			}
		}
		update("b", 50_000, task.ErrFull)
		update("b", 35_000, nil)
		update("a", 65_000, task.ErrFull)
		update("a", 59_000, nil) // what shrinks always may
		update("b", 100, nil)
		update("a", 99_500, nil)
		update("b", 4000, nil)   // what is small always fits
		update("a", 99_000, nil) // what shrinks always may, also where it is too much still
		update("a", 99_001, task.ErrFull)
		update("b", 12_000, task.ErrFull)
		if got := s.Stats(); got.Tasks != 2 || got.Bytes < 103_000 || got.Bytes > 103_200 {
			t.Errorf("%+v", got)
		}
	})
}

// TestMemoryForgets: nothing is found from its expiry on, and nothing is held
// for much longer.
func TestMemoryForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx := t.Context()
		s := task.NewMemory(task.MemoryOptions{})
		begun := time.Now()
		lifetimes := map[string]time.Duration{"a": 10 * time.Second, "b": 10*time.Second + time.Millisecond, "c": time.Minute, "far": 1000 * time.Hour, "never": time.Hour}
		for id, lifetime := range lifetimes {
			r := record(id, lifetime)
			if id == "never" {
				r.Expires = time.Time{}
			}
			create(t, s, r, nil)
		}
		found := func() (out []string) {
			for _, id := range slices.Sorted(func(yield func(string) bool) {
				for id := range lifetimes {
					if !yield(id) {
						return
					}
				}
			}) {
				if _, err := s.Get(ctx, id); err == nil {
					out = append(out, id)
				} else if !errors.Is(err, task.ErrNotFound) {
					t.Error(err)
				}
			}
			return out
		}
		for _, step := range []struct {
			at   time.Duration
			want []string
		}{
			{10*time.Second - time.Nanosecond, []string{"a", "b", "c", "far", "never"}},
			{10 * time.Second, []string{"b", "c", "far", "never"}},
			{10*time.Second + time.Millisecond, []string{"c", "far", "never"}},
			{task.MaxAge - time.Nanosecond, []string{"far", "never"}},
			{task.MaxAge, nil},
		} {
			sleep(step.at - time.Since(begun))
			if got := found(); !slices.Equal(got, step.want) {
				t.Errorf("after %s: %q, want %q", step.at, got, step.want)
			}
		}
		// One that lives on does not keep another that is over.
		create(t, s, record("on", 10*time.Second), nil)
		create(t, s, record("over", 20*time.Second), nil)
		on, err := s.Get(ctx, "on")
		if err != nil {
			t.Fatal(err)
		}
		on.Expires = time.Now().Add(time.Minute)
		if err := s.Update(ctx, on); err != nil {
			t.Fatal(err)
		}
		sleep(20 * time.Second)
		if got := s.Stats().Tasks; got != 1 {
			t.Errorf("%d tasks are held, want 1", got)
		}
		// An update may shorten and lengthen a life, within the bound.
		create(t, s, record("x", time.Hour), nil)
		for _, lifetime := range []time.Duration{time.Second, 10 * time.Hour, 1000 * time.Hour} {
			r, err := s.Get(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			r.Expires = time.Now().Add(lifetime)
			if err := s.Update(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		sleep(task.MaxAge - time.Nanosecond)
		if _, err := s.Get(ctx, "x"); err != nil {
			t.Error(err)
		}
		sleep(time.Nanosecond)
		if _, err := s.Get(ctx, "x"); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("%v, want ErrNotFound", err)
		}
	})
}

// TestMemoryHasNoGoroutines runs alone, because it counts them.
func TestMemoryHasNoGoroutines(t *testing.T) {
	s := task.NewMemory(task.MemoryOptions{})
	before := runtime.NumGoroutine()
	for n := range 1000 {
		create(t, s, record(strconv.Itoa(n), time.Duration(n+1)*time.Hour), nil)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// TestMemoryIsFreed looks at what the store holds without asking the store, which
// would sweep.
func TestMemoryIsFreed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := task.NewMemory(task.MemoryOptions{})
		begun := time.Now()
		held := map[string]weak.Pointer[outriggerv1.Task]{}
		// What is deleted takes its timer with it, and no other's.
		create(t, s, record("deleted", time.Second), nil)
		if err := s.Delete(t.Context(), "deleted"); err != nil {
			t.Fatal(err)
		}
		lifetimes := []time.Duration{time.Hour, time.Minute, 2 * time.Hour}
		for _, lifetime := range lifetimes {
			r := record(lifetime.String(), lifetime)
			held[r.ID] = weak.Make(r.Task)
			create(t, s, r, nil)
		}
		for range 13 {
			sleep(10 * time.Minute)
			runtime.GC()
			for _, lifetime := range lifetimes {
				age := time.Since(begun)
				there := held[lifetime.String()].Value() != nil
				if there && age > lifetime+2*time.Second || !there && age < lifetime {
					t.Fatalf("after %s: what lives %s is held: %v", age, lifetime, there)
				}
			}
		}
		runtime.KeepAlive(s)
	})
}

// TestWatchersHearInOrder changes records from many goroutines, and from a
// watcher.
func TestWatchersHearInOrder(t *testing.T) {
	t.Parallel()
	const records, writers, changes = 5, 8, 100
	s := task.NewMemory(task.MemoryOptions{})
	for n := range records {
		create(t, s, record(strconv.Itoa(n), time.Hour), nil)
	}
	var mu sync.Mutex
	last, heard := map[string]uint64{}, 0
	s.Watch(func(r task.Record) {
		mu.Lock()
		defer mu.Unlock()
		if heard++; r.Version <= last[r.ID] {
			t.Errorf("%s: version %d after %d", r.ID, r.Version, last[r.ID])
		}
		last[r.ID] = r.Version
		if _, err := s.Get(context.Background(), r.ID); err != nil {
			t.Error(err)
		}
	})
	second := 0
	s.Watch(func(task.Record) { second++ }) // never two at a time
	var writing sync.WaitGroup
	for range writers {
		writing.Go(func() {
			for n := range changes {
				change(t, s, strconv.Itoa(n%records))
			}
		})
	}
	writing.Wait()
	// The last to be told may be told by a writer that was faster than others.
	if heard != writers*changes || second != heard {
		t.Errorf("%d and %d of %d changes were heard", heard, second, writers*changes)
	}
}

// change updates a record, against all others.
func change(t testing.TB, s task.Store, id string) {
	for {
		r, err := s.Get(context.Background(), id)
		if err != nil {
			t.Error(err)
			return
		}
		r.Task = &outriggerv1.Task{TaskId: id, StatusMessage: r.Task.GetStatusMessage() + "."}
		if err = s.Update(context.Background(), r); !errors.Is(err, task.ErrConflict) {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// TestMemoryKeepsToItsModel drives the store beside a map, with a clock that is
// moved by hand.
func TestMemoryKeepsToItsModel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	rapid.Check(t, func(t *rapid.T) {
		const most = 3
		var clock atomic.Int64 // the store's timer reads it, too
		now := func() time.Time { return time.Unix(clock.Load(), 0) }
		s := task.NewMemory(task.MemoryOptions{MaxTasks: most, Now: now})
		held := map[string]task.Record{}
		drawID := func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "id")) }
		drawExpiry := func(t *rapid.T) time.Time {
			return now().Add(time.Duration(rapid.IntRange(-1, 9).Draw(t, "expires")) * time.Second)
		}
		forget := func() {
			for id, r := range held {
				if !now().Before(r.Expires) {
					delete(held, id)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				clock.Add(rapid.Int64Range(0, 5).Draw(t, "seconds"))
				forget()
			},
			"create": func(t *rapid.T) {
				r := task.Record{ID: drawID(t), Task: &outriggerv1.Task{}, Expires: drawExpiry(t)}
				_, taken := held[r.ID]
				var want error
				switch {
				case taken:
					want = task.ErrExists
				case len(held) == most:
					want = task.ErrFull
				}
				if err := s.Create(ctx, r); !errors.Is(err, want) {
					t.Fatalf("Create: %v, want %v", err, want)
				}
				if want == nil {
					held[r.ID] = r
					forget()
				}
			},
			"update": func(t *rapid.T) {
				id := drawID(t)
				r, err := s.Get(ctx, id)
				if _, there := held[id]; there != (err == nil) {
					t.Fatalf("Get(%s): %v", id, err)
				}
				if err != nil {
					t.Skip("nothing there")
				}
				r.Expires = drawExpiry(t)
				stale := rapid.Bool().Draw(t, "stale")
				if stale {
					r.Version += 7
				}
				if err := s.Update(ctx, r); stale != errors.Is(err, task.ErrConflict) || !stale && err != nil {
					t.Fatalf("Update: %v", err)
				}
				if !stale {
					held[id] = r
					forget()
				}
			},
			"delete": func(t *rapid.T) {
				id := drawID(t)
				if err := s.Delete(ctx, id); err != nil {
					t.Fatal(err)
				}
				delete(held, id)
			},
			// Not after each step, since who looks makes the store forget.
			"get": func(t *rapid.T) {
				id := drawID(t)
				_, there := held[id]
				if _, err := s.Get(ctx, id); there != (err == nil) {
					t.Fatalf("Get(%s): %v, want it there: %v", id, err, there)
				}
			},
			"count": func(t *rapid.T) {
				if got := s.Stats(); got.Tasks != len(held) || (got.Bytes == 0) != (len(held) == 0) {
					t.Fatalf("%+v, want %d", got, len(held))
				}
			},
		})
	})
}
