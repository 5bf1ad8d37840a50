// SPDX-License-Identifier: Apache-2.0

package trail

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
)

// device is a file system that fails on demand, and counts.
type device struct {
	mu      sync.Mutex
	room    int // bytes that may still be written; negative: no bound
	opening error
	syncing error
	locked  bool // Truncate fails
	hangs   chan struct{}
	takes   time.Duration // of a sync
	writes  int
	syncs   int
}

type deviceFile struct {
	*os.File
	device *device
}

func (d *device) open(path string) (file, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opening != nil {
		return nil, d.opening
	}
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
	f.device.writes++
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

// begin opens a writer in its own folder.
func begin(t *testing.T, o LineOptions) *LineWriter {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "lines")
	}
	w, err := openLines(o)
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

func closed(t *testing.T, w *LineWriter) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
