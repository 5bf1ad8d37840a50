// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The kernel's own full disk: the file is replaced by a link to /dev/full.
func TestDevFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	r := begin(t, Options{FlushEvery: time.Millisecond})
	current := r.folder.current()
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", current); err != nil {
		t.Fatal(err)
	}
	put(r, 0, 2)
	await(t, r, func(s Stats) bool { return s.Failing && s.Errors > 1 })
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	await(t, r, func(s Stats) bool { return s.Written == 2 && !s.Failing })
	if got := strings.Join(ids(t, finished(t, r)), " "); got != upTo(2) {
		t.Error(got)
	}
}

// await polls for what the real disk does in its own time.
func await(t *testing.T, r *Run, ok func(Stats) bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok(r.Stats()) {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%+v", r.Stats())
		}
	}
}

// limitedChild, in the environment, makes the test binary a process whose files
// may not grow beyond a limit; its value is the folder.
const limitedChild = "OUTRIGGER_TEST_RECORD_LIMITED"

// A limit on the size of files cuts writes in mid-line, as a full disk does.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^$")
	child.Env = append(os.Environ(), limitedChild+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func runLimited() int {
	if err := limited(os.Getenv(limitedChild)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func limited(dir string) error {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	r, err := Open(Options{Dir: dir, FlushEvery: time.Millisecond})
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 5000, Max: before.Max}); err != nil {
		return err
	}
	put(r, 0, 100)
	for start := time.Now(); !r.Stats().Failing; time.Sleep(time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			return fmt.Errorf("no write failed: %+v", r.Stats())
		}
	}
	raw, err := os.ReadFile(r.folder.current())
	if err != nil || len(raw) == 0 || len(raw) > 5000 || raw[len(raw)-1] != '\n' {
		return fmt.Errorf("%d bytes, whole lines expected (%w)", len(raw), err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	raw, err = os.ReadFile(r.folder.current())
	if n := strings.Count(string(raw), "\n"); err != nil || n != 100 || r.Stats().Written != 100 {
		return fmt.Errorf("%d lines of 100, %+v (%w)", n, r.Stats(), err)
	}
	return nil
}
