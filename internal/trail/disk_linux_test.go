// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// The kernel's own full disk: the file is replaced by a link to /dev/full.
func TestDevFull(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here")
	}
	r := recordBegin(t, RecordOptions{FlushEvery: time.Millisecond})
	current := r.folder.current()
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/full", current); err != nil {
		t.Fatal(err)
	}
	put(r, 0, 2)
	await(t, r, func(s RecordStats) bool { return s.Failing && s.Errors > 1 })
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	await(t, r, func(s RecordStats) bool { return s.Written == 2 && !s.Failing })
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(2) {
		t.Error(got)
	}
}

// await polls for what the real disk does in its own time.
func await(t *testing.T, r *Run, ok func(RecordStats) bool) {
	t.Helper()
	testkit.Try(t, "the disk", func() error {
		if s := r.Stats(); !ok(s) {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// limitedChild, in the environment, names the folder of a test process whose
// files may not grow beyond a limit.
const limitedChild = "OUTRIGGER_TEST_RECORD_LIMITED"

// A limit on the size of files cuts writes in mid-line, as a full disk does. It
// holds for a whole process, so it gets a separate one.
func TestFileSizeLimit(t *testing.T) {
	if dir := os.Getenv(limitedChild); dir != "" {
		writeLimited(t, dir)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, "-test.run=^TestFileSizeLimit$", "-test.v")
	child.Env = append(os.Environ(), limitedChild+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestFileSizeLimit") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func writeLimited(t *testing.T, dir string) {
	t.Helper()
	const limit = 5000
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	r := recordBegin(t, RecordOptions{Dir: dir, FlushEvery: time.Millisecond})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	put(r, 0, 100)
	// A reader may see a piece of a line between an attempt and its undoing.
	await(t, r, func(s RecordStats) bool {
		raw, err := os.ReadFile(r.folder.current())
		return err == nil && s.Failing && len(raw) > limit/2 && len(raw) < limit && raw[len(raw)-1] == '\n'
	})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(recordIds(t, finished(t, r)), " "); got != upTo(100) {
		t.Error(got)
	}
}
