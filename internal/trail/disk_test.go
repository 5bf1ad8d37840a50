// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func put(r *Run, from, to int) {
	for i := from; i < to; i++ {
		r.Begin(numbered(i)).End(Outcome{OK: true})
	}
}

func upTo(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strconv.Itoa(i) + " ")
	}
	return strings.TrimSpace(b.String())
}

func TestFlushedWithin250Milliseconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recordBegin(t, RecordOptions{})
		for round := range 3 {
			put(r, round, round+1)
			if n := len(lines(t, r)); n != round {
				t.Errorf("%d lines at once; nothing is gathered", n)
			}
			time.Sleep(defaultFlushRecordEvery)
			synctest.Wait()
			if n := len(lines(t, r)); n != round+1 {
				t.Errorf("%d lines after 250 ms", n)
			}
			time.Sleep(time.Minute) // idle
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Once a file is set aside no line goes into it any more, also where the next one cannot be opened yet.
func TestNoLineGoesIntoAFileThatWasSetAside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lines")
	full := errors.New("too many open files")
	failing := false
	d := &disk{place: &numberedFile{path: path}, max: 4, limit: 4, open: func(path string) (file, error) {
		if failing {
			return nil, full
		}
		return openFile(path)
	}}
	defer d.close()
	write := func(line string) {
		t.Helper()
		if _, err := d.ensure(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	failing = true
	if err := d.rotate(); !errors.Is(err, full) || d.f != nil {
		t.Errorf("got %v, and a file is open: %t", err, d.f != nil)
	}
	failing = false
	write("two\n")
	for name, want := range map[string]string{path + ".1": "one\n", path: "two\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v", filepath.Base(name), got, err)
		}
	}
}

// A line that becomes ready while others gather does not put them off.
func TestSteadyTrafficIsFlushed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recordBegin(t, RecordOptions{})
		for i := range 100 {
			put(r, i, i+1)
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if got := len(lines(t, r)); got < i+1-25 {
				t.Fatalf("%d of %d lines", got, i+1)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Much at once is written at once.
func TestManyLinesDoNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recordBegin(t, RecordOptions{})
		put(r, 0, 1000)
		synctest.Wait()
		if n := len(lines(t, r)); n == 0 {
			t.Error("nothing is written before its time")
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A disk without room: lines wait, in order and whole, until there is room.
func TestFullDiskRecovers(t *testing.T) {
	t.Parallel()
	for _, locked := range []bool{false, true} {
		t.Run("piece can be taken back: "+strconv.FormatBool(!locked), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				d := &device{room: 1000, locked: locked}
				r := recordBegin(t, RecordOptions{open: d.open, Log: zap.New(core)})
				put(r, 0, 10)
				time.Sleep(time.Minute)
				synctest.Wait()
				s := r.Stats()
				if !s.Failing || s.Errors < 5 || s.Errors > 40 || s.Written < 2 || s.Written > 4 || s.Queued != 10-int(s.Written) || s.Dropped != 0 {
					t.Errorf("while full: %+v", s)
				}
				put(r, 10, 20)
				d.set(func(d *device) { d.room = -1 })
				time.Sleep(2 * recordMaxBackoff)
				synctest.Wait()
				if s = r.Stats(); s.Failing || s.Written != 20 || s.Queued != 0 {
					t.Errorf("with room again: %+v", s)
				}
				if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(20) {
					t.Error(got)
				}
				if n := logs.Len(); n != 2 {
					t.Errorf("%d log lines for one episode: %v", n, logs.All())
				}
			})
		})
	}
}

// A disk that stays full: memory stays bounded, callers go on, the oldest lines
// are kept, Close tells.
func TestFullDiskStaysFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{}
		r := recordBegin(t, RecordOptions{open: d.open, MaxPending: 500})
		for i := range 3000 {
			put(r, i, i+1)
			if s := r.Stats(); s.Queued > 1000 {
				t.Fatalf("%+v", s)
			}
		}
		time.Sleep(time.Minute)
		err := r.Close()
		if !errors.Is(err, syscall.ENOSPC) {
			t.Error(err)
		}
		if s := r.Stats(); s.Dropped != 3000 || s.Written != 0 || s.Queued != 0 || !s.Failing {
			t.Errorf("%+v", s)
		}
		if again := r.Close(); !errors.Is(again, syscall.ENOSPC) {
			t.Error(again)
		}
	})
}

// A disk that hangs: nothing waits for it.
func TestHangingDisk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, hangs: make(chan struct{})}
		r := recordBegin(t, RecordOptions{open: d.open, MaxPending: 10})
		put(r, 0, 5)
		time.Sleep(time.Second) // the writer hangs now
		start := time.Now()
		put(r, 5, 100)
		if took := time.Since(start); took != 0 {
			t.Errorf("callers waited %v", took)
		}
		if s := r.Stats(); s.Queued != 20 || s.Dropped != 80 {
			t.Errorf("%+v", s)
		}
		close(d.hangs)
		if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(20) {
			t.Error(got)
		}
	})
}

// Dropped lines leave nothing behind in the reorder buffer, whose first call is long.
func TestDroppedLinesTakeNoRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, hangs: make(chan struct{})}
		r := recordBegin(t, RecordOptions{open: d.open, MaxPending: 10})
		put(r, 0, 100)
		long := r.Begin(numbered(100))
		put(r, 101, 200)
		n := 0
		for e := r.reorder.first; e != nil; e = e.next {
			n++
		}
		if s := r.Stats(); n > 11 || s.Dropped == 0 || s.Held+s.Queued > 20 {
			t.Errorf("%d entries, %+v", n, s)
		}
		close(d.hangs)
		time.Sleep(time.Second)
		synctest.Wait()
		long.End(Outcome{OK: true})
		got := recordIds(t, finished(t, r))
		if s := r.Stats(); int(s.Written) != len(got) || s.Written+s.Dropped != 200 || got[len(got)-1] != "100" {
			t.Errorf("%+v %v", s, got)
		}
	})
}

// A deterministic run waits for a slow disk, because a dropped line could not be
// compared; it does not wait for one that fails.
func TestDeterministicRunWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, hangs: make(chan struct{})}
		r := recordBegin(t, RecordOptions{open: d.open, MaxPending: 10, Deterministic: true})
		go put(r, 0, 100)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := r.Stats(); s.Queued != 20 || s.Open != 1 {
			t.Errorf("%+v", s)
		}
		close(d.hangs)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
		d.set(func(d *device) { d.room = 0 })
		put(r, 100, 200)
		if s := r.Stats(); s.Written != 100 || s.Dropped != 80 || s.Queued != 20 {
			t.Errorf("%+v", s)
		}
		d.set(func(d *device) { d.room = -1 })
		if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(120) {
			t.Error(got)
		}
	})
}

func TestCloseWhileAnEndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, hangs: make(chan struct{})}
		r := recordBegin(t, RecordOptions{open: d.open, MaxPending: 1, Deterministic: true})
		done := make(chan struct{})
		go func() { put(r, 0, 3); close(done) }()
		synctest.Wait()
		go func() { <-done; close(d.hangs) }()
		if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(3) {
			t.Error(got)
		}
	})
}

func TestSyncErrorIsTold(t *testing.T) {
	t.Parallel()
	d := &device{room: -1, syncing: syscall.EIO}
	r := recordBegin(t, RecordOptions{open: d.open})
	put(r, 0, 1)
	if err := r.Close(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), r.Folder()) {
		t.Error(err)
	}
	if s := r.Stats(); s.Written != 1 || s.Errors != 1 {
		t.Errorf("%+v", s)
	}
}

// The folder of all runs disappears under a run: it is made again, the line is
// there, .latest leads to it.
func TestRemovedFolder(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"file", "run folder", "everything"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "runs")
				r := recordBegin(t, RecordOptions{Dir: dir})
				put(r, 0, 1)
				time.Sleep(time.Second)
				synctest.Wait()
				gone := map[string]string{"file": r.folder.current(), "run folder": r.Folder(), "everything": dir}[what]
				if err := os.RemoveAll(gone); err != nil {
					t.Fatal(err)
				}
				put(r, 1, 2)
				time.Sleep(time.Second)
				synctest.Wait()
				raw, err := os.ReadFile(filepath.Join(r.folder.base, latestName, "events.jsonl"))
				if err != nil || !strings.Contains(string(raw), `"requestId":1,`) {
					t.Errorf("%q, %v", raw, err)
				}
				if got := strings.Join(recordIds(t, finished(t, r)), " "); got != "1" {
					t.Error(got)
				}
				if s := r.Stats(); s.Errors != 0 || s.Written != 2 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A folder that cannot be made again is one more way for a disk to fail.
func TestFolderThatCannotBeMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "runs")
		r := recordBegin(t, RecordOptions{Dir: dir})
		if err := errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		put(r, 0, 2)
		time.Sleep(time.Second)
		synctest.Wait()
		if s := r.Stats(); !s.Failing || s.Errors == 0 || s.Written != 0 || s.Queued != 2 {
			t.Errorf("%+v", s)
		}
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * recordMaxBackoff)
		if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(2) {
			t.Error(got)
		}
	})
}

// A write stops in mid-line, and the file is gone before the next one: the line
// is whole in the new file.
func TestTornLineInAFileThatIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: 400, locked: true}
		r := recordBegin(t, RecordOptions{open: d.open})
		put(r, 0, 3)
		time.Sleep(time.Second)
		synctest.Wait()
		if err := os.Remove(r.folder.current()); err != nil {
			t.Fatal(err)
		}
		d.set(func(d *device) { d.room = -1 })
		time.Sleep(2 * recordMaxBackoff)
		if got := strings.Join(recordIds(t, finished(t, r)), " "); got != "1 2" {
			t.Error(got)
		}
	})
}
