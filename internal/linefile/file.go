// SPDX-License-Identifier: Apache-2.0

package linefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// file is what is needed of an [os.File].
type file interface {
	io.WriteCloser
	Sync() error
	Truncate(size int64) error
	Stat() (os.FileInfo, error)
}

// fileMode: lines tell who called what, so they are for their owner only.
const fileMode = 0o600

func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, fileMode)
	if err != nil {
		return nil, err // not f: a nil *os.File is no nil file
	}
	return f, nil
}

// disk is the file of a Writer, or its stream. It belongs to the goroutine that writes.
type disk struct {
	opts *Options

	f     file        // nil: to be opened
	about os.FileInfo // of f
	size  int64
	// torn: the file ends with a piece of a line.
	torn bool
	// stale, after a failed write, makes ensure open the file anew: on some file systems a
	// handle stays broken when the path is not.
	stale bool
	// unsynced: something was written since the last sync.
	unsynced bool
	// rotated is the number of the newest file that was set aside.
	rotated int
	// limit is the size at which the file is rotated; it grows where rotation fails.
	limit int64
}

func newDisk(o *Options) (*disk, error) {
	d := &disk{opts: o, limit: o.MaxFileBytes}
	if o.Out != nil {
		return d, nil
	}
	// Rotation is by this path, also if the process changes its directory.
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, err
	}
	o.Path = path
	files, err := Files(path)
	if err != nil {
		return nil, err
	}
	d.rotated = newest(files)
	return d, d.ensure()
}

// ensure opens the file where it is not open, or not at its path any more.
func (d *disk) ensure() error {
	if d.opts.Out != nil {
		return nil
	}
	if d.f != nil && !d.stale {
		if now, err := os.Stat(d.opts.Path); err == nil && os.SameFile(now, d.about) {
			return nil
		}
	}
	// A pipe without a reader would hold the process in open.
	if now, err := os.Stat(d.opts.Path); err == nil && now.Mode()&(os.ModeNamedPipe|os.ModeSocket|os.ModeDir) != 0 {
		return errors.New("not a regular file")
	}
	f, err := d.opts.open(d.opts.Path)
	if err != nil {
		return fmt.Errorf("open the file: %w", err)
	}
	about, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("open the file: %w", err), f.Close())
	}
	d.close()
	d.f, d.about, d.size, d.stale = f, about, about.Size(), false
	d.torn = isTorn(d.opts.Path, d.size)
	syncDir(d.opts.Path)
	return nil
}

// isTorn reports whether a file ends with a piece of a line.
func isTorn(path string, size int64) bool {
	if size == 0 {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return true // a line too many breaks nothing
	}
	defer func() { _ = f.Close() }()
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return err != nil || last[0] != '\n'
}

// syncDir makes the name of a file durable. File systems that cannot do that say so, and
// have nothing better.
func syncDir(path string) {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return
	}
	_ = dir.Sync()
	_ = dir.Close()
}

// write appends whole lines. After an error the first n bytes are there; they are whole
// lines, unless a piece of one could not be taken back.
func (d *disk) write(lines []byte) (n int, err error) {
	if d.opts.Out != nil {
		n, err = d.opts.Out.Write(lines)
		return max(0, min(n, len(lines))), err
	}
	if d.torn {
		if _, err := d.f.Write([]byte{'\n'}); err != nil {
			d.stale = true
			return 0, err
		}
		d.torn = false
		d.size++
	}
	n, err = d.f.Write(lines)
	n = max(0, min(n, len(lines)))
	d.size += int64(n)
	d.unsynced = d.unsynced || n > 0
	if err == nil {
		return n, nil
	}
	d.stale = true
	whole := bytes.LastIndexByte(lines[:n], '\n') + 1
	if piece := int64(n - whole); piece > 0 {
		if d.f.Truncate(d.size-piece) == nil {
			d.size -= piece
		} else {
			d.torn = true // the line is begun again on a line of its own
		}
	}
	return whole, err
}

// sync syncs what was written.
func (d *disk) sync() error {
	if d.f == nil || !d.unsynced {
		return nil
	}
	if err := d.f.Sync(); err != nil && !isUnsyncable(d.about) {
		return err
	}
	d.unsynced = false
	return nil
}

// isUnsyncable holds for pipes and devices, which have nothing to sync.
func isUnsyncable(about os.FileInfo) bool { return !about.Mode().IsRegular() }

// close forgets the file. Its error tells nothing new: every write was checked, and
// sync is called where it matters.
func (d *disk) close() {
	if d.f != nil {
		_ = d.f.Close()
		d.f = nil
	}
}
