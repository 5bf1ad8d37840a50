// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// device is a file system that fails on demand, and counts.
type device struct {
	mu      sync.Mutex
	room    int // bytes that may still be written; negative: no bound
	syncing error
	locked  bool // Truncate fails
	hangs   chan struct{}
	takes   time.Duration // of a sync
	syncs   int
}

type deviceFile struct {
	*os.File
	device *device
}

func (d *device) open(path string) (file, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	disk, _ := f.(*os.File)
	return deviceFile{disk, d}, nil
}

func (d *device) set(change func(*device)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

func (f deviceFile) Write(p []byte) (int, error) {
	f.device.mu.Lock()
	hangs := f.device.hangs
	f.device.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	f.device.mu.Lock()
	defer f.device.mu.Unlock()
	if f.device.room < 0 || len(p) <= f.device.room {
		if f.device.room >= 0 {
			f.device.room -= len(p)
		}
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.device.room])
	f.device.room -= n
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f deviceFile) Truncate(size int64) error {
	f.device.mu.Lock()
	defer f.device.mu.Unlock()
	if f.device.locked {
		return syscall.EIO
	}
	return f.File.Truncate(size)
}

func (f deviceFile) Sync() error {
	f.device.mu.Lock()
	takes := f.device.takes
	f.device.mu.Unlock()
	time.Sleep(takes)
	f.device.mu.Lock()
	defer f.device.mu.Unlock()
	f.device.syncs++
	return f.device.syncing
}

func (d *device) synced() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// begin opens a writer in a folder of its own.
func begin(t *testing.T, o Options) *Writer {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "lines")
	}
	w, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func line(n int) []byte { return []byte(strconv.Itoa(n) + "\n") }

// content is what all files of a path hold, the oldest first.
func content(t *testing.T, path string) string {
	t.Helper()
	files, err := Files(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(raw)
	}
	return b.String()
}

func numbers(n int) string {
	var b strings.Builder
	for i := range n {
		b.Write(line(i))
	}
	return b.String()
}

func closed(t *testing.T, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
