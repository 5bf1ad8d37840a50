// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// open are the keys of the questions that a task shows.
func open(t testing.TB, m *task.Manager, id string) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(get(t, m, id, inputRequired).GetInputRequests()))
}

// respond answers by keys.
func respond(t testing.TB, m *task.Manager, id string, keys ...string) {
	t.Helper()
	if err := m.Update(context.Background(), "alice", id, answers(keys...)); err != nil {
		t.Fatal(err)
	}
	wait()
}

func TestAsk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen log
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: seen.add})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		sleep(time.Second)
		first := w.ask("a", "b")
		wait()
		got := get(t, m, id, inputRequired)
		if diff := cmp.Diff(questions("a", "b"), got.GetInputRequests(), protocmp.Transform()); diff != "" {
			t.Errorf("questions (-want +got):\n%s", diff)
		}
		if age := got.GetLastUpdatedAt().AsTime().Sub(got.GetCreatedAt().AsTime()); age != time.Second {
			t.Errorf("it changed %s after its beginning", age)
		}
		// What is no answer to what is open changes nothing.
		for _, none := range []map[string]*outriggerv1.InputResponse{
			nil, {}, answers("c", ""), {"a": nil}, {"a": {}}, {"a": nil, "c": answer("x")},
		} {
			if err := m.Update(t.Context(), "alice", id, none); err != nil {
				t.Error(err)
			}
			sleep(time.Second)
			if diff := cmp.Diff(got, get(t, m, id, inputRequired), protocmp.Transform()); diff != "" {
				t.Errorf("%v changed the task:\n%s", none, diff)
			}
		}
		// A second one asks meanwhile; all that is outstanding shows.
		second := w.ask("c")
		wait()
		if got := open(t, m, id); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("open: %q", got)
		}
		respond(t, m, id, "a", "not asked")
		if got := open(t, m, id); !slices.Equal(got, []string{"b", "c"}) {
			t.Errorf("open: %q", got)
		}
		// The first answer counts.
		if err := m.Update(t.Context(), "alice", id, map[string]*outriggerv1.InputResponse{"a": answer("other"), "b": answer("b!")}); err != nil {
			t.Fatal(err)
		}
		if got := <-first; got.err != nil || !cmp.Equal(got.answers, answers("a", "b"), protocmp.Transform()) {
			t.Errorf("%v, %v", got.answers, got.err)
		}
		if got := open(t, m, id); !slices.Equal(got, []string{"c"}) {
			t.Errorf("open: %q", got)
		}
		w.report("two thirds")
		wait()
		if got := get(t, m, id, inputRequired); got.GetStatusMessage() != "two thirds" {
			t.Errorf("%v", got)
		}
		respond(t, m, id, "c")
		if got := <-second; got.err != nil || len(got.answers) != 1 {
			t.Errorf("%v, %v", got.answers, got.err)
		}
		get(t, m, id, working)
		w.ends <- end{result: text("done")}
		wait()
		want := []outriggerv1.TaskStatus{inputRequired, inputRequired, inputRequired, inputRequired, inputRequired, working, completed}
		if diff := cmp.Diff(want, seen.statuses()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

// TestKeysAreUnique: clients take a key for one question for ever.
func TestKeysAreUnique(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		used := map[string]bool{}
		long := strings.Repeat("k", 257)
		for _, round := range [][]string{{"a"}, {"a", "b"}, {"a", "q3", "q5"}, {"", long, "\xff"}, {"a", "b", "", long}} {
			waiting := w.ask(round...)
			wait()
			shown := get(t, m, id, inputRequired).GetInputRequests()
			if len(shown) != len(round) {
				t.Fatalf("%q shows as %v", round, shown)
			}
			given := map[string]*outriggerv1.InputResponse{}
			for name, q := range shown {
				if used[name] {
					t.Errorf("%q is shown again", name)
				}
				used[name] = true
				key, err := strconv.Unquote(q.GetElicitation().GetMessage())
				if err != nil {
					t.Fatal(err)
				}
				given[name] = answer(key + "!")
			}
			if err := m.Update(t.Context(), "alice", id, given); err != nil {
				t.Fatal(err)
			}
			got := <-waiting
			// The answers come back under the keys as they were given.
			if diff := cmp.Diff(slices.Sorted(slices.Values(round)), slices.Sorted(maps.Keys(got.answers))); got.err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", got.err, diff)
			}
			for key, a := range got.answers {
				if want := `"` + key + `!"`; string(a.GetOtherJson()) != want {
					t.Errorf("%q is answered by %s", key, a.GetOtherJson())
				}
			}
		}
		w.ends <- end{result: text("done")}
	})
}

// TestAskingMakesATask of a call that is none yet.
func TestAskingMakesATask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		begun := time.Now()
		done := start(t.Context(), m, alice(time.Hour), w)
		sleep(time.Second)
		waiting, also := w.ask("a"), w.ask("b")
		got := <-done
		if got.err != nil || got.out.Task.GetStatus() != working || time.Since(begun) != time.Second {
			t.Fatalf("%+v, %v after %s", got.out, got.err, time.Since(begun))
		}
		wait()
		respond(t, m, got.out.Task.GetTaskId(), "a", "b")
		for _, c := range []<-chan asked{waiting, also} {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
		w.ends <- end{result: text("done")}
	})
}

func TestAskRefuses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		if _, err := task.Ask(t.Context(), questions("a")); !errors.Is(err, task.ErrNoTask) {
			t.Errorf("outside of work: %v", err)
		}
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{MaxQuestions: 70})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		many := func(from, n int) []string {
			var keys []string
			for i := range n {
				keys = append(keys, "k"+strconv.Itoa(from+i))
			}
			return keys
		}
		tooMany := func(what string, c <-chan asked) {
			t.Helper()
			if got := <-c; !errors.Is(got.err, task.ErrTooManyQuestions) || got.answers != nil {
				t.Errorf("%s: %v, %v; want ErrTooManyQuestions", what, got.answers, got.err)
			}
		}
		w.steps <- func(ctx context.Context, _ func(string)) {
			if got, err := task.Ask(ctx, nil); err != nil || got == nil || len(got) != 0 {
				t.Errorf("nothing: %v, %v", got, err)
			}
			for _, nothing := range []*outriggerv1.InputRequest{nil, {}} {
				if _, err := task.Ask(ctx, map[string]*outriggerv1.InputRequest{"a": nothing}); err == nil || !strings.Contains(err.Error(), `"a"`) {
					t.Errorf("no question: %v", err)
				}
			}
		}
		tooMany("65 at a time", w.ask(many(0, 65)...))
		get(t, m, id, working)
		one := w.ask(many(0, 60)...)
		wait()
		tooMany("5 beside 60", w.ask(many(60, 5)...))
		if got := len(open(t, m, id)); got != 60 {
			t.Errorf("%d are open", got)
		}
		respond(t, m, id, many(0, 60)...)
		if got := <-one; got.err != nil {
			t.Error(got.err)
		}
		tooMany("71 in a life", w.ask(many(100, 6)...))
		last := w.ask(many(100, 5)...)
		wait()
		if got := len(open(t, m, id)); got != 5 {
			t.Errorf("%d are open", got)
		}
		w.ends <- end{result: text("done")}
		if got := <-last; !errors.Is(got.err, task.ErrEnded) {
			t.Errorf("the work ended: %v", got.err)
		}
		wait()
		if got := get(t, m, id, completed); len(got.GetInputRequests()) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// TestNobodyWaitsForTheAnswer: the question disappears with who asked it.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		other := w.ask("other")
		impatient := make(chan error, 1)
		w.steps <- func(ctx context.Context, _ func(string)) {
			go func() {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				_, err := task.Ask(ctx, questions("a", "b"))
				impatient <- err
			}()
		}
		wait()
		respond(t, m, id, "a")
		if err := <-impatient; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
		if got := open(t, m, id); !slices.Equal(got, []string{"other"}) {
			t.Errorf("open: %q", got)
		}
		respond(t, m, id, "b", "other")
		if got := <-other; got.err != nil {
			t.Error(got.err)
		}
		get(t, m, id, working)
		// The last question that is taken back leaves no status behind.
		w.steps <- func(ctx context.Context, _ func(string)) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := task.Ask(ctx, questions("c"))
			impatient <- err
		}
		wait()
		open(t, m, id)
		if err := <-impatient; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want DeadlineExceeded", err)
		}
		get(t, m, id, working)
		w.ends <- end{result: text("done")}
	})
}

func TestCancelWhileAsking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		for _, detached := range []bool{false, true} {
			w := newWork()
			w.deaf = true
			id := begin(t, m, alice(0), w).GetTaskId()
			done := make(chan error, 1)
			w.steps <- func(ctx context.Context, _ func(string)) {
				if detached {
					ctx = context.WithoutCancel(ctx)
				}
				_, err := task.Ask(ctx, questions("a"))
				done <- err
			}
			wait()
			open(t, m, id)
			if err := m.Cancel(t.Context(), "alice", id); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, task.ErrCancelled) {
				t.Errorf("%v, want ErrCancelled", err)
			}
			if got := get(t, m, id, cancelled); len(got.GetInputRequests()) != 0 {
				t.Errorf("%v", got)
			}
			// It cannot ask any more.
			late := w.ask("b")
			if got := <-late; got.err == nil || got.answers != nil {
				t.Errorf("%v, %v", got.answers, got.err)
			}
			w.ends <- end{result: text("late")}
			<-w.gone
		}
	})
}

// TestACallThatEndsCannotAsk, also where the work holds on to another context.
func TestACallThatEndsCannotAsk(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := errors.New("gone")
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		w.deaf = true
		ctx, cancel := context.WithCancelCause(t.Context())
		done := start(ctx, m, alice(time.Hour), w)
		wait()
		cancel(gone)
		<-done
		for _, detached := range []bool{false, true} {
			errs := make(chan error)
			w.steps <- func(ctx context.Context, _ func(string)) {
				if detached {
					ctx = context.WithoutCancel(ctx)
				}
				go func() {
					_, err := task.Ask(ctx, questions("a"))
					errs <- err
				}()
			}
			if err := <-errs; !errors.Is(err, gone) {
				t.Errorf("detached %v: %v, want the cause", detached, err)
			}
		}
		w.ends <- end{}
	})
}

// TestAnswersAreNotKeptForLong: those that were read leave the store, at the
// latest with the end.
func TestAnswersAreNotKeptForLong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := task.NewMemory(task.MemoryOptions{})
		m := task.New(store, task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		small := store.Stats().Bytes
		for n := range 20 {
			key := fmt.Sprint(n)
			waiting := w.ask(key)
			wait()
			if err := m.Update(t.Context(), "alice", id, map[string]*outriggerv1.InputResponse{key: answer(strings.Repeat("x", 10_000))}); err != nil {
				t.Fatal(err)
			}
			if got := <-waiting; got.err != nil {
				t.Fatal(got.err)
			}
			if got := store.Stats().Bytes; got > small+11_000 {
				t.Fatalf("%d bytes after %d answers of 10,000", got, n+1)
			}
		}
		w.ends <- end{result: text("done")}
		wait()
		if got := store.Stats().Bytes; got > small+100 {
			t.Errorf("%d bytes at the end, %d at the beginning", got, small)
		}
	})
}

// TestNoRoomForAnswers: the sender of the answer learns it, and may answer later.
func TestNoRoomForAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{MaxBytes: 10_000}), task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		waiting := w.ask("a")
		wait()
		if err := m.Update(t.Context(), "alice", id, map[string]*outriggerv1.InputResponse{"a": answer(strings.Repeat("x", 10_000))}); !errors.Is(err, task.ErrFull) {
			t.Errorf("%v, want ErrFull", err)
		}
		open(t, m, id)
		respond(t, m, id, "a")
		if got := <-waiting; got.err != nil {
			t.Error(got.err)
		}
		w.ends <- end{result: text("done")}
	})
}

// TestTwoManagersOverOneStore stand for two replicas: a task that runs at one is
// answered, watched and cancelled at the other.
func TestTwoManagersOverOneStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := task.NewMemory(task.MemoryOptions{})
		var here, there log
		one := task.New(store, task.Options{OnChange: here.add})
		other := task.New(store, task.Options{OnChange: there.add})
		w := newWork()
		id := begin(t, one, alice(0), w).GetTaskId()
		waiting := w.ask("a")
		wait()
		open(t, other, id)
		respond(t, other, id, "a")
		if got := <-waiting; got.err != nil || !cmp.Equal(got.answers, answers("a"), protocmp.Transform()) {
			t.Errorf("%v, %v", got.answers, got.err)
		}
		get(t, other, id, working)
		if err := other.Cancel(t.Context(), "alice", id); err != nil {
			t.Fatal(err)
		}
		<-w.gone
		if !errors.Is(w.cause, task.ErrCancelled) {
			t.Errorf("the work's context ended with %v", w.cause)
		}
		wait()
		want := []outriggerv1.TaskStatus{inputRequired, working, cancelled}
		for _, l := range []*log{&here, &there} {
			if diff := cmp.Diff(want, l.statuses()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		}
		if s := one.Stats(); s.Cancelled != 1 || s.Running != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

// TestAStoreThatFailsWhileAsking: who asks learns it.
func TestAStoreThatFailsWhileAsking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &faulty{Store: task.NewMemory(task.MemoryOptions{}), update: func(task.Record) error { return errStore }}
		m := task.New(store, task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		if got := <-w.ask("a"); !errors.Is(got.err, errStore) {
			t.Errorf("%v, want the store's", got.err)
		}
		for what, err := range map[string]error{"cancel": m.Cancel(t.Context(), "alice", id), "get": func() error {
			_, err := m.Get(t.Context(), "alice", id)
			return err
		}()} {
			if errors.Is(err, errStore) != (what == "cancel") {
				t.Errorf("%s: %v", what, err)
			}
		}
		w.ends <- end{err: errmap.New(errmap.InvalidParams)}
		sleep(time.Minute)
		get(t, m, id, working)
	})
}
