// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// Callers that wait at the same time share one fsync: while one sync runs, the lines of
// all others gather for the next.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, takes: 10 * time.Millisecond}
		w := begin(t, LineOptions{open: d.open})
		const callers = 1000
		start := time.Now()
		var waiting sync.WaitGroup
		for i := range callers {
			waiting.Go(func() {
				if err := w.Commit(t.Context(), line(i)); err != nil {
					t.Error(err)
				}
			})
		}
		waiting.Wait()
		if took := time.Since(start); took > 3*d.takes {
			t.Errorf("%d callers waited %v", callers, took)
		}
		if n := d.synced(); n < 1 || n > 3 {
			t.Errorf("%d syncs for %d callers", n, callers)
		}
		if got := strings.Count(content(t, w.opts.Path), "\n"); got != callers {
			t.Errorf("%d lines", got)
		}
		closed(t, w)
	})
}

// A line is durable when Commit returns, and not before.
func TestCommitWaitsForTheSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, takes: time.Second}
		w := begin(t, LineOptions{open: d.open})
		start := time.Now()
		if err := w.Commit(t.Context(), line(0)); err != nil || time.Since(start) != time.Second || d.synced() != 1 {
			t.Errorf("%v after %v and %d syncs", err, time.Since(start), d.synced())
		}
		closed(t, w)
	})
}

func TestWhenLinesAreSynced(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		sync  Sync
		syncs int // after ten lines in two seconds and a minute of nothing
	}{{"never", SyncNever, 0}, {"interval", SyncInterval, 2}, {"always", SyncAlways, 10}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &device{room: -1}
				w := begin(t, LineOptions{open: d.open, Sync: tc.sync, SyncEvery: time.Second})
				for i := range 10 {
					w.Append(line(i))
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := d.synced(); got < tc.syncs || got > tc.syncs+1 {
					t.Errorf("%d syncs, want %d", got, tc.syncs)
				}
				if got := content(t, w.opts.Path); got != numbers(10) {
					t.Errorf("%q", got)
				}
				closed(t, w)
			})
		})
	}
}

func TestALineIsWrittenWithinTheFlushTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := begin(t, LineOptions{})
		w.Append(line(0))
		time.Sleep(defaultFlushEvery)
		synctest.Wait()
		if got := content(t, w.opts.Path); got != "0\n" {
			t.Errorf("%q", got)
		}
		closed(t, w)
	})
}

// A disk without room: lines wait, in order and whole, until there is room. Those who wait
// for a line hear of it at once.
func TestAFullDiskRecovers(t *testing.T) {
	t.Parallel()
	for name, locked := range map[string]bool{"a piece can be taken back": false, "a piece stays": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logs := observer.New(zap.InfoLevel)
				d := &device{room: 9, locked: locked}
				w := begin(t, LineOptions{open: d.open, Log: zap.New(core)})
				for i := range 9 {
					w.Append(line(i))
				}
				start := time.Now()
				if err := w.Commit(t.Context(), line(9)); !errors.Is(err, syscall.ENOSPC) || time.Since(start) > defaultFlushEvery {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if err := w.Commit(t.Context(), line(10)); !errors.Is(err, syscall.ENOSPC) {
					t.Error(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if s := w.Stats(); !s.Failing || s.Failure == "" || s.Errors < 5 || s.Written != 4 || s.Dropped != 0 || s.Queued == 0 {
					t.Errorf("while full: %+v", s)
				}
				d.set(func(d *device) { d.room = -1 })
				time.Sleep(2 * maxBackoff)
				synctest.Wait()
				if s := w.Stats(); s.Failing || s.Written != 11 || s.Queued != 0 {
					t.Errorf("with room again: %+v", s)
				}
				if err := w.Commit(t.Context(), line(11)); err != nil {
					t.Error(err)
				}
				want := numbers(12)
				if locked {
					want = strings.Replace(want, "\n4\n", "\n4\n4\n", 1) // the piece is its own line
				}
				if got := content(t, w.opts.Path); got != want {
					t.Errorf("%q, want %q", got, want)
				}
				if logs.Len() != 2 {
					t.Errorf("%d log lines for one episode: %v", logs.Len(), logs.All())
				}
				closed(t, w)
			})
		})
	}
}

// A disk that hangs: those who wait for a line wait a bounded time, and those behind them
// not at all.
func TestADiskThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, hangs: make(chan struct{})}
		w := begin(t, LineOptions{open: d.open, MaxPendingBytes: 100, CommitWait: time.Second})
		start := time.Now()
		if err := w.Commit(t.Context(), line(0)); !errors.Is(err, errStalled) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := w.Commit(ctx, line(1)); !errors.Is(err, errStalled) || ctx.Err() != nil {
			t.Errorf("the second one waited, and got %v", err)
		}
		for i := 2; i < 200; i++ {
			w.Append(line(i))
		}
		if s := w.Stats(); !s.Failing || s.Queued > 100 || s.Dropped == 0 {
			t.Errorf("%+v", s)
		}
		close(d.hangs)
		time.Sleep(time.Second)
		synctest.Wait()
		s := w.Stats()
		if s.Failing || s.Written+s.Dropped != 200 {
			t.Errorf("%+v", s)
		}
		if got := content(t, w.opts.Path); got != numbers(int(s.Written)) {
			t.Errorf("%q", got)
		}
		closed(t, w)
	})
}

// A failed sync is reported to those who wait, and tried again without more lines.
func TestAFailedSync(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &device{room: -1, syncing: syscall.EIO}
		w := begin(t, LineOptions{open: d.open})
		if err := w.Commit(t.Context(), line(0)); !errors.Is(err, syscall.EIO) || !w.Stats().Failing {
			t.Errorf("%v, %+v", err, w.Stats())
		}
		d.set(func(d *device) { d.syncing = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := w.Stats(); s.Failing || s.Written != 1 || s.Errors != 1 {
			t.Errorf("%+v", s)
		}
		closed(t, w)
	})
}

func TestCloseTellsWhatIsLost(t *testing.T) {
	t.Parallel()
	d := &device{}
	w := begin(t, LineOptions{open: d.open})
	for i := range 5 {
		w.Append(line(i))
	}
	err := w.Close()
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "5 lines are not written") {
		t.Error(err)
	}
	if s := w.Stats(); s.Dropped != 5 {
		t.Errorf("%+v", s)
	}
	if again := w.Close(); !errors.Is(again, syscall.ENOSPC) {
		t.Error(again)
	}
	if err := w.Commit(t.Context(), line(6)); err == nil {
		t.Error("a line after the end")
	}
}

// No line is lost and none is split where files are rotated under load.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := begin(t, LineOptions{MaxFileBytes: 1000, FlushEvery: time.Millisecond})
	var writers sync.WaitGroup
	const each = 500
	for range 4 {
		writers.Go(func() {
			for range each {
				w.Append([]byte(strings.Repeat("x", 9) + "\n"))
			}
		})
	}
	writers.Wait()
	closed(t, w)
	files, err := Files(w.opts.Path)
	if err != nil || len(files) != 4*each*10/1000 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil || len(raw) > 1000 || !bytes.HasSuffix(raw, []byte("\n")) {
			t.Errorf("%s has %d bytes, %v", f, len(raw), err)
		}
	}
	if got := strings.Count(content(t, w.opts.Path), "\n"); got != 4*each {
		t.Errorf("%d lines", got)
	}
	// The next process goes on with the numbers.
	w = begin(t, LineOptions{Path: w.opts.Path, MaxFileBytes: 1000, MaxFiles: 3})
	w.Append([]byte(strings.Repeat("y", 999) + "\n"))
	w.Append([]byte(strings.Repeat("z", 999) + "\n"))
	closed(t, w)
	if files, err = Files(w.opts.Path); err != nil || len(files) != 3 || files[2] != w.opts.Path {
		t.Errorf("%v, %v", files, err)
	}
}

// A line that is larger than a file has its own file.
func TestALongLine(t *testing.T) {
	t.Parallel()
	w := begin(t, LineOptions{MaxFileBytes: 10})
	long := strings.Repeat("x", 100) + "\n"
	for _, one := range []string{"a\n", long, "b\n", long} {
		w.Append([]byte(one))
	}
	closed(t, w)
	if got := content(t, w.opts.Path); got != "a\n"+long+"b\n"+long {
		t.Errorf("%q", got)
	}
}

// What a killed process has left is reported, and the next line is on its own line.
func TestATornLastLine(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	path := filepath.Join(t.TempDir(), "lines")
	if err := os.WriteFile(path, []byte("0\n{\"torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := begin(t, LineOptions{Path: path, Log: zap.New(core)})
	w.Append(line(1))
	closed(t, w)
	if got := content(t, path); got != "0\n{\"torn\n1\n" {
		t.Errorf("%q", got)
	}
	if logs.Len() != 1 || w.Stats().Torn != 1 {
		t.Errorf("%v, %+v", logs.All(), w.Stats())
	}
}

// A file that was moved away, as log rotation does, is created again.
func TestAFileThatIsMovedAway(t *testing.T) {
	t.Parallel()
	w := begin(t, LineOptions{})
	if err := w.Commit(t.Context(), line(0)); err != nil {
		t.Fatal(err)
	}
	moved := w.opts.Path + "-moved"
	if err := os.Rename(w.opts.Path, moved); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context(), line(1)); err != nil {
		t.Fatal(err)
	}
	closed(t, w)
	if a, b := content(t, moved), content(t, w.opts.Path); a != "0\n" || b != "1\n" {
		t.Errorf("%q and %q", a, b)
	}
}

// A stream is written like a file.
func TestAStream(t *testing.T) {
	t.Parallel()
	r, out := io.Pipe()
	w := begin(t, LineOptions{Path: "stdout", Out: out, Sync: SyncAlways})
	read := make(chan string)
	go func() {
		raw, _ := io.ReadAll(r)
		read <- string(raw)
	}()
	if err := w.Commit(t.Context(), line(0)); err != nil {
		t.Error(err)
	}
	w.Append(line(1))
	closed(t, w)
	_ = out.Close()
	if got := <-read; got != "0\n1\n" {
		t.Errorf("%q", got)
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"", dir, testkit.Pipe(t), filepath.Join(dir, "none", "lines")} {
		if w, err := openLines(LineOptions{Path: path}); err == nil {
			t.Errorf("%q is open", path)
			closed(t, w)
		}
	}
}

func TestANilWriterDoesNothing(t *testing.T) {
	t.Parallel()
	var w *LineWriter
	w.Append(line(0))
	if err := errors.Join(w.Commit(t.Context(), line(0)), w.Close()); err != nil || w.Stats().Written != 0 {
		t.Error(err)
	}
}
