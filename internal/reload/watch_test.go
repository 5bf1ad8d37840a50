// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const interval = 5 * time.Second

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reader is a group of one file whose reload keeps what it read.
type reader struct {
	path    string
	outcome reload.Outcome

	mu   sync.Mutex
	read []string
}

func (r *reader) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.read)
}

func (r *reader) reload(context.Context) reload.Outcome {
	text, err := os.ReadFile(r.path)
	if err != nil {
		text = []byte("gone")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, string(text))
	return r.outcome
}

// watched runs a watcher of one file in its own bubble, so that an interval
// passes at once. Every step is followed by a little more than one interval, and
// then the reads so far have to be the wanted ones.
func watched(t *testing.T, every time.Duration, outcome reload.Outcome, steps func(path string, w *reload.Watcher, expect func(reads ...string))) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "first")
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(every)
		r := &reader{path: path, outcome: outcome}
		w.Add("file", r.reload, path)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		steps(path, w, func(reads ...string) {
			t.Helper()
			time.Sleep(interval + time.Second)
			synctest.Wait()
			if read := r.texts(); !slices.Equal(read, reads) {
				t.Fatalf("read %q, want %q", read, reads)
			}
		})
		stop()
		<-done
	})
}

func TestAFileIsReadAgainOnceItHasChanged(t *testing.T) {
	t.Parallel()
	watched(t, interval, reload.Applied, func(path string, _ *reload.Watcher, expect func(...string)) {
		expect()
		write(t, path, "second")
		expect("second")
		expect("second")
		write(t, path, "second") // new times, the same content
		expect("second")
		write(t, path, "secone") // the same size
		expect("second", "secone")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("second", "secone", "gone")
		expect("second", "secone", "gone")
		write(t, path, "secone")
		expect("second", "secone", "gone", "secone")
	})
}

// TestALinkThatIsSwapped changes a file as kubelet does: the file is a link into
// a folder that is a link to the folder of this version, and only that is
// replaced.
func TestALinkThatIsSwapped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	publish := func(version, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "file"), text)
		if err := os.Symlink(version, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	publish("..1", "first")
	path := filepath.Join(dir, "file")
	if err := os.Symlink(filepath.Join("..data", "file"), path); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(interval)
		r := &reader{path: path}
		w.Add("file", r.reload, path)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx)
		for _, text := range []string{"other", "first", "first", "third"} {
			publish("..v"+time.Now().Format("150405"), text)
			time.Sleep(interval + time.Second)
			synctest.Wait()
		}
		if read, want := r.texts(), []string{"other", "first", "third"}; !slices.Equal(read, want) {
			t.Errorf("read %q, want %q", read, want)
		}
	})
}

func TestWithoutAnIntervalNothingIsReadUntilSomebodyAsks(t *testing.T) {
	t.Parallel()
	watched(t, 0, reload.Applied, func(path string, w *reload.Watcher, expect func(...string)) {
		write(t, path, "second")
		expect()
		w.Now()
		expect("second")
		w.Now()
		expect("second", "second") // asked for, so read although nothing changed
		w.Every(interval)
		w.Every(interval)
		write(t, path, "third")
		expect("second", "second", "third")
		w.Every(0)
		write(t, path, "fourth")
		expect("second", "second", "third")
	})
}

func TestWhatIsDeferredIsTriedAgain(t *testing.T) {
	t.Parallel()
	watched(t, interval, reload.Deferred, func(path string, w *reload.Watcher, expect func(...string)) {
		write(t, path, "second")
		expect("second")
		expect("second", "second")
		if s := w.Status()[0]; !s.Failing() || s.Counts[reload.Deferred] != 2 || s.Last.String() != "deferred" {
			t.Errorf("status %+v", s)
		}
	})
}

func TestWhatIsRefusedIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	watched(t, interval, reload.Refused, func(path string, w *reload.Watcher, expect func(...string)) {
		begun := w.Status()[0]
		if begun.Failing() || begun.Good.IsZero() || begun.Files != 1 || begun.Group != "file" {
			t.Errorf("at the start: %+v", begun)
		}
		write(t, path, "second")
		expect("second")
		expect("second")
		if s := w.Status()[0]; !s.Failing() || !s.Good.Equal(begun.Good) || s.Counts[reload.Refused] != 1 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestAWriterGetsTimeToFinish writes in pieces, each a moment after the watcher
// has looked.
func TestAWriterGetsTimeToFinish(t *testing.T) {
	t.Parallel()
	watched(t, interval, reload.Applied, func(path string, _ *reload.Watcher, expect func(...string)) {
		write(t, path, "a")
		time.Sleep(interval + 50*time.Millisecond)
		write(t, path, "a b")
		time.Sleep(100 * time.Millisecond)
		write(t, path, "a b c")
		expect("a b c")
	})
}

// TestAFileThatNeverRests is read all the same.
func TestAFileThatNeverRests(t *testing.T) {
	t.Parallel()
	watched(t, interval, reload.Applied, func(path string, w *reload.Watcher, expect func(...string)) {
		for n := range 80 {
			write(t, path, time.Duration(n).String())
			time.Sleep(100 * time.Millisecond)
		}
		if s := w.Status()[0]; s.Counts[reload.Applied] == 0 {
			t.Errorf("not read in eight seconds: %+v", s)
		}
	})
}

func TestFilesOfAGroupMayChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "a1")
	write(t, b, "b1")
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(interval)
		g := w.Add("pair", func(context.Context) reload.Outcome { return reload.Unchanged }, a)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx)
		step := func(want uint64, why string) {
			t.Helper()
			time.Sleep(interval + time.Second)
			synctest.Wait()
			if times := g.Status().Counts[reload.Unchanged]; times != want {
				t.Fatalf("%s: read %d times, want %d", why, times, want)
			}
		}
		write(t, b, "b2")
		step(0, "not of the group yet")
		g.Watch(a, b)
		step(0, "a file that joins is known")
		write(t, b, "b3")
		step(1, "of the group")
		write(t, a, "a2")
		write(t, b, "b4")
		step(2, "both at once")
		g.Watch(b)
		write(t, a, "a3")
		step(2, "left")
	})
}

// TestAPipeIsNotOpened: to open one for reading would wait for a writer.
func TestAPipeIsNotOpened(t *testing.T) {
	t.Parallel()
	path := testkit.Pipe(t)
	w := reload.NewWatcher(time.Millisecond)
	w.Add("pipe", func(context.Context) reload.Outcome { return reload.Applied }, path)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	w.Run(ctx)
	if s := w.Status()[0]; s.Counts != [5]uint64{} {
		t.Errorf("an untouched pipe: %+v", s)
	}
}

// TestTimesMayStandStill writes within the tick of a coarse clock: neither size
// nor times give the change away.
func TestTimesMayStandStill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "one")
	r := &reader{path: path}
	w := reload.NewWatcher(0)
	at := time.Now()
	for _, text := range []string{"one", "two"} {
		write(t, path, text)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
		if text == "one" {
			w.Add("file", r.reload, path)
		}
	}
	w.Every(time.Millisecond)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	testkit.Until(t, "it is read", func() bool { return !w.Status()[0].Tried.IsZero() })
	stop()
	running.Wait()
	if read := r.texts(); len(read) == 0 || read[0] != "two" {
		t.Errorf("read %q, want two", read)
	}
}

// TestASlowGroup is reloaded beside the others, by itself, and not at once again after it was slow.
func TestASlowGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	for _, path := range []string{a, b, c} {
		write(t, path, "first")
	}
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(interval)
		var running, begun atomic.Int32
		answers := make(chan reload.Outcome)
		slow := func(ctx context.Context) reload.Outcome {
			if running.Add(1) > 1 {
				t.Error("two slow groups at once")
			}
			defer running.Add(-1)
			begun.Add(1)
			select {
			case o := <-answers:
				return o
			case <-ctx.Done():
				return reload.Refused
			}
		}
		w.Add("a", slow, a).Slow()
		w.Add("b", slow, b).Slow()
		quick := &reader{path: c, outcome: reload.Applied}
		w.Add("c", quick.reload, c)
		told := make(chan string, 10)
		w.OnOutcome(func(group string, o reload.Outcome) { told <- group + " " + o.String() })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		step := func(why string, wantBegun int32, reads ...string) {
			t.Helper()
			time.Sleep(20 * interval)
			synctest.Wait()
			if read := quick.texts(); begun.Load() != wantBegun || !slices.Equal(read, reads) {
				t.Fatalf("%s: %d slow reloads begun, want %d; %q read, want %q", why, begun.Load(), wantBegun, read, reads)
			}
		}
		write(t, a, "second")
		write(t, b, "second")
		write(t, c, "second")
		step("while a is slow", 1, "second")
		write(t, c, "third")
		step("still", 1, "second", "third")
		answers <- reload.Deferred
		step("then b", 2, "second", "third")
		w.Now()
		step("asked for while b is slow", 2, "second", "third", "third")
		answers <- reload.Applied
		synctest.Wait()
		if begun.Load() != 3 {
			t.Errorf("%d slow reloads begun: what was asked for is done at once, want 3", begun.Load())
		}
		answers <- reload.Deferred // of a
		answers <- reload.Applied  // of b
		synctest.Wait()
		if begun.Load() != 4 {
			t.Errorf("%d slow reloads begun: a waits for the next look, want 4", begun.Load())
		}
		step("which comes", 5, "second", "third", "third")
		stop()
		<-ended
		if close(told); len(told) != 6 { // twice of b, three times of c, and of a, which the end cut
			var all []string
			for one := range told {
				all = append(all, one)
			}
			t.Errorf("%q", all)
		}
	})
}

// TestASlowGroupIsTriedLessAndLess: the host that it waits for is not asked at every look, and a change is still used at once.
func TestASlowGroupIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "first")
	synctest.Test(t, func(t *testing.T) {
		w := reload.NewWatcher(time.Second)
		var mu sync.Mutex
		var tried []int // seconds since begin
		var outcome atomic.Int32
		outcome.Store(int32(reload.Deferred))
		begin := time.Now()
		g := w.Add("group", func(context.Context) reload.Outcome {
			mu.Lock()
			defer mu.Unlock()
			tried = append(tried, int(time.Since(begin)/time.Second))
			return reload.Outcome(outcome.Load())
		}, path).Slow()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		expect := func(why string, want ...int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if want != nil && !slices.Equal(tried, want) {
				t.Errorf("%s: tried after %v s, want %v", why, tried, want)
			}
			tried, begin = nil, time.Now()
		}
		write(t, path, "second")
		time.Sleep(4*time.Minute + time.Second/2)
		expect("a host that stays away", 1, 2, 4, 8, 16, 32, 64, 124, 184)
		write(t, path, "third")
		time.Sleep(2 * time.Second)
		expect("a change", 0)
		w.Now()
		time.Sleep(2*time.Second + time.Second/2)
		expect("asked for", 0)
		g.Again()
		time.Sleep(2 * time.Second)
		expect("due", 0)
		outcome.Store(int32(reload.Applied))
		time.Sleep(2 * time.Minute)
		outcome.Store(int32(reload.Deferred))
		expect("a success")
		write(t, path, "fourth")
		time.Sleep(2 * time.Second)
		expect("after a success the pauses begin anew", 0, 1)
		stop()
		<-ended
	})
}

func TestOutcomesHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range reload.Outcomes() {
		seen[o.String()] = true
	}
	if len(seen) != len(reload.Status{}.Counts) {
		t.Errorf("%d names for %d outcomes: %v", len(seen), len(reload.Status{}.Counts), seen)
	}
}
